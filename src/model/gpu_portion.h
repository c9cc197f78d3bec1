// A part of a GPU in place of a whole one: what a job has a right to, and how much more it may borrow. docs/sharing.md.
#pragma once

#include <compare>
#include <string>

#include "base/time.h"
#include "base/units.h"

namespace divvy {

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
/// Parts of a GPU of this size that a portion takes of it for itself: kWhole at most, 1 at least. Of what is said by
/// memory more than kWhole: it does not fit there. Requires: portion.any().
GpuShare PartsOf(const GpuPortion& portion, Bytes gpu_memory);
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

}  // namespace divvy
