// Recovery after an earlier keeper: tenants continue, and interrupted operations are completed.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "keeper/keeper.h"

namespace divvy::keeper {
namespace {

void ExpectAway(const ManagedTenant& kept) {
  for (const RecordedProcess& process : kept.record.processes) {
    for (unsigned device = 0; device < std::min(process.away.size(), kept.tenant->devices().size()); ++device)
      kept.tenant->ExpectAway(process.pid, device, static_cast<std::uint64_t>(process.away[device].count()));
  }
}

}  // namespace

void Keeper::SetNode(const std::vector<wire::KeeperGpu>& gpus) {
  GpuSet looked_at;
  for (const wire::KeeperGpu& said : gpus) shared_.gpus[said.index] = said;
  shared_.node.gpus.clear();
  for (const auto& [index, gpu] : shared_.gpus) {
    shared_.node.gpus.push_back(gpu);
    const bool is_there = std::ranges::find(gpus, index, &wire::KeeperGpu::index) != gpus.end();
    if (is_there) looked_at.Insert(index);
    sharing::Gpu known;
    const auto before = shared_.planner.gpus().find(index);
    if (before != shared_.planner.gpus().end()) known = before->second;
    known.index = index;
    known.kind = gpu.kind;
    known.capacity = gpu.usable > Bytes(0) ? gpu.usable : gpu.memory;
    known.why_unusable = !is_there         ? "is no longer there"
                         : !gpu.is_broken  ? ""
                         : gpu.why.empty() ? "does not work"
                                           : gpu.why;
    known.why_withheld = !gpu.is_withheld ? "" : gpu.why.empty() ? "is withheld" : gpu.why;
    shared_.planner.SetGpu(known);
  }
  watch_->LookAt(looked_at);
  shared_.RecordNode();
  shared_.is_planner_due = true;
}

Status Keeper::Recover() {
  const auto node = shared_.records.ReadNode();
  if (!node) {
    // The node's record cannot be read. The daemon or agent sends the same information when it connects. The file is
    // moved aside, since it would keep every keeper from starting.
    const std::string aside = shared_.records.PutNodeAside();
    const std::string trouble = node.error().message + "; " + aside;
    std::fprintf(stderr, "divvy keeper: %s\n", trouble.c_str());
    report_.AddTrouble(trouble);
    return {};
  }
  SetNode(node->gpus);
  takes_.Recover(node->whole_jobs);
  TakeUpTenants();
  return {};
}

void Keeper::TakeUpTenants() {
  has_taken_up_ = true;
  Records::Found found = shared_.records.ReadTenants();
  troubles_ = std::move(found.troubles);
  for (const RecordedTenant& record : found.tenants) {
    if (record.terms.slice.any() && !record.gpus.empty()) {
      slices_.Adopt(record);
      continue;
    }
    const TenantId id{record.terms.job.value(), record.terms.attempt};
    const Status adopted = AdoptTenant(record);
    if (adopted) continue;
    shared_.tenants.erase(id);
    // If the tenant's folder is gone, an earlier keeper was removing the tenant.
    if (adopted.error().code == ErrorCode::kNotFound) {
      shared_.records.Forget(id);
    } else {
      troubles_[id] = adopted.error().message;
    }
  }
  for (const auto& [id, trouble] : troubles_) {
    std::fprintf(stderr, "divvy keeper: job %llu: could not be recovered: %s\n",
                 static_cast<unsigned long long>(id.job), trouble.c_str());
  }
  for (const std::string& folder : shared_.records.FoldersWithout()) shared_.remover.Remove(folder);
  slices_.FindLeft();
  shared_.RecordNode();
}

Status Keeper::AdoptTenant(const RecordedTenant& record) {
  const TenantId id{record.terms.job.value(), record.terms.attempt};
  auto kept = std::make_unique<ManagedTenant>();
  kept->record = record;
  // A tenant that was returning continues to its target; one that was still leaving goes back to its old GPUs.
  if (record.has_restored) kept->record.gpus = record.to;
  const bool is_placed = !record.gpus.empty();
  sharing::Tenant known;
  known.id = id;
  const wire::KeeperAdd& terms = record.terms;
  known.share = ShareOf(terms);
  const bool is_parked = record.is_parked && !record.has_restored;
  known.state = !is_placed ? sharing::State::kArriving : is_parked ? sharing::State::kParked : sharing::State::kHere;
  known.is_lost = record.is_lost;
  known.parked_by =
      is_parked ? static_cast<sharing::ParkedBy>(std::clamp(record.parked_by, 1, 3)) : sharing::ParkedBy::kNobody;
  // A tenant that had not left its GPUs completely stays there; the node repeats its request to park it.
  known.is_displaced = kept->record.is_displaced = is_parked && record.is_displaced;
  if (is_parked && terms.is_whole && !known.is_displaced) {
    // The tenant was told to return to its GPUs before the restart.
    known.parked_by = sharing::ParkedBy::kOnItsWay;
    known.wants_to_wake = true;
  }
  if (is_placed) {
    const std::vector<std::string> uuids = shared_.UuidsOf(kept->record.gpus);
    std::vector<TenantDevice> devices = DevicesOf(kept->record, uuids);
    for (TenantDevice& device : devices) {
      device.gate = record.is_lost ? share::kLost
                    : is_parked    ? share::kParked
                                   : (record.passage != Passage::kNone ? share::kMoving : share::kShut);
    }
    DIVVY_TRY(kept->tenant, Tenant::Adopt(shared_.loop, shared_.remover, shared_.options.directory, id,
                                          static_cast<uid_t>(terms.uid), std::move(devices)));
    use_.ExpectResiduals(*kept);
    if (is_parked || record.passage != Passage::kNone) ExpectAway(*kept);
    kept->had.assign(uuids.size(), Duration(0));
    kept->had_share.assign(uuids.size(), GpuShare(0));
  }
  for (std::size_t i = 0; i < terms.paper.size(); ++i) {
    sharing::Device& device = known.devices.emplace_back();
    device.planned_gpu = static_cast<GpuIndex>(terms.paper[i]);
    device.gpu = is_placed ? static_cast<GpuIndex>(kept->record.gpus[i]) : device.planned_gpu;
    if (kept->tenant == nullptr) continue;
    const auto index = static_cast<unsigned>(i);
    device.ceiling = Bytes(static_cast<std::int64_t>(kept->tenant->devices()[index].ceiling));
    device.used = Bytes(static_cast<std::int64_t>(kept->tenant->Used(index)));
    const bool is_away = is_parked || record.passage != Passage::kNone;
    if (is_away && i < record.parked_bytes.size()) device.used = std::max(device.used, record.parked_bytes[i]);
  }
  DIVVY_CHECK(shared_.planner.LoadTenant(known));
  if (!is_parked && record.passage != Passage::kNone) {
    for (const RecordedProcess& process : record.processes) kept->returning.insert(process.pid);
    if (kept->returning.empty()) kept->record.passage = Passage::kNone;
  } else {
    kept->record.passage = Passage::kNone;
  }
  kept->record.is_parked = is_parked;
  ManagedTenant& there = *(shared_.tenants[id] = std::move(kept));
  if (there.tenant != nullptr) {
    there.tenant->Listen(EventsOf(id));
    shared_.JoinGates(there);
  }
  if (record.is_lost) {
    there.trouble = kWhyLost;
    relocations_.EndLoss(there);
  }
  use_.SetCannot(there);
  shared_.is_planner_due = true;
  return {};
}

}  // namespace divvy::keeper
