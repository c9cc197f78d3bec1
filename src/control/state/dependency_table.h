// Dependencies between jobs, arrays and their elements, and singletons: who waits for whom, and how ended targets
// ended.
//
// The caller keeps the index up to date: Add when a job becomes live or its dependencies have changed, Remove before.
// Nothing here changes a job.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/state/job_table.h"

namespace divvy {

/// Whether a job's dependencies can still be met, and if not, why.
struct DependencyOutlook {
  bool is_lost = false;
  std::string why;
};

class DependencyTable {
 public:
  explicit DependencyTable(const JobTable& jobs) : jobs_(jobs) {}

  void Add(const JobRecord& record);
  void Remove(const JobRecord& record);
  /// Replaces what Add took from `before` by what `after` has, which is the job's live record now. Outcomes that both
  /// need stay known, also those that are no longer in the store.
  void Replace(const JobRecord& before, const JobRecord& after);
  /// Looks up how jobs ended that these dependencies name and that are no longer live. Fails with kNotFound if such a
  /// job never existed.
  Status LearnOutcomes(const std::vector<Dependency>& dependencies, const FindOutcome& outcome);
  void ForgetOutcomes(const std::vector<Dependency>& dependencies);  ///< Forgets those that no other job depends on.
  /// Keeps the final record of a job that has ended, if a dependency of another job names it.
  void KeepOutcome(const JobRecord& ended);
  /// Renames elements that wait with their array to array and index: they may never get a record under their own id.
  /// Renames components of heterogeneous jobs, which have ids of their own, to the job. Stops at a job that does not
  /// exist, which LearnOutcomes then reports.
  void NameElements(std::vector<Dependency>& dependencies, const FindOutcome& outcome) const;
  /// Replaces kSameElement with the element that `waiting` waits for, or with the whole array.
  void NameCounterparts(const JobRecord& waiting, std::vector<Dependency>& dependencies) const;

  /// Returns a text for each unmet dependency of the job; empty if all are met.
  std::vector<std::string> UnmetDependencies(const JobRecord& record) const;
  /// The jobs that must end first, if that is all the job still waits for; otherwise empty.
  std::vector<JobId> EndsWaitedFor(const JobRecord& record) const;
  /// Updates in `record` which of its dependencies are met. Returns true if that changed the record.
  bool SettleDependencies(JobRecord& record) const;
  DependencyOutlook DependencyOutlookOf(const JobRecord& record) const;
  /// Returns the jobs whose dependencies may be decided by the change (or end) of the job `changed`; ascending.
  std::set<JobId> AffectedBy(const JobRecord& changed) const;
  /// Returns when the job `record` may begin, by the delays that its dependencies set after the change of `changed`.
  Time BeginAfter(const JobRecord& record, const JobRecord& changed) const;
  /// Returns "5 after 6 after 5" if `start` would wait for itself with the records `edited`; "" if not.
  /// Cost: O(jobs that are reachable from `start`) (dependency_cycles.cc).
  std::string FindCycle(const std::map<JobId, JobRecord>& edited, JobId start) const;

 private:
  class WaitGraph;

  /// Removes what Add has taken, but keeps the outcomes.
  void Unlink(const JobRecord& record);
  bool IsAskedFor(const JobRecord& record) const;
  /// Returns the record of the job that a dependency names, live or as it ended. Null if it is an array element without
  /// a record of its own.
  const JobRecord* Target(const Dependency& dependency) const;
  /// Returns how many components a job has besides its first; nothing if there is no such job.
  using OthersOf = std::function<std::optional<std::size_t>(JobId)>;
  /// The job that has `id`, or has a component with that id. Cost: at most 64 calls of `others_of`.
  std::optional<JobId> LeaderOf(JobId id, const OthersOf& others_of) const;
  bool WasCancelledWaiting(const Dependency& dependency) const;
  bool IsForgotten(const Dependency& dependency) const;  ///< The target's outcome is no longer known.
  DependencyStatus StatusOf(const JobRecord& record, const Dependency& dependency) const;
  std::string WhyImpossible(const Dependency& dependency) const;

  const JobTable& jobs_;
  /// Maps each job to the jobs that depend on it. Singletons are indexed by name instead.
  std::map<JobId, std::set<JobId>> dependents_;
  std::map<std::string, std::set<JobId>> singletons_;
  /// Outcomes of jobs that are no longer live, as long as a dependency refers to them.
  std::map<JobId, JobRecord> outcomes_;
};

}  // namespace divvy
