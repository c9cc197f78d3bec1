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
    /// Includes the time of suspension.
    std::function<Duration()> since_boot;
    /// This controller leads from now on.
    std::function<void(std::int64_t epoch)> on_elected;
    /// This controller no longer leads, and must forget what it knows. Called once.
    std::function<void(const std::string& why)> on_lost;
    /// `event`: "event=leads epoch=7", or one that ends in '=' and takes `value` in quotation marks.
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

  /// Asks the database, and takes the lease if it has ended. Returns when to call again, from now.
  Duration Step();
  /// The request that is due now. The right to act counts from this call. kRenew and kLook are answered with OnSeen,
  /// kTake with OnTaken, kRelease with OnReleased. These return when to call Begin again, from now.
  Request Begin();
  Duration OnSeen(Result<LeaseView> seen);
  Duration OnTaken(const Result<std::int64_t>& epoch);
  Duration OnReleased();
  /// True if this controller leads, and its lease cannot have ended yet. Any command, and any answer to a change, needs
  /// this. Cost: one reading of the clock.
  bool may_act() const { return ports_.since_boot() < Duration(acts_until_.load()); }
  View view() const;
  const ControllerSelf& self() const { return self_; }
  /// 0: this controller does not lead.
  std::int64_t epoch() const { return epoch_.load(); }
  Duration since_boot() const { return ports_.since_boot(); }
  /// Gives the lease back at the next Step.
  void StepDown() { is_stepping_down_ = true; }
  /// Gives the lease back now, without OnLost: the process ends. On the thread of Step, or after it has ended.
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
