// The state that all parts of the keeper use: the node's tenants and GPUs with their records, the planner, and the
// connections to the node and the loop. Everything runs in the thread of the loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "keeper/drivers/event_loop.h"
#include "keeper/drivers/mechanisms.h"
#include "keeper/keeper_options.h"
#include "keeper/managed_tenant.h"
#include "keeper/node_listener.h"
#include "keeper/tenants/folder_remover.h"
#include "keeper/tenants/gates.h"
#include "sharing/planner/share_planner.h"

namespace divvy::keeper {

struct KeeperContext {
  KeeperContext(KeeperOptions given, EventLoop& its_loop);

  /// Returns null if there is no such tenant.
  ManagedTenant* Find(TenantId id);
  /// Returns the UUIDs of the GPUs with these indices; an empty text for a GPU that the node has not reported.
  std::vector<std::string> UuidsOf(const std::vector<int>& of) const;
  std::optional<GpuIndex> IndexOf(const std::string& uuid) const;
  /// Writes the tenant's state to its record, from which a restarted keeper continues. A failed write is repeated
  /// periodically.
  Status TryToRecord(ManagedTenant& kept);
  void Record(ManagedTenant& kept) { [[maybe_unused]] const Status written = TryToRecord(kept); }
  void RecordNode();
  /// Lets the tenant use its GPUs in turns with the other tenants there. If it is parked or moving, this begins when it
  /// is back on them.
  void JoinGates(ManagedTenant& kept);
  void LeaveGates(ManagedTenant& kept);

  const KeeperOptions options;
  EventLoop& loop;
  Records records;
  FolderRemover remover;
  Mechanisms mechanisms;
  sharing::SharePlanner planner;
  Gates gates;
  std::unique_ptr<NodeListener> listener;
  RecordedNode node;
  std::map<GpuIndex, wire::KeeperGpu> gpus;
  std::map<TenantId, std::unique_ptr<ManagedTenant>> tenants;
  bool is_planner_due = true;  // The planner has new facts, so it has to decide.
  bool has_probed = false;     // The driver's capabilities are known.
  bool is_abandoned = false;   // The directory is gone, so no process can reach this keeper any more.
};

}  // namespace divvy::keeper
