// The effects that a step of the controller requests. The order is fixed: the batch is made durable first, then node
// commands are sent and answers are given (design: apply -> persist -> send and answer).
#pragma once

#include <variant>
#include <vector>

#include "model/batch.h"
#include "model/job_record.h"

namespace divvy {

// Every node command names its target node; empty: the controller's own machine.

/// Start the job's process. The record contains its attempt and its GPUs on that node. For a gang (`record.gang`) the
/// node prepares only its part, reports that, and waits for a GoCommand.
struct LaunchCommand {
  JobRecord record;
  std::string node;
  std::uint32_t allocation_index = 0;  // Index into record.gang.
  bool is_parkable = false;            // It has whole GPUs and may be parked later (DisplaceCommand).
};
/// All nodes of the gang are ready.
struct GoCommand {
  JobId job;
  std::uint32_t attempt = 0;
  std::vector<AllocationAddress> addresses;  // One for each node allocation; the daemon fills in the hosts.
  std::string node;
};
/// Stop the whole process tree: `signal` first, SIGKILL after `grace`.
struct StopCommand {
  JobId job;
  int signal = 15;     // 0: the job's own stop signal.
  Duration grace{-1};  // Negative: the job's own.
  std::string node;
};
struct SignalCommand {
  JobId job;
  int signal = 0;
  SignalReach reach = SignalReach::kTree;
  std::string node;
};
struct PauseCommand {
  JobId job;
  bool is_paused = true;  // False: resumes.
  std::string node;
};
struct TimeLimitCommand {
  JobId job;
  Time deadline = kNever;
  std::string node;
};
/// The GPUs that a running elastic job may use have changed. The node updates the job's file, and signals the job if
/// `is_signalled`.
struct ResizeCommand {
  JobId job;
  GpuSet gpus;
  bool is_signalled = true;
  std::string node;
};
/// The share of its GPUs that a running job may use has changed, or on which GPUs it is accounted.
struct PortionCommand {
  JobId job;
  GpuPortion portion;
  GpuSet gpus;
  std::string node;
};
/// Parks a job that was launched with LaunchCommand::is_parkable in host memory, or lets it return to whole GPUs. The
/// node reports the result (PresenceReport), and ignores a command for another attempt.
struct DisplaceCommand {
  JobId job;
  std::uint32_t attempt = 0;
  bool is_displaced = true;  // False: it takes `gpus` and wakes there.
  GpuSet gpus;               // Only if it returns. As many as it had.
  std::string node;
};
/// The job's run record on disk has been copied to the store and may be deleted.
struct ForgetCommand {
  JobId job;
  std::uint32_t attempt = 0;
  std::string node;
};
/// The controller takes over a run that the node found and reported (Controller::OnFound).
struct AdoptCommand {
  JobRecord record;
  std::string node;
};
using NodeCommand = std::variant<LaunchCommand, StopCommand, SignalCommand, PauseCommand, TimeLimitCommand,
                                 ForgetCommand, ResizeCommand, GoCommand, PortionCommand, AdoptCommand, DisplaceCommand>;

inline const std::string& NodeOf(const NodeCommand& command) {
  return std::visit([](const auto& one) -> const std::string& { return one.node; }, command);
}
inline JobId JobOf(const NodeCommand& command) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.record; }) return one.record.id;
        else return one.job;
      },
      command);
}

/// A change that watchers are notified of.
struct Change {
  JobId job;  // Unset: the GPUs changed.
  JobState state = JobState::kQueued;
  Reason reason;
  bool is_array = false;  // The change is of the array as a whole; its elements have changes of their own.
};

struct Effects {
  Batch batch;
  std::vector<NodeCommand> commands;
  std::vector<Change> changes;
  std::vector<JobRecord> finished;  // Jobs that became final in this step, for clients that wait for them.

  bool empty() const { return batch.empty() && commands.empty() && changes.empty() && finished.empty(); }
};

}  // namespace divvy
