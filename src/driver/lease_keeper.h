// Keeps this controller's part in the lease (store/lease.h): renews it while this controller leads, and takes it when
// the leader's has ended.
//
//   standby --the lease has ended--> leading --another epoch, or StepDown--> over (the process starts again)
//
// While the database does not answer, a leader stays one, but may_act becomes false before its lease can have ended.
// When the database answers again and no other controller has led meanwhile, it continues.
//
// The daemon calls Step on a thread. The simulator asks the database itself: it passes on each request of Begin, and
// its answer, so that anything may happen in between.
//
// All of it runs on one thread, except may_act, view and StepDown, which may be called on any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "store/lease.h"

namespace divvy {

class LeaseKeeper {
 public:
  struct Ports {
    /// Returns the time since the machine booted, including time in which it was suspended.
    std::function<Duration()> since_boot;
    /// Called when this controller becomes the leader.
    std::function<void(std::int64_t epoch)> on_elected;
    /// Called once, when this controller is no longer the leader and must discard its state.
    std::function<void(const std::string& why)> on_lost;
    /// Writes a line to the log. `event`: a text such as "event=leads epoch=7". If it ends with '=', `value` follows in
    /// quotation marks.
    std::function<void(const std::string& event, const std::string& value)> log;
  };
  /// A request to the database.
  enum class Request {
    kNothing,
    kRenew,    // ControllerLease::Beat(epoch()).
    kLook,     // ControllerLease::Beat(0).
    kTake,     // ControllerLease::Take.
    kRelease,  // ControllerLease::Release(epoch()).
  };
  /// The last known state of all controllers.
  struct View {
    LeaseView seen;
    Duration at{0};        // When it was read, since boot.
    std::string trouble;   // Why the database does not answer. Empty: it does.
    std::string conflict;  // Why this controller cannot lead. Empty: it can.
  };

  /// `lease` may be null if Step and Release are not called. `yields`: this controller has just stepped down, and gives
  /// the others time to take the lease.
  LeaseKeeper(std::unique_ptr<ControllerLease> lease, ControllerSelf self, Ports ports, bool yields = false);

  /// Reads the lease in the database, renews it as its holder, and takes it if it has ended. Returns the time after
  /// which Step must be called again.
  Duration Step();
  /// Returns the request that must be sent to the database now. A renewed lease counts from this call. The caller
  /// passes on the result: of kRenew and kLook with OnSeen, of kTake with OnTaken, of kRelease with OnReleased. These
  /// functions return the time after which Begin must be called again.
  Request Begin();
  Duration OnSeen(Result<LeaseView> seen);
  Duration OnTaken(const Result<std::int64_t>& epoch);
  Duration OnReleased();
  /// Returns true if this controller leads and its lease cannot have ended yet. Only then may it send commands to nodes
  /// and confirm changes to clients. Cost: one reading of the clock.
  bool may_act() const { return ports_.since_boot() < Duration(acts_until_.load()); }
  View view() const;
  const ControllerSelf& self() const { return self_; }
  /// The number of this leader's term; 0 if this controller does not lead.
  std::int64_t epoch() const { return epoch_.load(); }
  Duration since_boot() const { return ports_.since_boot(); }
  /// Gives the lease back at the next Step.
  void StepDown() { is_stepping_down_ = true; }
  /// Gives the lease back now, because the process ends; on_lost is not called. Call it on the thread that calls Step,
  /// or after that thread has ended.
  void Release();

 private:
  Duration OnSeenAsLeader(const LeaseView& seen);
  Duration OnSeenAsStandby(const LeaseView& seen);
  void Keep(LeaseView seen, Duration at);
  Duration Fail(const Error& error);
  void Lose(const std::string& why);
  bool MayTake(const LeaseView& seen) const;

  std::unique_ptr<ControllerLease> lease_;
  ControllerSelf self_;
  Ports ports_;
  Duration yields_until_{0};
  Duration asked_at_{0};     // When the last request was sent.
  bool is_to_take_ = false;  // The lease has ended: the next request takes it.
  std::atomic<std::int64_t> epoch_ = 0;
  std::atomic<Duration::rep> acts_until_ = 0;
  std::atomic<bool> is_stepping_down_ = false;
  bool is_over_ = false;
  mutable std::mutex mutex_;
  View view_;
};

}  // namespace divvy
