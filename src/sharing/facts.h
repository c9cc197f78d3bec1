// What is known of the GPUs and tenants of one node. All of it can be read anew from pages and from the driver, so a
// keeper that was killed loads it and goes on; nothing else is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/gpus/gpu.h"
#include "sharing/share.h"

namespace divvy::sharing {

/// Who takes whole GPUs under a number from this one on is no job: the GPU is to be cut into MIG instances.
inline constexpr std::uint64_t kFirstCut = std::uint64_t{1} << 62;

struct Gpu {
  GpuIndex index = 0;
  std::uint32_t kind = 0;                          // Tenants move between GPUs of the same kind alone.
  Bytes capacity;                                  // For tenants: the whole memory, less what the driver itself needs.
  std::int64_t bytes_per_second = 10'000'000'000;  // Of a tenant's memory to the host, or back. Measured by moves.
  std::string why_unusable;                        // "is no longer there": nobody gets off it either; empty: usable.
  std::string why_withheld;     // "is restricted": it works, and those on it leave if they can; empty: not.
  std::uint64_t whole_job = 0;  // Withheld for this job, which has all of the GPU.
  bool is_ready = false;        // `whole_job` was told that it is empty.

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

enum class State : std::uint8_t {
  kArriving,  // Has no GPU yet.
  kHere,      // On its GPUs, at work or idle.
  kMoving,    // From `gpu` to `target`: counted on both.
  kParking,   // Still on `gpu`.
  kParked,    // On the host.
  kWaking,    // From the host to `target`.
};

/// Why it is parked decides who brings it back.
enum class ParkedBy : std::uint8_t {
  kNobody,   // Not parked.
  kUser,     // `divvy park`: until `divvy wake` or its next call that needs a GPU.
  kIdle,     // Its own idle_park: until its next call.
  kLedger,   // Repays, or made way for another's turn: back when there is room, but not before a turn has passed.
  kOnItsWay  // To another GPU by way of the host: back as soon as there is room.
};

/// One GPU of a tenant, in the tenant's own order.
struct Device {
  GpuIndex paper = 0;              // Where the plan has it.
  GpuIndex gpu = 0;                // Where it is, or was before it was parked.
  std::optional<GpuIndex> target;  // Where it is being brought.
  Bytes used;                      // Counted by the processes, and the residual that the driver reports beyond it.
                                   // Parked: what it needs to come back.
  Bytes ceiling;                   // What it may have now. Zero while parked.

  friend bool operator==(const Device&, const Device&) = default;
};

struct Tenant {
  TenantId id;
  Share share;
  std::vector<Device> devices;  // On different GPUs.
  State state = State::kArriving;
  ParkedBy parked_by = ParkedBy::kNobody;
  bool wants_to_wake = false;   // Parked, and a call of it waits for its GPU.
  std::string why_cannot_move;  // "uses CUDA IPC"; empty: can be moved to another GPU.
  std::string why_cannot_park;  // Empty: its memory can be brought to the host and back.
  bool is_active = false;       // Work on its GPU now, or waiting for it.
  Time last_active = kNoTime;   // When it was seen active last.
  Time last_move = kNoTime;     // When it came to where it is, or left for the host.
  bool is_lost = false;         // A move damaged it. Counted where it was until its processes end.

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

}  // namespace divvy::sharing
