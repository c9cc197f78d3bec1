#include "engine/core/estimate/estimate_supply.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

namespace divvy::core {
namespace {

constexpr std::size_t kMostWaitedFor = 16;
/// For long queues and for limits, the ends of all placements before a time are needed. With more placements, times are
/// rounded.
constexpr std::size_t kMostExact = 4'000;

void Note(std::vector<JobId>& jobs, JobId job) {
  if (jobs.size() < kMostWaitedFor && std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
}

}  // namespace

Supply::Supply(const JobPerspective& perspective, const Ahead& ahead, const SpreadOf* spread)
    : perspective_(perspective),
      state_(perspective.state()),
      request_(perspective.seeker().request),
      spread_(spread),
      limits_(perspective.state()) {
  if (TakesOneAlternative(request_)) {
    for (std::size_t i = 0; i < request_.groups.front().alternatives.size(); ++i)
      alike_.push_back(Narrowed(request_, i));
  }
  counts_gpus_ = WantsGpu(request_);
  counts_cpus_ = request_.groups.front().alternatives.front().cpu_milli > 0;
  const EndTimes earliest = ends(Outcome::kEarliest);
  const EndTimes typical = ends(Outcome::kTypical);
  const EndTimes latest = ends(Outcome::kLatest);
  units_.reserve(state_.running.size());
  for (std::vector<Time>& times : at_) times.reserve(state_.running.size());
  nodes_.reserve(state_.nodes.size());
  first_.reserve(state_.nodes.size() + 1);
  first_.push_back(0);
  for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
    const Node& node = state_.nodes[index];
    if (!Suits(node)) continue;
    nodes_.push_back(index);
    node_classes_ |= placement::ModelSet{1} << node.facts.node_class;
    Close(index);
    free_units_ += UnitsLeft(StateNow(nodes_.size() - 1));
    // Reading the placements of all nodes takes long, so those of later nodes are prefetched.
    if (index + 4 < state_.nodes.size()) __builtin_prefetch(state_.nodes[index + 4].placements.data());
    for (const RunningTask& placed : node.placements) {
      units_.push_back(static_cast<std::int32_t>(UnitsOf(placed.shape)));
      at_[static_cast<std::size_t>(Outcome::kTypical)].push_back(typical.Of(placed));
      at_[static_cast<std::size_t>(Outcome::kLatest)].push_back(latest.Of(placed));
      if (spread_ != nullptr) at_[static_cast<std::size_t>(Outcome::kEarliest)].push_back(earliest.Of(placed));
    }
    first_.push_back(units_.size());
  }
  GatherWork(ahead);
}

std::int64_t Supply::UnitsOf(const Shape& shape) const {
  return counts_gpus_ ? shape.gpu_parts() : counts_cpus_ ? shape.cpu_milli : shape.memory_mib;
}

std::int64_t Supply::UnitsOf(const ResourceRequest& request) const {
  std::int64_t sum = 0;
  for (const TaskGroup& group : request.groups) sum += group.least * UnitsOf(group.alternatives.front());
  return sum;
}

bool Supply::Suits(const Node& node) const {
  if (!node.accepts) return false;
  for (const TaskGroup& group : request_.groups) {
    for (const Shape& shape : group.alternatives) {
      if (IsAccepted(node.facts, shape) && shape.gpus <= node.facts.gpus - node.blocked.size() &&
          shape.cpu_milli <= node.facts.cpu_milli && shape.memory_mib <= node.facts.memory_mib) {
        return true;
      }
    }
  }
  return false;
}

bool Supply::Holds(const NodeState& state, const Node& node) const {
  static const SizeDemand kUsual = UsualSizeDemand();
  for (const Shape& shape : request_.groups.front().alternatives) {
    if (!FitsNode(node, state, shape)) continue;
    const GpuTopology* topology = node.facts.topology.get();
    if (topology == nullptr || !NeedsTopology(request_, shape)) return true;
    if (topology->Pick(WholeFreeOf(state), shape.gpus, kUsual, request_.topology)) return true;
  }
  return false;
}

template <typename Visit>
void Supply::ForEachState(Outcome outcome, std::size_t index, Time before, Visit visit) const {
  const Node& node = state_.nodes[nodes_[index]];
  std::vector<std::pair<Time, std::size_t>> gone;
  for (std::size_t i = first_[index]; i < first_[index + 1]; ++i) {
    if (at(outcome)[i] < before) gone.emplace_back(at(outcome)[i], i - first_[index]);
  }
  const auto closed = closed_.find(index);
  if (closed == closed_.end()) {
    std::sort(gone.begin(), gone.end());
    NodeState state = node.state;
    for (const auto& [time, placed] : gone) {
      ReleaseTask(node, node.placements[placed], state);
      if (visit(time, state)) return;
    }
    return;
  }
  std::set<Time> moments;
  for (const auto& [time, placed] : gone) moments.insert(time);
  for (const Closed::Stretch& stretch : closed->second.stretches) {
    if (stretch.until < before) moments.insert(stretch.until);
  }
  for (const Time moment : moments) {
    if (visit(moment, StateBy(outcome, index, moment))) return;
  }
}

template <typename Visit>
void Supply::ForEachFreed(Outcome outcome, Visit visit) const {
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    if (closed_.empty() || !closed_.contains(index)) {
      for (std::size_t i = first_[index]; i < first_[index + 1]; ++i) {
        if (at(outcome)[i] != kNever) visit(at(outcome)[i], std::int64_t{units_[i]});
      }
      continue;
    }
    std::int64_t before = UnitsLeft(StateNow(index));
    ForEachState(outcome, index, kNever, [&](Time time, const NodeState& state) {
      visit(time, UnitsLeft(state) - before);
      before = UnitsLeft(state);
      return false;
    });
  }
}

Supply::Moment Supply::Fits(Outcome outcome, Time soon) const {
  if (IsSingle(request_)) return FitsOne(outcome, soon);
  if (GangFitsBy(outcome, soon)) return {soon, {}, 0, 0};
  return FitsGang(outcome);
}

std::vector<JobId> Supply::GoneBy(Outcome outcome, std::size_t node, Time moment) const {
  std::vector<JobId> jobs;
  const std::vector<RunningTask>& placements = state_.nodes[nodes_[node]].placements;
  for (std::size_t i = 0; i < placements.size(); ++i) {
    if (at(outcome)[first_[node] + i] <= moment && (!counts_gpus_ || !placements[i].place.gpus.empty()))
      Note(jobs, placements[i].job);
  }
  return jobs;
}

// Returns when the node has room for the task; `before` if not by then.
Time Supply::FitsOnNode(Outcome outcome, std::size_t index, Time before) const {
  const Node& node = state_.nodes[nodes_[index]];
  // A quick check of the released amounts alone.
  std::int64_t units = UnitsLeft(node.state);
  for (std::size_t i = first_[index]; i < first_[index + 1]; ++i) units += at(outcome)[i] < before ? units_[i] : 0;
  const auto& alternatives = request_.groups.front().alternatives;
  const bool may_fit = std::any_of(alternatives.begin(), alternatives.end(),
                                   [&](const Shape& shape) { return units >= UnitsOf(shape); });
  if (!may_fit) return before;
  Time found = before;
  ForEachState(outcome, index, before, [&](Time time, const NodeState& state) {
    if (Holds(state, node)) found = time;
    return found != before;
  });
  return found;
}

Supply::Moment Supply::FitsOne(Outcome outcome, Time soon) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (Holds(StateNow(i), state_.nodes[nodes_[i]])) return {perspective_.now()};
  }
  Time best = kNever;
  std::size_t where = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Time time = FitsOnNode(outcome, i, best);
    if (time >= best) continue;
    best = time;
    where = i;
    if (best <= soon) break;
  }
  if (best == kNever) return Endless(outcome);
  return {best, GoneBy(outcome, where, best), 0, 0, EndsAdvanceReservation(where, best)};
}

Supply::Moment Supply::Endless(Outcome outcome) const {
  Moment never;
  for (std::size_t i = 0; i < nodes_.size() && never.waits_for.size() < kMostWaitedFor; ++i) {
    const std::vector<RunningTask>& placements = state_.nodes[nodes_[i]].placements;
    for (std::size_t k = 0; k < placements.size(); ++k) {
      if (at(outcome)[first_[i] + k] == kNever) Note(never.waits_for, placements[k].job);
    }
  }
  return never;
}

// Visits what the tasks of a gang may share, encoded as a number: the alternative that they agree on, and the model.
template <typename Visit>
void Supply::ForEachCommon(const NodeFacts& facts, Visit visit) const {
  const bool is_one_model = RunsOnOneModel(request_);
  for (std::size_t i = 0; i < std::max<std::size_t>(alike_.size(), 1); ++i) {
    ForEachModel(facts, is_one_model, [&](int model) {
      const auto only = is_one_model ? std::optional(model) : std::nullopt;
      visit(static_cast<int>(i << 16) | model, alike_.empty() ? request_ : alike_[i], only);
    });
  }
}

void Supply::AddSteps(Outcome outcome, std::uint32_t index, std::vector<Step>& steps) const {
  const Node& node = state_.nodes[nodes_[index]];
  ForEachCommon(node.facts, [&](int common, const ResourceRequest& request, std::optional<int> only) {
    std::vector<std::int64_t> room(request_.groups.size());
    const auto look = [&](Time time, const NodeState& state) {
      for (std::size_t group = 0; group < room.size(); ++group) {
        const std::int64_t more = RoomOn(node.facts, state, request.groups[group], only) - room[group];
        if (more == 0) continue;
        room[group] += more;
        steps.push_back({time, index, group, common, more});
      }
      return false;
    };
    look(perspective_.now(), StateNow(index));
    ForEachState(outcome, index, kNever, look);
  });
}

// Returns true if all tasks of the job fit at this time. Visits every node once.
bool Supply::GangFitsBy(Outcome outcome, Time moment) const {
  const Locality level = WidestOf(request_);
  std::map<std::pair<std::uint64_t, int>, std::vector<std::int64_t>> sums;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = state_.nodes[nodes_[i]];
    const NodeState state = StateBy(outcome, i, moment);
    bool fits = false;
    ForEachCommon(node.facts, [&](int common, const ResourceRequest& request, std::optional<int> only) {
      std::vector<std::int64_t>& sum = sums[{DomainOf(node.facts, nodes_[i], level), common}];
      sum.resize(request_.groups.size());
      bool is_enough = true;
      for (std::size_t group = 0; group < sum.size(); ++group) {
        sum[group] += RoomOn(node.facts, state, request.groups[group], only);
        is_enough &= sum[group] >= LeastWithLarger(request_, group);
      }
      fits |= is_enough;
    });
    if (fits) return true;
  }
  return false;
}

// The time from which some domain (rack, model) has enough room in total for every group.
Supply::Moment Supply::FitsGang(Outcome outcome) const {
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) AddSteps(outcome, i, steps);
  std::priority_queue<Step, std::vector<Step>, std::greater<>> next(std::greater<>(), std::move(steps));
  const Locality level = WidestOf(request_);
  std::map<std::pair<std::uint64_t, int>, std::vector<std::int64_t>> sums;
  for (; !next.empty(); next.pop()) {
    const Step& step = next.top();
    const NodeIndex index = nodes_[step.node];
    const NodeFacts& facts = state_.nodes[index].facts;
    std::vector<std::int64_t>& sum = sums[{DomainOf(facts, index, level), step.common}];
    sum.resize(request_.groups.size());
    sum[step.group] += step.more;
    bool is_enough = true;
    for (std::size_t group = 0; group < sum.size(); ++group)
      is_enough &= sum[group] >= LeastWithLarger(request_, group);
    if (!is_enough) continue;
    if (step.at <= perspective_.now()) return {perspective_.now()};
    return {step.at, GoneBy(outcome, step.node, step.at), 0, 0, EndsAdvanceReservation(step.node, step.at)};
  }
  return Endless(outcome);
}

// Returns which fraction of the demand of jobs that accept these models falls on the nodes in question, if they may
// also run on others.
double Supply::ShareOf(placement::ModelSet models) const {
  if ((models & ~node_classes_) == 0) return (models & node_classes_) != 0 ? 1 : 0;
  double here = 0;
  double there = 0;
  for (const Node& node : state_.nodes) {
    if (!node.accepts || ((models >> node.facts.node_class) & 1) == 0) continue;
    (((node_classes_ >> node.facts.node_class) & 1) != 0 ? here : there) += node.facts.gpus;
  }
  return here == 0 ? 0 : here / (here + there);
}

std::vector<Stock::Chunk> Supply::Chunks(Outcome outcome) const {
  std::vector<Stock::Chunk> chunks;
  chunks.reserve(units_.size() + 1);
  chunks.push_back({perspective_.now(), free_units_});
  ForEachFreed(outcome, [&](Time at, std::int64_t units) { chunks.push_back({at, units}); });
  return chunks;
}

void Supply::GatherWork(const Ahead& ahead) {
  std::map<placement::ModelSet, double> shares;
  const bool asks_spread = spread_ != nullptr && ahead.parts.size() <= kMostAsked;
  const ClassKey& own = perspective_.seeker().key;
  for (const Ahead::Part& part : ahead.parts) {
    const JobClass& job_class = state_.classes[part.job_class];
    limits_.Expect(job_class.key, job_class.least_parts, part.members);
  }
  limits_.Expect(own, LeastGpuParts(request_), 1);
  own_uses_ = limits_.UsesOf(own, LeastGpuParts(request_));
  for (const Ahead::Part& part : ahead.parts) {
    const QueueHead& front = state_.queue_heads[part.job_class];
    const JobClass& job_class = state_.classes[part.job_class];
    const ResourceRequest& request = state_.requests[job_class.key.request];
    const bool goes_here =
        front.wants_gpu == counts_gpus_ && (!counts_gpus_ || (front.shape.models & node_classes_) != 0);
    if (!goes_here && own_uses_.empty()) continue;
    if (job_class.checked_epoch == state_.usable_epoch && !job_class.could_run) continue;
    Work work{part.job_class, part.members, 0, {}, 0, 0, limits_.UsesOf(job_class.key, job_class.least_parts)};
    const bool is_alike = Share(work.uses, own_uses_);
    if (!goes_here && !is_alike) continue;
    if (goes_here) work.units = counts_gpus_ ? job_class.least_parts : UnitsOf(request);
    if (goes_here && counts_gpus_) {
      const auto [share, is_new] = shares.try_emplace(front.shape.models, 0);
      if (is_new) share->second = ShareOf(front.shape.models);
      work.units = static_cast<std::int64_t>(static_cast<double>(work.units) * share->second);
    }
    may_be_passed_ |= work.units > 0 && !work.uses.empty() && IsBarred(state_, request, job_class.key) &&
                      WhyNeverAllowed(state_, job_class.key, job_class.least_parts) == nullptr;
    work.is_bound_apart = std::any_of(work.uses.begin(), work.uses.end(), [&](const Limits::Use& use) {
      return !Share({&use, 1}, own_uses_);
    });
    for (const ReservationSlot& slot : state_.reservations) {
      work.reserved_starts += slot.job_class == part.job_class && perspective_.IsBefore(slot) ? 1 : 0;
    }
    const JobId head = asks_spread ? job_class.queue.At(job_class.queue.begin()).place.id : JobId();
    for (const Outcome outcome : {Outcome::kEarliest, Outcome::kTypical, Outcome::kLatest}) {
      const EndTimes ends(state_.rules, perspective_.now(), outcome, asks_spread ? spread_ : nullptr);
      work.length[static_cast<std::size_t>(outcome)] = ends.Length(head, job_class.key);
    }
    members_ += part.members;
    ahead_here_ += goes_here ? part.members : 0;
    ahead_alike_ += is_alike ? part.members : 0;
    works_.push_back(std::move(work));
  }
  limits_.FindHolders();
  GatherFirst();
}

// Collects the first members of all classes in queue order, as many as are placed one by one.
void Supply::GatherFirst() {
  std::vector<Head> heads;
  const auto queue = [&](std::size_t work) -> const ClassQueue& {
    return state_.classes[works_[work].job_class].queue;
  };
  const auto key = [&](std::size_t work, ClassQueue::Position at) {
    return state_.KeyAt(works_[work].job_class, queue(work).At(at).place, perspective_.now());
  };
  for (std::size_t i = 0; i < works_.size(); ++i) {
    const ClassQueue::Position at = queue(i).begin();
    heads.push_back({key(i, at), i, at, works_[i].members});
  }
  std::priority_queue<Head, std::vector<Head>, std::greater<>> next(std::greater<>(), std::move(heads));
  while (!next.empty() && stepped_.size() < kMostStepped) {
    Head head = next.top();
    next.pop();
    const std::uint64_t most = std::min<std::uint64_t>(head.left, kMostStepped - stepped_.size());
    const std::uint64_t count = std::min<std::uint64_t>(queue(head.work).At(head.at).count, most);
    stepped_.insert(stepped_.end(), count, static_cast<std::uint32_t>(head.work));
    works_[head.work].stepped += count;
    if (count == head.left || stepped_.size() == kMostStepped) continue;
    head.left -= count;
    head.at = queue(head.work).Next(head.at);
    head.key = key(head.work, head.at);
    next.push(std::move(head));
  }
}

Supply::Turn Supply::Served(Outcome outcome) const {
  Turn turn{{perspective_.now(), {}, ahead_here_}, {perspective_.now(), {}, ahead_alike_}};
  if (members_ == 0 && own_uses_.empty()) return turn;
  const bool is_whole = members_ == stepped_.size();
  const bool is_exact = units_.size() <= kMostExact || (is_whole && limits_.size() == 0);
  Stock free(is_exact ? Chunks(outcome) : Rounded(outcome));
  std::vector<Stock> limits = limits_.Stocks(ends(outcome), perspective_.now());
  turn.supply.endless = Serve(outcome, free, limits);
  for (const Limits::Use& use : own_uses_) {
    Stock& limit = limits[use.limit];
    const auto amount_of = [&](const Work& work) {
      const auto its = std::ranges::find(work.uses, use.limit, &Limits::Use::limit);
      return its == work.uses.end() ? 0 : its->amount;
    };
    const Time at = is_whole ? limit.From(use.amount) : Summed(outcome, std::move(limit), use.amount, amount_of);
    if (at <= turn.limits.at) continue;
    turn.limits.at = at;
    turn.limits.limit = limits_.NameOf(use.limit);
  }
  if (ahead_here_ == 0) return turn;
  const std::int64_t own = UnitsOf(request_);
  turn.supply.at =
      std::max(perspective_.now(), is_whole ? free.From(own) : Summed(outcome, std::move(free), own, &Work::units));
  if (is_whole) return turn;
  for (const Work& work : works_) {
    if (!work.length[static_cast<std::size_t>(outcome)]) turn.supply.endless += work.members - work.stepped;
  }
  return turn;
}

// Simulates that each job ahead, in queue order, takes what becomes free first. Returns how many of them have no known
// start or end.
std::uint64_t Supply::Serve(Outcome outcome, Stock& free, std::vector<Stock>& limits) const {
  std::uint64_t endless = 0;
  for (const std::uint32_t at : stepped_) endless += Takes(works_[at], outcome, free, limits) ? 0 : 1;
  return endless;
}

// Simulates the start and end of one job ahead. Returns false if its start or end is unknown.
bool Supply::Takes(const Work& work, Outcome outcome, Stock& free, std::vector<Stock>& limits) const {
  Time allowed = perspective_.now();
  for (const Limits::Use& use : work.uses) allowed = std::max(allowed, limits[use.limit].From(use.amount));
  if (allowed == kNever) return false;  // A job that its limits never allow delays no other.
  const Time fits = work.units > 0 ? free.From(work.units) : allowed;
  const Time start = std::max(allowed, fits);
  // If the job's start is unknown, other jobs may start before it, so it takes nothing; unless limits are reserved for
  // it.
  if (start == kNever && work.reserved_starts == 0) return false;
  for (const Limits::Use& use : work.uses) limits[use.limit].TakeLast(use.amount, start);
  if (start == kNever) return false;
  if (fits >= allowed) free.TakeFirst(work.units);
  else free.TakeLast(work.units, start);
  const std::optional<Duration>& length = work.length[static_cast<std::size_t>(outcome)];
  if (!length) return false;
  const Time end = AddSaturating(start, *length);
  for (const Limits::Use& use : work.uses) limits[use.limit].GiveBack(end, use.amount);
  if (work.units > 0) free.GiveBack(end, work.units);
  return true;
}

// The other jobs ahead are too many to simulate one by one. Returns when the resources that become free will have
// sufficed for their total use (amount x time).
template <typename AmountOf>
Time Supply::Summed(Outcome outcome, Stock stock, std::int64_t own_amount, AmountOf amount_of) const {
  double work = 0;  // Unit-nanoseconds.
  double stuck = 0;
  for (const Work& one : works_) {
    if (one.is_bound_apart) continue;
    const auto members = static_cast<double>(one.members - one.stepped);
    const double units = static_cast<double>(std::invoke(amount_of, one)) * members;
    const std::optional<Duration>& length = one.length[static_cast<std::size_t>(outcome)];
    if (length) work += units * static_cast<double>(length->count());
    else stuck += units;
  }
  const auto own = static_cast<double>(own_amount);
  if (stuck + own > static_cast<double>(stock.left())) return kNever;
  double width = -stuck;  // The free amount, minus what jobs without an end have taken by then.
  Time at = perspective_.now();
  while (true) {
    std::optional<Stock::Chunk> first = stock.First();
    for (; first && first->at <= at; first = stock.First()) {
      width += static_cast<double>(first->amount);
      stock.DropFirst();
    }
    const double until = first ? static_cast<double>((first->at - at).count()) : 9e18;
    if (width >= own && width > 0 && work <= width * until) {
      return AddSaturating(at, Duration(static_cast<std::int64_t>(std::min(work / width, 9e18))));
    }
    if (!first) return kNever;
    work = std::max(work - std::max(width, 0.0) * until, 0.0);
    at = first->at;
  }
}

// Rounds to seconds at first, and never coarser than 1/64 of the distance from now.
std::vector<Stock::Chunk> Supply::Rounded(Outcome outcome) const {
  std::vector<Stock::Chunk> freed = {{perspective_.now(), free_units_}};
  std::vector<std::int64_t> buckets;
  ForEachFreed(outcome, [&](Time at, std::int64_t units) {
    const auto seconds = static_cast<std::uint64_t>((at - perspective_.now()) / std::chrono::seconds(1));
    const int shift = seconds < 128 ? 0 : 57 - __builtin_clzll(seconds);
    const auto bucket = static_cast<std::size_t>(static_cast<std::uint64_t>(shift) * 64 + (seconds >> shift));
    if (buckets.size() <= bucket) buckets.resize(bucket + 1);
    buckets[bucket] += units;
  });
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    if (buckets[bucket] == 0) continue;
    const std::size_t shift = bucket < 128 ? 0 : bucket / 64 - 1;
    const std::size_t seconds = ((bucket - shift * 64) + 1) << shift;
    freed.push_back({perspective_.now() + std::chrono::seconds(seconds), buckets[bucket]});
  }
  return freed;
}

}  // namespace divvy::core
