// A tenant as the keeper manages it: its record for a successor, its folder and processes, and what is in progress.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "keeper/tenants/record.h"
#include "keeper/tenants/relocation.h"
#include "keeper/tenants/tenant.h"

namespace divvy::keeper {

using sharing::TenantId;

/// The state that a pending request of the node waits for.
enum class Goal { kPlaced, kParked, kHere, kThere, kDisplaced, kReturned };
struct PendingRequest {
  std::uint64_t id = 0;
  Goal goal = Goal::kPlaced;
  std::vector<GpuIndex> to;
  Time until = kNever;  // Afterwards the request fails with the reason of the wait.
};

/// A process's request for memory, or one that will bind it to its GPU.
struct ProcessRequest {
  Slot slot = 0;
  std::uint64_t id = 0;
  unsigned device = 0;
};

/// Progress of a tenant's start as an MPS client on its GPUs.
struct MpsEntry {
  std::size_t awaited = 0;               // Number of servers that have not answered.
  std::string why_not;                   // Error of a server that refused.
  std::vector<std::string> environment;  // NAME=value.
};

struct ManagedTenant {
  RecordedTenant record;
  std::unique_ptr<Tenant> tenant;  // Null until the tenant has been placed.
  std::unique_ptr<Relocation> relocation;
  std::uint64_t relocation_action = 0;         // 0: a recovery, without an order.
  std::vector<sharing::IssuedAction> held_up;  // Orders that wait until the relocation ends.
  std::map<std::uint64_t, ProcessRequest> wants;
  std::vector<PendingRequest> pending;
  std::set<std::int64_t> escaped;
  // When each unknown process on the GPU was first seen, whether or not it counts as escaped yet.
  std::map<std::int64_t, Time> strangers;
  std::set<std::int64_t> returning;  // Processes that were away when the previous keeper ended, to be brought back.
  bool awaits_dialling = false;      // On the host; wakes once its missing processes have dialled.
  bool is_recorded = true;
  std::string why_no_room;  // The host has no room for its memory.
  std::string trouble;
  std::string displacement_failure;  // Why its last displacement or return failed.
  std::optional<MpsEntry> mps;
  std::map<Slot, std::uint64_t> launches;  // Launch counters at the last tick.
  Time relocated = kNoTime;                // When its last relocation ended.
  std::vector<wire::KeptPassage> passages;
  std::vector<Duration> had;        // GPU time per device at the last sample, a second ago.
  std::vector<GpuShare> had_share;  // Share of GPU time per device in the last second.

  TenantId id() const { return {record.terms.job.value(), record.terms.attempt}; }
  /// True while the tenant is parked, moving or being brought back. Its programs cannot submit GPU work then, and the
  /// memory that they report is incomplete.
  bool is_away() const { return record.is_parked || relocation != nullptr || !returning.empty(); }
};

/// Converts a tenant's memory and compute settings, as the node's daemon or agent sent them, into the planner's form.
sharing::Share ShareOf(const wire::KeeperAdd& terms);
/// Returns the initial values of the tenant's devices for its shared-memory page. `uuids`: the UUIDs of its GPUs. All
/// gates are shut, and the memory ceilings have their defaults.
std::vector<TenantDevice> DevicesOf(const RecordedTenant& record, const std::vector<std::string>& uuids);

}  // namespace divvy::keeper
