// Recovery after an earlier keeper: tenants continue, and interrupted operations are completed.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "keeper/keeper.h"

namespace divvy::keeper {

void Keeper::RecordNode() {
  // If this cannot be written, a successor waits for the node's hello, which has all the information.
  [[maybe_unused]] const Status written = records_.Write(node_);
}

void Keeper::SetNode(const std::vector<wire::KeeperGpu>& gpus) {
  GpuSet looked_at;
  for (const wire::KeeperGpu& said : gpus) gpus_[said.index] = said;
  node_.gpus.clear();
  for (const auto& [index, gpu] : gpus_) {
    node_.gpus.push_back(gpu);
    const bool is_there = std::ranges::find(gpus, index, &wire::KeeperGpu::index) != gpus.end();
    if (is_there) looked_at.Insert(index);
    sharing::Gpu known;
    const auto before = ledger_.gpus().find(index);
    if (before != ledger_.gpus().end()) known = before->second;
    known.index = index;
    known.kind = gpu.kind;
    known.capacity = gpu.usable > Bytes(0) ? gpu.usable : gpu.memory;
    known.why_unusable = !is_there         ? "is no longer there"
                         : !gpu.is_broken  ? ""
                         : gpu.why.empty() ? "does not work"
                                           : gpu.why;
    known.why_withheld = !gpu.is_withheld ? "" : gpu.why.empty() ? "is withheld" : gpu.why;
    ledger_.SetGpu(known);
  }
  watch_->LookAt(looked_at);
  RecordNode();
  is_ledger_changed_ = true;
}

Status Keeper::Recover() {
  const auto node = records_.ReadNode();
  if (!node) {
    // The node's hello has all the information. An unreadable file left in place would stop every keeper from starting.
    const std::string aside = records_.PutNodeAside();
    misfortunes_.push_back(node.error().message + "; " + aside);
    std::fprintf(stderr, "divvy keeper: %s\n", misfortunes_.back().c_str());
    return {};
  }
  SetNode(node->gpus);
  node_.whole_jobs = node->whole_jobs;
  for (const RecordedWhole& whole : node->whole_jobs) ledger_.AcquireExclusive(whole.job.value(), whole.gpus);
  TakeUpTenants();
  return {};
}

// Takes GPUs of whole jobs that the earlier keeper did not record, before any tenant is spread onto them.
void Keeper::TakeUpWholes(const wire::KeeperHello& hello) {
  for (std::size_t i = 0; i < std::min(hello.whole_jobs.size(), hello.whole_gpus.size()); ++i) {
    node_.whole_jobs.push_back({hello.whole_jobs[i], hello.whole_gpus[i]});
    ledger_.AcquireExclusive(hello.whole_jobs[i].value(), hello.whole_gpus[i]);
  }
}

void Keeper::TakeUpTenants() {
  has_taken_up_ = true;
  Records::Found found = records_.ReadTenants();
  troubles_ = std::move(found.troubles);
  for (const RecordedTenant& record : found.tenants) {
    if (record.terms.slice.any() && !record.gpus.empty()) {
      AdoptSlice(record);
      continue;
    }
    const TenantId id{record.terms.job.value(), record.terms.attempt};
    const Status adopted = AdoptTenant(record);
    if (adopted) continue;
    kept_.erase(id);
    // A folder that is gone was being removed with its tenant.
    if (adopted.error().code == ErrorCode::kNotFound) {
      records_.Forget(id);
    } else {
      troubles_[id] = adopted.error().message;
    }
  }
  for (const auto& [id, trouble] : troubles_) {
    std::fprintf(stderr, "divvy keeper: job %llu: could not be recovered: %s\n",
                 static_cast<unsigned long long>(id.job), trouble.c_str());
  }
  for (const std::string& folder : records_.FoldersWithout()) remover_.Remove(folder);
  std::set<TenantId> known;
  for (const auto& [id, sliced] : sliced_) known.insert(id);
  FindLeftSlices();
  slices_->KeepOnly(std::move(known));
  RecordNode();
}

void Keeper::ExpectAway(const Kept& kept) {
  for (const RecordedProcess& process : kept.record.processes) {
    for (unsigned device = 0; device < std::min(process.away.size(), kept.tenant->devices().size()); ++device)
      kept.tenant->ExpectAway(process.pid, device, static_cast<std::uint64_t>(process.away[device].count()));
  }
}

Status Keeper::AdoptTenant(const RecordedTenant& record) {
  const TenantId id{record.terms.job.value(), record.terms.attempt};
  auto kept = std::make_unique<Kept>();
  kept->record = record;
  // A tenant that was returning continues to its target; one that was still leaving goes back to its old GPUs.
  if (record.has_restored) kept->record.gpus = record.to;
  const bool is_placed = !record.gpus.empty();
  sharing::Tenant known;
  known.id = id;
  const wire::KeeperAdd& terms = record.terms;
  known.share = {.memory_request = terms.share.memory_request,
                 .memory_limit = terms.share.memory_limit,
                 .compute_request = terms.share.compute_request,
                 .compute_limit = terms.share.compute_limit,
                 .idle_park = terms.idle_park,
                 .is_interactive = terms.is_interactive,
                 .can_be_requeued = terms.may_requeue};
  const bool is_parked = record.is_parked && !record.has_restored;
  known.state = !is_placed ? sharing::State::kArriving : is_parked ? sharing::State::kParked : sharing::State::kHere;
  known.is_lost = record.is_lost;
  known.parked_by =
      is_parked ? static_cast<sharing::ParkedBy>(std::clamp(record.parked_by, 1, 3)) : sharing::ParkedBy::kNobody;
  if (is_placed) {
    std::vector<TenantDevice> devices;
    const std::vector<std::string> uuids = UuidsOf(kept->record.gpus);
    for (std::size_t i = 0; i < uuids.size(); ++i) {
      TenantDevice& device = devices.emplace_back();
      device.uuid = uuids[i];
      device.gpu = static_cast<std::uint32_t>(kept->record.gpus[i]);
      device.request = static_cast<std::uint64_t>(terms.share.memory_request.count());
      device.limit = static_cast<std::uint64_t>(terms.share.memory_limit.count());
      device.gate = record.is_lost ? share::kLost
                    : is_parked    ? share::kParked
                                   : (record.passage != Passage::kNone ? share::kMoving : share::kShut);
    }
    DIVVY_TRY(kept->tenant, Tenant::Adopt(*loop_, remover_, options_.directory, id, static_cast<uid_t>(terms.uid),
                                          std::move(devices)));
    ExpectResiduals(*kept);
    if (is_parked || record.passage != Passage::kNone) ExpectAway(*kept);
    kept->had.assign(uuids.size(), Duration(0));
    kept->had_share.assign(uuids.size(), GpuShare(0));
  }
  for (std::size_t i = 0; i < terms.paper.size(); ++i) {
    sharing::Device& device = known.devices.emplace_back();
    device.paper = static_cast<GpuIndex>(terms.paper[i]);
    device.gpu = is_placed ? static_cast<GpuIndex>(kept->record.gpus[i]) : device.paper;
    if (kept->tenant == nullptr) continue;
    const auto index = static_cast<unsigned>(i);
    device.ceiling = Bytes(static_cast<std::int64_t>(kept->tenant->devices()[index].ceiling));
    device.used = Bytes(static_cast<std::int64_t>(kept->tenant->Used(index)));
    const bool is_away = is_parked || record.passage != Passage::kNone;
    if (is_away && i < record.parked_bytes.size()) device.used = std::max(device.used, record.parked_bytes[i]);
  }
  DIVVY_CHECK(ledger_.LoadTenant(known));
  if (!is_parked && record.passage != Passage::kNone) {
    for (const RecordedProcess& process : record.processes) kept->returning.insert(process.pid);
    if (kept->returning.empty()) kept->record.passage = Passage::kNone;
  } else {
    kept->record.passage = Passage::kNone;
  }
  kept->record.is_parked = is_parked;
  Kept& there = *(kept_[id] = std::move(kept));
  if (there.tenant != nullptr) {
    there.tenant->Listen(EventsOf(id));
    JoinGates(there);
  }
  if (record.is_lost) {
    there.trouble = kWhyLost;
    EndLoss(there);
  }
  SetCannot(there);
  is_ledger_changed_ = true;
  return {};
}

// Brings back processes that were away when the earlier keeper ended, once they have dialled or ended.
void Keeper::BringBack(Kept& kept) {
  if (kept.relocation != nullptr || !has_probed_) return;
  std::set<std::int64_t> there;
  for (const auto& [slot, process] : kept.tenant->processes()) there.insert(process.pid);
  const bool is_complete = kept.tenant->missing() == 0 ||
                           std::includes(there.begin(), there.end(), kept.returning.begin(), kept.returning.end());
  if (!is_complete) return;
  kept.returning.clear();
  RelocationPlan plan;
  plan.returns = true;
  plan.from = plan.to = UuidsOf(kept.record.gpus);
  plan.uses_driver = kept.record.uses_driver;
  for (const Bytes bytes : kept.record.parked_bytes) plan.bytes += static_cast<std::uint64_t>(bytes.count());
  kept.relocation_order = 0;
  StartRelocation(kept, Passage::kWaking, std::move(plan), kept.record.gpus);
}

}  // namespace divvy::keeper
