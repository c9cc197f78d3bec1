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

  /// Returns whether the streams of a foreground job's caller are here.
  virtual bool HasCaller(JobId job) const = 0;
  /// Closes these streams, so that the caller sees that nothing will arrive.
  virtual void DropCaller(JobId job) = 0;
  /// Hands the job to the launcher. Returns the record of the run as far as it is known now (job, attempt, user), or
  /// why the job cannot be launched here.
  virtual std::variant<RunRecord, Exit> Launch(const LaunchCommand& command, const JobSpec& spec) = 0;
  /// See Launcher (platform/supervisor/launch.h).
  virtual void Confirm(JobId job, std::uint32_t attempt) = 0;
  virtual bool IsPending(JobId job, std::uint32_t attempt) const = 0;
  virtual void RepeatLost() = 0;

  // --- Run records -------------------------------------------------------------------------------------------------

  /// Returns every run record, ascending by job. Fails if the records cannot be read.
  virtual Result<std::vector<RunRecord>> Scan() const = 0;
  /// Fails with kNotFound if the job has no record.
  virtual Result<RunRecord> Read(JobId job) const = 0;
  virtual RunState StateOf(const RunRecord& record) const = 0;
  /// If the supervisor is about to start the job, waits until its record names the process: usually milliseconds, at
  /// most a second. Fails if the record is gone.
  virtual Result<RunRecord> AwaitProcess(RunRecord record) const = 0;
  /// Removes the record and what belongs to the run. Keeps the record of a later attempt.
  virtual void RemoveRecord(const RunRecord& record) = 0;
  /// Describes a run to a controller that does not know it.
  virtual RunDescription Describe(const RunRecord& record) const = 0;
  /// Returns the stored text of the run's steps (model/steps/step_list.h).
  virtual std::string KeptStepsOf(const RunRecord& record) const = 0;

  // --- Commands to supervisors -------------------------------------------------------------------------------------

  virtual void Stop(const RunRecord& record, int signal, Duration grace) = 0;
  virtual void Signal(const RunRecord& record, int signal, SignalReach reach) = 0;
  virtual void Pause(const RunRecord& record) = 0;
  virtual void Continue(const RunRecord& record) = 0;
  virtual void SetTimeLimit(const RunRecord& record, Duration limit) = 0;
  /// Starts a prepared node allocation of a gang.
  virtual void Go(const RunRecord& record) = 0;
  /// Asks for a report of the present state. Returns false if the supervisor is gone.
  virtual bool Ping(const RunRecord& record) = 0;

  // --- Adopted runs, which have neither supervisor nor guard -------------------------------------------------------

  /// Calls NodeDriver::OnAdoptedEnded once the run's first process has ended. Returns false if it already has.
  virtual bool Adopt(const RunRecord& record) = 0;
  /// The run has a supervisor again, or is over.
  virtual void DropAdopted(JobId job) = 0;
  /// Returns how many processes had the signal sent to them.
  virtual int SignalAdopted(const RunRecord& record, int signal, SignalReach reach) = 0;
  /// Returns nullopt while the process runs.
  virtual std::optional<Exit> ExitOfAdopted(const RunRecord& record) = 0;
  /// Kills what is left of a run; returns false if something was left.
  virtual bool EndLeftovers(const RunRecord& record) = 0;

  // --- Gangs, elastic jobs, ends -----------------------------------------------------------------------------------

  /// The GPUs that the plan assigns to the job on this node.
  virtual GpuSet GpusHere(const JobRecord& record) const = 0;
  /// Writes the file that tells an elastic job its GPUs. A job that misses it gets it at its next checkpoint.
  virtual void SetGpusFile(JobId job, GpuSet gpus) = 0;
  /// Writes what a node allocation needs for its start; starts it if it is adopted.
  virtual Status StageGo(const RunRecord& record, const JobRecord& live, const GoCommand& command) = 0;
  /// Updates the record of an adopted node allocation, which no supervisor does.
  virtual RunRecord LookAtPart(RunRecord record) const = 0;
  /// The processes of a run are gone, and its exit is set. Removes what it left (containers) and observes `gpus` before
  /// they are reused. Then calls `done` with the exit, at once or later.
  virtual void CleanUp(const RunRecord& record, GpuSet gpus, std::function<void(const Exit&)> done) = 0;
  /// The processes of a run are gone; called before the controller is told.
  virtual void OnOver(JobId job, std::uint32_t attempt) = 0;
  /// Logs a line for the node's administrator: "event=... ".
  virtual void Note(const std::string& line) const = 0;
};

}  // namespace divvy
