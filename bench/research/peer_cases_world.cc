#include "research/peer_cases_world.h"

#include <algorithm>

namespace divvy::research {
namespace {

using core::TaskPlacement;

}  // namespace

void PeerWorld::PutWhole(Job& job) {
  core::ResourceRequest request = job.request;
  if (core::LeastTasks(request) == 0) return;
  cluster_.Put(Entry(job, job.id, request), kPeerNow);
}

// --- Rounds ------------------------------------------------------------------------------------------------

void PeerWorld::Round(bool ends) {
  if (case_.action != "stalegangeviction") {
    const core::Plan plan = cluster_.Decide(kPeerNow);
    for (const core::Preemption& preemption : plan.preemptions) preemptors_.insert(preemption.preemptor);
    for (const core::Move& move : plan.moves) preemptors_.insert(move.preemptor);
  }
  // A gang below its minimum that cannot be completed is queued again once its grace period is over.
  for (Job& job : jobs_) {
    const bool runs = cluster_.running(job.id) != nullptr;
    const bool misses = job.rest.is_set() && cluster_.is_waiting(job.rest);
    const auto planned = cluster_.reservations();
    const bool is_planned =
        std::ranges::any_of(planned, [&](const core::BackfillReservation& p) { return p.entry == job.rest; });
    const bool is_due = case_.action.empty() ? misses && !is_planned
                                             : case_.action == "stalegangeviction" && (misses || job.is_broken) &&
                                                   job.job->stale_seconds >= job.job->stale_grace_seconds;
    if (runs && is_due && !cluster_.running(job.id)->is_leaving) {
      cluster_.SetLeaving(job.id);
      job.is_evicted = true;
    }
  }
  if (ends) EndRound();
}

void PeerWorld::EndRound() {
  for (Job& job : jobs_) {
    job.is_evicted = false;
    bool is_released = false;
    for (std::size_t i = 0; i < job.held.size();) {
      if (job.is_stuck[i] || job.job->is_deleted) {
        ++i;
        continue;
      }
      cluster_.Finish(job.held[i], kPeerNow);
      job.held.erase(job.held.begin() + static_cast<std::ptrdiff_t>(i));
      job.is_stuck.erase(job.is_stuck.begin() + static_cast<std::ptrdiff_t>(i));
      is_released = true;
    }
    const core::Run* run = cluster_.running(job.id);
    const core::Run* rest = job.rest.is_set() ? cluster_.running(job.rest) : nullptr;
    const bool leaves = (run != nullptr && run->is_leaving) || (rest != nullptr && rest->is_leaving);
    if (leaves) {
      if (run != nullptr) cluster_.Finish(job.id, kPeerNow);
      if (rest != nullptr) {
        cluster_.Finish(job.rest, kPeerNow);
      } else if (job.rest.is_set()) {
        cluster_.Remove(job.rest, kPeerNow);
      }
      job.rest = JobId();
      job.rest_groups.clear();
      PutWhole(job);
    } else if (run != nullptr) {
      const std::vector<TaskPlacement> leaving = run->leaving;
      if (!leaving.empty()) cluster_.GiveBack(job.id, leaving, kPeerNow);
      if (rest != nullptr) Join(job);
    } else if (is_released && !cluster_.is_waiting(job.id) && job.held.empty()) {
      PutWhole(job);
    }
  }
}

// Merges the two entries of a gang: the missing tasks run, so the gang is complete.
void PeerWorld::Join(Job& job) {
  std::vector<TaskPlacement> placements = cluster_.running(job.id)->placements;
  for (TaskPlacement placed : cluster_.running(job.rest)->placements) {
    placed.group = static_cast<std::uint8_t>(job.rest_groups[placed.group]);
    placements.push_back(placed);
  }
  const Time started = cluster_.running(job.id)->started;
  cluster_.Finish(job.id, kPeerNow);
  cluster_.Finish(job.rest, kPeerNow);
  cluster_.Adopt(Entry(job, job.id, job.request), std::move(placements), started, kPeerNow);
  job.rest = JobId();
  job.rest_groups.clear();
}

// --- Current state -----------------------------------------------------------------------------------------

const PeerWorld::Job& PeerWorld::JobOf(std::size_t index) const {
  return *std::ranges::find_if(jobs_, [&](const Job& one) { return one.job == &case_.jobs[index]; });
}

std::int64_t PeerWorld::TaskParts(std::size_t index) const {
  const core::ResourceRequest& request = JobOf(index).request;
  std::int64_t sum = 0;
  std::int64_t tasks = 0;
  for (const core::TaskGroup& group : request.groups) {
    sum += std::int64_t{group.most} * group.alternatives.front().gpu_parts();
    tasks += group.most;
  }
  return tasks == 0 ? 0 : sum / tasks;
}

std::vector<PeerPlace> PeerWorld::PlacesOf(std::size_t index) const {
  const PeerJob* peer = &case_.jobs[index];
  const Job* job = &JobOf(index);
  std::vector<PeerPlace> places;
  for (const PeerState state : job->ended) places.push_back({state, ""});
  const auto name = [&](const TaskPlacement& placed) {
    const std::string& full = node_names_[placed.node];
    return full.substr(0, full.find('|'));
  };
  for (std::size_t i = 0; i < job->held.size(); ++i) {
    const core::Run* run = cluster_.running(job->held[i]);
    places.push_back({job->is_stuck[i] ? PeerState::kStuck : PeerState::kReleasing, name(run->placements.front())});
  }
  const auto planned = cluster_.reservations();
  const std::vector<core::Move> moving = cluster_.moving();
  for (const JobId id : {job->id, job->rest}) {
    if (!id.is_set()) continue;
    for (const core::BackfillReservation& reservation : planned) {
      if (reservation.entry != id || !reservation.is_nomination) continue;
      for (const TaskPlacement& placed : reservation.placements) {
        places.push_back({PeerState::kPlanned, name(placed), !preemptors_.contains(id)});
      }
    }
    const core::Run* run = cluster_.running(id);
    if (run == nullptr) continue;
    const auto move = std::ranges::find_if(moving, [&](const core::Move& one) { return one.job == id; });
    for (const TaskPlacement& placed : run->placements) {
      const bool goes = run->is_leaving || std::ranges::find(run->leaving, placed) != run->leaving.end();
      if (goes && move != moving.end()) continue;
      places.push_back({goes ? PeerState::kReleasing : PeerState::kRunning, name(placed)});
    }
    if (move == moving.end()) continue;
    for (const TaskPlacement& placed : move->to) places.push_back({PeerState::kPlanned, name(placed)});
    for (std::size_t i = move->to.size(); i < move->from.size(); ++i) {
      places.push_back({PeerState::kReleasing, name(move->from[i])});
    }
  }
  while (places.size() < peer->tasks.size()) places.push_back({PeerState::kPending, ""});
  return places;
}

}  // namespace divvy::research
