// Orders from the planner to the keeper. Orders with an id are in flight until SharePlanner::OnDone; the others are
// sent once.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sharing/facts.h"

namespace divvy::sharing {

/// Sets the ceiling of a device under the page's lock, but never below its use at that moment. OnDone: `bytes` is the
/// resulting ceiling. The planner counts a raise when it is ordered, a decrease at OnDone.
struct SetCeiling {
  TenantId tenant;
  unsigned device = 0;
  Bytes bytes;
};
/// The answer to RequestMemory or Pin. If RequestMemory is granted, a preceding SetCeiling made the ceiling high
/// enough.
struct Answer {
  TenantId tenant;
  unsigned device = 0;
  std::uint64_t request = 0;
  bool is_granted = false;
  std::string why;  // Set if denied.
};
/// Asks the tenant's processes to release free memory of their pools; `bytes` would be enough. OnDone always follows,
/// within a time limit that the keeper sets. SetUse reports the effect.
struct Shrink {
  TenantId tenant;
  unsigned device = 0;
  Bytes bytes;
};
/// Assigns GPUs to a new tenant after AddTenant. `to[i]` is the GPU of its device i. Sent once, without OnDone.
struct Place {
  TenantId tenant;
  std::vector<GpuIndex> to;
};
/// Moves all devices of a tenant to `to`; some may stay where they are. OnDone follows.
struct Move {
  TenantId tenant;
  std::vector<GpuIndex> from;
  std::vector<GpuIndex> to;
};
/// Copies the tenant's memory to the host and frees its GPUs. OnDone follows.
struct Park {
  TenantId tenant;
  std::string why;
};
/// Copies the tenant's memory from the host back to the GPUs `to`. OnDone follows.
struct Wake {
  TenantId tenant;
  std::vector<GpuIndex> to;
};
/// The last step of repaying: requeues `borrower`, which agreed to it. It holds `bytes` on `gpu` that `owner` has a
/// right to. Sent once; RemoveTenant follows when it has ended.
struct Requeue {
  TenantId borrower;
  TenantId owner;  // For a job with whole GPUs: its id and attempt 0.
  GpuIndex gpu = 0;
  Bytes bytes;
};
/// The GPUs of AcquireExclusive have no tenants left. Sent once.
struct Ready {
  std::uint64_t job = 0;
};
/// Reports a failure: the GPUs of the whole job `job` cannot be emptied now, or `tenant` is lost or stuck. Sent once
/// for each different `why`, and retried when something changes.
struct Failed {
  std::uint64_t job = 0;
  TenantId tenant;
  std::string why;  // Empty for a tenant: its earlier GPU problem is gone.
};

using Action = std::variant<SetCeiling, Answer, Shrink, Place, Move, Park, Wake, Requeue, Ready, Failed>;

struct IssuedAction {
  std::uint64_t id = 0;  // 0: no OnDone expected.
  Action action;
};

/// How an order ended.
enum class Outcome : std::uint8_t {
  kDone,
  kUnchanged,  // Refused or impossible; nothing has changed.
  kParked,     // For Move and Wake: the memory is intact on the host but could not be restored to the GPU.
  kLost,       // The tenant's memory or process is damaged. It is reported; its GPUs stay counted until removal.
};
struct Done {
  Outcome outcome = Outcome::kDone;
  Bytes bytes;       // SetCeiling: the resulting ceiling. Move, Park, Wake: bytes copied.
  Duration took{0};  // For Move, Park and Wake.
  std::string why;   // Set unless kDone.
};

}  // namespace divvy::sharing
