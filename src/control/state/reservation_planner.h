// Advance reservations: occurrences within a horizon are reserved in the scheduler. One without room is retried
// periodically until it is over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/reservation_registry.h"
#include "control/books/team_registry.h"
#include "control/state/effect_recorder.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class ReservationPlanner {
 public:
  /// How far ahead resources are reserved for the occurrences of reservations.
  static constexpr Duration kReservationHorizon = std::chrono::hours(24 * 8);

  ReservationPlanner(Scheduler& scheduler, EffectRecorder& effects, const NodeTable& nodes, const TeamRegistry& teams)
      : scheduler_(scheduler), effects_(effects), nodes_(nodes), teams_(teams) {}

  bool LoadSetting(std::string_view key, std::string_view text) { return registry_.LoadSetting(key, text); }
  const ReservationRegistry& registry() const { return registry_; }

  // See Controller.
  Result<GpuReservation> Reserve(GpuReservation asked, const Caller& caller, Time now);
  Result<std::string> CancelReservation(const std::string& which, const Caller& caller, Time now);
  std::vector<PlannedOccurrence> OccurrencesAhead(const GpuReservation& reservation, Time now) const;
  std::optional<std::uint64_t> NumberOfReservation(std::uint64_t advance) const;

  /// Reserves resources for occurrences that begin within kReservationHorizon, and drops those that are over. Cheap
  /// before next_change.
  void Follow(Time now);
  /// Returns when Follow must be called next; kNever if there are no reservations.
  Time next_change() const { return next_change_; }
  /// Reserves the resources of all occurrences again, because the scheduler has dropped its reservations after a change
  /// of teams.
  void ReserveAnew(Time now);

 private:
  struct Reserved {
    std::uint64_t id = 0;  // The engine's id.
    Time until = kNever;
  };

  bool ReserveOccurrence(const GpuReservation& reservation, const ReservationOccurrence& occurrence, Time now);
  bool ReserveAgain(const GpuReservation& reservation, const ReservationOccurrence& occurrence, Time now);
  void CancelOccurrence(std::uint64_t occurrence);
  std::string WhyNoRoom(const GpuReservation& reservation, const ReservationOccurrence& occurrence, Time now) const;

  Scheduler& scheduler_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  const TeamRegistry& teams_;
  ReservationRegistry registry_;
  std::map<std::uint64_t, Reserved> reserved_;  // By occurrence.
  Time next_change_ = kNoTime;
};

}  // namespace divvy
