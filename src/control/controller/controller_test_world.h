// A controller without a daemon, for tests.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "control/controller/controller.h"

namespace divvy {

/// The row of a joining node with H100 GPUs and without labels.
inline NodeRow MachineRow(const std::string& name, int gpus, int cpus = 8) {
  NodeRow row;
  row.name = row.fingerprint = name;
  for (int i = 0; i < gpus; ++i) {
    GpuFacts facts;
    facts.index = static_cast<GpuIndex>(i);
    facts.uuid = "GPU-" + name + "-" + std::to_string(i);
    facts.model = "NVIDIA H100 80GB HBM3";
    row.facts.gpus.push_back(facts);
  }
  row.facts.cpus = cpus;
  row.facts.memory = Bytes(std::int64_t{64} << 30);
  return row;
}

/// A controller on GPUs without a model, with short helper methods. Every turn checks the invariants.
class World {
 public:
  static constexpr std::uint64_t kMostOfAUser = 1'000'000;
  explicit World(int gpus, const Policy& policy = Policy())
      : controller_(policy, {.max_queued = 2 * kMostOfAUser, .max_queued_of_user = kMostOfAUser}, 1) {
    NodeCapacity capacity;
    for (int i = 0; i < gpus; ++i) {
      GpuFacts facts;
      facts.index = static_cast<GpuIndex>(i);
      capacity.gpus.push_back(facts);
    }
    capacity.cpus = 8;
    capacity.memory = Bytes(std::int64_t{64} << 30);
    controller_.SetCapacity(capacity);
    ada_.user = {1000, 1000, "ada"};
  }

  JobId Submit(int gpus, std::uint64_t elements = 0, std::vector<Dependency> dependencies = {}, int retries = 0) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.request.gpus = gpus;
    spec.dependencies = std::move(dependencies);
    spec.retries = retries;
    const auto result = controller_.Submit(std::move(spec), elements, ada_, now_, NoHistory());
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? result->id : JobId();
  }
  /// Plans, and returns the effects.
  Effects Turn() {
    controller_.Decide(now_);
    EXPECT_EQ(controller_.CheckInvariants(), "");
    return controller_.TakeEffects();
  }
  void Exit(JobId job, int code) {
    divvy::Exit exit;
    exit.code = code;
    const JobRecord* record = controller_.Find(job);
    controller_.OnExited(job, record == nullptr ? 1 : record->attempt, exit, now_, now_);
  }
  std::optional<JobState> StateOf(JobId job) const {
    const JobRecord* record = controller_.Find(job);
    return record == nullptr ? std::nullopt : std::optional(record->state);
  }
  /// The live jobs of a store.
  static JobTable::Records Stored(const std::vector<JobRecord>& records) {
    JobTable::Records live;
    for (const JobRecord& record : records) live.emplace(record.id, record);
    return live;
  }
  static FindOutcome NoHistory() {
    return [](JobId) { return std::nullopt; };
  }
  static std::vector<JobId> Launched(const Effects& effects) {
    std::vector<JobId> jobs;
    for (const NodeCommand& command : effects.commands) {
      if (const auto* launch = std::get_if<LaunchCommand>(&command)) jobs.push_back(launch->record.id);
    }
    return jobs;
  }
  static std::optional<JobState> EndOf(const Effects& effects, JobId job) {
    for (const JobRecord& record : effects.finished) {
      if (record.id == job) return record.state;
    }
    return std::nullopt;
  }

  Controller controller_;
  Caller ada_;
  Time now_ = Time(std::chrono::hours(500'000));
};

}  // namespace divvy
