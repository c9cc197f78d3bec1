// Reservations: GPUs that are kept for a user or a team in a stretch of time, once or again and again. This book knows
// which stretches lie ahead; whether there is room for one, the engine says.
//
// A stretch is named by the reservation's number and by which of its stretches it is, so the same one has the same
// booking after a restart.
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
#include "engine/server/facts.h"

namespace divvy {

inline constexpr std::string_view kReservationPrefix = "reservation.";

enum class Every { kOnce, kDay, kWeekday, kWeek };
/// "once", "day", "weekday", "week"
std::string_view Name(Every every);
std::optional<Every> EveryFromName(std::string_view name);

struct GpuReservation {
  std::uint64_t number = 0;
  std::string name;  // For people; may be empty.
  int gpus = 0;
  std::string user;  // Exactly one of user and team.
  std::string team;
  Time start = kNoTime;
  Duration duration{0};
  Every every = Every::kOnce;
  Duration utc_offset{0};  // Of who made it: says which days are weekdays. Stretches stay 24 hours apart all year.
  std::string by;          // Who made it.
  /// Where the stretch that is now has been since it began: it stays there over restarts.
  struct Kept {
    std::uint64_t turn = 0;
    std::string node;  // Empty: the controller's own machine.
    GpuSet gpus;

    friend bool operator==(const Kept&, const Kept&) = default;
  } kept;

  friend bool operator==(const GpuReservation&, const GpuReservation&) = default;
};

/// One time that a reservation comes round.
struct GpuTurn {
  std::uint64_t id = 0;  // Of all turns of all reservations.
  std::uint64_t reservation = 0;
  Time from = kNoTime;
  Time until = kNoTime;

  friend bool operator==(const GpuTurn&, const GpuTurn&) = default;
};

/// The same with what is held for it.
struct TurnView {
  GpuTurn turn;
  bool is_held = false;
  std::string reason;             // Why it is not.
  std::vector<NodePlace> places;  // Before it begins they may still become others.
};

/// Which reservation a turn is of.
constexpr std::uint64_t kTurnsPerReservation = 100'000;
constexpr std::uint64_t ReservationOf(std::uint64_t turn) { return turn / kTurnsPerReservation; }

/// Those of its turns that end after `now` and begin before `until`, in order.
std::vector<GpuTurn> TurnsOf(const GpuReservation& reservation, Time now, Time until);
bool IsFor(const GpuReservation& reservation, std::string_view user, std::string_view team);
/// "reservation 3 (course)"
std::string NameOf(const GpuReservation& reservation);
/// "every weekday", "once"
std::string Describe(Every every);

class ReservationBook {
 public:
  using Setting = std::pair<std::string, std::string>;

  /// Checks it and gives it a number. It is not in the book yet: the engine may have no room.
  Result<GpuReservation> Make(GpuReservation asked, Time now) const;
  Setting Add(const GpuReservation& reservation);
  /// By number or name.
  Result<GpuReservation> Find(std::string_view which) const;
  Setting Remove(std::uint64_t number);
  /// Those that never come round again are removed.
  std::vector<Setting> DropPast(Time now);

  /// True if the key is one of this book's.
  bool LoadSetting(std::string_view key, std::string_view text);
  const std::map<std::uint64_t, GpuReservation>& all() const { return reservations_; }

 private:
  std::map<std::uint64_t, GpuReservation> reservations_;
};

}  // namespace divvy
