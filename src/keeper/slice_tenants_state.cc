// Leftover MIG instances, what keeps instances from being destroyed, and how all of them are reported.
#include "keeper/slice_tenants.h"

#include <algorithm>
#include <utility>

#include "model/gpus/slice_counts.h"
#include "platform/gpu/slice_record.h"

namespace divvy::keeper {
namespace {

/// After the directory is gone: for instances that the driver does not destroy although no program uses them.
constexpr Duration kLeavesWithin = 30s;

/// Represents a GPU's mode among the tenants: no job has the number 0.
sharing::TenantId IdOfMode(GpuIndex gpu) { return {0, gpu}; }

std::string SliceText(sharing::TenantId id) {
  return id.job == 0 ? "its MIG mode" : "the MIG instance of job " + std::to_string(id.job);
}

void AddTrouble(GpuIndex gpu, const std::string& why, bool is_stuck, std::map<GpuIndex, wire::KeptGpu>& troubles) {
  wire::KeptGpu& its = troubles[gpu];
  its.index = gpu;
  its.trouble += (its.trouble.empty() ? "" : "; ") + why;
  its.is_stuck = its.is_stuck || is_stuck;
}

}  // namespace

bool SliceTenants::HasSlicesToKeep() const {
  return std::ranges::any_of(sliced_, [this](const auto& entry) {
    return shared_.mechanisms.has_slices || entry.second.state != Sliced::State::kUnmaking;
  });
}

void SliceTenants::FindLeft() {
  std::set<TenantId> known;
  for (const auto& [id, sliced] : sliced_) known.insert(id);
  HoldAllLeft();
  slices_->KeepOnly(std::move(known));
}

void SliceTenants::HoldAllLeft() {
  const auto record = ReadSliceRecord(shared_.options.directory);
  if (!record) return;  // Slices reports the reason.
  const auto hold = [this](TenantId id, const std::string& gpu) {
    if (const auto index = shared_.IndexOf(gpu)) HoldLeft(id.job == 0 ? IdOfMode(*index) : id, *index);
  };
  for (const OwnSlice& own : record->slices) hold({own.job, own.attempt}, own.gpu);
  for (const std::string& gpu : record->switched) {
    const auto index = shared_.IndexOf(gpu);
    if (index && !HasSlices(*index)) hold({}, gpu);
  }
}

// Lists an instance that is already being destroyed, as a tenant whose job has ended.
void SliceTenants::HoldLeft(TenantId id, GpuIndex gpu) {
  if (sliced_.contains(id)) return;
  Sliced& left = sliced_[id];
  left.record.terms.job = JobId(id.job);
  left.record.terms.attempt = id.attempt;
  left.record.gpus = {gpu};
  left.state = Sliced::State::kUnmaking;
  left.is_gone = id.job == 0;
  TakeGpu(gpu);
}

/// Adds or finds an entry in sliced_. If the GPU is unknown, the problem is only reported.
TenantId SliceTenants::EntryOf(const Slices::Unmade& unmade) {
  constexpr GpuIndex kNone = GpuSet::kCapacity;
  const std::optional<GpuIndex> gpu = shared_.IndexOf(unmade.gpu);
  const TenantId id = unmade.tenant.job == 0 ? IdOfMode(gpu.value_or(kNone)) : unmade.tenant;
  const bool is_known = sliced_.contains(id);
  if (!is_known && gpu && !unmade.status) HoldLeft(id, *gpu);
  if (is_known || gpu || unmade.status) left_.erase({unmade.tenant, unmade.gpu});
  else left_[{unmade.tenant, unmade.gpu}] = WhyNotUnmade(unmade) + " (GPU " + unmade.gpu + ")";
  return id;
}

std::string SliceTenants::WhyNotUnmade(const Slices::Unmade& unmade) const {
  if (unmade.status) return "";
  const bool is_in_use = unmade.status.error().code == ErrorCode::kFailedPrecondition;
  const std::string how = ": " + unmade.status.error().message;
  if (unmade.is_gone)
    return "its MIG mode cannot be switched off" + how +
           (is_in_use ? "; end the programs that hold the GPU open (such as DCGM or nvidia-smi -l)" : "") +
           "; divvy tries again";
  return SliceText(unmade.tenant) + " cannot be destroyed" + how +
         (is_in_use ? "; end the programs that use it (nvidia-smi lists them)" : "") + "; divvy tries again";
}

std::string SliceTenants::WhySlicesStay(GpuIndex gpu) const {
  std::string why;
  for (const auto& [id, sliced] : sliced_) {
    if (sliced.gpu() != gpu) continue;
    const bool is_going = sliced.state == Sliced::State::kUnmaking;
    const std::string one = !is_going ? SliceText(id) + " is still there"
                            : sliced.trouble.empty()
                                ? (sliced.is_gone ? "its MIG mode" : SliceText(id)) + " is being " +
                                      (sliced.is_gone ? "switched off" : "destroyed")
                                : sliced.trouble;
    why += (why.empty() ? "" : "; ") + one;
  }
  return "GPU " + std::to_string(gpu) + ": " + why;
}

void SliceTenants::Show(wire::KeeperState& state) const {
  std::map<GpuIndex, wire::KeptGpu> troubles;
  for (const auto& [id, sliced] : sliced_) {
    if (sliced.state != Sliced::State::kUnmaking) state.tenants.push_back(StateOf(sliced));
    else if (!sliced.trouble.empty()) AddTrouble(sliced.gpu(), sliced.trouble, !sliced.is_gone, troubles);
    if (sliced.state == Sliced::State::kMaking)
      state.waits.push_back({sliced.record.terms.job, "the driver is making its MIG instance"});
    if (sliced.state != Sliced::State::kWaiting) continue;
    std::string why;
    for (const auto& [other, going] : sliced_) {
      if (going.gpu() != sliced.gpu() || going.state != Sliced::State::kUnmaking || going.is_gone) continue;
      why += (why.empty() ? "" : "; ") +
             (going.trouble.empty() ? SliceText(other) + " is being destroyed" : going.trouble);
    }
    if (why.empty()) why = sliced.trouble.empty() ? "other tenants are leaving it" : sliced.trouble;
    state.waits.push_back({sliced.record.terms.job, "GPU " + std::to_string(sliced.gpu()) + ": " + why});
  }
  for (const auto& [gpu, trouble] : troubles) state.gpus.push_back(trouble);
  for (const auto& [which, why] : left_) state.troubles.push_back(why);
}

// Programs in a MIG instance are not interrupted. Since this keeper has no successor that would destroy the instance
// later, it waits until the instance is unused.
bool SliceTenants::Leave() {
  const Time now = shared_.loop.Now();
  if (abandoned_at_ == kNoTime) {
    abandoned_at_ = now;
    slices_->Abandon();
  }
  bool is_awaited = false;
  for (auto& [id, sliced] : sliced_) {
    const Time unused_since = std::max(sliced.used_at, abandoned_at_);
    const bool is_unused = now - unused_since >= shared_.options.lingers;
    if (is_unused && sliced.state != Sliced::State::kUnmaking) Unmake(id, sliced);
    is_awaited = is_awaited || now - unused_since < shared_.options.lingers + kLeavesWithin;
  }
  return is_awaited;
}

wire::KeptTenant SliceTenants::StateOf(const Sliced& sliced) const {
  wire::KeptTenant shown;
  shown.job = sliced.record.terms.job;
  shown.attempt = sliced.record.terms.attempt;
  shown.mechanism = wire::kByMig;
  shown.unmovable = "is in a MIG instance";
  shown.trouble = sliced.trouble;
  wire::KeptShare& share = shown.shares.emplace_back();
  share.paper = share.gpu = sliced.gpu();
  share.request = share.limit = share.ceiling = sliced.made.instance.memory;
  share.used = sliced.used;
  share.is_compute_unknown = true;  // The driver reports utilisation of whole GPUs only.
  share.compute_request = share.compute_limit = GpuShare(TenThousandthsOf(sliced.record.terms.slice.size));
  return shown;
}

void SliceTenants::OnSight(const GpuSight& sight) {
  for (auto& [id, sliced] : sliced_) {
    const bool is_there = sliced.state == Sliced::State::kThere || sliced.state == Sliced::State::kUnmaking;
    if (sliced.gpu() != sight.gpu || !is_there) continue;
    sliced.used = Bytes();
    for (const GpuSight::Process& process : sight.processes) {
      if (process.instance != static_cast<int>(sliced.made.instance.id)) continue;
      sliced.used += process.memory;
      sliced.used_at = shared_.loop.Now();
    }
  }
}

}  // namespace divvy::keeper
