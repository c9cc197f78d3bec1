// Keeps this controller's part in the lease (store/lease.h): renews it while this controller leads, and takes it when
// the leader's has ended.
//
//   standby --the lease has ended--> leading --another epoch, or StepDown--> over (the process starts again)
//
// While the database does not answer, a leader stays one, but may_act becomes false before its lease can have ended.
// When the database answers again and no other controller has led meanwhile, it continues.
//
// Step runs on one thread. may_act, view and StepDown may be called on any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

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
    std::function<void(const std::string& line)> log;
  };
  /// The last known state of all controllers.
  struct View {
    LeaseView seen;
    Duration at{0};        // When it was read, since boot.
    std::string trouble;   // Why the database does not answer. Empty: it does.
    std::string conflict;  // Why this controller cannot lead. Empty: it can.
  };

  /// `yields`: this controller has just stepped down, and gives the others time to take the lease.
  LeaseKeeper(std::unique_ptr<ControllerLease> lease, ControllerSelf self, Ports ports, bool yields = false);

  /// Asks the database once. Returns when to call again, from now.
  Duration Step();
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
  Duration StepAsLeader();
  Duration StepAsStandby();
  void Keep(LeaseView seen, Duration at);
  Duration Fail(const Error& error);
  void Lose(const std::string& why);
  bool MayTake(const LeaseView& seen) const;

  std::unique_ptr<ControllerLease> lease_;
  ControllerSelf self_;
  Ports ports_;
  Duration yields_until_{0};
  std::atomic<std::int64_t> epoch_ = 0;
  std::atomic<Duration::rep> acts_until_ = 0;
  std::atomic<bool> is_stepping_down_ = false;
  bool is_over_ = false;
  mutable std::mutex mutex_;
  View view_;
};

/// Calls LeaseKeeper::Step on a thread of its own.
class LeaseThread {
 public:
  explicit LeaseThread(LeaseKeeper& keeper);
  /// Ends the thread. The lease stays as it is.
  ~LeaseThread();
  /// Lets the next Step begin now.
  void Wake();

 private:
  void Run();

  LeaseKeeper& keeper_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_ending_ = false;
  bool is_woken_ = false;
  std::thread thread_;
};

}  // namespace divvy
