// A small working world around the engine for tests: virtual time, jobs that end at their limits, and the check of
// every invariant after every step. What it starts it really starts, as the controller does.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule.h"

// The same tests hold the engine for many nodes to the same answers (engine/port): they name its class here.
#ifndef DIVVY_TEST_CLUSTER
#define DIVVY_TEST_CLUSTER Cluster
#endif
// Of the sampled clusters of each oracle test, how many may be decided otherwise (engine/port/test_clusters.h says
// why).
#ifndef DIVVY_TEST_MOST_DIFFERENCES
#define DIVVY_TEST_MOST_DIFFERENCES 0
#endif

namespace divvy {

template <typename AnyCluster>
struct WorldOf {
  struct Started {
    JobId entry;
    JobId job;
    GpuSet gpus;
    Reason reason;
  };

  AnyCluster cluster;
  Policy policy;
  Time now = Time(std::chrono::hours(1000));
  std::map<JobId, std::uint64_t> members_started;
  std::map<JobId, JobId> entry_of;  // Of every job ever started.
  Plan last_plan;

  void Node(int gpus, int cpus = 64, Bytes memory = 512_GiB, std::string model = "NVIDIA H100 80GB HBM3",
            Bytes gpu_memory = 80_GiB) {
    NodeCapacity capacity;
    for (int i = 0; i < gpus; ++i) AddGpu(capacity, model, gpu_memory);
    capacity.cpus = cpus;
    capacity.memory = memory;
    cluster.SetCapacity(std::move(capacity));
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
    cluster.Put(std::move(entry));
    Check();
  }

  /// One pass, applied.
  std::vector<Started> Pass() {
    if constexpr (requires { AnyCluster::kDecidesItself; }) return Decide();
    else return Apply();
  }

  std::vector<Started> Apply() {
    last_plan = Schedule(cluster, policy, now);
    std::vector<Started> out;
    for (const StartDecision& decision : last_plan.starts) {
      const WaitingEntry* entry = cluster.waiting(decision.entry);
      EXPECT_NE(entry, nullptr);
      EXPECT_GE(decision.gpus.size(), entry->request.gpus);
      EXPECT_LE(decision.gpus.size(), entry->request.gpus_at_most());
      EXPECT_TRUE((decision.gpus - cluster.free()).empty()) << "starts on a GPU that is not free";
      RunningJob job;
      job.id = NameOf(*entry);
      job.gpus = decision.gpus;
      job.cpus = entry->request.cpus;
      job.memory = entry->request.memory;
      job.groups = entry->groups;
      job.started = now;
      job.known_end = entry->time_limit > Duration(0) ? now + entry->time_limit : kNever;
      job.user = entry->user;
      entry_of[job.id] = decision.entry;
      out.push_back({decision.entry, job.id, decision.gpus, decision.reason});
      cluster.Start(decision.entry, std::move(job));
      Check();
    }
    return out;
  }

  /// The same where the cluster applies its plan by itself.
  std::vector<Started> Decide() {
    const GpuSet free = cluster.free();
    std::map<JobId, WaitingEntry> entries;
    auto decided = cluster.Decide(policy, now, [&](JobId id) {
      const WaitingEntry& entry = entries.try_emplace(id, *cluster.waiting(id)).first->second;
      const JobId job = NameOf(entry);
      entry_of[job] = id;
      return job;
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

  JobId NameOf(const WaitingEntry& entry) {
    const bool is_array = entry.count > 1 || members_started.contains(entry.id);
    return is_array ? JobId(entry.id.value() * 1000 + ++members_started[entry.id]) : entry.id;
  }

  /// Ends those that are due by now; their ids.
  std::vector<JobId> EndDue() {
    std::vector<JobId> due;
    for (const auto& [id, job] : cluster.running_jobs()) {
      if (job.known_end <= now) due.push_back(id);
    }
    for (JobId id : due) cluster.Finish(id);
    Check();
    return due;
  }

  /// The next moment at which anything can happen by itself.
  Time NextEvent() const {
    Time next = last_plan.next_wakeup;
    for (const auto& [id, job] : cluster.running_jobs()) next = std::min(next, job.known_end);
    return next;
  }

  void Check() const { ASSERT_EQ(cluster.CheckInvariants(), ""); }
};

using World = WorldOf<DIVVY_TEST_CLUSTER>;

}  // namespace divvy
