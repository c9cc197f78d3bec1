// The resources that a tenant requests on each of its GPUs, and the terms of sharing.
#pragma once

#include <compare>
#include <cstdint>

#include "base/time.h"
#include "base/units.h"

namespace divvy::sharing {

/// Requires: 0 < memory_request <= memory_limit, 0 < compute_request <= compute_limit <= GpuShare::kWhole. All GPUs of
/// one tenant have the same share.
struct Share {
  Bytes memory_request;          // Guaranteed.
  Bytes memory_limit;            // Upper bound.
  GpuShare compute_request;      // Guaranteed share of the GPU's time.
  GpuShare compute_limit;        // Upper bound, even when the tenant is alone.
  Duration idle_park{0};         // Parks after its GPUs were idle for this long; 0: never.
  bool is_interactive = false;   // A user works with it interactively: it wakes before others.
  bool can_be_requeued = false;  // The owner agreed to a requeue if borrowed memory must be repaid.
  bool is_whole = false;         // Its GPUs are its alone: it is on its planned GPUs, and leaves only when displaced.

  friend bool operator==(const Share&, const Share&) = default;
};

/// A job on this node and its attempt.
struct TenantId {
  std::uint64_t job = 0;  // The value of its JobId.
  std::uint32_t attempt = 0;

  friend auto operator<=>(const TenantId&, const TenantId&) = default;
};

}  // namespace divvy::sharing
