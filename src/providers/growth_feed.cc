#include "providers/growth_feed.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "engine/core/place/caps.h"
#include "engine/core/state/state.h"
#include "engine/gpu_type.h"

namespace divvy::providers {
namespace {

constexpr std::int64_t kMostOffered = 4'096;
constexpr std::uint64_t kMostImagined = 1'000'000;

/// Returns the memory that a GPU model's name contains: 80 GiB for "H100-80GB"; 0 if the name does not say it.
Bytes MemoryIn(const std::string& model) {
  const std::string name = ToLower(model);
  const std::size_t end = name.rfind("gb");
  if (end == std::string::npos) return Bytes();
  std::size_t begin = end;
  while (begin > 0 && name[begin - 1] >= '0' && name[begin - 1] <= '9') --begin;
  const auto gigabytes = ParseInteger(std::string_view(name).substr(begin, end - begin));
  return gigabytes && *gigabytes < 10'000 ? Bytes(*gigabytes << 30) : Bytes();
}

/// "V100&16GB" for "V100-16GB", as MatchesGpuType reads it.
std::string TermsOf(std::string_view model) {
  std::string terms(model);
  for (char& letter : terms) {
    if (letter == '-' || letter == '_' || letter == ' ') letter = '&';
  }
  return terms;
}

NodeAttributes AttributesOf(const Provider& provider, const NodeShape& shape, std::string name) {
  NodeAttributes attributes;
  attributes.name = std::move(name);
  attributes.features = shape.labels;
  std::ranges::sort(attributes.features);
  attributes.pools = provider.pools;
  std::ranges::sort(attributes.pools);
  return attributes;
}

NodeCapacity CapacityOf(const NodeShape& shape) {
  NodeCapacity capacity;
  capacity.cpus = shape.cpus;
  capacity.memory = shape.memory;
  for (int i = 0; i < shape.gpus; ++i) {
    GpuFacts gpu;
    gpu.index = static_cast<GpuIndex>(i);
    gpu.model = shape.gpu_model;
    gpu.memory_total = MemoryIn(shape.gpu_model);
    capacity.gpus.push_back(std::move(gpu));
  }
  return capacity;
}

/// How many nodes of the shape may exist at one time, at most `most`.
std::int64_t CountWithin(const ProviderLimits& limits, const NodeShape& shape, std::int64_t most) {
  if (limits.nodes) most = std::min<std::int64_t>(most, *limits.nodes);
  if (limits.gpus && shape.gpus > 0) most = std::min<std::int64_t>(most, *limits.gpus / shape.gpus);
  if (limits.hourly) most = std::min(most, limits.hourly->micros() / std::max<std::int64_t>(shape.hourly.micros(), 1));
  return most;
}

/// A copy of the cluster without jobs in which one idle node of each shape exists, so that both have the same node
/// classes. Its nodes are numbered as in the controller; shapes follow in the order of the catalogue.
std::unique_ptr<Scheduler> CopyWithOffers(const Controller& controller, const std::vector<Provider>& providers) {
  auto copy = std::make_unique<Scheduler>();
  copy->SetPools(controller.pools().rows());
  const auto& nodes = controller.scheduler().nodes();
  for (NodeIndex node = 0; node < nodes.size(); ++node)
    copy->SetNode(node, nodes[node].attributes, nodes[node].capacity);
  auto next = static_cast<NodeIndex>(nodes.size());
  for (const Provider& provider : providers) {
    for (const NodeShape& shape : provider.shapes) {
      copy->SetNode(next, AttributesOf(provider, shape, "offer " + std::to_string(next)), CapacityOf(shape));
      ++next;
    }
  }
  return copy;
}

const core::ResourceRequest& RequestIn(const Scheduler& scheduler, JobId entry) {
  const core::ClusterState& state = scheduler.core().state();
  return state.requests[state.classes[state.waiting.at(entry).job_class].key.request];
}

/// Returns the first alternative of the request that fits on a shape; the first alternative if none fits on any.
const placement::Shape& ShapeFor(const core::TaskGroup& group, const growth::Catalogue& catalogue) {
  for (const placement::Shape& shape : group.alternatives) {
    for (const growth::Offer& offer : catalogue.offers()) {
      if (placement::Fits(offer.node, shape)) return shape;
    }
  }
  return group.alternatives.front();
}

/// The waiting jobs and arrays of one job class that could start on further nodes.
struct WaitingClass {
  std::vector<JobId> entries;  // In queue order, at most kJobsKept.
  std::uint32_t jobs = 0;
  Time since = kNever;
  int priority = 0;
};

/// Jobs of one class may have different wishes.
using ClassAndWishes = std::pair<core::ClassIndex, GrowthWishes>;

/// Prices that allow a request the same nodes, so that users cannot make a demand for each price.
class PriceSteps {
 public:
  explicit PriceSteps(const std::vector<Provider>& providers) {
    for (const Provider& provider : providers) {
      for (const NodeShape& shape : provider.shapes) prices_.push_back(shape.hourly);
    }
    std::ranges::sort(prices_);
  }
  /// For one node, the first price that was given with an equal effect on the class. The prices of a gang's nodes add
  /// up, so its price is rounded down to three digits: there are at most 900 of them between 10 and 100, for example.
  Money Representative(core::ClassIndex job_class, const core::ResourceRequest& request, Money price) {
    const auto above = std::ranges::upper_bound(prices_, price);
    const bool is_one_node = request.groups.size() == 1 && request.groups.front().least == 1;
    if (!is_one_node && above != prices_.begin()) {
      std::int64_t unit = 1;
      while (price.micros() / unit >= 1000) unit *= 10;
      return Money(price.micros() / unit * unit);
    }
    return first_.try_emplace({job_class, above - prices_.begin()}, price).first->second;
  }

 private:
  std::vector<Money> prices_;
  std::map<std::pair<core::ClassIndex, std::ptrdiff_t>, Money> first_;
};

std::map<ClassAndWishes, WaitingClass> WaitingClasses(const Controller& controller,
                                                      const std::vector<Provider>& providers,
                                                      const std::map<JobId, GrowthWishes>& wishes) {
  const GrowthWishes unknown{.may_grow = false};
  PriceSteps steps(providers);
  const Scheduler& scheduler = controller.scheduler();
  const core::ClusterState& state = scheduler.core().state();
  std::map<ClassAndWishes, WaitingClass> classes;
  for (const auto& [id, record] : controller.live()) {
    const auto waiting = state.waiting.find(id);
    if (waiting == state.waiting.end() || waiting->second.lane != core::Waiting::Lane::kReady) continue;
    const auto own = wishes.find(record.array.is_set() ? record.array : id);
    const core::ClassIndex job_class = waiting->second.job_class;
    GrowthWishes its = own == wishes.end() ? unknown : own->second;
    if (its.max_hourly)
      its.max_hourly =
          steps.Representative(job_class, state.requests[state.classes[job_class].key.request], *its.max_hourly);
    WaitingClass& known = classes[{job_class, std::move(its)}];
    known.jobs += waiting->second.count;
    known.since = std::min(known.since, record.waits_since);
    known.priority = std::max(known.priority, record.priority);
    if (known.entries.size() < kJobsKept) known.entries.push_back(id);
  }
  std::erase_if(classes, [&](const auto& entry) {
    const core::ClassKey& key = state.classes[entry.first.first].key;
    const std::int64_t parts = core::LeastGpuParts(state.requests[key.request]);
    return core::RefusedBy(state, key.caps, parts) || scheduler.IsBarredByTeam(entry.second.entries.front());
  });
  return classes;
}

std::vector<growth::Release> ReleasesOn(const core::ClusterState& state, NodeIndex node, Time now) {
  std::vector<growth::Release> releases;
  for (const core::RunningTask& task : state.nodes[node].placements) {
    const core::Run& run = state.running.at(task.job);
    if (run.expected == kNever) continue;
    releases.push_back({std::max(run.expected, now), task.shape, task.place});
  }
  std::ranges::stable_sort(releases, {}, &growth::Release::time);
  return releases;
}

WaitingEntry EntryOf(const Imagined& imagined, Time now) {
  WaitingEntry entry;
  entry.id = imagined.id;
  entry.request = imagined.spec->request;
  entry.priority = imagined.spec->priority;
  entry.queued_at = now;
  entry.time_limit = imagined.spec->time_limit;
  entry.pool = imagined.spec->pool;
  return entry;
}

growth::Demand DemandOf(const core::ResourceRequest& request, const growth::Catalogue& catalogue,
                        const GrowthWishes& wishes) {
  growth::Demand demand;
  for (const core::TaskGroup& group : request.groups)
    demand.tasks.push_back({ShapeFor(group, catalogue), group.least, group.anti_affinity});
  demand.may_grow = wishes.may_grow;
  demand.providers = wishes.providers;
  demand.max_hourly = wishes.max_hourly;
  return demand;
}

}  // namespace

std::shared_ptr<const Scheduler> OfferedNodes(const std::vector<Provider>& providers,
                                              const std::vector<PoolRow>& pools) {
  std::size_t shapes = 0;
  for (const Provider& provider : providers) shapes += provider.shapes.size();
  if (shapes == 0) return nullptr;
  const std::int64_t copies = std::max<std::int64_t>(2, kMostOffered / static_cast<std::int64_t>(shapes));
  auto offered = std::make_shared<Scheduler>();
  offered->SetPools(pools);
  NodeIndex next = kOwnNode + 1;
  for (const Provider& provider : providers) {
    if (!provider.is_enabled) continue;
    for (const NodeShape& shape : provider.shapes) {
      const std::int64_t count = CountWithin(provider.limits, shape, std::min<std::int64_t>(copies, 256));
      for (std::int64_t i = 0; i < count; ++i) {
        offered->SetNode(next, AttributesOf(provider, shape, provider.name + "-" + std::to_string(next)),
                         CapacityOf(shape));
        ++next;
      }
    }
  }
  return offered;
}

bool IsGpuOfModel(std::string_view configured, const GpuFacts& gpu) {
  if (MatchesGpuType(TermsOf(configured), gpu.model)) return true;
  const Bytes size = MemoryIn(std::string(configured));
  const std::size_t end = configured.find_last_of("-_ ");
  if (size == Bytes() || end == std::string_view::npos || MemoryIn(gpu.model) != Bytes()) return false;
  // Drivers keep some of the memory, and sizes are given in powers of ten or of two.
  const double part = static_cast<double>(gpu.memory_total.count()) / static_cast<double>(size.count());
  return part > 0.85 && part < 1.1 && MatchesGpuType(TermsOf(configured.substr(0, end)), gpu.model);
}

std::string ModelProblem(std::string_view configured, const GpuFacts& gpu) {
  const std::string shown(configured);
  if (!IsGpuOfModel(configured, gpu)) return "has GPUs of model " + gpu.model + ", not " + shown;
  if (MatchesGpuType(configured, gpu.model)) return "";
  return "has GPUs of model " + gpu.model + ", which --gpu-type " + shown +
         " does not match, so jobs with it never start there; write gpu_model = \"" + gpu.model +
         "\" or let jobs request a shorter name";
}

std::map<std::string, Provisioner::Spending> TeamSpending(const TeamRegistry& teams, const Provisioner& provisioner,
                                                          Time now) {
  std::map<std::string, Provisioner::Spending> spending;
  for (const auto& [name, row] : teams.teams()) {
    if (row.nodes_per_hour_milli || row.nodes_per_month_milli) spending[name];
  }
  for (const auto& [team, its] : provisioner.TeamSpending(now)) {
    if (teams.Find(team) == nullptr) spending[team] = its;
    for (const TeamRow* row : teams.PathOf(team)) {
      spending[row->name].hourly += its.hourly;
      spending[row->name].this_month += its.this_month;
    }
  }
  return spending;
}

std::optional<TeamMoney> TeamMoneyLeft(const TeamRegistry& teams,
                                       const std::map<std::string, Provisioner::Spending>& spending,
                                       std::string_view team) {
  std::optional<TeamMoney> least;
  for (const TeamRow* row : teams.PathOf(team)) {
    const auto limit = [&](Money left) {
      if (!least || left < least->left) least = {left, row->name};
    };
    const auto known = spending.find(row->name);
    const Provisioner::Spending its = known == spending.end() ? Provisioner::Spending() : known->second;
    if (row->nodes_per_hour_milli) limit(Money(*row->nodes_per_hour_milli * 1000) - its.hourly);
    if (!row->nodes_per_month_milli) continue;
    const double rest = (Money(*row->nodes_per_month_milli * 1000) - its.this_month).units();
    const double rate = rest / (ToSeconds(growth::GrowthRules().budget_reserve) / 3600);
    limit(Money(static_cast<std::int64_t>(rate * 1e6)) - its.hourly);
  }
  return least;
}

GrowthFeed CollectGrowth(const Controller& controller, const Provisioner& provisioner,
                         const std::map<std::string, NodeMemory>& memory, const std::map<JobId, Unused>& unused,
                         const std::map<JobId, GrowthWishes>& wishes, Time now,
                         const std::optional<Imagined>& imagined) {
  GrowthFeed feed;
  std::vector<Provider> providers = provisioner.providers();
  for (Provider& provider : providers) {
    const ProviderMode mode = provisioner.ModeOf(provider.name);
    provider.is_enabled = provider.is_enabled && mode == ProviderMode::kAsConfigured;
    const Provisioner::View view = provisioner.ViewOf(provider.name, now);
    feed.input.providers.push_back({view.down_until, view.spent_this_month});
  }
  const Scheduler& scheduler = controller.scheduler();
  const core::ClusterState& state = scheduler.core().state();
  const std::unique_ptr<Scheduler> copy = CopyWithOffers(controller, providers);
  const std::map<ClassAndWishes, WaitingClass> classes = WaitingClasses(controller, providers, wishes);
  // All requests first: each may split node classes.
  for (const auto& [index, waiting] : classes) {
    WaitingEntry entry = *scheduler.waiting(waiting.entries.front());
    entry.groups.clear();
    entry.team.clear();
    copy->Put(std::move(entry));
  }
  if (imagined) copy->Put(EntryOf(*imagined, now));
  auto next = static_cast<NodeIndex>(scheduler.nodes().size());
  const auto class_of = [&](const NodeShape&) { return copy->core().node(next++).node_class; };
  feed.catalogue = std::make_shared<const growth::Catalogue>(std::move(providers), class_of);
  feed.input.now = now;
  feed.input.catalogue = feed.catalogue.get();

  std::vector<const std::pair<const ClassAndWishes, WaitingClass>*> order;
  for (const auto& entry : classes) order.push_back(&entry);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return std::pair(-a->second.priority, a->second.since) < std::pair(-b->second.priority, b->second.since);
  });
  for (const auto* entry : order) {
    const WaitingClass& waiting = entry->second;
    const JobId first = waiting.entries.front();
    const JobRecord& record = *controller.Find(first);
    const core::ClassKey& key = state.classes[entry->first.first].key;
    growth::Demand demand = DemandOf(RequestIn(*copy, first), *feed.catalogue, entry->first.second);
    demand.jobs = waiting.jobs;
    demand.run_time = key.predicted;
    demand.time_limit = key.limit;
    demand.can_requeue = !record.is_run_once && !record.is_foreground;
    demand.team = record.team;
    demand.pool = record.pool;
    demand.waiting_since = waiting.since;
    for (const JobId job : waiting.entries) {
      if (const auto known = unused.find(job); known != unused.end())
        demand.not_before = std::max(demand.not_before, known->second.not_before);
      feed.demand_of.emplace(job, feed.input.demands.size());
    }
    feed.jobs.push_back(waiting.entries);
    feed.input.demands.push_back(std::move(demand));
  }
  if (imagined) {
    const JobSpec& spec = *imagined->spec;
    growth::Demand demand = DemandOf(RequestIn(*copy, imagined->id), *feed.catalogue, GrowthWishesIn(spec.labels));
    demand.jobs = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(imagined->elements, 1, kMostImagined));
    demand.time_limit = spec.time_limit;
    demand.can_requeue = !spec.is_run_once && !spec.is_foreground;
    demand.team = spec.team;
    demand.pool = spec.pool;
    demand.waiting_since = now;
    feed.jobs.emplace_back();
    feed.input.demands.push_back(std::move(demand));
  }
  const auto spending = TeamSpending(controller.teams(), provisioner, now);
  for (const growth::Demand& demand : feed.input.demands) {
    if (demand.team.empty() || feed.input.team_hourly.contains(demand.team)) continue;
    const auto money = TeamMoneyLeft(controller.teams(), spending, demand.team);
    if (!money) continue;
    feed.input.team_hourly.emplace(demand.team, money->left);
    feed.input.limiting_team.emplace(demand.team, money->team);
  }

  const auto add = [&feed](growth::OwnedNode node, std::string name) {
    node.id = feed.nodes.size();
    feed.nodes.push_back(std::move(name));
    feed.input.nodes.push_back(std::move(node));
  };
  const auto room_of = [&](NodeIndex node) {
    placement::NodeState room = state.nodes[node].state;
    room.model = static_cast<std::uint8_t>(copy->core().node(node).node_class);
    return room;
  };
  for (NodeIndex index = 0; index < scheduler.nodes().size(); ++index) {
    const std::string name = controller.NodeName(index);
    if (!scheduler.node(index).takes_work || (!name.empty() && provisioner.FindNode(name) != nullptr)) continue;
    growth::OwnedNode node;
    node.room = room_of(index);
    node.releases = ReleasesOn(state, index, now);
    node.was_used = true;
    add(std::move(node), name);
  }
  using ShapeName = std::pair<std::string_view, std::string_view>;  // Provider and shape, of the catalogue.
  std::map<ShapeName, growth::OfferIndex> offer_of;
  for (growth::OfferIndex i = 0; i < feed.catalogue->offers().size(); ++i)
    offer_of.emplace(ShapeName(feed.catalogue->provider_of(i).name, feed.catalogue->shape(i).name), i);
  for (const auto& [token, request] : provisioner.requests()) {
    growth::OwnedNode node;
    if (const auto offer = offer_of.find({request.provider, request.shape}); offer != offer_of.end())
      node.offer = offer->second;
    if (!node.offer) continue;  // The node's shape was removed from divvy.toml; only the provisioner counts it.
    node.room = feed.catalogue->offers()[*node.offer].node;
    node.created = request.requested;
    node.ready = std::max(provisioner.ExpectedReady(request), now);
    node.was_used = request.was_used;
    node.phase = growth::NodePhase::kReturning;
    const std::optional<NodeIndex> index = controller.IndexOf(request.node);
    if (request.state == NodeState::kRequested || request.state == NodeState::kBooting) {
      node.phase = growth::NodePhase::kComing;
    } else if (request.state == NodeState::kJoined && index && *index < scheduler.nodes().size() &&
               scheduler.node(*index).takes_work) {
      node.phase = growth::NodePhase::kReady;
      node.room = room_of(*index);
      node.releases = ReleasesOn(state, *index, now);
      if (const auto known = memory.find(request.node); known != memory.end())
        node.idle_since = known->second.idle_since;
    } else if (request.state == NodeState::kJoined && index && !controller.DisconnectReason(request.node).empty()) {
      // The node's agent is disconnected and will probably be back soon, so the node counts as one that is coming.
      node.phase = growth::NodePhase::kComing;
      for (const core::RunningTask& task : state.nodes[*index].placements)
        placement::Take(node.room, task.shape, task.place);
    } else if (request.state == NodeState::kJoined) {
      // The node takes no jobs, because of an administrator's command or a defect. It has no room, but can be returned.
      node.phase = growth::NodePhase::kReady;
      const auto node_class = node.room.model;
      node.room = placement::NodeState();
      node.room.model = node_class;
      if (const auto known = memory.find(request.node); known != memory.end())
        node.idle_since = known->second.idle_since;
    }
    add(std::move(node), request.node);
  }
  return feed;
}

}  // namespace divvy::providers
