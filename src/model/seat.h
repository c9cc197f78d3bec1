// What a job has on one of its machines. Those of a gang start together or not at all: each prepares its part and
// waits, and all go when the last is ready.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/gpu.h"
#include "model/job.h"

namespace divvy {

struct Seat {
  std::string node;  // By name; empty: the controller's own machine.
  GpuSet gpus;
  int tasks = 1;             // Of the job's tasks, those that run here; ranks count on from seat to seat.
  std::uint16_t port = 0;    // Where its step process hears those of the other machines; 0: not prepared.
  std::optional<Exit> exit;  // How its part ended; nothing: it has not.

  friend bool operator==(const Seat&, const Seat&) = default;
};

/// Where a prepared part waits for the others: its step process hears the other machines' there.
struct SeatAddress {
  std::string host;        // A name or address that the other machines reach it by.
  std::uint16_t port = 0;  // TCP; 0: it hears none.

  friend bool operator==(const SeatAddress&, const SeatAddress&) = default;
};

}  // namespace divvy
