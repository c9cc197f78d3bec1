#include "engine/core/earliest.h"

#include <algorithm>
#include <utility>

#include "engine/core/placing.h"

namespace divvy::core {
namespace {

/// A gang that keeps failing although there is room in sum is held back by holds or by how its tasks must lie; looking
/// at ever later moments seldom helps and costs a look at every node with room.
constexpr int kMostTries = 32;

struct End {
  Time at;
  JobId job;
};

// Known and predicted ends in order, overdue ones included, without copying those far ahead.
class Ends {
 public:
  Ends(const Cluster::State& state, Time now) : state_(state), now_(now), next_(state.ends.begin()) {
    for (; next_ != state.ends.end() && next_->first <= now; ++next_) {
      const Time at = EffectiveEnd(next_->second);
      if (at != kNever) overdue_.push_back({at, next_->second});
    }
    std::stable_sort(overdue_.begin(), overdue_.end(), [](const End& a, const End& b) { return a.at < b.at; });
  }

  std::optional<End> Next() {
    while (next_ != state_.ends.end() && EffectiveEnd(next_->second) == kNever) ++next_;
    const bool has_later = next_ != state_.ends.end();
    if (at_ < overdue_.size() && (!has_later || overdue_[at_].at <= next_->first)) return overdue_[at_++];
    if (!has_later) return std::nullopt;
    const End end{next_->first, next_->second};
    ++next_;
    return end;
  }

 private:
  Time EffectiveEnd(JobId id) const {
    const Run& run = state_.running.at(id);
    return EndOf(state_.rules, {id, Shape(), 0, run.started, run.end, run.predicted_end}, now_);
  }

  const Cluster::State& state_;
  Time now_;
  std::set<std::pair<Time, JobId>>::const_iterator next_;
  std::vector<End> overdue_;
  std::size_t at_ = 0;
};

// By time limits alone?
bool IsSure(const Cluster::State& state, const Promise& promise, Time now) {
  for (const Piece& piece : promise.pieces) {
    for (const RunPiece& other : state.nodes[piece.node].pieces) {
      const bool overlaps = (other.gpus & piece.gpus) != 0 || piece.gpus == 0;
      if (overlaps && other.end == kNever && EndOf(state.rules, other, now) <= promise.start) return false;
    }
  }
  return true;
}

class Search {
 public:
  Search(Cluster::State& state, ClassIndex job_class, JobId entry, Time now)
      : state_(state),
        key_(state.classes[job_class].key),
        ask_(state.asks[key_.ask]),
        now_(now),
        draw_(state.DrawOf(entry)) {}

  bool IsSingle() const { return LeastTasks(ask_) == 1 && ask_.groups.size() == 1; }

  std::optional<Promise> Single() {
    Ends ends(state_, now_);
    std::optional<End> end = ends.Next();
    std::vector<std::pair<Time, NodeIndex>> lifted = HoldEnds();
    std::size_t at = 0;
    std::vector<NodeIndex> scope;
    while (end || at < lifted.size()) {
      const Time moment = !end                  ? lifted[at].first
                          : at < lifted.size() ? std::min(end->at, lifted[at].first)
                                               : end->at;
      scope.clear();
      for (; at < lifted.size() && lifted[at].first == moment; ++at) scope.push_back(lifted[at].second);
      for (; end && end->at == moment; end = ends.Next()) {
        for (const Piece& piece : state_.running.at(end->job).pieces) {
          if (Suits(piece.node)) scope.push_back(piece.node);
        }
      }
      if (auto promise = At(moment, scope)) return promise;
    }
    return std::nullopt;
  }

  std::optional<Promise> Gang() {
    std::vector<int> room(state_.nodes.size());
    std::map<int, std::int64_t> sums;  // By model; of all under -1.
    const Shape& shape = ask_.groups.front().alternatives.front();
    const int tasks = ask_.groups.front().least;
    const auto count = [&](Placing& placing, NodeIndex node) {
      const int now_room = Suits(node) ? placing.Room(node, shape, tasks) : 0;
      sums[ask_.mixes_models || shape.gpus == 0 ? -1 : state_.nodes[node].facts.gpu_model] += now_room - room[node];
      room[node] = now_room;
    };
    {
      Placing placing(state_, now_, now_ + Duration(1));
      for (NodeIndex node = 0; node < state_.nodes.size(); ++node) count(placing, node);
    }
    int tries = 0;
    Ends ends(state_, now_);
    for (std::optional<End> end = ends.Next(); end;) {
      const Time moment = end->at;
      for (; end && end->at == moment; end = ends.Next()) {
        Placing placing(state_, now_, moment);
        for (const Piece& piece : state_.running.at(end->job).pieces) count(placing, piece.node);
      }
      if (std::none_of(sums.begin(), sums.end(), [&](const auto& sum) { return sum.second >= tasks; })) continue;
      if (auto promise = At(moment, Roomiest(room, tasks))) return promise;
      if (++tries == kMostTries) return std::nullopt;
    }
    return std::nullopt;
  }

  std::optional<Promise> At(Time moment, const std::vector<NodeIndex>& scope) {
    if (scope.empty()) return std::nullopt;
    Placing placing(state_, now_, moment);
    placing.SetDraw(draw_);
    std::vector<Piece> pieces = placing.Find(ask_, key_.limit, scope, false, key_.team, key_.user);
    if (pieces.empty()) return std::nullopt;
    Promise promise;
    promise.start = moment;
    promise.pieces = std::move(pieces);
    promise.is_sure = IsSure(state_, promise, now_);
    return promise;
  }

 private:
  bool Suits(NodeIndex index) const {
    const Node& node = state_.nodes[index];
    if (!node.accepts) return false;
    for (const TaskGroup& group : ask_.groups) {
      for (const Shape& shape : group.alternatives) {
        if (shape.gpus <= node.facts.gpus && ((shape.models >> node.facts.kind) & 1) != 0) return true;
      }
    }
    return false;
  }

  std::vector<std::pair<Time, NodeIndex>> HoldEnds() const {
    std::vector<std::pair<Time, NodeIndex>> found;
    for (const NodeIndex node : state_.held) {
      if (!Suits(node)) continue;
      for (const Hold& hold : state_.nodes[node].holds) {
        if (hold.until != kNever && hold.until > now_ && !hold.drains) found.emplace_back(hold.until, node);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  // Where the tasks must lie together all nodes with room count; else a few times as many as are needed.
  std::vector<NodeIndex> Roomiest(const std::vector<int>& room, int tasks) const {
    std::vector<NodeIndex> nodes;
    for (NodeIndex node = 0; node < room.size(); ++node) {
      if (room[node] > 0) nodes.push_back(node);
    }
    const auto most = static_cast<std::size_t>(std::max(4 * tasks, 64));
    if (ask_.together != Together::kAnywhere || ask_.groups.size() > 1 || nodes.size() <= most) return nodes;
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeIndex a, NodeIndex b) { return room[a] > room[b]; });
    nodes.resize(most);
    return nodes;
  }

  Cluster::State& state_;
  const ClassKey& key_;
  const Ask& ask_;
  Time now_;
  std::uint64_t draw_;
};

}  // namespace

std::optional<Promise> Earliest(Cluster::State& state, ClassIndex job_class, JobId entry, Time now, bool may_drain) {
  Search search(state, job_class, entry, now);
  std::optional<Promise> promise = search.IsSingle() ? search.Single() : search.Gang();
  if (!promise && may_drain) promise = DrainFor(state, state.asks[state.classes[job_class].key.ask]);
  if (promise) promise->entry = entry;
  return promise;
}

std::optional<Promise> EarlierOn(Cluster::State& state, ClassIndex job_class, JobId entry, Time now,
                                 const std::vector<NodeIndex>& nodes, Time before) {
  Search search(state, job_class, entry, now);
  std::vector<std::pair<Time, NodeIndex>> moments;
  for (const NodeIndex node : nodes) {
    for (const RunPiece& piece : state.nodes[node].pieces) {
      const Time end = EndOf(state.rules, piece, now);
      if (end < before) moments.emplace_back(end, node);
    }
  }
  std::sort(moments.begin(), moments.end());
  for (const auto& [moment, node] : moments) {
    std::optional<Promise> promise = search.At(moment, {node});
    if (!promise) continue;
    promise->entry = entry;
    return promise;
  }
  return std::nullopt;
}

bool CouldRun(const Cluster::State& state, const Ask& ask) {
  for (const TaskGroup& group : ask.groups) {
    int left = group.least;
    for (std::size_t i = 0; i < state.nodes.size() && left > 0; ++i) {
      const Node& node = state.nodes[i];
      if (!node.accepts) continue;
      NodeState idle =
          placement::MakeNode(node.facts.cpu_milli, node.facts.memory_mib, node.facts.gpus, node.facts.kind);
      placement::Block(idle, node.blocked);
      for (const Shape& shape : group.alternatives) {
        while (left > 0) {
          const std::optional<GpuMask> gpus = ChooseGpus(state, ask, shape, node, idle, 0);
          if (!gpus) break;
          placement::Take(idle, shape, *gpus);
          --left;
        }
      }
    }
    if (left > 0) return false;
  }
  return true;
}

}  // namespace divvy::core
