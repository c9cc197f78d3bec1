// Data of one job that several routes look up.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "daemon/api/call/api_context.h"
#include "daemon/api/call/api_ports.h"
#include "daemon/views/views.h"
#include "driver/controller_driver.h"

namespace divvy {

class FirstBlockers;

/// Everything that is known about a job.
struct FoundJob {
  std::optional<JobRecord> record;
  std::shared_ptr<const JobSpec> spec;
  std::vector<Batch::HistoryLine> history;
  Status spec_read = {};  // Why Complete could not read `spec`.
};

/// Returns what the controller has of the job in memory. Complete reads the rest from the store.
FoundJob FindHere(ControllerDriver& driver, JobId id);
/// Fills in what `found` lacks from the store. May run on any thread. Fails if there is no such job, or with
/// kUnreachable if the store cannot be read. If only the specification cannot be read, it stays null.
Status Complete(Store& store, JobId id, FoundJob& found);
/// Returns the error for a call whose job was not found: "there is no job `word`"; but `error` itself if the store
/// cannot be reached, so that the job is not taken for lost.
Error MissingJob(const Error& error, std::string_view word);
/// Refuses a call with MissingJob if Complete failed (`done`) or left the specification null.
FinishCall RefuseMissing(const Status& done, const FoundJob& found);

/// Returns true if the caller may see a job's script, directory, environment and output, which may hold secrets. Its
/// place in the queue is public.
bool MaySee(const Caller& caller, const JobRecord& record);
/// Returns the specification if the caller may see it or leads the job's team, otherwise null. It is complete in both
/// cases: leaders may not see the script, so the route that answers must remove it (see MaySee).
std::shared_ptr<const JobSpec> VisibleSpec(const Controller& controller, const Caller& caller, const FoundJob& found);

/// Returns a function that finds live jobs by id, without reading the store; for listings, which may be long.
FindOutcome LiveNames(const Controller& controller);
/// Returns why the job is in its state (StateReason). For a job on a lost node, adds whether the node's lease has
/// ended, so that the job no longer runs there. `blockers` is shared by all jobs of a listing; null for a single job.
Reason ReasonNow(ControllerDriver& driver, AgentListener* listener, const JobRecord& record,
                 FirstBlockers* blockers = nullptr);
/// Returns the present GPUs of a job with GPU fractions.
std::optional<wire::ShareView> ShareOf(const Controller& controller, const SharingSnapshot* shares,
                                       const JobRecord& record);
/// Returns the time-sharing state of a job with whole GPUs.
std::optional<wire::TimeSharingView> TimeSharingOf(ControllerDriver& driver, const JobRecord& record);

}  // namespace divvy
