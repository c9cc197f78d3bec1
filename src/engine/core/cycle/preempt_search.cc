#include "engine/core/cycle/preempt_search.h"

#include <algorithm>
#include <map>
#include <utility>

#include "engine/core/place/placer.h"

namespace divvy::core {
namespace {

constexpr std::int64_t kMostSaturation = 1'000'000;

Toll Sum(const Toll& a, const Toll& b) {
  Toll sum;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
  return sum;
}

}  // namespace

Search::Search(ClusterState& state, Time now, const Preemptor& preemptor, const std::set<JobId>& started)
    : state_(state),
      now_(now),
      preemptor_(preemptor),
      preemptor_class_(state.classes[preemptor.job_class]),
      request_(state.requests[preemptor_class_.key.request]),
      started_(started),
      policy_(state),
      statement_(state) {
  // Resources that running jobs were told to release count as free; for whom they will be used is known from the
  // reservations.
  for (const JobId id : state.leaving) {
    const Run& run = state.running.at(id);
    const std::vector<TaskPlacement>& gone = run.is_leaving ? run.placements : run.leaving;
    for (const TaskPlacement& placed : gone) statement_.Remove(id, placed, ShapeOf(state.request_of(run), placed));
  }
}

// Returns the job's time limit plus the grace period, because it starts only when the preempted jobs have left.
Length Search::LengthAfterGrace(const ClassKey& key) const {
  const auto after = [&](Duration length) { return length > Duration(0) ? length + state_.rules.grace : length; };
  const Length length = LengthOf(state_.rules, key);
  return {after(length.sure), after(length.likely)};
}

std::vector<TaskPlacement> Search::PlacePreemptor() {
  Placer placing(state_, now_, now_);
  const ClassKey& key = preemptor_class_.key;
  const Length length = LengthAfterGrace(key);
  if (node_) return placing.Find(request_, length, std::vector<NodeIndex>{*node_}, false, key.team, key.user);
  return placing.Find(request_, length, {}, true, key.team, key.user);
}

std::optional<Seizure> Search::Nothing() {
  if (state_.leaving.empty() || !policy_.FitsItsTeams(preemptor_.job_class, {})) return std::nullopt;
  Seizure seizure;
  seizure.place = PlacePreemptor();
  if (seizure.place.empty()) return std::nullopt;
  return seizure;
}

// --- Possible victims -----------------------------------------------------------------------------------------------

bool Search::MayBeTaken(PreemptMode mode, const Run& run) {
  const JobClass& job_class = state_.classes[run.job_class];
  if (job_class.is_firm() || run.is_leaving || !run.leaving.empty()) return false;
  switch (mode) {
    case PreemptMode::kMove:
      if (job_class.key.preemptible != Preemptible::kPause) return false;
      break;
    case PreemptMode::kReclaim:
      if (!policy_.IsReclaimable(preemptor_.job_class, job_class.key.team)) return false;
      break;
    case PreemptMode::kPreempt:
      if (job_class.key.team != preemptor_class_.key.team || run.priority >= preemptor_.place.priority) return false;
      break;
  }
  Time of_age = AddSaturating(run.started, state_.rules.min_runtime);
  // A job that this decision starts is not stopped in the same decision.
  if (started_.contains(run.id)) of_age = std::max(of_age, now_ + std::chrono::seconds(1));
  if (of_age > now_) {
    again_at_ = std::min(again_at_, of_age);
    return false;
  }
  return true;
}

Search::Victim Search::Describe(const Run& run) const {
  const JobClass& job_class = state_.classes[run.job_class];
  const ResourceRequest& request = state_.requests[job_class.key.request];
  Victim victim;
  victim.job = run.id;
  victim.run = &run;
  victim.team = job_class.key.team;
  victim.priority = run.priority;
  victim.can_move = job_class.key.preemptible == Preemptible::kPause;
  victim.parts = state_.PartsOf(run);
  victim.rank = RankOf(run);
  // Surplus placements are released in reverse order: the placement that was added last goes first.
  std::vector<int> spare(request.groups.size());
  for (const TaskPlacement& placed : run.placements) spare[placed.group] += 1;
  for (std::size_t group = 0; group < spare.size(); ++group) spare[group] -= request.groups[group].least;
  for (auto placed = run.placements.rbegin(); placed != run.placements.rend(); ++placed) {
    if (node_ && placed->node != *node_) continue;
    if (spare[placed->group] <= 0) continue;
    spare[placed->group] -= 1;
    victim.surplus.push_back(*placed);
    victim.surplus_parts.push_back(ShapeOf(request, *placed).gpu_parts());
  }
  Duration lost = now_ - run.started;
  if (victim.can_move) lost = std::min(lost, kPauseCost);
  const auto seconds = std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::seconds>(lost).count(), 0);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now_ - run.queued_at).count();
  if (mode_ == PreemptMode::kReclaim) {
    const std::int64_t saturation = policy_.Saturation(preemptor_.job_class, victim.team);
    victim.is_within = saturation <= 1000;
    victim.evenness = kMostSaturation - std::min(saturation, kMostSaturation);
  }
  victim.toll = {
      victim.is_within ? victim.parts : 0, seconds * victim.parts, 1, victim.parts, victim.evenness, victim.priority,
      std::max<std::int64_t>(age, 0)};
  return victim;
}

std::vector<Search::Victim> Search::Collect(PreemptMode mode) {
  std::vector<const Run*> runs;
  for (const auto& [id, run] : state_.running) {
    if (MayBeTaken(mode, run)) runs.push_back(&run);
  }
  std::sort(runs.begin(), runs.end(), [](const Run* a, const Run* b) { return RankOf(*a) < RankOf(*b); });
  std::vector<Victim> victims;
  victims.reserve(runs.size());
  for (const Run* run : runs) victims.push_back(Describe(*run));
  return victims;
}

std::vector<TaskPlacement> Search::PlacementsOf(const Choice& choice) const {
  const Victim& victim = victims_[choice.victim];
  if (IsAll(choice)) return victim.run->placements;
  return {victim.surplus.begin(), victim.surplus.begin() + static_cast<std::ptrdiff_t>(choice.level)};
}

Toll Search::TollOf(const Choice& choice) const {
  const Victim& victim = victims_[choice.victim];
  if (IsAll(choice)) return victim.toll;
  Toll toll{};
  for (std::size_t i = 0; i < choice.level; ++i) toll[3] += victim.surplus_parts[i];
  if (victim.is_within) toll[0] = toll[3];
  // Each task that is preempted counts in the cost, so that one without GPUs is not preempted needlessly.
  toll[3] += static_cast<std::int64_t>(choice.level);
  toll[4] = victim.evenness;
  return toll;
}

std::vector<Loss> Search::LossesOf(const std::vector<Choice>& set) const {
  std::vector<Loss> losses;
  for (const Choice& choice : set) {
    const Victim& victim = victims_[choice.victim];
    std::int64_t rest = victim.parts;
    const std::size_t surplus = std::min(choice.level, victim.surplus.size());
    for (std::size_t i = 0; i < surplus; ++i) {
      losses.push_back({victim.team, victim.surplus_parts[i], victim.priority});
      rest -= victim.surplus_parts[i];
    }
    if (IsAll(choice)) losses.push_back({victim.team, rest, victim.priority});
  }
  return losses;
}

bool Search::IsAllowed(const std::vector<Loss>& losses, bool is_empty) const {
  if (is_empty) return policy_.FitsItsTeams(preemptor_.job_class, {});
  switch (mode_) {
    case PreemptMode::kMove:
      return policy_.FitsItsTeams(preemptor_.job_class, {});
    case PreemptMode::kReclaim:
      return policy_.MayReclaim(preemptor_.job_class, losses);
    case PreemptMode::kPreempt:
      return policy_.MayPreempt(preemptor_.job_class, preemptor_.place.priority, losses);
  }
  return false;
}

// --- Search ---------------------------------------------------------------------------------------------------------

std::optional<Seizure> Search::Find(PreemptMode mode, bool moves_all) {
  mode_ = mode;
  moves_all_ = moves_all;
  best_.reset();
  steps_left_ = kMostSteps;
  node_.reset();
  std::vector<Victim> all = Collect(mode);
  if (moves_all) std::erase_if(all, [](const Victim& victim) { return !victim.can_move; });
  if (all.empty()) return std::nullopt;
  if (LeastTasks(request_) > 1 || request_.groups.size() > 1) {
    victims_ = std::move(all);
    SearchHere();
  } else {
    std::map<NodeIndex, std::vector<const Run*>> by_node;
    for (const Victim& victim : all) {
      for (const TaskPlacement& placed : victim.run->placements) {
        auto& runs = by_node[placed.node];
        if (runs.empty() || runs.back() != victim.run) runs.push_back(victim.run);
      }
    }
    // Searches the nodes first on which the preemptor lacks least, then those with the preferred one of equal victims.
    // A good first result makes the rest of the search short.
    std::vector<NodeIndex> nodes;
    for (const auto& [node, runs] : by_node) nodes.push_back(node);
    const auto order_of = [&](NodeIndex node) {
      return std::pair(-state_.nodes[node].state.gpu_free, RankOf(*by_node.at(node).front()));
    };
    std::stable_sort(nodes.begin(), nodes.end(), [&](NodeIndex a, NodeIndex b) { return order_of(a) < order_of(b); });
    for (const NodeIndex node : nodes) {
      if (steps_left_ <= 0) break;
      node_ = node;
      std::vector<Victim> here;
      for (const Run* run : by_node[node]) here.push_back(Describe(*run));
      victims_ = std::move(here);
      SearchHere();
    }
    node_.reset();
  }
  return std::move(best_);
}

void Search::SearchHere() {
  chosen_.clear();
  const std::size_t mark = statement_.mark();
  if (victims_.size() <= kExactVictims) {
    Descend(0, Toll{});
  } else {
    Greedy();
  }
  statement_.Rollback(mark);
}

void Search::RemoveChoice(const Choice& choice) {
  const Victim& victim = victims_[choice.victim];
  const ResourceRequest& request = state_.request_of(*victim.run);
  for (const TaskPlacement& placed : PlacementsOf(choice))
    statement_.Remove(victim.job, placed, ShapeOf(request, placed));
}

bool Search::CouldFit() const {
  if (!node_) return true;
  const std::vector<Shape>& shapes = request_.groups.front().alternatives;
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](const Shape& shape) { return placement::Fits(state_.nodes[*node_].state, shape); });
}

std::vector<Search::Rank> Search::RanksOf(const std::vector<Choice>& set) const {
  std::vector<Rank> ranks;
  for (const Choice& choice : set) ranks.push_back(victims_[choice.victim].rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool Search::IsBetter(const Toll& toll, const std::vector<Choice>& set) const {
  if (!best_ || toll < best_->toll) return true;
  return toll == best_->toll && RanksOf(set) < best_ranks_;
}

// Adds one victim after the other. A set that suffices is not extended, because that only costs more.
void Search::Descend(std::size_t first, const Toll& toll) {
  for (std::size_t i = first; i < victims_.size(); ++i) {
    const std::size_t levels = victims_[i].surplus.size() + 1;
    for (std::size_t level = 1; level <= levels; ++level) {
      const Choice choice{i, level};
      const Toll sum = Sum(toll, TollOf(choice));
      if (best_ && sum > best_->toll) continue;
      if (steps_left_ <= 0) return;
      chosen_.push_back(choice);
      if (IsBetter(sum, chosen_)) {
        steps_left_ -= 1;
        const std::size_t mark = statement_.mark();
        RemoveChoice(choice);
        if (!CouldFit() || !Accept(sum)) Descend(i + 1, sum);
        statement_.Rollback(mark);
      }
      chosen_.pop_back();
    }
  }
}

void Search::Greedy() {
  std::vector<std::size_t> order(victims_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return victims_[a].toll < victims_[b].toll; });
  if (order.size() > kMostVictims) order.resize(kMostVictims);
  const std::size_t mark = statement_.mark();
  const auto toll_of = [&](const std::vector<Choice>& set) {
    Toll toll{};
    for (const Choice& choice : set) toll = Sum(toll, TollOf(choice));
    return toll;
  };
  const auto fits = [&](const std::vector<Choice>& set) {
    statement_.Rollback(mark);
    chosen_ = set;
    for (const Choice& choice : set) RemoveChoice(choice);
    steps_left_ -= static_cast<int>(set.size());
    const Toll toll = toll_of(set);
    return IsBetter(toll, set) && CouldFit() && Accept(toll);
  };
  // First takes GPUs that elastic jobs can release, then whole jobs, each only if the rules allow it together with
  // those already chosen.
  std::vector<Choice> set;
  const auto grow = [&](const Choice& choice) {
    std::vector<Choice> more = set;
    std::erase_if(more, [&](const Choice& other) { return other.victim == choice.victim; });
    more.push_back(choice);
    if (mode_ == PreemptMode::kReclaim && !policy_.MayReclaim(preemptor_.job_class, LossesOf(more))) {
      // The rules may allow the set only when more victims are added. But each victim must be allowed by itself.
      std::vector<Choice> alone{choice};
      if (!policy_.MayReclaim(preemptor_.job_class, LossesOf(alone))) return false;
    }
    set = std::move(more);
    return steps_left_ > 0 && fits(set);
  };
  bool is_enough = false;
  for (const std::size_t i : order) {
    for (std::size_t level = 1; level <= victims_[i].surplus.size() && !is_enough; ++level)
      is_enough = grow({i, level});
  }
  for (std::size_t at = 0; at < order.size() && !is_enough; ++at) {
    is_enough = grow({order[at], victims_[order[at]].surplus.size() + 1});
  }
  if (is_enough) {
    std::vector<Choice> kept = set;
    std::stable_sort(set.begin(), set.end(), [&](const Choice& a, const Choice& b) { return TollOf(a) > TollOf(b); });
    for (const Choice& choice : set) {
      if (kept.size() == 1 || steps_left_ <= 0) break;
      std::vector<Choice> less = kept;
      std::erase_if(less, [&](const Choice& other) { return other.victim == choice.victim; });
      if (fits(less)) kept = std::move(less);
    }
  }
  statement_.Rollback(mark);
  chosen_.clear();
}

// --- A set of victims -----------------------------------------------------------------------------------------------

bool Search::Accept(const Toll& toll) {
  const std::vector<Loss> losses = LossesOf(chosen_);
  if (!IsAllowed(losses, false)) return false;
  Seizure seizure;
  seizure.toll = toll;
  seizure.place = PlacePreemptor();
  if (seizure.place.empty()) return false;
  const std::size_t mark = statement_.mark();
  for (const TaskPlacement& placed : seizure.place)
    statement_.Add(preemptor_.place.id, placed, ShapeOf(request_, placed));
  const bool is_placed = PlaceVictims(seizure);
  statement_.Rollback(mark);
  if (!is_placed) return false;
  best_ = std::move(seizure);
  best_ranks_ = RanksOf(chosen_);
  return true;
}

// Finds new places for the victims. A job that fits elsewhere is moved there, which is milder than stopping it.
bool Search::PlaceVictims(Seizure& seizure) {
  std::vector<Choice> order = chosen_;
  std::stable_sort(order.begin(), order.end(), [&](const Choice& a, const Choice& b) {
    return victims_[a.victim].parts > victims_[b.victim].parts;
  });
  bool is_any_moved = false;
  std::vector<Choice> taken;
  for (const Choice& choice : order) {
    const Victim& victim = victims_[choice.victim];
    const ClassKey& key = state_.classes[victim.run->job_class].key;
    const ResourceRequest& request = state_.requests[key.request];
    Seizure::Part part{victim.job, PlacementsOf(choice), {}, IsAll(choice)};
    if (victim.can_move) {
      Placer placing(state_, now_, now_);
      if (part.is_all) {
        // Tries to move the job with all its tasks; if they do not fit, with the minimum number of tasks.
        ResourceRequest whole = request;
        for (std::size_t group = 0; group < whole.groups.size(); ++group) {
          whole.groups[group].least = static_cast<std::int32_t>(std::count_if(
              part.from.begin(), part.from.end(), [&](const TaskPlacement& placed) { return placed.group == group; }));
        }
        part.to = placing.Find(whole, LengthAfterGrace(key), {}, true, key.team, key.user);
        if (part.to.empty() && !moves_all_ && IsElastic(request)) {
          part.to = placing.Find(request, LengthAfterGrace(key), {}, true, key.team, key.user);
        }
      } else if (part.from.size() == 1) {
        const auto to = placing.FindOne(request, part.from.front().group, *victim.run, {});
        if (to) part.to.push_back(*to);
      }
    }
    if (part.to.empty()) {
      if (moves_all_) return false;
      taken.push_back(choice);
    }
    for (const TaskPlacement& placed : part.to) statement_.Add(victim.job, placed, ShapeOf(request, placed));
    is_any_moved = is_any_moved || !part.to.empty();
    seizure.parts.push_back(std::move(part));
  }
  if (!is_any_moved) return true;
  // A job that is moved still uses its team's share, so it does not count as a loss of the team.
  if (IsAllowed(LossesOf(taken), taken.empty())) return true;
  if (moves_all_) return false;
  for (Seizure::Part& part : seizure.parts) part.to.clear();
  return true;
}

}  // namespace divvy::core
