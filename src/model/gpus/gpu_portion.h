// A part of a GPU in place of a whole one: what a job has a right to, and how much more it may borrow. docs/sharing.md.
#pragma once

#include <compare>
#include <string>

#include "base/time.h"
#include "base/units.h"

namespace divvy {

/// No part of any GPU is smaller: what the driver needs for one process (its context, the code of its libraries) before
/// that has allocated anything counts as the tenant's, and is 300 to 500 MiB on the cards of today. Who has less is
/// above its limit from its first call on.
inline constexpr Bytes kSmallestPart{std::int64_t{512} << 20};

/// GPUs of which one job may have parts.
inline constexpr int kMostPortionedGpus = 16;

/// Of each GPU of a request. Said by parts (`request`, `limit`) or by memory (`memory`, `memory_limit`), never by both.
struct GpuPortion {
  GpuShare request;  // Its own whenever it wants it. None: by memory, or no portion at all.
  GpuShare limit;    // It may borrow up to this. None: as `request`.
  Bytes memory;
  Bytes memory_limit;  // None: as `memory`.
  // Of the GPU's time, where that is not to be as of its memory. None: as that.
  GpuShare compute;
  GpuShare compute_limit;
  Duration idle_park{0};  // Leaves a GPU that it has not used for so long, until it does again. 0: stays.
  bool uses_mps = false;  // Its processes run beside others' by the driver's MPS, not in turns.

  /// False: its GPUs are whole.
  bool any() const { return request > GpuShare() || memory > Bytes(); }
  bool is_by_memory() const { return memory > Bytes(); }

  friend auto operator<=>(const GpuPortion&, const GpuPortion&) = default;
};

/// What portions on a GPU of this size are parts of: the driver keeps the rest for itself.
Bytes PortionedMemory(Bytes gpu_memory);
/// Parts of a GPU of this size that a portion takes of it for itself: kWhole at most, 1 at least. More than kWhole: a
/// GPU of this size has not so much, or the portion is less there than kSmallestPart. Requires: portion.any().
GpuShare PartsOf(const GpuPortion& portion, Bytes gpu_memory);
/// A GPU of less memory cannot give it.
Bytes LeastGpuMemory(const GpuPortion& portion);
/// `before` with what is said of it anew: what is not said stays, and a limit below the new request rises to it. A
/// request by memory takes the place of one by parts, with its limit, and the other way round.
GpuPortion Changed(const GpuPortion& before, const GpuPortion& said);
/// Bytes of a GPU of this size that are its own, and that it may have at most.
Bytes RequestedMemory(const GpuPortion& portion, Bytes gpu_memory);
Bytes LimitOfMemory(const GpuPortion& portion, Bytes gpu_memory);
/// Of the GPU's time: its own, and at most.
GpuShare RequestedCompute(const GpuPortion& portion, Bytes gpu_memory);
GpuShare LimitOfCompute(const GpuPortion& portion);

/// "0.25": as --gpus has it.
std::string PartsText(GpuShare parts);
/// "0.25", "0.25 to 0.8", "20 GiB", "20 to 40 GiB" of a GPU, for people.
std::string PortionText(const GpuPortion& portion);
/// "0.3 to 1 of its time"; empty: its time is as its memory.
std::string ComputeText(const GpuPortion& portion);
/// The smallest part of a GPU of this size that is kSmallestPart, rounded up to what reads well: "0.0065".
GpuShare SmallestParts(Bytes gpu_memory);

}  // namespace divvy
