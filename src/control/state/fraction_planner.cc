#include "control/state/fraction_planner.h"

#include <algorithm>
#include <utility>

#include "engine/scheduler/planned_gpus.h"
#include "model/gpus/gpu_portion.h"

namespace divvy {

// The job grows on its GPU if the other tenants leave room, otherwise on another GPU of the node.
Status FractionPlanner::Grow(JobRecord& record, const GpuPortion& wanted) {
  const Status fits = scheduler_.SetPortion(record.id, wanted);
  const RunningJob* job = scheduler_.running(record.id);
  if (fits || job->gpus.size() > 1 || tenants_[job->node].stays.contains(record.id)) return fits;
  const NodeUsage& node = scheduler_.node(job->node);
  const auto from = static_cast<GpuIndex>(job->gpus.ToVector().front());
  const GpuShare share = PartsOf(wanted, node.capacity.gpus[from].memory_total);
  const auto to = OtherGpuFor(node, from, job->gpus, CutGpus(node), share);
  if (!to) return fits;
  scheduler_.SetPlannedGpus(record.id, GpuSet::Of({*to}));
  record.gpus = scheduler_.running(record.id)->gpus;
  return scheduler_.SetPortion(record.id, wanted);
}

void FractionPlanner::Loosen(const JobRecord& record) {
  NodeTenants& machine = tenants_[nodes_.IndexOf(record.node).value_or(kOwnNode)];
  // A tenant may be on GPUs that were planned for a whole-GPU job.
  machine.is_loose = machine.is_loose || record.request.is_portioned() || !machine.stays.empty();
}

bool FractionPlanner::OnTenants(const std::string& name, const std::vector<Tenant>& tenants) {
  const auto node = nodes_.IndexOf(name);
  if (!node) return false;
  std::map<JobId, GpuSet> stays;
  for (const Tenant& tenant : tenants) {
    const JobRecord* record = jobs_.Find(tenant.job);
    const bool is_ours = record != nullptr && record->attempt == tenant.attempt && IsActive(record->state) &&
                         record->request.is_portioned() && record->node == name;
    if (is_ours && !tenant.can_move && tenant.gpus.size() == record->gpus.size()) stays[tenant.job] = tenant.gpus;
  }
  NodeTenants& machine = tenants_[*node];
  if (machine.stays == stays) return false;
  machine.stays = std::move(stays);
  machine.is_loose = true;
  effects_.RequestPlan();
  return true;
}

void FractionPlanner::Pack() {
  for (auto& [node, tenants] : tenants_) {
    if (nodes_.IsAway(node)) continue;  // The node would not receive the command.
    if (std::exchange(tenants.is_loose, false)) Pack(node);
  }
}

// Jobs that are starting or stopping stay where they are accounted.
void FractionPlanner::Pack(NodeIndex node) {
  if (node >= scheduler_.nodes().size()) return;
  const NodeTenants& machine = tenants_.at(node);
  std::map<JobId, PlannedTenant> tenants;
  for (const auto& [gpu, sharers] : scheduler_.node(node).sharers) {
    for (const auto& [job, share] : sharers) {
      const JobRecord& record = jobs_.live().at(job);
      const bool is_part = record.request.is_portioned() && record.gang.empty();
      if (!is_part || record.state != JobState::kRunning) continue;
      const auto stays = machine.stays.find(job);
      tenants[job] = {job, record.gpus, share, stays == machine.stays.end() ? GpuSet() : stays->second};
    }
  }
  std::vector<PlannedTenant> all;
  for (const auto& [job, tenant] : tenants) all.push_back(tenant);
  const std::vector<PlannedMove> moves = PackPlannedGpus(scheduler_.node(node), all, CutGpus(scheduler_.node(node)));
  for (const PlannedMove& move : moves) SetPlannedGpus(jobs_.live().at(move.job), move.gpus);
}

GpuSet FractionPlanner::CutGpus(const NodeUsage& node) const {
  GpuSet cut;
  for (const auto& [gpu, sharers] : node.sharers) {
    const auto has_slice = [this](const auto& sharer) { return !jobs_.live().at(sharer.first).request.slice.empty(); };
    if (std::ranges::any_of(sharers, has_slice)) cut.Insert(gpu);
  }
  return cut;
}

void FractionPlanner::SetPlannedGpus(JobRecord& record, GpuSet gpus) {
  scheduler_.SetPlannedGpus(record.id, gpus);
  record.gpus = gpus;
  effects_.RequestPlan();
  effects_.Persist(record);
  effects_.Send(record, PortionCommand{record.id, record.request.portion, gpus, ""});
}

}  // namespace divvy
