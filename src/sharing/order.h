// What the keeper is to do. Orders with an id are in flight until Ledger::OnDone; the others are said once.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sharing/facts.h"

namespace divvy::sharing {

/// Write the ceiling of a device, under the page's lock, never below what it uses at that moment.
/// OnDone: `bytes` is the ceiling as it is then. A raise counts from when it is ordered, a lowering from OnDone.
struct SetCeiling {
  TenantId tenant;
  unsigned device = 0;
  Bytes bytes;
};
/// The answer to Want. Granted: the ceiling is high enough (a SetCeiling came before it).
struct Answer {
  TenantId tenant;
  unsigned device = 0;
  std::uint64_t request = 0;
  bool is_granted = false;
  std::string why;  // If denied.
};
/// Ask its processes to give back what is free in their pools; `bytes` would help. OnDone in any case, after a bound
/// that is the keeper's; SetUse tells what it brought.
struct Shrink {
  TenantId tenant;
  unsigned device = 0;
  Bytes bytes;
};
/// A new tenant's GPUs: result of AddTenant. `to[i]` is the GPU of its device i. Said once; no OnDone.
struct Place {
  TenantId tenant;
  std::vector<GpuIndex> to;
};
/// Bring all devices of a tenant from where they are to `to` (some may be the same). OnDone.
struct Move {
  TenantId tenant;
  std::vector<GpuIndex> from;
  std::vector<GpuIndex> to;
};
/// Bring its memory to the host and free its GPUs. OnDone.
struct Park {
  TenantId tenant;
  std::string why;
};
/// Bring it back, onto `to`. OnDone.
struct Wake {
  TenantId tenant;
  std::vector<GpuIndex> to;
};
/// The last rung: `borrower` agreed to be requeued; it has `bytes` on `gpu` that `owner` has a right to. Said once;
/// RemoveTenant follows when it has gone.
struct Requeue {
  TenantId borrower;
  TenantId owner;  // Or, for a job with whole GPUs, its id and attempt 0.
  GpuIndex gpu = 0;
  Bytes bytes;
};
/// The GPUs of TakeWhole are empty of tenants. Said once.
struct Ready {
  std::uint64_t job = 0;
};
/// Something could not be made so: a whole job's GPUs cannot be emptied now (`job`), or a tenant is lost or stuck
/// (`tenant`). Said once for each different `why`; tried again when something changes.
struct Failed {
  std::uint64_t job = 0;
  TenantId tenant;
  std::string why;  // Of a tenant, empty: what was said of its GPU holds no longer.
};

using Deed = std::variant<SetCeiling, Answer, Shrink, Place, Move, Park, Wake, Requeue, Ready, Failed>;

struct Order {
  std::uint64_t id = 0;  // 0: not waited for.
  Deed deed;
};

/// How an order ended.
enum class Outcome : std::uint8_t {
  kDone,
  kUnchanged,  // Refused or impossible: all is as before.
  kParked,     // Of Move and Wake: the memory is on the host, whole, and did not get onto the GPU.
  kLost,  // The tenant's memory or process is damaged. It is reported, and its GPUs stay counted until it is removed.
};
struct Done {
  Outcome outcome = Outcome::kDone;
  Bytes bytes;       // SetCeiling: the ceiling now. Move, Park, Wake: how many were moved.
  Duration took{0};  // Move, Park, Wake.
  std::string why;   // If not kDone.
};

}  // namespace divvy::sharing
