// Advance reservations: occurrences within a horizon are booked in the scheduler. One without room is retried
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

class ReservationBookings {
 public:
  /// How far ahead occurrences are booked.
  static constexpr Duration kBookingHorizon = std::chrono::hours(24 * 8);

  ReservationBookings(Scheduler& scheduler, EffectRecorder& effects, const NodeTable& nodes, const TeamRegistry& teams)
      : scheduler_(scheduler), effects_(effects), nodes_(nodes), teams_(teams) {}

  bool LoadSetting(std::string_view key, std::string_view text) { return registry_.LoadSetting(key, text); }
  const ReservationRegistry& registry() const { return registry_; }

  // See Controller.
  Result<GpuReservation> Reserve(GpuReservation asked, const Caller& caller, Time now);
  Result<std::string> CancelReservation(const std::string& which, const Caller& caller, Time now);
  std::vector<TurnView> OccurrencesAhead(const GpuReservation& reservation, Time now) const;
  std::optional<std::uint64_t> ReservationOfBooking(std::uint64_t booking) const;

  /// Books what has come within the horizon and drops what is past. Cheap before next_booking.
  void Follow(Time now);
  /// When Follow has something to do; kNever: there are no reservations.
  Time next_booking() const { return next_booking_; }
  /// The scheduler has dropped all bookings, because the teams changed.
  void BookAnew(Time now);

 private:
  struct Booked {
    std::uint64_t id = 0;  // The engine's id.
    Time until = kNever;
  };

  bool BookTurn(const GpuReservation& reservation, const ReservationOccurrence& turn, Time now);
  bool BookAgain(const GpuReservation& reservation, const ReservationOccurrence& turn, Time now);
  void Unbook(std::uint64_t turn);
  std::string WhyNoRoom(const GpuReservation& reservation, const ReservationOccurrence& turn, Time now) const;

  Scheduler& scheduler_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  const TeamRegistry& teams_;
  ReservationRegistry registry_;
  std::map<std::uint64_t, Booked> bookings_;  // By occurrence.
  Time next_booking_ = kNoTime;
};

}  // namespace divvy
