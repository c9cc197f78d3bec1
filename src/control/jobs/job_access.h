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

/// Returns the error for a command that the job's state does not allow: "job 5 is running and cannot be held;
/// `repair`", where "held" is `verb`.
Error WrongState(const JobRecord& record, std::string_view verb, std::string_view repair);
/// Checks that the job can be queued again after it has run. Fails for jobs with a terminal, jobs that may run only
/// once, and arrays as a whole.
Status CheckCanQueueAgain(const JobRecord& record);
/// Returns the reason that is shown for a waiting job which `caller` has requeued.
Reason QueuedAgainBy(const Caller& caller, JobId id, RequeueAs as);

class JobAccess {
 public:
  JobAccess(JobTable& jobs, const TeamRegistry& teams, JobLifecycle& lifecycle)
      : jobs_(jobs), teams_(teams), lifecycle_(lifecycle) {}

  /// Returns true if the caller leads the job's team or an ancestor of it.
  bool Leads(const Caller& caller, const JobRecord& record) const {
    return teams_.IsLedBy(record.team, caller.user.name);
  }
  /// Checks that the caller may do this (`verb`) to the job (see Controller::Authorise).
  Status Authorise(const JobRecord& record, const Caller& caller, std::string_view verb) const;
  /// Returns the record of a live job, if the caller may do this (`verb`) to it. An array element gets a record of its
  /// own.
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
