#include "simulate/baseline_policies.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace divvy::simulate {
namespace {

struct NamedRule {
  std::string_view name;
  HouseRule rule;
};

constexpr std::array kRules = {
    NamedRule{"fifo", {BaselineOrder::kFifo, false}},
    NamedRule{"sjf", {BaselineOrder::kShortest, false}},
    NamedRule{"gtf", {BaselineOrder::kSmallestGpuTime, false}},
    NamedRule{"fifo-skip", {BaselineOrder::kFifo, true}},
    NamedRule{"sjf-skip", {BaselineOrder::kShortest, true}},
    NamedRule{"gtf-skip", {BaselineOrder::kSmallestGpuTime, true}},
};

/// Nodes of one size, indexed by their number of free GPUs.
class Nodes {
 public:
  explicit Nodes(int gpus_of_node) : gpus_(gpus_of_node), by_free_(static_cast<std::size_t>(gpus_of_node) + 1) {}

  void Add(std::uint32_t node) {
    By(gpus_).insert(node);
    free_[node] = gpus_;
  }

  bool CouldHold(int gpus) const { return gpus <= std::int64_t{gpus_} * static_cast<std::int64_t>(free_.size()); }

  /// Allocates the GPUs. Returns nothing if they do not fit now.
  std::optional<std::vector<NodeGpus>> Take(int gpus) {
    const int whole = gpus / gpus_, rest = gpus % gpus_;
    std::set<std::uint32_t>& empty = By(gpus_);
    if (empty.size() < static_cast<std::size_t>(whole)) return std::nullopt;
    // The job's remaining GPUs may be on a completely free node only if the whole nodes that it needs leave one.
    const auto tightest = rest == 0 ? 0 : Tightest(rest, empty.size() > static_cast<std::size_t>(whole));
    if (!tightest) return std::nullopt;
    std::vector<NodeGpus> taken;
    for (int i = 0; i < whole; ++i) taken.push_back({*empty.begin(), gpus_}), Change(*empty.begin(), -gpus_);
    if (rest > 0) {
      const std::uint32_t node = *By(*tightest).begin();
      taken.push_back({node, rest});
      Change(node, -rest);
    }
    return taken;
  }

  void Give(const std::vector<NodeGpus>& taken) {
    for (const NodeGpus& part : taken) Change(part.node, part.gpus);
  }

 private:
  std::set<std::uint32_t>& By(int free) { return by_free_[static_cast<std::size_t>(free)]; }

  /// The smallest number of free GPUs on a node that is enough.
  std::optional<int> Tightest(int gpus, bool may_be_whole) {
    for (int free = gpus; free < gpus_ + (may_be_whole ? 1 : 0); ++free) {
      if (!By(free).empty()) return free;
    }
    return std::nullopt;
  }

  void Change(std::uint32_t node, int gpus) {
    int& free = free_[node];
    By(free).erase(node);
    free += gpus;
    By(free).insert(node);
  }

  int gpus_;
  std::vector<std::set<std::uint32_t>> by_free_;
  std::map<std::uint32_t, int> free_;
};

/// A queue, and the nodes that only it uses.
struct Pool {
  Nodes nodes;
  int gpus_of_node = 0;
  /// By size. All jobs of one size fit or do not fit, so a pass checks each size once.
  std::map<int, std::set<std::pair<double, JobIndex>>> waiting;
  bool has_changed = false;
};

class HouseRules : public Decider {
 public:
  explicit HouseRules(HouseRule rule) : rule_(rule) {}

  Status AddNodes(const NodeGroup& group) {
    const auto [it, is_new] = pools_.try_emplace(group.team, Pool{Nodes(group.gpus), group.gpus, {}, false});
    if (it->second.gpus_of_node != group.gpus)
      return InvalidArgument("the baseline policies need nodes of one size; there are nodes with " +
                             std::to_string(it->second.gpus_of_node) + " and nodes with " + std::to_string(group.gpus) +
                             " GPUs");
    for (int i = 0; i < group.count; ++i) it->second.nodes.Add(next_node_++);
    return {};
  }

  void Submit(JobIndex job, const TraceJob& trace_job, Time) override {
    const auto own = pools_.find(trace_job.team);
    const auto pool = own != pools_.end() ? own : pools_.find("");
    if (pool == pools_.end() || !pool->second.nodes.CouldHold(trace_job.gpus)) return;
    pool->second.waiting[trace_job.gpus].insert({Key(trace_job), job});
    pool->second.has_changed = true;
  }

  void Ended(JobIndex job, Time) override {
    const auto held = running_.extract(job);
    held.mapped().first->nodes.Give(held.mapped().second);
    held.mapped().first->has_changed = true;
  }

  Decision Decide(Time) override {
    Decision decision;
    for (auto& [team, pool] : pools_) {
      if (std::exchange(pool.has_changed, false)) Pass(pool, decision);
    }
    return decision;
  }

 private:
  double Key(const TraceJob& job) const {
    switch (rule_.order) {
      case BaselineOrder::kFifo:
        return 0;
      case BaselineOrder::kShortest:
        return ToSeconds(job.runtime);
      case BaselineOrder::kSmallestGpuTime:
        return ToSeconds(job.runtime) * job.gpus;
    }
    return 0;
  }

  void Pass(Pool& pool, Decision& decision) {
    std::set<int> blocked;  // Blocked sizes. They stay blocked during the pass, because free GPUs only decrease.
    for (;;) {
      auto* next = NextSize(pool, blocked);
      if (next == nullptr) return;
      const JobIndex job = next->second.begin()->second;
      auto gpus = pool.nodes.Take(next->first);
      if (!gpus) {
        if (!rule_.skips) return;
        blocked.insert(next->first);
        continue;
      }
      next->second.erase(next->second.begin());
      if (next->second.empty()) pool.waiting.erase(next->first);
      running_[job] = {&pool, *gpus};
      decision.starts.push_back({job, std::move(*gpus)});
    }
  }

  /// The size whose first job comes before the first jobs of all other sizes.
  static std::map<int, std::set<std::pair<double, JobIndex>>>::value_type* NextSize(Pool& pool,
                                                                                    const std::set<int>& blocked) {
    std::map<int, std::set<std::pair<double, JobIndex>>>::value_type* first = nullptr;
    for (auto& size : pool.waiting) {
      if (blocked.contains(size.first)) continue;
      if (first == nullptr || *size.second.begin() < *first->second.begin()) first = &size;
    }
    return first;
  }

  HouseRule rule_;
  std::map<std::string, Pool> pools_;  // By team. "": the queue of all others.
  std::map<JobIndex, std::pair<Pool*, std::vector<NodeGpus>>> running_;
  std::uint32_t next_node_ = 0;
};

}  // namespace

const std::vector<std::string_view>& HouseRuleNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const NamedRule& named : kRules) all.push_back(named.name);
    return all;
  }();
  return names;
}

std::optional<HouseRule> HouseRuleFromName(std::string_view name) {
  const auto known = std::ranges::find(kRules, name, &NamedRule::name);
  return known == kRules.end() ? std::nullopt : std::optional(known->rule);
}

Result<std::unique_ptr<Decider>> MakeHouseRules(const TraceCluster& cluster, HouseRule rule) {
  auto rules = std::make_unique<HouseRules>(rule);
  for (const NodeGroup& group : cluster.groups) DIVVY_CHECK(rules->AddNodes(group));
  return std::unique_ptr<Decider>(std::move(rules));
}

}  // namespace divvy::simulate
