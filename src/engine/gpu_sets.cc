#include "engine/gpu_sets.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace divvy {
namespace {

constexpr int kSlowest = 8;

int BandwidthOf(std::string_view link) {
  if (link.starts_with("NV")) {
    int lanes = 0;
    std::from_chars(link.data() + 2, link.data() + link.size(), lanes);
    return 25 * std::max(lanes, 1);
  }
  if (link == "PIX") return 24;
  if (link == "PXB") return 20;
  if (link == "PHB") return 16;
  if (link == "NODE") return 12;
  return kSlowest;
}

/// Calls `visit` for every subset of `idle` with `count` members, in ascending order of bits.
template <typename Visit>
void ForEachSubset(std::uint32_t idle, int count, const Visit& visit) {
  // Enumerates subsets of 0..size-1 by Gosper's rule, and maps them to the members of `idle` with a table per half.
  const int size = __builtin_popcount(idle);
  if (count > size || count == 0) return;
  std::array<std::uint32_t, 256> low{};
  std::array<std::uint32_t, 256> high{};
  std::array<std::uint32_t, GpuTopology::kExact> bit{};
  std::size_t found = 0;
  for (std::uint32_t rest = idle; rest != 0; rest &= rest - 1) bit[found++] = rest & (~rest + 1);
  for (std::uint32_t i = 1; i < 256; ++i) {
    const auto lowest = static_cast<std::size_t>(__builtin_ctz(i));
    low[i] = low[i & (i - 1)] | bit[lowest];
    high[i] = high[i & (i - 1)] | bit[lowest + 8];
  }
  const std::uint32_t end = 1u << size;
  for (std::uint32_t set = (1u << count) - 1; set < end;) {
    visit(low[set & 255] | high[set >> 8]);
    const std::uint32_t ones = set | (set - 1);
    set = (ones + 1) | (((~ones & (ones + 1)) - 1) >> (__builtin_ctz(set) + 1));
  }
}

/// For two sets of the same size, returns whether `a` has the lower indices.
bool IsLower(std::uint32_t a, std::uint32_t b) {
  const std::uint32_t differ = a ^ b;
  return differ != 0 && (a & (differ & (~differ + 1))) != 0;
}

/// Criteria 1 to 3 in one number: higher is better.
std::uint64_t Rank(int worst, int sum, int numa_nodes) {
  return static_cast<std::uint64_t>(worst) << 40 | static_cast<std::uint64_t>(sum) << 8 |
         static_cast<std::uint64_t>(255 - numa_nodes);
}

}  // namespace

/// Indexed by subset, as bits: at most 2^16 entries, so at most a few MiB.
struct GpuTopology::Tables {
  std::vector<std::uint64_t> rank;
  /// best[subset * (size + 1) + n]: the worst pair of the best n GPUs of the subset; 0 if it has fewer.
  std::vector<int> best;
};

SizeDemand UsualSizeDemand() {
  SizeDemand demand{};
  for (std::size_t size = 1; size < demand.size(); size *= 2)
    demand[size] = static_cast<std::uint32_t>(GpuSet::kCapacity / size);
  return demand;
}

GpuTopology::GpuTopology(const std::vector<GpuFacts>& gpus) : size_(static_cast<int>(gpus.size())) {
  const auto count = static_cast<std::size_t>(size_);
  bandwidth_.assign(count * count, kSlowest);
  joined_by_nvlink_.resize(count);
  on_its_numa_node_.resize(count);
  for (const GpuFacts& gpu : gpus) numa_.push_back(gpu.numa_node);
  for (int a = 0; a < size_; ++a) {
    const auto row = static_cast<std::size_t>(a);
    const auto& links = gpus[row].links;
    joined_by_nvlink_[row].Insert(static_cast<GpuIndex>(a));
    for (int b = 0; b < size_; ++b) {
      if (numa_node(a) == numa_node(b)) on_its_numa_node_[row].Insert(static_cast<GpuIndex>(b));
    }
    for (int b = 0; b < size_ && b < static_cast<int>(links.size()); ++b) {
      if (a == b) continue;
      const std::string& link = links[static_cast<std::size_t>(b)];
      bandwidth_[Index(a, b)] = BandwidthOf(link);
      if (link.starts_with("NV")) joined_by_nvlink_[row].Insert(static_cast<GpuIndex>(b));
    }
  }
  for (int a = 0; a < size_; ++a) {
    for (int b = 0; b < size_; ++b) {
      if (a != b && (bandwidth(a, b) != bandwidth(0, 1) || numa_[static_cast<std::size_t>(a)] != numa_[0]))
        is_uniform_ = false;
    }
  }
  if (is_uniform_ || size_ > kExact) return;
  auto tables = std::make_shared<Tables>();
  const std::size_t subsets = std::size_t{1} << size_;
  std::vector<int> worsts(subsets);
  std::vector<int> sums(subsets);
  std::vector<int> numa_nodes(subsets);
  tables->rank.resize(subsets);
  tables->best.resize(subsets * (count + 1));
  for (std::size_t subset = 1; subset < subsets; ++subset) {
    const int first = __builtin_ctzll(subset);
    const std::size_t others = subset & (subset - 1);
    int worst = others == 0 ? kAlone : worsts[others];
    int sum = sums[others];
    bool has_new_numa = true;
    for (std::size_t rest = others; rest != 0; rest &= rest - 1) {
      const int other = __builtin_ctzll(rest);
      const int link = std::min(bandwidth(first, other), bandwidth(other, first));
      worst = std::min(worst, link);
      sum += link;
      if (numa_[static_cast<std::size_t>(other)] == numa_[static_cast<std::size_t>(first)]) has_new_numa = false;
    }
    worsts[subset] = worst;
    sums[subset] = sum;
    numa_nodes[subset] = numa_nodes[others] + (has_new_numa ? 1 : 0);
    tables->rank[subset] = Rank(worst, sum, numa_nodes[subset]);
    const auto members = static_cast<std::size_t>(__builtin_popcountll(subset));
    int* best = &tables->best[subset * (count + 1)];
    best[members] = worst;
    for (std::size_t rest = subset; rest != 0; rest &= rest - 1) {
      const int* smaller = &tables->best[(subset ^ (rest & (~rest + 1))) * (count + 1)];
      for (std::size_t n = 1; n < members; ++n) best[n] = std::max(best[n], smaller[n]);
    }
  }
  tables_ = std::move(tables);
}

int GpuTopology::WorstPair(GpuSet set) const {
  const std::vector<int> gpus = set.ToVector();
  int worst = kAlone;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      worst = std::min({worst, bandwidth(gpus[i], gpus[j]), bandwidth(gpus[j], gpus[i])});
  }
  return worst;
}

int GpuTopology::SumOfPairs(GpuSet set) const {
  const std::vector<int> gpus = set.ToVector();
  int sum = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) sum += std::min(bandwidth(gpus[i], gpus[j]), bandwidth(gpus[j], gpus[i]));
  }
  return sum;
}

int GpuTopology::NumaNodes(GpuSet set) const {
  std::set<int> nodes;
  for (int gpu : set.ToVector()) nodes.insert(numa_[static_cast<std::size_t>(gpu)]);
  return static_cast<int>(nodes.size());
}

bool GpuTopology::Satisfies(GpuSet set, TopologyNeed need) const {
  if (need == TopologyNeed::kAny) return true;
  for (const int gpu : set) {
    if (!(set - PartnersOf(gpu, need)).empty()) return false;
  }
  return true;
}

std::uint64_t GpuTopology::TableValue(std::uint32_t left, const SizeDemand& demand) const {
  const auto stride = static_cast<std::size_t>(size_ + 1);
  const int* best = &tables_->best[left * stride];
  std::uint64_t value = 0;
  const auto members = static_cast<std::size_t>(__builtin_popcount(left));
  for (std::size_t n = 2; n <= members; ++n) value += std::uint64_t{demand[n]} * static_cast<std::uint64_t>(best[n]);
  return value;
}

std::uint64_t GpuTopology::ValueOf(GpuSet left, const SizeDemand& demand) const {
  if (tables_) return TableValue(static_cast<std::uint32_t>(left.bits()), demand);
  std::uint64_t value = 0;
  for (std::size_t n = 2; n <= static_cast<std::size_t>(left.size()); ++n)
    value += std::uint64_t{demand[n]} * static_cast<std::uint64_t>(size_ > 1 ? bandwidth(0, 1) : 0);
  return value;
}

// Grows a set of `count` GPUs that includes `seed`; returns fewer if no others satisfy `need`.
GpuSet GpuTopology::Grown(int seed, GpuSet idle, int count, TopologyNeed need) const {
  struct Reach {
    int worst = kAlone;
    int sum = 0;
    auto operator<=>(const Reach&) const = default;
  };
  std::array<Reach, GpuSet::kCapacity> reach{};  // From each GPU to the set.
  GpuSet set;
  for (int next = seed; next >= 0;) {
    set.Insert(next);
    idle.Erase(next);
    if (set.size() == count) break;
    if (need != TopologyNeed::kAny) idle = idle & PartnersOf(next, need);
    const int added = next;
    Reach best{-1, 0};
    next = -1;
    for (const int gpu : idle) {
      Reach& to = reach[static_cast<std::size_t>(gpu)];
      const int link = std::min(bandwidth(gpu, added), bandwidth(added, gpu));
      to = {std::min(to.worst, link), to.sum + link};
      if (to <= best) continue;
      best = to;
      next = gpu;
    }
  }
  return set;
}

std::optional<GpuSet> GpuTopology::Pick(GpuSet idle, int count, const SizeDemand& demand, TopologyNeed need) const {
  if (count > idle.size()) return std::nullopt;
  if (count == 0) return GpuSet();
  if (is_uniform_) {
    const GpuSet set = idle.Lowest(count);
    return Satisfies(set, need) ? std::optional(set) : std::nullopt;
  }
  if (!tables_) {
    std::optional<GpuSet> best;
    std::uint64_t most = 0;
    GpuSet tried;  // A seed in a set that was already found would mostly grow the same set again.
    for (const int seed : idle) {
      if (tried.Contains(seed)) continue;
      const GpuSet set = Grown(seed, idle, count, need);
      if (set.size() < count) continue;
      tried |= set;
      const std::uint64_t rank = Rank(WorstPair(set), SumOfPairs(set), NumaNodes(set));
      if (best && rank <= most) continue;
      best = set;
      most = rank;
    }
    return best;
  }
  const auto all = static_cast<std::uint32_t>(idle.bits());
  const std::uint64_t* rank = tables_->rank.data();
  std::uint64_t best_rank = 0;
  std::vector<std::uint32_t> equals;
  ForEachSubset(all, count, [&](std::uint32_t set) {
    if (rank[set] < best_rank) return;
    if (need != TopologyNeed::kAny && !Satisfies(GpuSet::FromBits(set), need)) return;
    if (rank[set] > best_rank) equals.clear();
    best_rank = rank[set];
    equals.push_back(set);
  });
  if (equals.empty()) return std::nullopt;
  std::uint32_t best = equals.front();
  std::uint64_t best_left = TableValue(all & ~best, demand);
  for (std::uint32_t set : equals) {
    const std::uint64_t left = TableValue(all & ~set, demand);
    if (left < best_left || (left == best_left && !IsLower(set, best))) continue;
    best = set;
    best_left = left;
  }
  return GpuSet::FromBits(best);
}

}  // namespace divvy
