// The users of a chaos run. They submit, cancel, hold, change and limit at random, and record the answers they get.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulate/chaos/daemon_life.h"

namespace divvy::simulate {

class ChaosClients {
 public:
  /// Models clients that submit jobs and send commands at random. They keep about `jobs` jobs in the queue.
  ChaosClients(const ChaosParts& parts, std::size_t jobs) : parts_(parts), jobs_(jobs) {}

  /// From now on, no command keeps GPUs from jobs that wait for them: none pauses jobs or restricts GPUs.
  void LeaveGpusAlone() { leaves_gpus_alone_ = true; }
  /// From now on, users cancel jobs less often, so that more jobs live long enough to be parked.
  void CancelLess() { cancels_less_ = true; }
  /// Sends one random command to the daemon.
  void Act(DaemonLife& daemon);
  /// Removes everything that keeps jobs from ending: holds, pauses, limits, restrictions, impossible dependencies, and
  /// runs that the store does not know.
  void LetEverythingEnd(DaemonLife& daemon);

 private:
  void EndFoundRuns(DaemonLife& daemon);
  void Submit(DaemonLife& daemon);
  JobSpec DrawSpec(Time now);
  Dependency DrawDependency();
  void Change(DaemonLife& daemon, JobId id);
  void ChangeCommand(DaemonLife& daemon, JobId id);
  void Steer(DaemonLife& daemon, JobId id);
  void Cancel(DaemonLife& daemon, JobId id, const Caller& caller);
  void SetHeld(DaemonLife& daemon, JobId id, bool is_held, const Caller& caller);
  void SetGroupLimit(DaemonLife& daemon, std::uint64_t group, int limit);
  void Restrict(DaemonLife& daemon, std::optional<GpuSet> allowed);
  JobId DrawJob(const Controller& controller);
  JobId DrawActive(const Controller& controller);
  Caller DrawCaller();
  bool Happens(std::uint64_t percent) { return parts_.random.Below(100) < percent; }
  int Draw(std::uint64_t below) { return static_cast<int>(parts_.random.Below(below)); }
  static Caller Admin();
  /// Returns the job's record. For an array element that has none of its own, a record of that element made from its
  /// array's.
  static std::optional<JobRecord> Find(const Controller& controller, JobId id);
  /// Returns one fact of this kind for the job itself and, if it is an array, one for each element that has a record of
  /// its own. `value(record)` is the fact's value.
  template <typename Value>
  static std::vector<Fact> FactsOfAll(const Controller& controller, FactKind kind, JobId id, Value value);

  ChaosParts parts_;
  std::size_t jobs_;
  struct Known {
    JobId id;
    std::uint32_t elements = 0;
  };
  std::vector<Known> known_;  // The most recent jobs. Some have ended, and some were never created.
  std::int64_t last_command_ = 0;
  bool leaves_gpus_alone_ = false;
  bool cancels_less_ = false;
};

}  // namespace divvy::simulate
