#include "engine/core/estimate_supply.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <unordered_map>

namespace divvy::core {
namespace {

constexpr std::size_t kMostWaitedFor = 16;

// The node without the piece; what is out of service stays so.
void Leave(const Node& node, const RunPiece& piece, NodeState& after) {
  const auto gpus = static_cast<GpuMask>(piece.gpus & ~node.blocked);
  if (gpus == piece.gpus) {
    placement::Release(after, piece.shape, gpus);
    return;
  }
  after.cpu_free += piece.shape.cpu_milli;
  after.memory_free += piece.shape.memory_mib;
  Shape rest = piece.shape;
  rest.gpus = static_cast<std::int16_t>(__builtin_popcount(gpus));
  rest.cpu_milli = rest.memory_mib = 0;
  if (rest.gpus > 0) placement::Release(after, rest, gpus);
}

void Note(std::vector<JobId>& jobs, JobId job) {
  if (jobs.size() < kMostWaitedFor && std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
}

}  // namespace

Time EndTimes::Of(JobId job, Time started, Time end, Time predicted_end) const {
  const Time soon = now_ + std::chrono::seconds(1);
  const Time limit = end == kNever ? kNever : std::max(end, soon);
  switch (outcome_) {
    case Outcome::kLatest: {
      if (limit != kNever) return limit;
      const std::optional<RunSpread> spread = Spread(job);
      const Time high = spread ? AddSaturating(started, spread->high) : kNever;
      return high > now_ ? high : kNever;  // It ran longer than that already: nobody knows.
    }
    case Outcome::kEarliest: {
      const std::optional<RunSpread> spread = Spread(job);
      return spread ? std::min(limit, std::max(AddSaturating(started, spread->low), soon)) : soon;
    }
    case Outcome::kTypical:
      break;
  }
  if (!rules_.uses_predictions || predicted_end == kNever) return limit;
  if (predicted_end > now_) return std::min(limit, predicted_end);
  return std::min(limit, now_ + std::max<Duration>(std::chrono::minutes(1), (now_ - started) / 10));
}

std::optional<Duration> EndTimes::Length(JobId entry, const ClassKey& key) const {
  const std::optional<Duration> limit = key.limit > Duration(0) ? std::optional(key.limit) : std::nullopt;
  const auto within = [&](Duration length) { return limit ? std::min(*limit, length) : length; };
  switch (outcome_) {
    case Outcome::kLatest:
      if (limit) return limit;
      if (const auto spread = Spread(entry)) return spread->high;
      return std::nullopt;
    case Outcome::kEarliest: {
      const auto spread = Spread(entry);
      return spread ? within(spread->low) : Duration(0);
    }
    case Outcome::kTypical:
      break;
  }
  if (rules_.uses_predictions && key.predicted > Duration(0)) return within(key.predicted);
  return limit;
}

Supply::Supply(const View& view, Outcome outcome, const SpreadOf* spread)
    : view_(view),
      state_(view.state()),
      ask_(view.seeker().ask),
      ends_(view.state().rules, view.now(), outcome, spread) {
  counts_gpus_ = WantsGpu(ask_);
  counts_cpus_ = ask_.groups.front().alternatives.front().cpu_milli > 0;
  for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
    const Node& node = state_.nodes[index];
    if (!Suits(node)) continue;
    nodes_.push_back(index);
    kinds_ |= placement::ModelSet{1} << node.facts.kind;
    free_units_ += counts_gpus_ ? node.state.gpu_free : counts_cpus_ ? node.state.cpu_free : node.state.memory_free;
    for (std::uint32_t i = 0; i < node.pieces.size(); ++i) {
      const std::int64_t units = UnitsOf(node.pieces[i].shape);
      const Time at = ends_.Of(node.pieces[i]);
      all_units_ += units;
      if (at == kNever) endless_units_ += units;
      else releases_.push_back({at, index, i});
    }
  }
  all_units_ += free_units_;
}

std::int64_t Supply::UnitsOf(const Shape& shape) const {
  return counts_gpus_ ? shape.gpu_milli() : counts_cpus_ ? shape.cpu_milli : shape.memory_mib;
}

std::int64_t Supply::UnitsOf(const Ask& ask) const {
  std::int64_t sum = 0;
  for (const TaskGroup& group : ask.groups) sum += group.least * UnitsOf(group.alternatives.front());
  return sum;
}

bool Supply::Suits(const Node& node) const {
  if (!node.accepts) return false;
  for (const TaskGroup& group : ask_.groups) {
    for (const Shape& shape : group.alternatives) {
      if (IsOfKind(node.facts, shape) && shape.gpus <= node.facts.gpus - __builtin_popcount(node.blocked) &&
          shape.cpu_milli <= node.facts.cpu_milli && shape.memory_mib <= node.facts.memory_mib) {
        return true;
      }
    }
  }
  return false;
}

bool Supply::Holds(const NodeState& state, const Node& node) const {
  static const SizeDemand kUsual = UsualSizeDemand();
  for (const Shape& shape : ask_.groups.front().alternatives) {
    if (!placement::Fits(state, shape)) continue;
    const GpuTopology* topology = node.facts.topology.get();
    if (topology == nullptr || !NeedsTopology(ask_, shape)) return true;
    if (topology->Pick(GpuSet::FromBits(WholeFreeOf(state)), shape.gpus, kUsual, ask_.topology)) return true;
  }
  return false;
}

Supply::Moment Supply::Fits() {
  std::priority_queue<Release, std::vector<Release>, std::greater<>> next(std::greater<>(), releases_);
  std::unordered_map<NodeIndex, NodeState> states;  // Of nodes that something has left; for look-up only.
  const bool is_single = IsSingle(ask_);
  const bool is_one_model = !ask_.mixes_models && counts_gpus_;
  const Together level = ask_.requires_together ? ask_.together : Together::kAnywhere;
  std::vector<std::map<std::pair<std::uint64_t, int>, std::int64_t>> sums(ask_.groups.size());
  const auto count = [&](NodeIndex index, const NodeState& state, int sign) {
    const NodeFacts& facts = state_.nodes[index].facts;
    const std::pair domain{DomainOf(facts, index, level), is_one_model ? facts.gpu_model : 0};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (const std::int64_t room = RoomOf(state, ask_.groups[i])) sums[i][domain] += sign * room;
    }
  };
  const auto has_room = [&](NodeIndex index) {
    const NodeFacts& facts = state_.nodes[index].facts;
    const std::pair domain{DomainOf(facts, index, level), is_one_model ? facts.gpu_model : 0};
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i][domain] < ask_.groups[i].least) return false;
    }
    return true;
  };
  for (const NodeIndex index : nodes_) {
    const Node& node = state_.nodes[index];
    if (!is_single) count(index, node.state, 1);
    if (is_single ? Holds(node.state, node) : has_room(index)) return {view_.now(), {}, 0, 0};
  }
  for (; !next.empty(); next.pop()) {
    const Release& release = next.top();
    const Node& node = state_.nodes[release.node];
    NodeState& state = states.try_emplace(release.node, node.state).first->second;
    if (!is_single) count(release.node, state, -1);
    Leave(node, node.pieces[release.piece], state);
    if (!is_single) count(release.node, state, 1);
    if (!(is_single ? Holds(state, node) : has_room(release.node))) continue;
    Moment moment{release.at, {}, 0, 0};
    for (const RunPiece& piece : node.pieces) {
      if (ends_.Of(piece) <= release.at && (!counts_gpus_ || piece.gpus != 0)) Note(moment.waits_for, piece.job);
    }
    return moment;
  }
  Moment never;
  for (const NodeIndex index : nodes_) {
    for (const RunPiece& piece : state_.nodes[index].pieces) {
      if (never.waits_for.size() < kMostWaitedFor && ends_.Of(piece) == kNever) Note(never.waits_for, piece.job);
    }
  }
  return never;
}

// What of such a job falls on the nodes in question, when it may run on others as well.
double Supply::ShareOf(const Ask& ask) const {
  if (!counts_gpus_) return 1;
  const placement::ModelSet models = ask.groups.front().alternatives.front().models;
  if ((models & ~kinds_) == 0) return (models & kinds_) != 0 ? 1 : 0;
  double here = 0;
  double there = 0;
  for (const Node& node : state_.nodes) {
    if (!node.accepts || ((models >> node.facts.kind) & 1) == 0) continue;
    (((kinds_ >> node.facts.kind) & 1) != 0 ? here : there) += node.facts.gpus;
  }
  return here == 0 ? 0 : here / (here + there);
}

std::vector<Supply::Chunk> Supply::Chunks() const {
  std::vector<Chunk> chunks;
  chunks.reserve(releases_.size() + 1);
  chunks.push_back({view_.now(), free_units_});
  for (const Release& release : releases_) {
    chunks.push_back({release.at, UnitsOf(state_.nodes[release.node].pieces[release.piece].shape)});
  }
  return chunks;
}

Supply::Moment Supply::Served(const Ahead& ahead) {
  std::vector<Ahead::Part> parts;
  std::uint64_t members = 0;
  for (const Ahead::Part& part : ahead.parts) {
    const JobClass& job_class = state_.classes[part.job_class];
    const Ask& ask = state_.asks[job_class.key.ask];
    if (job_class.wants_gpu != counts_gpus_ || IsBarred(state_, ask, job_class.key)) continue;
    if (job_class.checked_epoch == state_.usable_epoch && !job_class.could_run) continue;
    if (counts_gpus_ && (ask.groups.front().alternatives.front().models & kinds_) == 0) continue;
    parts.push_back(part);
    members += part.members;
  }
  if (members == 0) return {view_.now(), {}, 0, 0};
  return members <= kMostStepped ? Stepped(parts, members) : Summed(parts, members);
}

// Each takes what is free first, in the order of the line.
Supply::Moment Supply::Stepped(const std::vector<Ahead::Part>& parts, std::uint64_t members) {
  std::vector<Queued> queue;
  std::map<ClassIndex, std::pair<std::int64_t, std::optional<Duration>>> needs;
  for (const Ahead::Part& part : parts) {
    const JobClass& job_class = state_.classes[part.job_class];
    const Ask& ask = state_.asks[job_class.key.ask];
    const auto units = static_cast<std::int64_t>(static_cast<double>(UnitsOf(ask)) * ShareOf(ask));
    const Line& line = job_class.line;
    std::uint64_t left = part.members;
    for (Line::Position at = line.begin(); left > 0; at = line.Next(at)) {
      const Line::Stand& stand = line.At(at);
      const Key key = KeyOf(state_.rules, state_.teams, state_.StandingOf(part.job_class, stand.place), view_.now());
      const std::uint64_t count = std::min<std::uint64_t>(stand.count, left);
      queue.insert(queue.end(), count, Queued{key, part.job_class, stand.place.id});
      left -= count;
    }
    const JobId head = line.At(line.begin()).place.id;
    needs[part.job_class] = {units, ends_.Length(head, job_class.key)};
  }
  std::sort(queue.begin(), queue.end(), [](const Queued& a, const Queued& b) { return a.key < b.key; });

  std::priority_queue<Chunk, std::vector<Chunk>, std::greater<>> free(std::greater<>(), Chunks());
  std::int64_t left = all_units_ - endless_units_;
  Moment moment{view_.now(), {}, members, 0};
  const auto take = [&](std::int64_t units) {
    Time start = view_.now();
    while (units > 0 && !free.empty()) {
      Chunk chunk = free.top();
      free.pop();
      start = std::max(start, chunk.at);
      const std::int64_t taken = std::min(units, chunk.units);
      units -= taken;
      if (chunk.units > taken) free.push({chunk.at, chunk.units - taken});
    }
    return start;
  };
  for (const Queued& one : queue) {
    const auto& [units, length] = needs[one.job_class];
    if (units > left) {
      moment.endless += 1;  // It cannot be dated itself; whether others pass it is not known.
      continue;
    }
    const Time start = take(units);
    if (length) {
      free.push({AddSaturating(start, *length), units});
      continue;
    }
    left -= units;
    moment.endless += 1;
  }
  const std::int64_t own = UnitsOf(ask_);
  moment.at = own > left ? kNever : take(own);
  return moment;
}

// Too many to place: what they will use of GPUs and time is worked off by what is free.
Supply::Moment Supply::Summed(const std::vector<Ahead::Part>& parts, std::uint64_t members) {
  Moment moment{kNever, {}, members, 0};
  std::map<placement::ModelSet, double> shares;
  double work = 0;  // Unit-nanoseconds.
  double stuck = 0;
  const bool asks_all = parts.size() <= kMostAsked;
  const EndTimes unasked(state_.rules, view_.now(), Outcome::kTypical, nullptr);
  for (const Ahead::Part& part : parts) {
    const JobClass& job_class = state_.classes[part.job_class];
    const Ask& ask = state_.asks[job_class.key.ask];
    const auto [share, is_new] = shares.try_emplace(ask.groups.front().alternatives.front().models, 0);
    if (is_new) share->second = ShareOf(ask);
    const double units = static_cast<double>(UnitsOf(ask)) * share->second * static_cast<double>(part.members);
    const JobId head = job_class.line.At(job_class.line.begin()).place.id;
    const std::optional<Duration> length =
        asks_all ? ends_.Length(head, job_class.key) : unasked.Length(head, job_class.key);
    if (length) {
      work += units * static_cast<double>(length->count());
    } else {
      stuck += units;
      moment.endless += part.members;
    }
  }
  const std::map<Time, std::int64_t> freed = Rounded();
  auto next = freed.begin();
  double width = -stuck;  // What is free, but for what jobs without an end have taken by then.
  const double own = static_cast<double>(UnitsOf(ask_));
  Time at = view_.now();
  while (true) {
    for (; next != freed.end() && next->first <= at; ++next) width += static_cast<double>(next->second);
    const double until = next == freed.end() ? 9e18 : static_cast<double>((next->first - at).count());
    if (width >= own && width > 0 && work <= width * until) {
      moment.at = AddSaturating(at, Duration(static_cast<std::int64_t>(std::min(work / width, 9e18))));
      return moment;
    }
    if (next == freed.end()) return moment;
    work = std::max(work - std::max(width, 0.0) * until, 0.0);
    at = next->first;
  }
}

// By the second at first, and never coarser than a sixty-fourth of how far ahead it is.
std::map<Time, std::int64_t> Supply::Rounded() const {
  std::map<Time, std::int64_t> freed;
  std::vector<std::int64_t> buckets;
  freed[view_.now()] += free_units_;
  for (const Release& release : releases_) {
    const auto seconds = static_cast<std::uint64_t>((release.at - view_.now()) / std::chrono::seconds(1));
    const int shift = seconds < 64 ? 0 : 58 - __builtin_clzll(seconds);
    const auto bucket = static_cast<std::size_t>(static_cast<std::uint64_t>(shift) * 64 + (seconds >> shift));
    if (buckets.size() <= bucket) buckets.resize(bucket + 1);
    buckets[bucket] += UnitsOf(state_.nodes[release.node].pieces[release.piece].shape);
  }
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    if (buckets[bucket] == 0) continue;
    const std::size_t shift = bucket < 128 ? 0 : bucket / 64 - 1;
    const std::size_t seconds = ((bucket - shift * 64) + 1) << shift;
    freed[view_.now() + std::chrono::seconds(seconds)] += buckets[bucket];
  }
  return freed;
}

}  // namespace divvy::core
