// Which GPUs of one node go together. Exact: every subset of the idle GPUs is looked at, through tables that are made
// once per kind of node and shared by all nodes of that kind.
//
// A set is better than another by, in this order:
//   1. the bandwidth of its worst pair (a collective is as fast as its slowest hop);
//   2. the sum over its pairs;
//   3. fewer NUMA nodes;
//   4. what the GPUs left idle are still good for: for every size that jobs ask for, weighted by how often they do, the
//      worst-pair bandwidth of the best set that remains;
//   5. the lower indices.
// Where all links are equal and there is one NUMA node this is index order.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// How often jobs ask for 1, 2, ... GPUs of one node, in any unit: weight[n] for n GPUs.
using SizeDemand = std::array<std::uint32_t, GpuSet::kCapacity + 1>;
/// Powers of two, small ones more often: what is assumed until a queue has shown its own.
SizeDemand UsualSizeDemand();

class GpuTopology {
 public:
  /// The search is exact on nodes of up to so many GPUs (see Pick).
  static constexpr int kExact = 16;

  /// From the links as NVML names them. Links that are not known count as the slowest kind, the same for all.
  explicit GpuTopology(const std::vector<GpuFacts>& gpus);

  int size() const { return size_; }
  /// Of one direction, in GB/s, by the kind of link: NVn 25 n, PIX 24, PXB 20, PHB 16, NODE 12, SYS 8 (nominal figures;
  /// only their order decides).
  int bandwidth(int a, int b) const { return bandwidth_[Index(a, b)]; }
  bool is_uniform() const { return is_uniform_; }
  int numa_node(int gpu) const { return numa_[static_cast<std::size_t>(gpu)]; }

  /// The best `count` of `idle`, or nothing if no set satisfies `need`. Requires: idle holds GPUs of this node only.
  /// Cost: at most 12,870 look-ups on a node of up to kExact GPUs. On a larger one sets are grown from one GPU at a
  /// time by the GPU that reaches the set best, and the best of these sets by points 1 to 3 and 5 is returned: for 64
  /// GPUs at most 262,144 steps.
  std::optional<GpuSet> Pick(GpuSet idle, int count, const SizeDemand& demand,
                             TopologyNeed need = TopologyNeed::kAny) const;

  /// Bandwidth of the worst pair; the own memory's, so to speak, for fewer than two: kAlone.
  static constexpr int kAlone = 1 << 20;
  int WorstPair(GpuSet set) const;
  int SumOfPairs(GpuSet set) const;
  int NumaNodes(GpuSet set) const;
  bool Satisfies(GpuSet set, TopologyNeed need) const;
  /// Point 4 above, of the GPUs that stay.
  std::uint64_t ValueOf(GpuSet left, const SizeDemand& demand) const;

 private:
  struct Tables;
  std::size_t Index(int a, int b) const { return static_cast<std::size_t>(a * size_ + b); }
  std::uint64_t TableValue(std::uint32_t left, const SizeDemand& demand) const;
  /// Those that it may share a set with that satisfies `need`, itself included. Requires: `need` is not kAny.
  GpuSet PartnersOf(int gpu, TopologyNeed need) const {
    return (need == TopologyNeed::kNuma ? on_its_numa_node_ : joined_by_nvlink_)[static_cast<std::size_t>(gpu)];
  }
  GpuSet Grown(int seed, GpuSet idle, int count, TopologyNeed need) const;

  int size_ = 0;
  std::vector<int> bandwidth_;
  std::vector<int> numa_;
  // By GPU: see PartnersOf.
  std::vector<GpuSet> joined_by_nvlink_;
  std::vector<GpuSet> on_its_numa_node_;
  bool is_uniform_ = true;
  std::shared_ptr<const Tables> tables_;  // Of all subsets; nothing where links are equal or the node is too large.
};

}  // namespace divvy
