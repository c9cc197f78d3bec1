// The outside world of a node's runs: launcher, run records, supervisors and processes. NodeDriver decides what happens
// to them. The daemon's implementation is daemon/node/node.h; the simulator has a fake one.
//
// Used on the loop's thread. Commands are not confirmed: a supervisor that is gone reports that, or
// NodeDriver::CheckSupervisors finds out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "control/books/effects.h"
#include "model/job_record.h"
#include "model/run_description.h"
#include "model/run_record.h"

namespace divvy {

class RunHost {
 public:
  virtual ~RunHost() = default;

  // --- Launches ----------------------------------------------------------------------------------------------------

  /// Returns whether the input and output streams of the client that runs this job in the foreground have arrived.
  virtual bool HasCaller(JobId job) const = 0;
  /// Closes the streams of HasCaller, so that the client sees that no output will arrive.
  virtual void DropCaller(JobId job) = 0;
  /// Hands the job to the launcher. Returns the record of the run as far as it is known now (job, attempt, user), or
  /// why the job cannot be launched here.
  virtual std::variant<RunRecord, Exit> Launch(const LaunchCommand& command, const JobSpec& spec) = 0;
  /// Tells the launcher that the run has reported, so that its launch need not be repeated.
  virtual void Confirm(JobId job, std::uint32_t attempt) = 0;
  virtual bool IsPending(JobId job, std::uint32_t attempt) const = 0;
  virtual void RepeatLost() = 0;

  // --- Run records -------------------------------------------------------------------------------------------------

  /// Returns every run record, ascending by job. Fails if the records cannot be read.
  virtual Result<std::vector<RunRecord>> Scan() const = 0;
  /// Reads the job's run record. Fails with kNotFound if it has none.
  virtual Result<RunRecord> Read(JobId job) const = 0;
  virtual RunState StateOf(const RunRecord& record) const = 0;
  /// If the supervisor is about to start the job, waits until its record names the process: usually milliseconds, at
  /// most a second. Fails if the record is gone.
  virtual Result<RunRecord> AwaitProcess(RunRecord record) const = 0;
  /// Removes the run record and the files that belong to the run. A record of a later attempt of the job stays.
  virtual void RemoveRecord(const RunRecord& record) = 0;
  /// Returns a description of the run, for a controller that does not know it.
  virtual RunDescription Describe(const RunRecord& record) const = 0;
  /// Returns the list of the run's steps (srun), as the text that is stored (model/steps/step_list.h).
  virtual std::string KeptStepsOf(const RunRecord& record) const = 0;

  // --- Commands to supervisors -------------------------------------------------------------------------------------

  virtual void Stop(const RunRecord& record, int signal, Duration grace) = 0;
  virtual void Signal(const RunRecord& record, int signal, SignalReach reach) = 0;
  virtual void Pause(const RunRecord& record) = 0;
  virtual void Continue(const RunRecord& record) = 0;
  virtual void SetTimeLimit(const RunRecord& record, Duration limit) = 0;
  /// Starts a multi-node job's part on this node, which was prepared and waited for the other nodes.
  virtual void Go(const RunRecord& record) = 0;
  /// Asks the run's supervisor to report its present state. Returns false if the supervisor is gone.
  virtual bool Ping(const RunRecord& record) = 0;

  // --- Adopted runs, which have neither supervisor nor guard -------------------------------------------------------

  /// Watches a run without a supervisor: calls NodeDriver::OnAdoptedEnded once its first process has ended. Returns
  /// false if that process has ended already.
  virtual bool Adopt(const RunRecord& record) = 0;
  /// Ends the watching of Adopt, because the run has a supervisor again or is over.
  virtual void DropAdopted(JobId job) = 0;
  /// Sends a signal to the processes of a run without a supervisor. Returns how many got it.
  virtual int SignalAdopted(const RunRecord& record, int signal, SignalReach reach) = 0;
  /// Returns how the first process of a run without a supervisor ended; nullopt while it runs.
  virtual std::optional<Exit> ExitOfAdopted(const RunRecord& record) = 0;
  /// Kills processes of the run that are left after its end. Returns false if there were some.
  virtual bool EndLeftovers(const RunRecord& record) = 0;

  // --- Gangs, elastic jobs, ends -----------------------------------------------------------------------------------

  /// Returns the GPUs of this node that the controller has assigned to the job.
  virtual GpuSet GpusHere(const JobRecord& record) const = 0;
  /// Writes the file that tells an elastic job which GPUs it has. If that fails, the job learns it at its next
  /// checkpoint.
  virtual void SetGpusFile(JobId job, GpuSet gpus) = 0;
  /// Writes the files that a multi-node job's part on this node needs for its start. If the part has no supervisor,
  /// starts it too.
  virtual Status StageGo(const RunRecord& record, const JobRecord& live, const GoCommand& command) = 0;
  /// Updates and returns the record of a multi-node job's part on this node that has no supervisor to do so.
  virtual RunRecord LookAtPart(RunRecord record) const = 0;
  /// Cleans up after a run whose processes have ended. Removes containers that it left, and checks the state of `gpus`
  /// before they are reused. Then calls `done` with the run's exit, at once or later.
  virtual void CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) = 0;
  /// Called when the processes of a run have ended, before this is reported to the controller.
  virtual void OnOver(JobId job, std::uint32_t attempt) = 0;
  /// Writes a line to the node's log, for its administrator: "event=... ".
  virtual void Note(const std::string& line) const = 0;
};

}  // namespace divvy
