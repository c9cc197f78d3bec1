// What a step of the controller asks of the world. Order, always: the batch is durable first; then orders are sent and
// answers given (design: apply -> persist -> send and answer).
#pragma once

#include <unordered_map>
#include <variant>
#include <vector>

#include "model/batch.h"
#include "model/job_record.h"

namespace divvy {

// Every order names the machine that it is for; empty: the controller's own.

/// Start the job's process. The record carries its attempt and its GPUs on that machine. Of a gang (`record.gang`) the
/// machine prepares its part only, says so, and waits for a GoOrder.
struct LaunchOrder {
  JobRecord record;
  std::string node;
  std::uint32_t seat = 0;  // Which of record.gang.
};
/// All machines of the gang are ready.
struct GoOrder {
  JobId job;
  std::uint32_t attempt = 0;
  std::vector<SeatAddress> addresses;  // By seat; hosts are filled in on the way.
  std::string node;
};
/// Begin the kill ladder: `signal`, and SIGKILL after `grace`, to the whole tree.
struct StopOrder {
  JobId job;
  int signal = 15;     // 0: the job's own stop signal.
  Duration grace{-1};  // Negative: the job's own.
  std::string node;
};
struct SignalOrder {
  JobId job;
  int signal = 0;
  SignalReach reach = SignalReach::kTree;
  std::string node;
};
struct PauseOrder {
  JobId job;
  bool is_paused = true;  // False: goes on.
  std::string node;
};
struct TimeLimitOrder {
  JobId job;
  Time deadline = kNever;
  std::string node;
};
/// What an elastic job that runs may use has changed: its file says so, and a signal where `is_signalled`.
struct ResizeOrder {
  JobId job;
  GpuSet gpus;
  bool is_signalled = true;
  std::string node;
};
/// What a job that runs may have of its GPUs has changed, or on which of them that is counted.
struct PortionOrder {
  JobId job;
  GpuPortion portion;
  GpuSet gpus;
  std::string node;
};
/// The job's run record on disk has been read into the store and may go.
struct ForgetOrder {
  JobId job;
  std::uint32_t attempt = 0;
  std::string node;
};
/// The controller takes over a run that the node found and reported (Controller::OnFound).
struct AdoptOrder {
  JobRecord record;
  std::string node;
};
using Order = std::variant<LaunchOrder, StopOrder, SignalOrder, PauseOrder, TimeLimitOrder, ForgetOrder, ResizeOrder,
                           GoOrder, PortionOrder, AdoptOrder>;

inline const std::string& NodeOf(const Order& order) {
  return std::visit([](const auto& one) -> const std::string& { return one.node; }, order);
}
inline JobId JobOf(const Order& order) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.record; }) return one.record.id;
        else return one.job;
      },
      order);
}

/// Something that watchers are told of.
struct Change {
  JobId job;  // Not set: the GPUs changed.
  JobState state = JobState::kQueued;
  Reason reason;
  bool is_array = false;  // The array as a whole, beside whose changes are those of its elements.
};

/// Where each record stands in the batch, so that a step that changes 100,000 jobs finds each at once. Rows that were
/// appended since are taken in when Persist looks.
struct BatchIndex {
  std::unordered_map<JobId, std::size_t> inserts;
  std::unordered_map<JobId, std::size_t> updates;
  std::size_t inserts_known = 0;
  std::size_t updates_known = 0;
};

struct Effects {
  Batch batch;
  std::vector<Order> orders;
  std::vector<Change> changes;
  std::vector<JobRecord> finished;  // Became final in this step, for those who wait.

  bool empty() const { return batch.empty() && orders.empty() && changes.empty() && finished.empty(); }
};

}  // namespace divvy
