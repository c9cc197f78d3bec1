// A fraction of a GPU instead of a whole one: the guaranteed part, and how much more it may borrow. docs/sharing.md.
#pragma once

#include <compare>
#include <string>

#include "base/time.h"
#include "base/units.h"

namespace divvy {

/// The smallest allowed fraction. The driver's memory for one process (its context, the code of its libraries) counts
/// as the tenant's, even before the first allocation. On current cards that is 300 to 500 MiB. A tenant with less would
/// exceed its limit with its first call.
inline constexpr Bytes kSmallestPart{std::int64_t{512} << 20};

/// Maximal number of GPUs of which one job may have fractions.
inline constexpr int kMostPortionedGpus = 16;

/// The fraction of each GPU of a request. Given either by parts (`request`, `limit`) or by memory (`memory`,
/// `memory_limit`), never by both.
struct GpuPortion {
  GpuShare request;  // Guaranteed part. None: given by memory, or no fraction at all.
  GpuShare limit;    // It may borrow up to this. None: `request`.
  Bytes memory;
  Bytes memory_limit;  // None: `memory`.
  // Share of the GPU's time, if it differs from the share of memory. None: the same as for memory.
  GpuShare compute;
  GpuShare compute_limit;
  Duration idle_park{0};  // Parks the tenant after this time without GPU use, until it uses the GPU again. 0: never.
  bool uses_mps = false;  // Its processes share the GPU with others through the driver's MPS, not by time slices.

  /// Returns true if the job requests a fraction of its GPUs, false if it requests whole GPUs.
  bool any() const { return request > GpuShare() || memory > Bytes(); }
  bool is_by_memory() const { return memory > Bytes(); }

  friend auto operator<=>(const GpuPortion&, const GpuPortion&) = default;
};

/// The part of a GPU's memory that jobs can use: a job with half of the GPU gets half of it. The driver keeps the rest
/// for itself.
Bytes PortionedMemory(Bytes gpu_memory);
/// The guaranteed fraction of a GPU with this memory, in ten-thousandths: from 1 to GpuShare::kWhole. Returns more than
/// kWhole if the portion does not fit: the GPU has less memory, or the portion is smaller than kSmallestPart there.
/// Requires: portion.any().
GpuShare PartsOf(const GpuPortion& portion, Bytes gpu_memory);
/// Returns how much memory a GPU must have at least so that this fraction fits on it.
Bytes LeastGpuMemory(const GpuPortion& portion);
/// Returns `before` changed by the values that are set in `said`. Other values stay, but a limit below the new request
/// rises to the request. A request by memory replaces a request by fraction, including its limit, and vice versa.
GpuPortion Changed(const GpuPortion& before, const GpuPortion& said);
/// RequestedMemory returns the memory that is guaranteed to the fraction on a GPU with `gpu_memory`, LimitOfMemory the
/// most that it may get.
Bytes RequestedMemory(const GpuPortion& portion, Bytes gpu_memory);
Bytes LimitOfMemory(const GpuPortion& portion, Bytes gpu_memory);
/// RequestedCompute returns the guaranteed share of the GPU's time, LimitOfCompute the maximal one.
GpuShare RequestedCompute(const GpuPortion& portion, Bytes gpu_memory);
GpuShare LimitOfCompute(const GpuPortion& portion);

/// "0.25", in the format of --gpus.
std::string PartsText(GpuShare parts);
/// "0.25", "0.25 to 0.8", "20 GiB", "20 to 40 GiB", for people.
std::string PortionText(const GpuPortion& portion);
/// Returns the requested share of the GPU's time as text: "0.3 to 1 of its time". Empty if it equals the share of the
/// memory.
std::string ComputeText(const GpuPortion& portion);
/// kSmallestPart as a fraction of a GPU with this memory, rounded up to few digits: "0.0065".
GpuShare SmallestParts(Bytes gpu_memory);

}  // namespace divvy
