#include "simulate/growth_decider.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <set>
#include <utility>

#include "engine/growth/ceiling.h"

namespace divvy::simulate {
namespace {

using core::NodeIndex;
using growth::NodePhase;
using growth::OfferIndex;

constexpr std::array<std::string_view, 4> kGrowthNames = {"none", "node-per-job", "cheapest-first", "divvy"};
/// The default of Kubernetes' cluster autoscaler (--scale-down-unneeded-time).
constexpr Duration kAutoscalerIdle = 10min;
constexpr Duration kSampleEvery = 1h;
/// Half-life of what counts as the present arrival rate.
constexpr Duration kRateHalfLife = 1h;

double ThreadSeconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Hours(Duration duration) { return ToSeconds(duration) / 3600; }

/// A node of a provider.
struct CloudNode {
  std::uint64_t id = 0;
  OfferIndex offer = 0;
  std::optional<NodeIndex> slot;  // In the engine. Not set: on its way, or reserved for one job.
  bool is_dedicated = false;
  Time created{};
  Time ready{};
  Time idle_since = kNever;
  bool was_used = false;
  bool is_leaving = false;  // To be emptied and returned at the next decision.
  int jobs = 0;
  std::vector<JobIndex> requested_for;
};

class Growing : public GrowthDecider {
 public:
  explicit Growing(const GrowthSetup& setup) : setup_(setup) {}

  Status Build(TraceCluster cluster) {
    own_nodes_ = static_cast<std::size_t>(cluster.nodes());
    for (const Provider& provider : setup_.providers) {
      for (const NodeShape& shape : provider.shapes) {
        cluster.groups.push_back(GroupOf(provider, shape));
        groups_.push_back(cluster.groups.back());
      }
    }
    DIVVY_TRY(engine_, MakeEngineDecider(cluster, setup_.engine));
    std::size_t next = 0;
    const auto class_of = [&](const NodeShape&) { return engine_->ClassOf(groups_[next++]); };
    catalogue_ = std::make_unique<growth::Catalogue>(setup_.providers, class_of);
    spent_.resize(setup_.providers.size());
    return {};
  }

  void Submit(JobIndex job, const TraceJob& trace_job, Time now) override {
    Decay(now);
    arrived_gpus_ += trace_job.gpus * static_cast<double>(trace_job.share.ten_thousandths()) / GpuShare::kWhole;
    engine_->Submit(job, trace_job, now);
    is_changed_ = true;
  }

  void Ended(JobIndex job, Time now) override {
    is_changed_ = true;
    if (const auto dedicated = dedicated_.find(job); dedicated != dedicated_.end()) {
      for (const std::uint64_t id : dedicated->second.nodes) Close(id, now);
      dedicated_.erase(dedicated);
      return;
    }
    engine_->Ended(job, now);
    Left(job, now);
  }

  Decision Decide(Time now) override {
    Decision decision;
    Arrive(now);
    Empty(now, decision);
    StartDedicated(now, decision);
    Decision placed = engine_->Decide(now);
    decision.stops.insert(decision.stops.end(), placed.stops.begin(), placed.stops.end());
    for (const Stopped& stopped : placed.stops) Left(stopped.job, now);
    for (const Started& started : placed.starts) Entered(started);
    std::ranges::move(placed.starts, std::back_inserter(decision.starts));
    switch (setup_.policy) {
      case GrowthPolicy::kNone:
        break;
      case GrowthPolicy::kNodePerJob:
        GrowPerJob(now);
        break;
      case GrowthPolicy::kCheapestFirst:
        GrowDedicated(now);
        break;
      case GrowthPolicy::kDivvy:
        GrowByEngine(now);
        break;
    }
    totals_.most_nodes = std::max(totals_.most_nodes, static_cast<std::int64_t>(nodes_.size()));
    if (totals_.nodes.empty() || now - totals_.nodes.back().first >= kSampleEvery)
      totals_.nodes.emplace_back(now, static_cast<std::int64_t>(nodes_.size()));
    return decision;
  }

  Time NextWakeup() const override {
    Time next = std::min(engine_->NextWakeup(), wakeup_);
    if (!arrivals_.empty()) next = std::min(next, arrivals_.begin()->first);
    return next;
  }
  double FragmentedGpus() const override { return engine_->FragmentedGpus(); }

  GrowthTotals Totals() const override {
    GrowthTotals totals = totals_;
    for (const auto& [id, node] : nodes_) Bill(node, now_, totals);
    return totals;
  }

 private:
  /// Nodes that one job has for itself.
  struct Dedicated {
    std::vector<std::uint64_t> nodes;
    int gpus = 0;  // That the job requests.
  };

  static NodeGroup GroupOf(const Provider& provider, const NodeShape& shape) {
    NodeGroup group;
    group.gpus = shape.gpus;
    group.model = shape.gpu_model;
    group.cpus = shape.cpus;
    group.memory = shape.memory;
    group.rack = provider.name;
    return group;
  }

  // --- Jobs on nodes

  CloudNode* NodeAt(NodeIndex slot) {
    const auto known = by_slot_.find(slot);
    return known == by_slot_.end() ? nullptr : &nodes_.at(known->second);
  }

  void Entered(const Started& started) {
    unused_.erase(started.job);
    std::vector<NodeIndex>& slots = slots_of_[started.job];
    for (const NodeGpus& part : started.gpus) {
      if (std::ranges::find(slots, part.node) != slots.end()) continue;
      slots.push_back(part.node);
      CloudNode* node = NodeAt(part.node);
      if (node == nullptr) continue;
      if (node->jobs++ == 0) EndIdle(*node, now_);
      node->was_used = true;
    }
  }

  void Left(JobIndex job, Time now) {
    const auto slots = slots_of_.extract(job);
    if (slots.empty()) return;
    for (const NodeIndex slot : slots.mapped()) {
      CloudNode* node = NodeAt(slot);
      if (node != nullptr && --node->jobs == 0) node->idle_since = now;
    }
  }

  void EndIdle(CloudNode& node, Time now) {
    if (node.idle_since != kNever) totals_.idle_node_hours += Hours(now - node.idle_since);
    node.idle_since = kNever;
  }

  // --- Nodes

  std::uint64_t Create(OfferIndex offer, bool is_dedicated, Time now) {
    CloudNode node;
    node.id = next_id_++;
    node.offer = offer;
    node.is_dedicated = is_dedicated;
    node.created = now;
    node.ready = AddSaturating(now, catalogue_->offers()[offer].startup);
    totals_.nodes_requested += 1;
    if (!is_dedicated) arrivals_.emplace(node.ready, node.id);
    const std::uint64_t id = node.id;
    nodes_.emplace(id, std::move(node));
    return id;
  }

  /// Nodes whose startup is over take jobs.
  void Arrive(Time now) {
    now_ = now;
    for (; !arrivals_.empty() && arrivals_.begin()->first <= now; arrivals_.erase(arrivals_.begin())) {
      const auto known = nodes_.find(arrivals_.begin()->second);
      if (known == nodes_.end()) continue;
      CloudNode& node = known->second;
      std::vector<NodeIndex>& free = free_slots_[node.offer];
      if (free.empty()) {
        node.slot = engine_->AddNode(groups_[node.offer]);
      } else {
        node.slot = free.back();
        free.pop_back();
        engine_->SetAvailable(*node.slot, true);
      }
      by_slot_[*node.slot] = node.id;
      node.idle_since = now;
      is_changed_ = true;
    }
  }

  void Bill(const CloudNode& node, Time end, GrowthTotals& totals) const {
    const growth::Offer& offer = catalogue_->offers()[node.offer];
    const Duration stay = end - node.created;
    totals.cost += CostOf(offer.hourly, Billed(node, stay));
    totals.node_hours += Hours(stay);
    totals.startup_node_hours += Hours(std::min(stay, node.ready - node.created));
    totals.gpu_hours += Hours(stay) * offer.node.gpus;
    if (node.idle_since != kNever) totals.idle_node_hours += Hours(end - node.idle_since);
  }

  Duration Billed(const CloudNode& node, Duration stay) const {
    const Duration period = catalogue_->provider_of(node.offer).billing_period;
    return period <= Duration(0) ? stay : std::max<std::int64_t>(1, (stay + period - Duration(1)) / period) * period;
  }

  /// Returns the node. Requires: no job of the engine runs there.
  void Close(std::uint64_t id, Time now) {
    const auto known = nodes_.find(id);
    CloudNode& node = known->second;
    Bill(node, now, totals_);
    spent_[catalogue_->offers()[node.offer].provider] +=
        CostOf(catalogue_->offers()[node.offer].hourly, Billed(node, now - std::max(node.created, month_)));
    if (node.slot) {
      engine_->SetAvailable(*node.slot, false);
      free_slots_[node.offer].push_back(*node.slot);
      by_slot_.erase(*node.slot);
    }
    nodes_.erase(known);
  }

  /// Requeues the jobs of nodes that must go, and returns these.
  void Empty(Time now, Decision& decision) {
    for (const std::uint64_t id : std::exchange(leaving_, {})) {
      const CloudNode& node = nodes_.at(id);
      if (node.slot) {
        std::vector<JobIndex> jobs;
        for (const auto& [job, slots] : slots_of_) {
          if (std::ranges::find(slots, *node.slot) != slots.end()) jobs.push_back(job);
        }
        for (const JobIndex job : jobs) {
          engine_->Requeue(job, now);
          Left(job, now);
          decision.stops.push_back({job, false});
        }
      }
      Close(id, now);
    }
  }

  // --- Policies

  /// `with_nodes`: false if no provider has limits and the nodes do not matter.
  growth::GrowthInput InputAt(Time now, bool with_nodes = true) {
    growth::GrowthInput input;
    input.now = now;
    input.catalogue = catalogue_.get();
    input.rules = setup_.rules;
    Decay(now);
    input.gpus_per_hour = arrived_gpus_ * std::log(2.0) / Hours(kRateHalfLife);
    StartMonth(now);
    for (const Money spent : spent_) input.providers.push_back({kNoTime, spent});
    if (!with_nodes) return input;
    for (const auto& [id, node] : nodes_) {
      input.providers[catalogue_->offers()[node.offer].provider].spent_this_month +=
          CostOf(catalogue_->offers()[node.offer].hourly, now - std::max(node.created, month_));
      growth::OwnedNode owned;
      owned.id = id;
      owned.offer = node.offer;
      owned.phase = node.slot ? NodePhase::kReady : node.is_dedicated ? NodePhase::kReturning : NodePhase::kComing;
      owned.room = node.slot ? engine_->RoomOf(*node.slot) : catalogue_->offers()[node.offer].node;
      owned.created = node.created;
      owned.ready = node.ready;
      owned.idle_since = node.idle_since;
      owned.was_used = node.was_used;
      input.nodes.push_back(std::move(owned));
    }
    return input;
  }

  /// Months of 30 days, from the start of the trace.
  void StartMonth(Time now) {
    constexpr Duration kMonth = std::chrono::hours(24 * 30);
    if (month_ == kNoTime) month_ = now;
    while (now - month_ >= kMonth) {
      month_ += kMonth;
      std::ranges::fill(spent_, Money());
    }
  }

  growth::Demand DemandOf(const EngineDecider::WaitingJob& job) const {
    growth::Demand demand;
    for (const core::TaskGroup& group : job.request->groups)
      demand.tasks.push_back({group.alternatives.front(), group.least, group.anti_affinity});
    demand.run_time = job.predicted;
    demand.time_limit = job.limit;
    demand.waiting_since = job.since;
    if (const auto unused = unused_.find(job.job); unused != unused_.end())
      demand.not_before = unused->second.not_before;
    return demand;
  }

  /// The nodes of the cluster and the ends of the tasks on all nodes.
  void AddRunning(growth::GrowthInput& input) {
    std::map<NodeIndex, std::vector<growth::Release>> releases;
    for (const EngineDecider::RunningTask& task : engine_->RunningTasks()) {
      if (task.expected_end == kNever) continue;
      releases[task.node].push_back({std::max(task.expected_end, input.now), *task.shape, task.place});
    }
    for (auto& [slot, list] : releases) std::ranges::stable_sort(list, {}, &growth::Release::time);
    std::vector<growth::OwnedNode> own;
    for (NodeIndex slot = 0; slot < own_nodes_; ++slot) {
      growth::OwnedNode node;
      node.id = slot;
      node.room = engine_->RoomOf(slot);
      node.was_used = true;
      if (const auto list = releases.find(slot); list != releases.end()) node.releases = std::move(list->second);
      own.push_back(std::move(node));
    }
    for (growth::OwnedNode& node : input.nodes) {
      const std::optional<NodeIndex> slot = nodes_.at(node.id).slot;
      if (!slot) continue;
      if (const auto list = releases.find(*slot); list != releases.end()) node.releases = std::move(list->second);
    }
    input.nodes.insert(input.nodes.begin(), std::make_move_iterator(own.begin()), std::make_move_iterator(own.end()));
  }

  void GrowByEngine(Time now) {
    const std::vector<EngineDecider::WaitingJob> waiting = engine_->WaitingJobs();
    if (waiting.empty() && !is_changed_ && now < wakeup_) return;
    is_changed_ = false;
    growth::GrowthInput input = InputAt(now);
    if (!waiting.empty()) AddRunning(input);
    std::vector<growth::Demand> demands;
    for (const EngineDecider::WaitingJob& job : waiting) demands.push_back(DemandOf(job));
    growth::MergedDemands merged = growth::MergeDemands(std::move(demands));
    input.demands = std::move(merged.demands);
    const double before = ThreadSeconds();
    const growth::GrowthDecision decided = growth::DecideGrowth(input);
    const double took = ThreadSeconds() - before;
    totals_.growth_decisions += 1;
    totals_.decide_cpu_seconds += took;
    totals_.slowest_decision_ms = std::max(totals_.slowest_decision_ms, took * 1e3);
    for (const growth::NodeRequest& request : growth::WithinCeiling(input, decided.requests).allowed) {
      CloudNode& node = nodes_.at(Create(request.offer, false, now));
      for (std::size_t i = 0; i < waiting.size(); ++i) {
        if (merged.group_of[i] == request.demand) node.requested_for.push_back(waiting[i].job);
      }
    }
    wakeup_ = decided.next_wakeup;
    for (const growth::NodeReturn& it : decided.returns) {
      CloudNode& node = nodes_.at(it.node);
      if (!it.was_used) {
        for (const EngineDecider::WaitingJob& job : waiting) {
          if (std::ranges::find(node.requested_for, job.job) == node.requested_for.end()) continue;
          Unused& unused = unused_[job.job];
          unused.not_before = growth::RetryAfterUnused(++unused.times, now);
        }
      }
      if (!it.is_forced) {
        Close(it.node, now);
        continue;
      }
      if (node.slot) engine_->SetAvailable(*node.slot, false);
      if (std::exchange(node.is_leaving, true)) continue;
      leaving_.push_back(it.node);
      wakeup_ = std::min(wakeup_, now + 1s);
    }
  }

  void GrowPerJob(Time now) {
    wakeup_ = kNever;
    const std::vector<EngineDecider::WaitingJob> waiting = engine_->WaitingJobs();
    std::set<JobIndex> served;
    for (const EngineDecider::WaitingJob& job : waiting) {
      if (served_.contains(job.job) || RequestAlone(DemandOf(job), now, false)) served.insert(job.job);
    }
    served_ = std::move(served);
    std::vector<std::uint64_t> idle;
    for (const auto& [id, node] : nodes_) {
      if (node.idle_since == kNever) continue;
      const Time last = node.idle_since + kAutoscalerIdle;
      if (last <= now) idle.push_back(id);
      else wakeup_ = std::min(wakeup_, last);
    }
    for (const std::uint64_t id : idle) Close(id, now);
  }

  void GrowDedicated(Time now) {
    wakeup_ = kNever;
    for (const EngineDecider::WaitingJob& job : engine_->WaitingJobs()) {
      auto nodes = RequestAlone(DemandOf(job), now, true);
      if (!nodes) continue;
      Time ready = now;
      for (const std::uint64_t id : *nodes) ready = std::max(ready, nodes_.at(id).ready);
      int gpus = 0;
      for (const core::TaskGroup& group : job.request->groups) gpus += group.least * group.alternatives.front().gpus;
      dedicated_[job.job] = {std::move(*nodes), gpus};
      starting_.emplace(ready, job.job);
      engine_->Withdraw(job.job, now);
    }
    if (!starting_.empty()) wakeup_ = starting_.begin()->first;
  }

  void StartDedicated(Time now, Decision& decision) {
    for (; !starting_.empty() && starting_.begin()->first <= now; starting_.erase(starting_.begin())) {
      const JobIndex job = starting_.begin()->second;
      // The replay only counts GPUs. Nodes that belong to one job are not known to the scheduler, so the node number 0
      // stands for all of them.
      decision.starts.push_back({job, {{0, dedicated_.at(job).gpus}}, 1});
    }
  }

  bool HasLimits() const {
    return std::ranges::any_of(setup_.providers, [](const Provider& provider) {
      return provider.limits != ProviderLimits() || !provider.is_enabled;
    });
  }

  /// The cheapest nodes for one job. Not set: none fits, or a limit is reached.
  std::optional<std::vector<std::uint64_t>> RequestAlone(const growth::Demand& demand, Time now, bool is_dedicated) {
    const growth::GrowthInput input = InputAt(now, HasLimits());
    const auto choice = growth::CheapestAlone(input, demand);
    if (!choice) return std::nullopt;
    std::vector<growth::NodeRequest> requests;
    for (const OfferIndex offer : choice->nodes) requests.push_back({offer, 0, 0});
    if (growth::WithinCeiling(input, requests).allowed.empty()) return std::nullopt;
    std::vector<std::uint64_t> ids;
    for (const OfferIndex offer : choice->nodes) ids.push_back(Create(offer, is_dedicated, now));
    return ids;
  }

  void Decay(Time now) {
    arrived_gpus_ *= std::exp2(-ToSeconds(now - decayed_) / ToSeconds(kRateHalfLife));
    decayed_ = now;
  }

  GrowthSetup setup_;
  std::unique_ptr<EngineDecider> engine_;
  std::unique_ptr<growth::Catalogue> catalogue_;
  std::vector<NodeGroup> groups_;  // By offer.
  std::size_t own_nodes_ = 0;
  std::map<std::uint64_t, CloudNode> nodes_;
  std::uint64_t next_id_ = std::uint64_t{1} << 32;  // Above the numbers of the cluster's own nodes.
  std::set<std::pair<Time, std::uint64_t>> arrivals_;
  std::map<NodeIndex, std::uint64_t> by_slot_;
  std::map<OfferIndex, std::vector<NodeIndex>> free_slots_;
  std::map<JobIndex, std::vector<NodeIndex>> slots_of_;  // Running jobs.
  std::vector<std::uint64_t> leaving_;
  /// kDivvy: how often a node was returned unused while the job that it was for still waited, and when to try again.
  struct Unused {
    int times = 0;
    Time not_before = kNoTime;
  };
  std::map<JobIndex, Unused> unused_;
  std::set<JobIndex> served_;  // kNodePerJob: waiting jobs with a node requested for them.
  std::map<JobIndex, Dedicated> dedicated_;
  std::set<std::pair<Time, JobIndex>> starting_;
  std::vector<Money> spent_;  // This month, by provider, for nodes that were returned.
  Time month_ = kNoTime;
  double arrived_gpus_ = 0;  // Decayed.
  Time decayed_{};
  Time now_{};
  Time wakeup_ = kNever;
  bool is_changed_ = true;
  GrowthTotals totals_;
};

}  // namespace

const std::vector<std::string_view>& GrowthPolicyNames() {
  static const std::vector<std::string_view> names(kGrowthNames.begin(), kGrowthNames.end());
  return names;
}

std::optional<GrowthPolicy> GrowthPolicyFromName(std::string_view name) {
  const auto known = std::ranges::find(kGrowthNames, name);
  if (known == kGrowthNames.end()) return std::nullopt;
  return static_cast<GrowthPolicy>(known - kGrowthNames.begin());
}

Result<std::unique_ptr<GrowthDecider>> MakeGrowthDecider(const TraceCluster& cluster, const GrowthSetup& setup) {
  auto growing = std::make_unique<Growing>(setup);
  DIVVY_CHECK(growing->Build(cluster));
  return std::unique_ptr<GrowthDecider>(std::move(growing));
}

}  // namespace divvy::simulate
