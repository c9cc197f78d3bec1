// What a Cluster owns; seen by cluster.cc and by the check of its invariants only.
#pragma once

#include <array>
#include <unordered_map>

#include "engine/gpu_sets.h"
#include "engine/queue.h"

namespace divvy {

struct Cluster::State {
  struct Slot {
    WaitingEntry entry;
    JobClass* job_class = nullptr;  // Map nodes do not move.
  };

  NodeCapacity capacity;
  GpuTopology topology{{}};
  std::vector<GpuAvailability> availability;
  std::array<JobId, GpuSet::kCapacity> owners;
  GpuSet present;
  GpuSet usable;
  GpuSet owned;
  std::map<JobId, RunningJob> running;
  std::unordered_map<JobId, Slot> waiting;  // For look-up only: its order reaches no decision.
  Queue queue;
  std::map<GroupName, Group> groups;
  int cpus_claimed = 0;
  Bytes memory_claimed;
  int cpu_jobs_running = 0;
  std::uint64_t waiting_count = 0;
};

/// Ascending, each once.
std::vector<GroupName> Normalised(std::vector<GroupName> groups);

}  // namespace divvy
