// Events that a node reports to its controller, and queries that it sends there. In the daemon this is the controller
// of the same process, in an agent a controller on another node (daemon/runtime/controller_port.h).
//
// Events may be repeated: the controller identifies a run by job and attempt.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/job_record.h"
#include "model/presence.h"
#include "model/run_description.h"

namespace divvy {

/// How a run disappeared whose exit is unknown.
enum class RunVanished {
  kNeverStarted,  // It was never launched.
  kUnseen,        // It ran, its supervisor was killed, and its exit was not observed.
  kRebooted,      // It was running when the machine went down.
  kCutOff,        // It was stopped because the node's lease ran out.
};

class NodeReportPort {
 public:
  virtual ~NodeReportPort() = default;
  virtual Time Now() const = 0;

  // Events on this node. The run record on disk is kept until a ForgetCommand names the run.

  /// Reports that the part of a multi-node job on this node is prepared and waits for a GoCommand. The job's other
  /// nodes reach it at the TCP port `port`.
  virtual void OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) = 0;
  /// The start of a run is delayed by `why`: "waits up to 10 s for directory '/home/ada/logs' of its output file, ...".
  /// Later OnStarted or OnExited is called for the run.
  virtual void OnDelayed(JobId, std::uint32_t /*attempt*/, const std::string& /*why*/) {}
  virtual void OnStarted(JobId job, std::uint32_t attempt, Time at) = 0;
  virtual void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) = 0;
  virtual void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) = 0;
  /// Reports that a job on whole GPUs was parked (its GPU memory was moved to the host) or has its GPUs again, or that
  /// this failed. Only for jobs launched with LaunchCommand::is_parkable.
  virtual void OnPresence(const PresenceReport&) {}
  virtual void OnGpusObserved(const std::vector<GpuObservation>& observations) = 0;

  /// Reports a run on this node, or its end, that the controller did not list among the active ones. The controller
  /// answers with an AdoptCommand, a StopCommand, or a ForgetCommand once the run has ended. Without an answer the run
  /// is left alone. Returns false if the controller is of an earlier release, which makes no decisions about such runs.
  virtual bool OnFound(const RunDescription&) { return false; }

  // The controller's view.

  /// The jobs that the controller considers active on this node, in ascending order.
  virtual std::vector<JobId> ActiveRuns() const = 0;
  /// Returns null if the controller knows no live job of that id on this node. The pointer is valid until the next
  /// event or command.
  virtual const JobRecord* Find(JobId job) const = 0;
  /// The specification of a job that Find returns. In a restarted agent it holds only what is needed to stop the job.
  virtual Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const = 0;
};

}  // namespace divvy
