// Advance reservations: GPUs kept for a user or a team during a time interval, once or periodically. This registry
// knows the future occurrences; the engine decides whether there is room for one.
//
// An occurrence is identified by the reservation's number and its ordinal, so it has the same GPUs after a restart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/scheduler/facts.h"

namespace divvy {

inline constexpr std::string_view kReservationPrefix = "reservation.";

enum class Every { kOnce, kDay, kWeekday, kWeek };
/// Returns how often a reservation repeats, as users write it: "once", "day", "weekday" or "week".
std::string_view Name(Every every);
std::optional<Every> EveryFromName(std::string_view name);

struct GpuReservation {
  std::uint64_t number = 0;
  std::string name;  // For display; may be empty.
  int gpus = 0;
  std::string user;  // Exactly one of user and team is set.
  std::string team;
  Time start = kNoTime;
  Duration duration{0};
  Every every = Every::kOnce;
  Duration utc_offset{0};  // The creator's; decides which days are weekdays. Occurrences stay 24 hours apart all year.
  std::string by;          // The user who created it.
  /// The place of the current occurrence since its start, so that it stays there after a restart.
  struct Kept {
    std::uint64_t occurrence = 0;
    std::string node;  // Empty: the controller's own machine.
    GpuSet gpus;

    friend bool operator==(const Kept&, const Kept&) = default;
  } kept;

  friend bool operator==(const GpuReservation&, const GpuReservation&) = default;
};

/// One occurrence of a reservation.
struct ReservationOccurrence {
  std::uint64_t id = 0;  // Unique among all occurrences of all reservations.
  std::uint64_t reservation = 0;
  Time from = kNoTime;
  Time until = kNoTime;

  friend bool operator==(const ReservationOccurrence&, const ReservationOccurrence&) = default;
};

/// An occurrence and the resources that are reserved for it.
struct PlannedOccurrence {
  ReservationOccurrence occurrence;
  bool is_held = false;
  std::string reason;                 // Why nothing is reserved for it.
  std::vector<NodeResources> places;  // May still change before the occurrence begins.
};

/// An occurrence's id is reservation number x kOccurrencesPerReservation + ordinal.
constexpr std::uint64_t kOccurrencesPerReservation = 100'000;
constexpr std::uint64_t ReservationOf(std::uint64_t occurrence) { return occurrence / kOccurrencesPerReservation; }

/// Returns the occurrences of a reservation that end after `now` and begin before `until`, in order.
std::vector<ReservationOccurrence> OccurrencesOf(const GpuReservation& reservation, Time now, Time until);
bool IsFor(const GpuReservation& reservation, std::string_view user, std::string_view team);
/// Returns the reservation's name for messages: "reservation 3 (course)".
std::string NameOf(const GpuReservation& reservation);
/// Returns how often a reservation repeats, for messages: "every weekday", "once".
std::string Describe(Every every);

class ReservationRegistry {
 public:
  using Setting = std::pair<std::string, std::string>;

  /// Validates the reservation and assigns its number. It is not added yet, because the engine may have no room.
  Result<GpuReservation> Make(GpuReservation asked, Time now) const;
  Setting Add(const GpuReservation& reservation);
  /// Returns the reservation with this number or name; fails if there is none.
  Result<GpuReservation> Find(std::string_view which) const;
  Setting Remove(std::uint64_t number);
  /// Removes reservations that have no future occurrence. Returns the changed rows to store.
  std::vector<Setting> DropPast(Time now);

  /// Loads a row of the store. Returns false if its key is not one of this registry. A row that cannot be read is
  /// ignored.
  bool LoadSetting(std::string_view key, std::string_view text);
  const std::map<std::uint64_t, GpuReservation>& all() const { return reservations_; }

 private:
  std::map<std::uint64_t, GpuReservation> reservations_;
};

}  // namespace divvy
