// Chooses sets of GPUs on one node that communicate well. Exact: every subset of the idle GPUs is considered, using
// tables that are built once per node type and shared by all nodes of that type.
//
// One set is better than another by these criteria, in this order:
//   1. the bandwidth of its worst pair (a collective is as fast as its slowest hop);
//   2. the sum over its pairs;
//   3. fewer NUMA nodes;
//   4. how useful the remaining idle GPUs are: for every size that jobs request, weighted by frequency, the
//      worst-pair bandwidth of the best remaining set;
//   5. the lower indices.
// If all links are equal and there is one NUMA node, this is index order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// How often jobs request 1, 2, ... GPUs of one node, in any unit: weight[n] is for n GPUs.
using SizeDemand = std::array<std::uint32_t, GpuSet::kCapacity + 1>;
/// Returns how often jobs usually request each number of GPUs: powers of two, small ones more often. Used until there
/// are statistics of the queue's own jobs.
SizeDemand UsualSizeDemand();

class GpuTopology {
 public:
  /// The search is exact on nodes of up to this many GPUs (see Pick).
  static constexpr int kExact = 16;

  /// Builds the topology of a node's GPUs from the link types that NVML reports. Unknown links count as the slowest
  /// type.
  explicit GpuTopology(const std::vector<GpuFacts>& gpus);

  int size() const { return size_; }
  /// Returns the bandwidth between two GPUs in one direction, in GB/s, by link type: NVn 25 n, PIX 24, PXB 20, PHB 16,
  /// NODE 12, SYS 8 (nominal figures; only their order matters).
  int bandwidth(int a, int b) const { return bandwidth_[Index(a, b)]; }
  bool is_uniform() const { return is_uniform_; }
  int numa_node(int gpu) const { return numa_[static_cast<std::size_t>(gpu)]; }

  /// Returns the best `count` GPUs of `idle`, or nothing if no set satisfies `need`. Requires: `idle` contains only
  /// GPUs of this node. Cost: at most 12,870 look-ups on a node of up to kExact GPUs. On a larger node, sets are grown
  /// greedily from each GPU that is in no earlier set, always adding the GPU with the best connection. The best of
  /// these sets by criteria 1 to 3 and 5 is returned. That is at most 262,144 steps for 64 GPUs.
  std::optional<GpuSet> Pick(GpuSet idle, int count, const SizeDemand& demand,
                             TopologyNeed need = TopologyNeed::kAny) const;

  /// Bandwidth of the worst pair, in GB/s; kAlone for fewer than two GPUs.
  static constexpr int kAlone = 1 << 20;
  int WorstPair(GpuSet set) const;
  int SumOfPairs(GpuSet set) const;
  int NumaNodes(GpuSet set) const;
  bool Satisfies(GpuSet set, TopologyNeed need) const;
  /// Returns how useful the GPUs `left`, which remain idle, are for jobs that are usually submitted; higher is better.
  /// This is criterion 4 of the list at the top of this file.
  std::uint64_t ValueOf(GpuSet left, const SizeDemand& demand) const;

 private:
  struct Tables;
  std::size_t Index(int a, int b) const { return static_cast<std::size_t>(a * size_ + b); }
  std::uint64_t TableValue(std::uint32_t left, const SizeDemand& demand) const;
  /// Returns the GPUs that may be used together with `gpu` under the topology `need`, including `gpu`. Requires: `need`
  /// is not kAny.
  GpuSet PartnersOf(int gpu, TopologyNeed need) const {
    return (need == TopologyNeed::kNuma ? on_its_numa_node_ : joined_by_nvlink_)[static_cast<std::size_t>(gpu)];
  }
  GpuSet Grown(int seed, GpuSet idle, int count, TopologyNeed need) const;

  int size_ = 0;
  std::vector<int> bandwidth_;
  std::vector<int> numa_;
  // Both are indexed by GPU; see PartnersOf.
  std::vector<GpuSet> joined_by_nvlink_;
  std::vector<GpuSet> on_its_numa_node_;
  bool is_uniform_ = true;
  std::shared_ptr<const Tables> tables_;  // For all subsets. Null if all links are equal or the node has more than
                                          // kExact GPUs.
};

}  // namespace divvy
