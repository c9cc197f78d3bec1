#include "engine/time_sharing/time_sharing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace divvy::time_sharing {
namespace {

constexpr double kNotPossible = std::numeric_limits<double>::infinity();
/// Weights of victims for each GPU. A job on trial is a victim only for an elder that has run out of patience.
constexpr double kUnsettledWeight = 5;
constexpr double kOnTrialWeight = 50;
/// An idle GPU weighs more than any choice of victims.
constexpr double kIdleWeight = 1000;

struct Node {
  int gpus = 0;
  int room = 0;  // GPUs of jobs that may still come to this node, running or parked.
  int free = 0;
  int vacated = 0;       // Free GPUs from which a job is being copied.
  int settled = 0;       // GPUs of settled jobs, running and parked.
  int parked = 0;        // GPUs of parked jobs.
  bool is_held = false;  // For an impatient job: no younger job comes.
  std::vector<std::size_t> running;
};

struct Victims {
  std::vector<std::size_t> jobs;
  int gpus = 0;
  double weight = kNotPossible;

  bool is_possible() const { return weight != kNotPossible; }
};

class Deciding {
 public:
  Deciding(const World& world, Time now, const Options& options)
      : options_(options), now_(now), gang_nodes_(world.gang_nodes), jobs_(world.jobs), is_moved_(jobs_.size()) {
    for (const NodeView& view : world.nodes) {
      nodes_.push_back({.gpus = view.gpus, .room = view.gpus + view.parkable_gpus, .free = view.gpus});
      largest_ = std::max(largest_, view.gpus);
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      for (const NodeGpus& part : jobs_[i].place) Hold(i, part, 1);
    }
  }

  Plan Run() {
    ReturnWhatIsDue();
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (IsOnTrialWithoutGpus(jobs_[i])) GiveTrial(i);
    }
    ReturnToFreeGpus();
    SettleByPatience();
    SettleByTurn();
    PlanWakeup();
    return std::move(plan_);
  }

 private:
  // --- Facts

  static bool IsGang(const JobView& job) { return job.place.size() > 1; }
  bool IsOnTrial(const JobView& job) const { return !job.is_settled && job.ran * job.gpus < options_.trial; }
  bool IsOnTrialWithoutGpus(const JobView& job) const {
    return job.phase == Phase::kWaiting || (job.phase == Phase::kParked && IsOnTrial(job));
  }
  bool IsImpatient(const JobView& job) const {
    return job.phase == Phase::kWaiting && now_ - job.queued_at >= options_.start_patience;
  }
  /// The time that a displaced job loses in addition to the trial.
  Duration Copies() const { return options_.park + 2 * options_.wake; }
  Duration Left(const JobView& job) const { return BudgetLeft(job, options_); }
  /// Younger than an impatient job that still waits.
  bool IsHeldBack(std::size_t job) const { return job > eldest_impatient_; }

  /// Whether the newcomer may displace the running job. `newcomer` indexes the queue, so a larger index is younger.
  bool MayDisplace(std::size_t newcomer, std::size_t victim) const {
    const JobView& job = jobs_[victim];
    if (!job.can_park || is_moved_[victim] || now_ < job.since) return false;
    if (!job.is_settled && victim > newcomer && IsImpatient(jobs_[newcomer])) return true;
    if (now_ < job.since + options_.min_run) return false;
    if (job.is_settled) return jobs_[newcomer].can_park && Left(job) >= Copies() + options_.min_displacement;
    return !IsOnTrial(job);
  }

  /// The running jobs of a node that free at least `needed` GPUs: as few as possible, then of the least weight.
  Victims VictimsOn(const Node& node, std::size_t newcomer, int needed) const {
    if (needed <= 0) return {{}, 0, 0};
    std::vector<Victims> best(static_cast<std::size_t>(node.gpus) + 1);  // By the GPUs that they free.
    best[0].weight = 0;
    for (const std::size_t job : node.running) {
      if (!MayDisplace(newcomer, job)) continue;
      const double weight = WeightOf(jobs_[job], options_);
      for (int gpus = node.gpus; gpus >= jobs_[job].gpus; --gpus) {
        const Victims& fewer = best[static_cast<std::size_t>(gpus - jobs_[job].gpus)];
        Victims& here = best[static_cast<std::size_t>(gpus)];
        if (!fewer.is_possible() || fewer.weight + weight >= here.weight) continue;
        here = fewer;
        here.jobs.push_back(job);
        here.gpus = gpus;
        here.weight += weight;
      }
    }
    const auto enough =
        std::find_if(best.begin() + needed, best.end(), [](const Victims& victims) { return victims.is_possible(); });
    return enough == best.end() ? Victims() : *enough;
  }

  // --- Changes

  /// `sign` 1: the job comes to the node in its present phase. -1: it leaves.
  void Hold(std::size_t job, NodeGpus part, int sign) {
    Node& node = nodes_[part.node];
    node.room -= sign * part.gpus;
    if (jobs_[job].is_settled) node.settled += sign * part.gpus;
    if (jobs_[job].phase == Phase::kParked) {
      node.parked += sign * part.gpus;
      return;
    }
    node.free -= sign * part.gpus;
    if (sign > 0) node.running.push_back(job);
    else std::erase(node.running, job);
  }

  void Park(std::size_t victim, JobId newcomer, Reason reason) {
    JobView& job = jobs_[victim];
    const NodeGpus part = job.place.front();
    Hold(victim, part, -1);
    job.phase = Phase::kParked;
    job.since = now_;
    Hold(victim, part, 1);
    nodes_[part.node].vacated += part.gpus;
    is_moved_[victim] = true;
    plan_.actions.push_back({ActionKind::kPark, job.id, job.place, {}, reason, newcomer});
  }

  /// Starts the job, or lets it return. Its GPUs are free, or are being vacated.
  void Run(std::size_t index, std::vector<NodeGpus> place, Reason reason) {
    JobView& job = jobs_[index];
    const bool returns = job.phase == Phase::kParked;
    if (returns) Hold(index, place.front(), -1);
    job.phase = Phase::kRunning;
    job.is_settled = job.is_settled || !job.can_park;
    job.place = std::move(place);
    Duration delay = returns ? options_.wake : Duration(0);
    bool waits = false;
    for (const NodeGpus& part : job.place) {
      Hold(index, part, 1);
      Node& node = nodes_[part.node];
      // GPUs that are idle already are taken first.
      waits = waits || node.free < node.vacated;
      node.vacated = std::min(node.vacated, node.free);
    }
    if (waits) delay += options_.park;
    job.since = now_ + delay;
    is_moved_[index] = true;
    plan_.actions.push_back({returns ? ActionKind::kReturn : ActionKind::kStart, job.id, job.place, delay, reason, {}});
  }

  void Displace(std::size_t newcomer, const Victims& victims) {
    for (const std::size_t victim : victims.jobs) Park(victim, jobs_[newcomer].id, Reason::kTrial);
  }

  // --- Returns

  /// Jobs whose budget is used up take their GPUs back from jobs that have not settled.
  void ReturnWhatIsDue() {
    std::vector<std::size_t> due;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const JobView& job = jobs_[i];
      if (job.phase == Phase::kParked && job.is_settled && Left(job) <= options_.park + options_.wake) due.push_back(i);
    }
    std::ranges::stable_sort(due, {}, [&](std::size_t i) { return Left(jobs_[i]); });
    for (const std::size_t i : due) {
      Vacate(jobs_[i].place.front().node, jobs_[i].gpus, jobs_[i].id);
      Run(i, jobs_[i].place, Reason::kContract);
    }
  }

  /// Parks jobs that have not settled until the node has enough free GPUs: those whose trial is over first, then the
  /// youngest.
  void Vacate(std::uint32_t at, int gpus, JobId owner) {
    Node& node = nodes_[at];
    std::vector<std::size_t> guests;
    for (const std::size_t job : node.running) {
      if (!jobs_[job].is_settled) guests.push_back(job);
    }
    std::ranges::sort(guests, {},
                      [&](std::size_t job) { return std::pair(IsOnTrial(jobs_[job]), jobs_.size() - job); });
    int found = node.free;
    std::size_t count = 0;
    while (found < gpus) {
      DIVVY_ASSERT(count < guests.size());  // Settled jobs have room beside each other.
      found += jobs_[guests[count++]].gpus;
    }
    guests.resize(count);
    for (const std::size_t guest : guests) {
      if (found - jobs_[guest].gpus < gpus) Park(guest, owner, Reason::kContract);
      else found -= jobs_[guest].gpus;
    }
  }

  /// Settled jobs first, those with the least budget left before others; then in queue order.
  void ReturnToFreeGpus() {
    std::vector<std::size_t> parked;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].phase == Phase::kParked && !is_moved_[i]) parked.push_back(i);
    }
    std::ranges::stable_sort(parked, {}, [&](std::size_t i) {
      return std::pair(!jobs_[i].is_settled, jobs_[i].is_settled ? Left(jobs_[i]) : Duration(0));
    });
    for (const std::size_t i : parked) {
      if (nodes_[jobs_[i].place.front().node].free >= jobs_[i].gpus) Run(i, jobs_[i].place, Reason::kFreeGpus);
    }
  }

  // --- Trials

  void GiveTrial(std::size_t index) {
    const JobView& job = jobs_[index];
    const bool is_waiting = job.phase == Phase::kWaiting;
    // If an older job with the same needs found no place, this one finds none either.
    const auto shape = std::tuple(job.gpus, job.can_park, IsImpatient(job));
    if (is_waiting && (blocked_.contains(shape) || (IsHeldBack(index) && !job.can_park))) {
      has_blocked_ = true;
      has_blocked_gang_ = has_blocked_gang_ || job.gpus > largest_;
      return;
    }
    const bool is_placed = !is_waiting ? ReturnForTrial(index) : job.gpus > largest_ ? StartGang(index) : Start(index);
    if (is_placed) return;
    has_blocked_ = true;
    if (!is_waiting) return;
    blocked_.insert(shape);
    has_blocked_gang_ = has_blocked_gang_ || job.gpus > largest_;
    if (!IsImpatient(job) || IsHeldBack(index)) return;
    eldest_impatient_ = index;
    HoldNodesFor(index);
  }

  /// Keeps younger jobs from coming to the nodes where the job can probably start first, so that their host memory
  /// becomes free as well: nodes with the fewest GPUs of jobs that it cannot displace, then with the most room.
  void HoldNodesFor(std::size_t index) {
    const JobView& job = jobs_[index];
    const int part = std::min(job.gpus, largest_);
    std::vector<std::tuple<int, int, Node*>> candidates;
    for (Node& node : nodes_) {
      if (node.gpus < part) continue;
      int fixed = node.settled;
      for (const std::size_t resident : node.running) {
        if (!jobs_[resident].is_settled && resident < index) fixed += jobs_[resident].gpus;
      }
      candidates.emplace_back(fixed, -node.room, &node);
    }
    std::ranges::stable_sort(candidates, [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    candidates.resize(std::min(candidates.size(), static_cast<std::size_t>((job.gpus + part - 1) / part)));
    for (const auto& [fixed, room, node] : candidates) node->is_held = true;
  }

  /// A job on trial that had to leave its GPUs to their owner.
  bool ReturnForTrial(std::size_t index) {
    const Node& node = nodes_[jobs_[index].place.front().node];
    const Victims victims = VictimsOn(node, index, jobs_[index].gpus - node.free);
    if (!victims.is_possible()) return false;
    Displace(index, victims);
    Run(index, jobs_[index].place, victims.jobs.empty() ? Reason::kFreeGpus : Reason::kTrial);
    return true;
  }

  /// Whether a job of so many GPUs may come to the node at all.
  bool MayCome(const Node& node, const JobView& job, int gpus) const {
    return gpus <= node.gpus && gpus <= node.room && !node.is_held &&
           (job.can_park || node.settled + gpus <= node.gpus);
  }

  /// On free GPUs where the fewest jobs wait to return, then where the fewest GPUs remain. Otherwise where the fewest
  /// GPUs become idle.
  bool Start(std::size_t index) {
    const JobView& job = jobs_[index];
    std::optional<std::uint32_t> place;
    std::pair<int, int> least;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.free < job.gpus || !MayCome(node, job, job.gpus)) continue;
      const std::pair rank(node.parked, node.free);
      if (place && rank >= least) continue;
      place = i;
      least = rank;
    }
    if (place) {
      Run(index, {{*place, job.gpus}}, Reason::kFreeGpus);
      return true;
    }
    Victims chosen;
    double least_cost = kNotPossible;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (!MayCome(node, job, job.gpus)) continue;
      Victims victims = VictimsOn(node, index, job.gpus - node.free);
      if (!victims.is_possible()) continue;
      const double cost = kIdleWeight * (node.free + victims.gpus - job.gpus) + victims.weight + 0.01 * node.parked;
      if (cost >= least_cost) continue;
      least_cost = cost;
      place = i;
      chosen = std::move(victims);
    }
    if (!place) return false;
    Displace(index, chosen);
    Run(index, {{*place, job.gpus}}, Reason::kTrial);
    return true;
  }

  /// Whole nodes with the least weight of victims and the fewest parked jobs; the rest where it leaves the fewest GPUs.
  bool StartGang(std::size_t index) {
    struct Candidate {
      double cost = 0;
      std::uint32_t node = 0;
      Victims victims;
    };
    const JobView& job = jobs_[index];
    const auto whole = static_cast<std::size_t>(job.gpus / largest_);
    const int rest = job.gpus % largest_;
    std::vector<Candidate> candidates;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.gpus != largest_ || !MayCome(node, job, largest_)) continue;
      Victims victims = VictimsOn(node, index, largest_ - node.free);
      if (victims.is_possible()) candidates.push_back({victims.weight + node.parked, i, std::move(victims)});
    }
    if (candidates.size() < whole) return false;
    std::ranges::stable_sort(candidates, {}, &Candidate::cost);
    candidates.resize(whole);
    if (rest > 0) {
      Candidate best{.cost = kNotPossible};
      for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
        const Node& node = nodes_[i];
        if (!MayCome(node, job, rest) || std::ranges::find(candidates, i, &Candidate::node) != candidates.end())
          continue;
        Victims victims = VictimsOn(node, index, rest - node.free);
        if (!victims.is_possible()) continue;
        const int idle = node.free + victims.gpus - rest;
        const double cost = (victims.jobs.empty() ? 1 : kIdleWeight) * idle + victims.weight + node.parked +
                            (victims.jobs.empty() ? 0 : kIdleWeight);
        if (cost < best.cost) best = {cost, i, std::move(victims)};
      }
      if (best.cost == kNotPossible) return false;
      candidates.push_back(std::move(best));
    }
    std::vector<NodeGpus> place;
    bool displaces = false;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      Displace(index, candidates[i].victims);
      displaces = displaces || !candidates[i].victims.jobs.empty();
      place.push_back({candidates[i].node, i < whole ? largest_ : rest});
    }
    Run(index, std::move(place), displaces ? Reason::kTrial : Reason::kFreeGpus);
    return true;
  }

  // --- Settling

  bool MaySettle(std::size_t index) const {
    const JobView& job = jobs_[index];
    if (job.phase == Phase::kWaiting || job.is_settled || IsHeldBack(index)) return false;
    const Node& node = nodes_[job.place.front().node];
    return node.settled + job.gpus <= node.gpus;
  }

  void Settle(std::size_t index, Reason reason) {
    JobView& job = jobs_[index];
    job.is_settled = true;
    nodes_[job.place.front().node].settled += job.gpus;
    plan_.actions.push_back({ActionKind::kSettle, job.id, {}, {}, reason, {}});
  }

  /// The jobs that have lost most first.
  void SettleByPatience() {
    std::vector<std::size_t> impatient;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].lost > options_.patience && !jobs_[i].is_settled) impatient.push_back(i);
    }
    std::ranges::stable_sort(impatient, std::greater(), [&](std::size_t i) { return jobs_[i].lost; });
    for (const std::size_t i : impatient) {
      if (MaySettle(i)) Settle(i, Reason::kPatience);
    }
  }

  /// A node on which a gang could start now, or after jobs that have not settled are parked.
  bool IsOpen(const Node& node) const {
    return node.settled == 0 &&
           std::ranges::none_of(node.running, [&](std::size_t job) { return IsOnTrial(jobs_[job]); });
  }

  /// Keeps nodes open for as many gangs as there were lately, and opens no further node to settled jobs while a gang
  /// waits.
  void SettleByTurn() {
    if (!options_.at_most) return;
    std::vector<bool> is_open;
    int open = 0, with_gangs = 0;
    for (const Node& node : nodes_) {
      is_open.push_back(IsOpen(node));
      open += is_open.back();
      with_gangs += std::ranges::any_of(node.running, [&](std::size_t job) { return IsGang(jobs_[job]); });
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (jobs_[i].phase != Phase::kRunning || IsOnTrial(jobs_[i]) || !MaySettle(i)) continue;
      const std::uint32_t at = jobs_[i].place.front().node;
      const bool is_first = nodes_[at].settled == 0;
      if (is_first && (has_blocked_gang_ || open - is_open[at] < gang_nodes_ - with_gangs)) continue;
      open -= is_open[at];
      is_open[at] = false;
      Settle(i, Reason::kTurn);
    }
  }

  // --- Wake-ups

  void WakeAfter(Duration duration) {
    plan_.next_wakeup = std::min(plan_.next_wakeup, AddSaturating(now_, std::max(duration, Duration(1ms))));
  }

  void PlanWakeup() {
    for (const JobView& job : jobs_) {
      if (job.phase == Phase::kWaiting) {
        if (!IsImpatient(job)) WakeAfter(job.queued_at + options_.start_patience - now_);
        continue;
      }
      if (!job.is_settled && job.lost <= options_.patience && job.phase == Phase::kParked)
        WakeAfter(options_.patience - job.lost + 1ms);
      if (job.phase == Phase::kParked && job.is_settled) WakeAfter(Left(job) - options_.park - options_.wake);
      if (job.phase != Phase::kRunning || !job.can_park) continue;
      const Duration until_run = std::max(Duration(0), job.since - now_);
      if (IsOnTrial(job) && (has_blocked_ || options_.at_most))
        WakeAfter(until_run + options_.trial / job.gpus - job.ran + 1ms);
      if (!has_blocked_) continue;
      if (now_ < job.since + options_.min_run) WakeAfter(job.since + options_.min_run - now_);
      if (!job.is_settled || !options_.at_most || *options_.at_most <= 0) continue;
      const Duration missing = Copies() + options_.min_displacement - Left(job);
      if (missing > Duration(0))
        WakeAfter(until_run + std::max(Duration(30s), Duration(std::llround(static_cast<double>(missing.count()) /
                                                                            *options_.at_most))));
    }
  }

  const Options& options_;
  const Time now_;
  const int gang_nodes_;
  std::vector<JobView> jobs_;
  std::vector<bool> is_moved_;  // By job: started, parked or returned in this decision.
  std::vector<Node> nodes_;
  int largest_ = 0;  // GPUs of the largest node.
  std::set<std::tuple<int, bool, bool>> blocked_;
  bool has_blocked_ = false;
  bool has_blocked_gang_ = false;
  std::size_t eldest_impatient_ = std::numeric_limits<std::size_t>::max();
  Plan plan_;
};

}  // namespace

std::string_view ToText(Reason reason) {
  switch (reason) {
    case Reason::kFreeGpus:
      return "its GPUs are free";
    case Reason::kTrial:
      return "the trial of a job that started later";
    case Reason::kContract:
      return "a job has lost as much as its contract allows";
    case Reason::kTurn:
      return "its trial is over, and its node has room for it";
    case Reason::kPatience:
      return "it has been parked for too long";
  }
  return {};
}

Duration BudgetLeft(const JobView& job, const Options& options) {
  if (!options.at_most) return Duration(0);
  return Duration(std::llround(*options.at_most * static_cast<double>(job.ran.count()))) + options.allowance -
         job.lost_settled;
}

// Spreads the burden: the more budget a settled job has left, the less it weighs.
double WeightOf(const JobView& job, const Options& options) {
  const bool is_on_trial = job.ran * job.gpus < options.trial;
  const Duration left = std::max(BudgetLeft(job, options), Duration(0));
  const double of_one_gpu = job.is_settled ? 1 + 1000 / (ToSeconds(left) + 1)
                            : is_on_trial  ? kOnTrialWeight
                                           : kUnsettledWeight;
  return of_one_gpu * job.gpus;
}

Plan Decide(const World& world, Time now, const Options& options) { return Deciding(world, now, options).Run(); }

}  // namespace divvy::time_sharing
