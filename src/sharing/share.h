// What a tenant asks for on each of its GPUs, and the terms on which it has it.
#pragma once

#include <compare>
#include <cstdint>

#include "base/time.h"
#include "base/units.h"

namespace divvy::sharing {

/// Requires: 0 < memory_request <= memory_limit, 0 < compute_request <= compute_limit <= GpuShare::kWhole. Two of one
/// tenant's GPUs have the same share.
struct Share {
  Bytes memory_request;          // A right.
  Bytes memory_limit;            // Never more.
  GpuShare compute_request;      // Of the GPU's time; a right.
  GpuShare compute_limit;        // Never more, also when alone.
  Duration idle_park{0};         // Parks when its GPUs were idle for so long; 0: never.
  bool is_interactive = false;   // Somebody sits before it: goes first when it wakes.
  bool can_be_requeued = false;  // Its owner agreed that it may be requeued to repay what it borrowed.

  friend bool operator==(const Share&, const Share&) = default;
};

/// A job on this node, and which time it runs.
struct TenantId {
  std::uint64_t job = 0;  // JobId's value.
  std::uint32_t attempt = 0;

  friend auto operator<=>(const TenantId&, const TenantId&) = default;
};

}  // namespace divvy::sharing
