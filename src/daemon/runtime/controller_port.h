// What a node tells the controller that it belongs to, and what it asks of it. Under the daemon that is the controller
// in the same process (daemon/fleet/local_controller.h); under an agent it is one on another machine
// (daemon/agent/agent_session.h), whose belief is what it said when the two met and what its orders have changed since.
//
// Facts may be said twice: the controller knows a run by job and attempt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/job_record.h"
#include "model/run_description.h"
#include "wire/messages/share_messages.h"

namespace divvy {

/// How a run is gone that nobody can say the end of.
enum class RunVanished {
  kNeverStarted,  // Its launch never happened.
  kUnseen,        // It ran, its supervisor was killed, and nobody saw the end.
  kRebooted,      // It ran when the machine went down.
  kCutOff,        // It was stopped by its machine's lease.
};

class ControllerPort {
 public:
  virtual ~ControllerPort() = default;
  virtual Time Now() const = 0;

  // What has happened here. A run's record on disk stays until a ForgetOrder names it.
  /// A part of a gang is ready, and waits for a GoOrder. The other machines' parts reach it at `port` (TCP).
  virtual void OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) = 0;
  /// A run is not started yet, and why: "waits up to 10 s for directory '/home/ada/logs' of its output file, ...".
  /// OnStarted or OnExited follows.
  virtual void OnDelayed(JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
  virtual void OnStarted(JobId job, std::uint32_t attempt, Time at) = 0;
  virtual void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) = 0;
  virtual void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) = 0;
  virtual void OnGpusObserved(const std::vector<GpuObservation>& observations) = 0;
  /// Who shares the GPUs here, and how it is with them now.
  virtual void OnShares(const wire::KeeperState&) {}
  /// Nothing else was left to give others what is their right: this run, which agreed to it, is to be queued again.
  virtual void OnRepay(JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}

  /// A run here that the controller did not name, or what has become of it. The answer is an AdoptOrder, a StopOrder, a
  /// ForgetOrder once it has ended, or none: then the run is left alone. False: the controller is of an earlier release
  /// and decides nothing about such runs.
  virtual bool OnFound(const RunDescription&) { return false; }

  // What the controller believes.
  /// The jobs that it takes for active on this node, ascending.
  virtual std::vector<JobId> ActiveRuns() const = 0;
  /// Null: it knows no live job of that id here. Valid until it is told, or says, something.
  virtual const JobRecord* Find(JobId job) const = 0;
  /// Of a job that Find finds. Under an agent that was restarted it holds no more than how to stop it.
  virtual Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const = 0;
};

}  // namespace divvy
