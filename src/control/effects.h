// What a step of the controller asks of the world. Order, always: the batch is durable first; then orders are sent and
// answers given (design: apply -> persist -> send and answer).
#pragma once

#include <variant>
#include <vector>

#include "model/batch.h"
#include "model/job_record.h"

namespace divvy {

/// Start the job's process. The record carries its GPUs and attempt.
struct LaunchOrder {
  JobRecord record;
};
/// Begin the kill ladder: `signal`, and SIGKILL after `grace`, to the whole tree.
struct StopOrder {
  JobId job;
  int signal = 15;     // 0: the job's own stop signal.
  Duration grace{-1};  // Negative: the job's own.
};
struct SignalOrder {
  JobId job;
  int signal = 0;
};
struct PauseOrder {
  JobId job;
  bool is_paused = true;  // False: goes on.
};
struct TimeLimitOrder {
  JobId job;
  Time deadline = kNever;
};
/// What an elastic job that runs may use has changed: its file says so, and a signal where `is_signalled`.
struct ResizeOrder {
  JobId job;
  GpuSet gpus;
  bool is_signalled = true;
};
/// The job's run record on disk has been read into the store and may go.
struct ForgetOrder {
  JobId job;
  std::uint32_t attempt = 0;
};
using Order = std::variant<LaunchOrder, StopOrder, SignalOrder, PauseOrder, TimeLimitOrder, ForgetOrder, ResizeOrder>;

/// Something that watchers are told of.
struct Change {
  JobId job;  // Not set: the GPUs changed.
  JobState state = JobState::kQueued;
  Reason reason;
};

struct Effects {
  Batch batch;
  std::vector<Order> orders;
  std::vector<Change> changes;
  std::vector<JobRecord> finished;  // Became final in this step, for those who wait.

  bool empty() const { return batch.empty() && orders.empty() && changes.empty() && finished.empty(); }
};

}  // namespace divvy
