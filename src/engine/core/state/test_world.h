// A small cluster for tests, driven by hand or by a seed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "engine/core/state/cluster.h"
#include "engine/placement/policy.h"
#include "engine/placement/test_random.h"

namespace divvy::core {

using placement::AtGpus;

inline Time At(std::int64_t seconds) { return Time(std::chrono::seconds(1'000'000 + seconds)); }

inline NodeFacts PlainNode(int index, int gpus) {
  NodeFacts facts;
  facts.name = "n" + std::to_string(index);
  facts.cpu_milli = 64'000;
  facts.memory_mib = 512 * 1024;
  facts.gpus = gpus;
  return facts;
}

inline Cluster MakeCluster(int nodes, int gpus, Rules rules = {}) {
  Cluster cluster(rules);
  for (int i = 0; i < nodes; ++i) {
    NodeFacts facts = PlainNode(i, gpus);
    facts.rack = static_cast<std::uint32_t>(i / 4);
    facts.block = static_cast<std::uint32_t>(i / 16);
    cluster.AddNode(facts);
  }
  return cluster;
}

/// `tasks` tasks of `gpus` whole GPUs each.
inline ResourceRequest GpuRequest(int gpus, int tasks = 1, int most = 0) {
  ResourceRequest request;
  Shape shape;
  shape.gpus = static_cast<std::int16_t>(gpus);
  shape.parts = gpus > 0 ? placement::kGpuParts : 0;
  shape.cpu_milli = gpus == 0 ? 1000 : 0;
  request.groups.push_back({{shape}, tasks, most > 0 ? most : tasks});
  return request;
}

inline ResourceRequest ShareRequest(int parts) {
  ResourceRequest request = GpuRequest(1);
  request.groups.front().alternatives.front().parts = static_cast<std::int16_t>(parts);
  return request;
}

inline Job MakeJob(Cluster& cluster, std::uint64_t id, const ResourceRequest& request, Time queued,
                   Duration limit = Duration(0)) {
  Job job;
  job.id = JobId(id);
  job.request = cluster.Know(request);
  job.queued_at = queued;
  job.limit = limit;
  return job;
}

/// `node_classes`, plus the classes of mixed nodes that contain such GPUs.
inline placement::ModelSet Accepting(const Cluster& cluster, placement::ModelSet node_classes) {
  placement::ModelSet accepted = node_classes;
  for (NodeIndex node = 0; node < cluster.node_count(); ++node) {
    for (const std::uint8_t node_class : cluster.node(node).gpu_classes) {
      if (((node_classes >> node_class) & 1) != 0) accepted |= placement::ModelSet{1} << cluster.node(node).node_class;
    }
  }
  return accepted;
}

/// SplitMix64.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  int Below(int n) { return static_cast<int>(Next() % static_cast<std::uint64_t>(n)); }

 private:
  std::uint64_t state_;
};

/// Gives each GPU one of `class_count` classes, each with its own model; `node_class` is the node's own class.
inline void MixNodeClasses(Draws& draws, int class_count, NodeFacts& facts, int node_class) {
  facts.node_class = facts.gpu_model = node_class;
  for (int gpu = 0; gpu < facts.gpus; ++gpu) {
    facts.gpu_classes.push_back(static_cast<std::uint8_t>(draws.Below(class_count)));
    facts.gpu_models.push_back(facts.gpu_classes.back());
  }
}

}  // namespace divvy::core
