#include "engine/planner.h"

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "engine/duration_text.h"
#include "engine/phrases.h"

namespace divvy {

Need NeedOf(const Cluster& cluster, const JobClass& job_class, JobId entry, std::uint32_t members_left) {
  const ClassKey& key = job_class.key;
  Need need;
  need.gpus = key.request.gpus;
  need.gpus_most = key.request.gpus_at_most();
  need.cpus = key.request.cpus;
  need.memory = key.request.memory;
  need.matches = job_class.matches & cluster.usable();
  need.limit = key.time_limit;
  need.groups = job_class.groups;
  need.choice = {key.placement, 0, key.request.topology, key.request.requires_topology, &cluster.topology()};
  if (key.placement == PlacementStrategy::kRandom) {
    const WaitingEntry* waiting = cluster.waiting(entry);
    need.choice.draw = (waiting == nullptr ? 0 : waiting->placement_draw) + members_left;
  }
  return need;
}

bool CouldRunNow(const Cluster& cluster, const Need& need) {
  return need.matches.size() >= need.gpus && need.cpus <= cluster.capacity().cpus &&
         need.memory <= cluster.capacity().memory &&
         (!need.choice.is_strict() || PickGpus(need.matches, need.gpus, need.choice));
}

Planner::Planner(const Cluster& cluster, const Policy& policy, Time now, const WhatIf& what_if)
    : cluster_(cluster),
      policy_(policy),
      now_(now),
      what_if_(what_if),
      timeline_(cluster, policy.cpu_jobs_at_once, now) {}

void Planner::Run() {
  do {
    Round();
  } while (started_behind_promise_);
  if (GrowElastic()) {
    do {
      Round();
    } while (started_behind_promise_);
  }
  for (std::size_t i = 0; i < asks_.size(); ++i) {
    plan_.reservations.push_back({asks_[i].entry, promises_[i].start, promises_[i].gpus});
  }
  FindNextWakeup();
}

std::vector<Hold> Planner::HoldsOfOthers(JobId entry) const {
  std::vector<Hold> holds;
  for (const Hold& hold : holds_) {
    if (asks_[hold.ask].entry != entry) holds.push_back(hold);
  }
  return holds;
}

void Planner::Round() {
  started_behind_promise_ = false;
  passed_[0] = passed_[1] = Passed();
  asks_.clear();
  promises_.clear();
  holds_.clear();
  const std::unordered_map<JobId, std::uint32_t> taken = taken_;
  QueueMerge merge(cluster_.queue(), policy_, now_, what_if_);
  JobId current;
  while (!merge.IsEmpty()) {
    const JobId id = merge.key().place.id;
    if (id != current) {
      current = id;
      if (const auto at = taken.find(id); at != taken.end()) {
        if (at->second >= merge.members_left()) {
          merge.NextEntry();
          continue;
        }
        for (std::uint32_t i = 0; i < at->second; ++i) merge.NextMember();
      }
    }
    switch (Try(merge)) {
      case Verdict::kStarted:
        merge.NextMember();
        break;
      case Verdict::kUnavailable:
        merge.DropClass();
        break;
      case Verdict::kBlocked:
        // Equals of this job cannot start either; the escalated ones still get their promises, in order.
        if (asks_.size() >= kMostReservations) merge.DropClass();
        else if (merge.key().is_escalated) merge.NextMember();
        else merge.NextPriority();
        break;
    }
  }
}

Planner::Verdict Planner::Try(const QueueMerge& merge) {
  const JobClass& job_class = merge.job_class();
  const Need need = NeedOf(cluster_, job_class, merge.key().place.id, merge.members_left());
  // What waits for a cap, or for hardware to come back, waits for nobody's GPUs: it passes its turn.
  if (!CouldRunNow(cluster_, need)) return Verdict::kUnavailable;
  if (need.gpus == 0 && !timeline_.HasRoomForCpuJob()) return Verdict::kUnavailable;
  if (timeline_.FullGroup(need, holds_) != nullptr) return Verdict::kUnavailable;

  const GpuSet idle = need.matches & timeline_.idle();
  const std::optional<GpuSet> first_choice = PickGpus(idle, need.gpus, need.choice);
  if (first_choice && timeline_.HostFits(need, {}, now_)) {
    const GpuSet unpromised = timeline_.FreeThroughout(need.matches, holds_, now_, need.Until(now_));
    const bool host_is_unpromised = timeline_.HostFits(need, holds_, now_);
    if (host_is_unpromised && (*first_choice - unpromised).empty()) {
      Start(merge, need, *first_choice);
      return Verdict::kStarted;
    }
    // A promise is about a time, not about the GPUs noted for it: it may move to others that serve it as early.
    if (DelaysNobody(need, *first_choice)) {
      Start(merge, need, *first_choice);
      return Verdict::kStarted;
    }
    const std::optional<GpuSet> second_choice = PickGpus(unpromised, need.gpus, need.choice);
    if (host_is_unpromised && second_choice) {
      Start(merge, need, *second_choice);
      return Verdict::kStarted;
    }
    if (unpromised.size() < need.gpus && !unpromised.empty()) {
      const auto rest = PickGpus(idle - unpromised, need.gpus - unpromised.size(), need.choice);
      if (rest && Suits(unpromised | *rest, need.choice) && DelaysNobody(need, unpromised | *rest)) {
        Start(merge, need, unpromised | *rest);
        return Verdict::kStarted;
      }
    }
  }
  Reserve(merge, need);
  return Verdict::kBlocked;
}

// Only now: nobody who could start was kept out by it.
bool Planner::GrowElastic() {
  bool has_grown = false;
  for (const auto& [start, need] : elastic_) has_grown = Grow(need, plan_.starts[start]) || has_grown;
  elastic_.clear();
  return has_grown;
}

// The set is chosen anew as a whole: the best four need not hold the best two.
bool Planner::Grow(const Need& need, StartDecision& start) {
  const GpuSet had = start.gpus;
  timeline_.Move(need, had, GpuSet());
  Need more = need;
  // What it has of everything else is claimed already.
  more.cpus = 0;
  more.memory = Bytes(0);
  more.groups = {};
  const GpuSet idle = need.matches & timeline_.idle();
  const GpuSet unpromised = timeline_.FreeThroughout(need.matches, holds_, now_, need.Until(now_));
  for (more.gpus = std::min(need.gpus_most, idle.size()); more.gpus > had.size(); --more.gpus) {
    for (const GpuSet candidates : {idle, had | unpromised}) {
      const std::optional<GpuSet> gpus = PickGpus(candidates, more.gpus, need.choice);
      if (!gpus || !DelaysNobody(more, *gpus)) continue;
      timeline_.Move(need, GpuSet(), *gpus);
      start.gpus = *gpus;
      start.reason += ", with " + std::to_string(more.gpus) + " of at most " + Plural(need.gpus_most, "GPU");
      return true;
    }
  }
  timeline_.Move(need, GpuSet(), had);
  return false;
}

// Makes every promise anew, in order, as if `need` ran on `gpus`; keeps the new ones if none is later than before.
bool Planner::DelaysNobody(const Need& need, GpuSet gpus) {
  // What drains has no time to compare: its holds stand as they are.
  std::vector<Hold> draining;
  std::copy_if(holds_.begin(), holds_.end(), std::back_inserter(draining),
               [](const Hold& hold) { return hold.drains; });
  if (timeline_.FreeThroughout(gpus, draining, now_, need.Until(now_)) != gpus) return false;
  if (!timeline_.HostFits(need, draining, now_)) return false;
  timeline_.Claim(need, gpus);
  std::vector<Promise> promises;
  std::vector<Hold> holds;
  bool is_fine = true;
  for (std::size_t i = 0; i < asks_.size() && is_fine; ++i) {
    if (need.gpus == 0 && asks_[i].need.gpus > 0) {
      // A job without GPUs may take CPUs that a GPU job was promised: it waits for no GPU job.
      promises.push_back(promises_[i]);
    } else {
      promises.push_back(timeline_.Earliest(asks_[i].need, holds, asks_[i].is_escalated));
      is_fine = promises[i].start <= promises_[i].start;
    }
    for (Hold hold : promises[i].holds) {
      hold.ask = i;
      holds.push_back(hold);
    }
  }
  timeline_.Unclaim(need, gpus);
  if (!is_fine) return false;
  promises_ = std::move(promises);
  holds_ = std::move(holds);
  return true;
}

void Planner::Start(const QueueMerge& merge, const Need& need, GpuSet gpus) {
  plan_.starts.push_back({merge.key().place.id, gpus, ReasonFor(merge, need)});
  timeline_.Claim(need, gpus);
  if (need.gpus_most > need.gpus) elastic_.emplace_back(plan_.starts.size() - 1, need);
  taken_[merge.key().place.id] += 1;
  if (!asks_.empty()) started_behind_promise_ = true;
}

void Planner::Reserve(const QueueMerge& merge, const Need& need) {
  Passed& first = passed(need);
  const bool is_first = !first.job.is_set();
  const bool is_escalated = merge.key().is_escalated;
  if (is_first) first = {merge.key().place.id, kNone};
  if ((!is_first && !is_escalated) || asks_.size() >= kMostReservations) return;
  Promise promise = timeline_.Earliest(need, holds_, is_escalated);
  if (promise.holds.empty()) return;
  if (is_first) first.ask = asks_.size();
  for (Hold& hold : promise.holds) {
    hold.ask = asks_.size();
    holds_.push_back(hold);
  }
  asks_.push_back({merge.key().place.id, need, is_escalated});
  promises_.push_back(std::move(promise));
}

Reason Planner::ReasonFor(const QueueMerge& merge, const Need& need) const {
  const Passed& first = passed(need);
  if (!first.job.is_set()) {
    if (merge.key().is_escalated) {
      return "first in line, escalated after waiting " + DurationText(now_ - merge.key().place.since);
    }
    return need.gpus == 0 ? "needs no GPU" : "first in line";
  }
  const std::string job = "job " + ToString(first.job);
  if (first.ask == kNone) return "fits now; " + job + ", ahead of it, does not";
  const Promise& promise = promises_[first.ask];
  if (promise.start == kNever) return "backfilled: takes nothing that is kept for " + job;
  if (need.Until(now_) > promise.start) return "backfilled beside the reservation of " + job;
  return "backfilled: ends before " + job + " starts in " + DurationText(promise.start - now_);
}

// Only what still waits can change its mind: when it comes due, or when it escalates.
void Planner::FindNextWakeup() {
  for (const auto& [key, job_class] : cluster_.queue().classes) {
    if (key.lane == Lane::kParked) continue;
    const Line& line = job_class.line;
    for (Line::Position at = line.begin(); !line.IsEnd(at);) {
      const int priority = line.At(at).place.priority;
      if (policy_.escalate_after > Duration(0)) {
        const Place first_young = {now_ - policy_.escalate_after + Duration(1), JobId(0), priority};
        const Line::Position young = line.LowerBound(first_young);
        if (!line.IsEnd(young) && line.At(young).place.priority == priority) {
          plan_.next_wakeup = std::min(plan_.next_wakeup, EscalatesAt(policy_, line.At(young).place.since));
        }
      }
      if (key.lane == Lane::kDated) {
        const Line::Position early = line.LowerBound({now_ + Duration(1), JobId(0), priority});
        if (!line.IsEnd(early) && line.At(early).place.priority == priority) {
          plan_.next_wakeup = std::min(plan_.next_wakeup, line.At(early).place.since);
        }
      }
      at = line.AfterPriority(priority);
    }
  }
}

Plan Schedule(const Cluster& cluster, const Policy& policy, Time now) {
  Planner planner(cluster, policy, now);
  planner.Run();
  return planner.plan();
}

}  // namespace divvy
