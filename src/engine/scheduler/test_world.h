// A small simulated environment of the engine for tests: virtual time, jobs that end at their limits, and a check of
// all invariants after every step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/scheduler/explain.h"

namespace divvy {

struct World {
  struct Started {
    JobId entry;
    JobId job;
    GpuSet gpus;
    Reason reason;
  };

  Scheduler scheduler;
  Policy policy;
  Time now = Time(std::chrono::hours(1000));
  std::map<JobId, std::uint64_t> members_started;
  Plan last_plan;

  void Node(int gpus, int cpus = 64, Bytes memory = 512_GiB, std::string model = "NVIDIA H100 80GB HBM3",
            Bytes gpu_memory = 80_GiB) {
    NodeCapacity capacity;
    for (int i = 0; i < gpus; ++i) AddGpu(capacity, model, gpu_memory);
    capacity.cpus = cpus;
    capacity.memory = memory;
    scheduler.SetCapacity(std::move(capacity));
  }

  static void AddGpu(NodeCapacity& capacity, const std::string& model, Bytes memory) {
    GpuFacts gpu;
    gpu.index = static_cast<GpuIndex>(capacity.gpus.size());
    gpu.uuid = "GPU-" + std::to_string(gpu.index);
    gpu.model = model;
    gpu.memory_total = memory;
    capacity.gpus.push_back(std::move(gpu));
  }

  static WaitingEntry Job(std::uint64_t id, int gpus, Duration limit = Duration(0)) {
    WaitingEntry entry;
    entry.id = JobId(id);
    entry.request.gpus = gpus;
    entry.time_limit = limit;
    entry.user = "ada";
    return entry;
  }

  void Submit(WaitingEntry entry) {
    if (entry.queued_at == kNoTime) entry.queued_at = now;
    scheduler.Put(std::move(entry));
    Check();
  }

  /// Runs one decision and returns the started jobs.
  std::vector<Started> RunCycle() {
    scheduler.SetPolicy(policy);
    const GpuSet free = scheduler.free();
    std::map<JobId, WaitingEntry> entries;
    auto decided = scheduler.Decide(now, [&](JobId id) {
      const WaitingEntry& entry = entries.try_emplace(id, *scheduler.waiting(id)).first->second;
      return NameOf(entry);
    });
    last_plan = std::move(decided.plan);
    std::vector<Started> out;
    for (std::size_t i = 0; i < last_plan.starts.size(); ++i) {
      const StartDecision& start = last_plan.starts[i];
      const Request& request = entries.at(start.entry).request;
      EXPECT_GE(start.gpus.size(), request.gpus);
      EXPECT_LE(start.gpus.size(), request.gpus_at_most());
      EXPECT_TRUE((start.gpus - free).empty()) << "starts on a GPU that was not free";
      out.push_back({start.entry, decided.jobs[i], start.gpus, start.reason});
    }
    Check();
    return out;
  }

  /// Returns the plan that another decision would make.
  Plan WouldDecide() {
    scheduler.SetPolicy(policy);
    return scheduler.WouldDecide(now);
  }

  JobId NameOf(const WaitingEntry& entry) {
    const bool is_array = entry.count > 1 || members_started.contains(entry.id);
    return is_array ? JobId(entry.id.value() * 1000 + ++members_started[entry.id]) : entry.id;
  }

  /// Ends the jobs whose known end has come and returns their ids.
  std::vector<JobId> EndDue() {
    std::vector<JobId> due;
    for (const auto& [id, job] : scheduler.running_jobs()) {
      if (job.known_end <= now) due.push_back(id);
    }
    for (JobId id : due) scheduler.Finish(id);
    Check();
    return due;
  }

  void Check() const { ASSERT_EQ(scheduler.CheckInvariants(), ""); }
};

}  // namespace divvy
