// What a job has on one of its machines. Those of a gang start together or not at all: each prepares its part and
// waits, and all go when the last is ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// Of a heterogeneous job: what one of its components has on a machine.
struct SeatPart {
  int component = 0;
  GpuSet gpus;
  int tasks = 1;  // Of the component's.

  friend bool operator==(const SeatPart&, const SeatPart&) = default;
};

struct Seat {
  std::string node;  // By name; empty: the controller's own machine.
  GpuSet gpus;
  int tasks = 1;             // Of the job's tasks, those that run here; ranks count on from seat to seat.
  std::uint16_t port = 0;    // Where its step process hears those of the other machines; 0: not prepared.
  std::optional<Exit> exit;  // How its part ended; nothing: it has not.
  /// Of a heterogeneous job: which of its components are here, ascending; `gpus` and `tasks` are theirs together. Ranks
  /// count through the first component on all machines, then through the next.
  std::vector<SeatPart> parts;

  friend bool operator==(const Seat&, const Seat&) = default;
};

/// Where a prepared part waits for the others: its step process hears the other machines' there.
struct SeatAddress {
  std::string host;        // A name or address that the other machines reach it by.
  std::uint16_t port = 0;  // TCP; 0: it hears none.

  friend bool operator==(const SeatAddress&, const SeatAddress&) = default;
};

}  // namespace divvy
