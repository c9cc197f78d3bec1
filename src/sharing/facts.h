// Facts about the GPUs and tenants of one node. All of them can be read again from the tenants' shared-memory pages and
// from the driver. A restarted keeper therefore reloads them and continues; nothing else is stored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gpus/gpu.h"
#include "sharing/share.h"

namespace divvy::sharing {

/// A `whole_job` number from here on is not a job: it reserves the GPU for being split into MIG instances.
inline constexpr std::uint64_t kFirstCut = std::uint64_t{1} << 62;

struct Gpu {
  GpuIndex index = 0;
  std::uint32_t kind = 0;                          // Tenants move only between GPUs of the same kind.
  Bytes capacity;                                  // Available to tenants: total memory minus the driver's own need.
  std::int64_t bytes_per_second = 10'000'000'000;  // Copy speed between GPU and host. Updated from measured moves.
  std::string why_unusable;     // Optional, e.g. "is no longer there". Set: tenants cannot even leave.
  std::string why_withheld;     // Optional, e.g. "is restricted". The GPU works; its tenants leave if they can.
  std::uint64_t whole_job = 0;  // The job that has the whole GPU, so tenants may not use it. 0: none.
  bool is_ready = false;        // A Ready order was issued for `whole_job`.

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

enum class State : std::uint8_t {
  kArriving,  // Has no GPU yet.
  kHere,      // On its GPUs, busy or idle.
  kMoving,    // Moving from `gpu` to `target`; counted on both.
  kParking,   // Being parked; still counted on `gpu`.
  kParked,    // In host memory.
  kWaking,    // Moving from the host to `target`.
};

/// Why a tenant is parked. This decides what wakes it.
enum class ParkedBy : std::uint8_t {
  kNobody,   // Not parked.
  kUser,     // By `divvy park`, until `divvy wake` or its next call that needs a GPU.
  kIdle,     // By its own idle_park setting, until its next call.
  kPlanner,  // By the planner, to repay a loan or to let another tenant run. Woken when there is room; above its
             // request, not before one memory_turn.
  kOnItsWay  // In the middle of a migration via the host. Woken as soon as there is room.
};

/// One GPU of a tenant, in the tenant's own order.
struct Device {
  GpuIndex planned_gpu = 0;        // The GPU that the scheduler's plan assigned.
  GpuIndex gpu = 0;                // The GPU that holds its memory, or held it before parking.
  std::optional<GpuIndex> target;  // Destination of a move or wake in progress.
  Bytes used;     // Allocations counted by the processes, plus the residual that the driver reports beyond them. While
                  // parked: the bytes needed to wake.
  Bytes ceiling;  // Memory that it may currently use. Zero while parked.

  friend bool operator==(const Device&, const Device&) = default;
};

struct Tenant {
  TenantId id;
  Share share;
  std::vector<Device> devices;  // All on different GPUs.
  State state = State::kArriving;
  ParkedBy parked_by = ParkedBy::kNobody;
  bool wants_to_wake = false;   // Parked, with a call waiting for its GPU.
  std::string why_cannot_move;  // Optional, e.g. "uses CUDA IPC". Empty: it can migrate to another GPU.
  std::string why_cannot_park;  // Optional. Empty: its memory can be copied to the host and back.
  bool is_active = false;       // It has work on its GPU, or waits for its turn.
  Time last_active = kNoTime;   // When it was last seen active.
  GpuShare time_used;           // Share of a GPU's time that it had lately: of the GPU where it had most.
  Time last_move = kNoTime;     // When it last arrived on its current GPU or left for the host.
  /// A GPU where its request does not fit. It came there for unused time: it holds no request there, and all that it
  /// uses there is borrowed. Its request is kept on its planned GPU.
  std::optional<GpuIndex> lodges_on;
  bool is_lost = false;         // A move damaged it. It stays counted on its GPUs until its processes end.
  bool is_displaced = false;    // Its GPUs are no longer reserved for it. It is parked or being parked, until Return.

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

}  // namespace divvy::sharing
