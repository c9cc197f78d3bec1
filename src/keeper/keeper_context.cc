#include "keeper/keeper_context.h"

#include <algorithm>
#include <utility>

namespace divvy::keeper {

KeeperContext::KeeperContext(KeeperOptions given, EventLoop& its_loop)
    : options(std::move(given)), loop(its_loop), records(options.directory), planner(options.rules), gates(loop) {}

ManagedTenant* KeeperContext::Find(TenantId id) {
  const auto found = tenants.find(id);
  return found == tenants.end() ? nullptr : found->second.get();
}

std::vector<std::string> KeeperContext::UuidsOf(const std::vector<int>& of) const {
  std::vector<std::string> uuids;
  for (const int gpu : of) {
    const auto found = gpus.find(static_cast<GpuIndex>(gpu));
    uuids.push_back(found == gpus.end() ? std::string() : found->second.uuid);
  }
  return uuids;
}

std::optional<GpuIndex> KeeperContext::IndexOf(const std::string& uuid) const {
  const auto at = std::ranges::find_if(gpus, [&](const auto& entry) { return entry.second.uuid == uuid; });
  if (at == gpus.end() || uuid.empty()) return std::nullopt;
  return at->first;
}

Status KeeperContext::TryToRecord(ManagedTenant& kept) {
  if (is_abandoned) return {};  // There is no directory to write to and no successor to read it.
  // Processes that were moved off the GPU with the tenant stay in the record until the tenant is back, even if they
  // have not connected to a restarted keeper yet.
  for (RecordedProcess& recorded : kept.record.processes) {
    if (kept.tenant == nullptr) break;
    for (const auto& [slot, process] : kept.tenant->processes()) {
      if (process.pid != recorded.pid) continue;
      if (process.depth != kAtWork) recorded.uuids = process.uuids;
      recorded.away.clear();
      for (unsigned device = 0; device < kept.tenant->devices().size(); ++device)
        recorded.away.emplace_back(static_cast<std::int64_t>(process.away[device]));
    }
  }
  Status written = records.Write(kept.record);
  kept.is_recorded = static_cast<bool>(written);
  if (!written) kept.trouble = written.error().message;
  return written;
}

void KeeperContext::RecordNode() {
  // If this record cannot be written, a restarted keeper waits until the node's daemon or agent connects and sends the
  // same information.
  [[maybe_unused]] const Status written = records.Write(node);
}

void KeeperContext::JoinGates(ManagedTenant& kept) {
  if (kept.tenant == nullptr || kept.is_away()) return;
  const sharing::Tenant* known = planner.Find(kept.tenant->id());
  if (known == nullptr || kept.record.is_lost) return;
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) {
    // A job with whole GPUs has no neighbours to take turns with.
    if (kept.record.terms.uses_mps || kept.record.terms.is_whole) {
      kept.tenant->SetGate(device, share::kOpen);
    } else {
      gates.Join(*kept.tenant, device, static_cast<GpuIndex>(kept.record.gpus[device]), known->share);
    }
  }
}

void KeeperContext::LeaveGates(ManagedTenant& kept) {
  for (unsigned device = 0; device < kept.tenant->devices().size(); ++device) gates.Leave(*kept.tenant, device);
}

}  // namespace divvy::keeper
