// Decides which callers may act on which job, and which commands a job takes in its state.
#pragma once

#include <string_view>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/team_registry.h"
#include "control/jobs/job_lifecycle.h"
#include "control/state/job_table.h"

namespace divvy {

/// How a job is requeued: kHeld waits for Release.
enum class RequeueAs { kQueued, kHeld };

/// "job 5 is running and cannot be held; `repair`".
Error WrongState(const JobRecord& record, std::string_view verb, std::string_view repair);
/// Fails if the job could not start again as it did.
Status CheckCanQueueAgain(const JobRecord& record);
/// The reason of a job that `caller` requeued.
Reason QueuedAgainBy(const Caller& caller, JobId id, RequeueAs as);

class JobAccess {
 public:
  JobAccess(JobTable& jobs, const TeamRegistry& teams, JobLifecycle& lifecycle)
      : jobs_(jobs), teams_(teams), lifecycle_(lifecycle) {}

  /// Returns whether the caller leads the job's team or an ancestor of it.
  bool Leads(const Caller& caller, const JobRecord& record) const {
    return teams_.IsLedBy(record.team, caller.user.name);
  }
  /// See Controller.
  Status Authorise(const JobRecord& record, const Caller& caller, std::string_view verb) const;
  /// Returns the record of a live job that the caller may `verb`. An array element gets a record of its own.
  Result<JobRecord*> FindForAction(JobId id, const Caller& caller, std::string_view verb);
  /// Returns the running job that a report from within it is about. `attempt`: the run that reports; 0: the current
  /// one.
  Result<JobRecord*> FindReporter(JobId id, std::uint32_t attempt, const Caller& caller);

 private:
  JobTable& jobs_;
  const TeamRegistry& teams_;
  JobLifecycle& lifecycle_;
};

}  // namespace divvy
