// MIG instances that are no longer wanted or belong to no tenant: what remains, why, and how it is reported.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "keeper/keeper.h"
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

std::optional<GpuIndex> Keeper::IndexOf(const std::string& uuid) const {
  const auto at = std::ranges::find_if(gpus_, [&](const auto& entry) { return entry.second.uuid == uuid; });
  if (at == gpus_.end() || uuid.empty()) return std::nullopt;
  return at->first;
}

bool Keeper::HasSlicesToKeep() const {
  return std::ranges::any_of(sliced_, [this](const auto& entry) {
    return mechanisms_.has_slices || entry.second.state != Sliced::State::kUnmaking;
  });
}

void Keeper::FindLeftSlices() {
  const auto record = ReadSliceRecord(options_.directory);
  if (!record) return;  // Slices reports the reason.
  const auto hold = [this](TenantId id, const std::string& gpu) {
    if (const auto index = IndexOf(gpu)) HoldLeft(id.job == 0 ? IdOfMode(*index) : id, *index);
  };
  for (const OwnSlice& own : record->slices) hold({own.job, own.attempt}, own.gpu);
  for (const std::string& gpu : record->switched) {
    const auto index = IndexOf(gpu);
    if (index && !HasSlices(*index)) hold({}, gpu);
  }
}

// Slices is already destroying it.
void Keeper::HoldLeft(TenantId id, GpuIndex gpu) {
  if (sliced_.contains(id)) return;
  Sliced& left = sliced_[id];
  left.record.terms.job = JobId(id.job);
  left.record.terms.attempt = id.attempt;
  left.record.gpus = {gpu};
  left.state = Sliced::State::kUnmaking;
  left.is_gone = id.job == 0;
  TakeForSlices(gpu);
}

/// Adds or finds an entry in sliced_. If the GPU is unknown, the problem is only reported.
Keeper::TenantId Keeper::EntryOf(const Slices::Unmade& unmade) {
  constexpr GpuIndex kNone = GpuSet::kCapacity;
  const std::optional<GpuIndex> gpu = IndexOf(unmade.gpu);
  const TenantId id = unmade.tenant.job == 0 ? IdOfMode(gpu.value_or(kNone)) : unmade.tenant;
  const bool is_known = sliced_.contains(id);
  if (!is_known && gpu && !unmade.status) HoldLeft(id, *gpu);
  if (is_known || gpu || unmade.status) left_.erase({unmade.tenant, unmade.gpu});
  else left_[{unmade.tenant, unmade.gpu}] = WhyNotUnmade(unmade) + " (GPU " + unmade.gpu + ")";
  return id;
}

std::string Keeper::WhyNotUnmade(const Slices::Unmade& unmade) const {
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

/// Returns the reason for jobs that wait for the GPU.
std::string Keeper::WhySlicesStay(GpuIndex gpu) const {
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

void Keeper::ShowSlices(wire::KeeperState& state) const {
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
  for (const auto& [id, take] : postponed_takes_) {
    std::string why;
    for (const int gpu : take.gpus.ToVector()) {
      if (!HasSlices(static_cast<GpuIndex>(gpu))) continue;
      why += (why.empty() ? "" : "; ") + WhySlicesStay(static_cast<GpuIndex>(gpu));
    }
    state.waits.push_back({take.job, why});
  }
  for (const auto& [which, why] : left_) state.troubles.push_back(why);
}

// Programs in an instance are not interrupted. Afterwards no keeper would destroy the instance, so this one waits until
// it is unused.
bool Keeper::LeaveSlices() {
  const Time now = loop_->Now();
  if (abandoned_at_ == kNoTime) {
    abandoned_at_ = now;
    slices_->Abandon();
  }
  bool is_awaited = false;
  for (auto& [id, sliced] : sliced_) {
    const Time unused_since = std::max(sliced.used_at, abandoned_at_);
    const bool is_unused = now - unused_since >= options_.lingers;
    if (is_unused && sliced.state != Sliced::State::kUnmaking) UnmakeSlice(id, sliced);
    is_awaited = is_awaited || now - unused_since < options_.lingers + kLeavesWithin;
  }
  return is_awaited;
}

wire::KeptTenant Keeper::StateOf(const Sliced& sliced) const {
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

void Keeper::OnSliceSight(const GpuSight& sight) {
  for (auto& [id, sliced] : sliced_) {
    const bool is_there = sliced.state == Sliced::State::kThere || sliced.state == Sliced::State::kUnmaking;
    if (sliced.gpu() != sight.gpu || !is_there) continue;
    sliced.used = Bytes();
    for (const GpuSight::Process& process : sight.processes) {
      if (process.instance != static_cast<int>(sliced.made.instance.id)) continue;
      sliced.used += process.memory;
      sliced.used_at = loop_->Now();
    }
  }
}

}  // namespace divvy::keeper
