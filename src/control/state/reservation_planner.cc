#include "control/state/reservation_planner.h"

#include <algorithm>

#include "base/text.h"
#include "engine/scheduler/idle_gpus.h"

namespace divvy {
namespace {

constexpr Duration kTryAgain = std::chrono::minutes(1);

Status MayReserve(const Caller& caller) {
  if (caller.is_admin) return {};
  return PermissionDenied("reserving GPUs takes an administrator; " + CallerName(caller) + " is not one");
}

Status FitsOneMachine(const Scheduler& cluster, int gpus) {
  int largest = 0;
  for (const NodeUsage& node : cluster.nodes()) largest = std::max(largest, node.taking().size());
  if (gpus <= largest) return {};
  if (largest == 0) return FailedPrecondition("no node that accepts work has a GPU; divvy nodes lists them");
  return FailedPrecondition("a reservation is on one node, and the largest that accepts work has " +
                            Plural(largest, "GPU") + "; reserve " + Plural(gpus, "GPU") + " in parts of at most " +
                            std::to_string(largest));
}

}  // namespace

Result<GpuReservation> ReservationPlanner::Reserve(GpuReservation asked, const Caller& caller, Time now) {
  DIVVY_CHECK(MayReserve(caller));
  asked.by = caller.user.name;
  if (!asked.team.empty() && teams_.Find(asked.team) == nullptr)
    return NotFound("there is no team " + asked.team + "; divvy teams lists them");
  DIVVY_TRY(const GpuReservation made, registry_.Make(std::move(asked), now));
  DIVVY_CHECK(FitsOneMachine(scheduler_, made.gpus));
  const std::vector<ReservationOccurrence> occurrences = OccurrencesOf(made, now, now + kReservationHorizon);
  for (const ReservationOccurrence& occurrence : occurrences) {
    if (ReserveOccurrence(made, occurrence, now)) continue;
    const std::string refusal = WhyNoRoom(made, occurrence, now);
    for (const ReservationOccurrence& other : occurrences) CancelOccurrence(other.id);
    return FailedPrecondition(refusal);
  }
  effects_.KeepSetting(registry_.Add(made));
  next_change_ = kNoTime;
  effects_.RequestPlan();
  return made;
}

Result<std::string> ReservationPlanner::CancelReservation(const std::string& which, const Caller& caller, Time now) {
  DIVVY_TRY(const GpuReservation reservation, registry_.Find(which));
  if (reservation.user != caller.user.name) DIVVY_CHECK(MayReserve(caller));
  effects_.KeepSetting(registry_.Remove(reservation.number));
  for (const ReservationOccurrence& occurrence : OccurrencesOf(reservation, now, now + kReservationHorizon))
    CancelOccurrence(occurrence.id);
  effects_.RequestPlan();
  return "reservation " + std::to_string(reservation.number) + " is cancelled";
}

bool ReservationPlanner::ReserveOccurrence(const GpuReservation& reservation, const ReservationOccurrence& occurrence,
                                           Time now) {
  if (reserved_.contains(occurrence.id)) return true;
  const auto reserved =
      scheduler_.Reserve(reservation.gpus, reservation.team, reservation.user, occurrence.from, occurrence.until, now);
  if (!reserved) return false;
  reserved_[occurrence.id] = {*reserved, occurrence.until};
  effects_.RequestPlan();
  return true;
}

// After a restart or a change of teams, an occurrence that is in force keeps its place, even while its node is
// disconnected.
bool ReservationPlanner::ReserveAgain(const GpuReservation& reservation, const ReservationOccurrence& occurrence,
                                      Time now) {
  const GpuReservation::Kept& kept = reservation.kept;
  const auto node = nodes_.IndexOf(kept.node);
  if (occurrence.from > now || kept.occurrence != occurrence.id || !node || reserved_.contains(occurrence.id))
    return ReserveOccurrence(reservation, occurrence, now);
  NodeResources place;
  place.node = *node;
  place.gpus = kept.gpus;
  const auto reserved =
      scheduler_.ReserveAt(place, reservation.team, reservation.user, occurrence.from, occurrence.until);
  if (!reserved) return ReserveOccurrence(reservation, occurrence, now);
  reserved_[occurrence.id] = {*reserved, occurrence.until};
  effects_.RequestPlan();
  return true;
}

void ReservationPlanner::CancelOccurrence(std::uint64_t occurrence) {
  const auto at = reserved_.find(occurrence);
  if (at == reserved_.end()) return;
  scheduler_.CancelReservation(at->second.id);
  reserved_.erase(at);
}

// Applies the same limits as the engine, which only reports that there is no room.
std::string ReservationPlanner::WhyNoRoom(const GpuReservation& reservation, const ReservationOccurrence& occurrence,
                                          Time now) const {
  int others = 0;
  for (const auto& [number, other] : registry_.all()) {
    for (const ReservationOccurrence& reserved : OccurrencesOf(other, now, occurrence.until)) {
      if (reserved.until > occurrence.from && reserved_.contains(reserved.id)) others += other.gpus;
    }
  }
  int unknown = 0, longer = 0;
  std::string whose;
  for (const auto& [id, job] : scheduler_.running_jobs()) {
    if (job.gpus.empty() || job.known_end <= occurrence.from) continue;
    (job.known_end == kNever ? unknown : longer) += job.gpus.size();
    whose += (whose.empty() ? "" : ", ") + ToString(id);
  }
  if (const Status fits = FitsOneMachine(scheduler_, reservation.gpus); !fits) return fits.error().message;
  int usable = 0;
  for (const NodeUsage& node : scheduler_.nodes()) usable += node.taking().size();
  std::string text = "there is no room for " + Plural(reservation.gpus, "GPU") + " in that time: of " +
                     std::to_string(usable) + " that accept work";
  std::vector<std::string> parts;
  if (others > 0) parts.push_back(std::to_string(others) + " are reserved");
  if (longer > 0) parts.push_back(std::to_string(longer) + " run jobs whose time limits end after it begins");
  if (unknown > 0) parts.push_back(std::to_string(unknown) + " run jobs without a time limit");
  if (parts.empty()) parts.push_back("too few will be free");
  text += ", " + Join(parts, ", ");
  if (!whose.empty()) text += " (job " + whose + ")";
  return text;
}

void ReservationPlanner::Follow(Time now) {
  if (registry_.all().empty() && reserved_.empty()) {
    next_change_ = kNever;
    return;
  }
  if (now < next_change_) return;
  next_change_ = kNever;
  for (auto& setting : registry_.DropPast(now)) effects_.KeepSetting(std::move(setting));
  std::erase_if(reserved_, [&](const auto& entry) {
    if (entry.second.until > now) return false;
    scheduler_.CancelReservation(entry.second.id);
    return true;
  });
  // Occurrences in force keep their place; future ones are placed around them.
  for (const auto& [number, reservation] : registry_.all()) {
    for (const ReservationOccurrence& occurrence : OccurrencesOf(reservation, now, now + Duration(1))) {
      if (occurrence.from <= now && reservation.kept.occurrence == occurrence.id)
        ReserveAgain(reservation, occurrence, now);
    }
  }
  std::vector<GpuReservation> begun;
  for (const auto& [number, reservation] : registry_.all()) {
    for (const ReservationOccurrence& occurrence : OccurrencesOf(reservation, now, now + kReservationHorizon)) {
      const bool is_held = ReserveAgain(reservation, occurrence, now);
      if (!is_held) next_change_ = std::min(next_change_, now + kTryAgain);
      next_change_ = std::min(next_change_, occurrence.from > now ? occurrence.from : occurrence.until);
      if (!is_held || occurrence.from > now) continue;
      const std::vector<NodeResources> places = PlacesOfReservation(scheduler_, reserved_.at(occurrence.id).id);
      const NodeResources& place = places.front();
      const GpuReservation::Kept kept{occurrence.id, nodes_.NodeName(place.node), place.gpus};
      if (kept == reservation.kept) continue;
      begun.push_back(reservation);
      begun.back().kept = kept;
    }
    // The next time at which an occurrence comes within the time for which resources are reserved ahead.
    if (reservation.every != Every::kOnce) next_change_ = std::min(next_change_, now + std::chrono::hours(1));
    if (reservation.start > now + kReservationHorizon)
      next_change_ = std::min(next_change_, reservation.start - kReservationHorizon);
  }
  for (const GpuReservation& reservation : begun) effects_.KeepSetting(registry_.Add(reservation));
}

void ReservationPlanner::ReserveAnew(Time now) {
  reserved_.clear();
  next_change_ = kNoTime;
  Follow(now);
}

std::vector<PlannedOccurrence> ReservationPlanner::OccurrencesAhead(const GpuReservation& reservation, Time now) const {
  std::vector<PlannedOccurrence> views;
  for (const ReservationOccurrence& occurrence : OccurrencesOf(reservation, now, now + kReservationHorizon)) {
    const auto reserved = reserved_.find(occurrence.id);
    const bool is_held = reserved != reserved_.end();
    views.push_back({occurrence, is_held, is_held ? "" : WhyNoRoom(reservation, occurrence, now),
                     is_held ? PlacesOfReservation(scheduler_, reserved->second.id) : std::vector<NodeResources>()});
  }
  return views;
}

std::optional<std::uint64_t> ReservationPlanner::NumberOfReservation(std::uint64_t advance) const {
  for (const auto& [occurrence, reserved] : reserved_) {
    if (reserved.id == advance) return ReservationOf(occurrence);
  }
  return std::nullopt;
}

}  // namespace divvy
