// Tenants that have a GPU's MIG instance: the GPU is emptied of all others first, as for a job with whole GPUs, then
// divided, and given back when the last of them has gone.
#include <algorithm>
#include <utility>

#include "keeper/keeper.h"

namespace divvy::keeper {
namespace {

// In the ledger, where a job has whole GPUs: no job has such a number.
constexpr std::uint64_t kFirstKey = std::uint64_t{1} << 62;
std::uint64_t KeyOf(GpuIndex gpu) { return kFirstKey + gpu; }

}  // namespace

bool Keeper::IsOfSlices(std::uint64_t job) { return job >= kFirstKey; }

Slices::Events Keeper::SliceEvents() {
  return {[this](TenantId id, const Result<Slices::Made>& made) { OnSliceMade(id, made); },
          [this](TenantId id, const Status& status) { OnSliceUnmade(id, status); },
          [this](const Status& status) {
            mechanisms_.why_no_slices = status ? "" : status.error().message;
            mechanisms_.has_slices = static_cast<bool>(status);
            is_ledger_changed_ = true;
          }};
}

void Keeper::AddSlice(std::uint64_t id, const wire::KeeperAdd& add) {
  const TenantId tenant{add.job.value(), add.attempt};
  if (const auto known = sliced_.find(tenant); known != sliced_.end()) {
    if (known->second.state == Sliced::State::kThere) return AnswerSlice(id, known->second);
    known->second.pending.push_back(id);
    return;
  }
  if (add.paper.size() != 1 || !gpus_.contains(static_cast<GpuIndex>(add.paper.front())))
    return door_->Answer(id, InvalidArgument("a slice is of one GPU of this machine"));
  RecordedTenant record;
  record.terms = add;
  record.gpus = add.paper;
  if (const Status written = records_.Write(record); !written) return door_->Answer(id, written);
  Sliced& fresh = sliced_[tenant];
  fresh.record = std::move(record);
  fresh.pending.push_back(id);
  ledger_.TakeWhole(KeyOf(fresh.gpu()), GpuSet::Of(add.paper));
}

void Keeper::AdoptSlice(const RecordedTenant& record) {
  Sliced& there = sliced_[{record.terms.job.value(), record.terms.attempt}];
  there.record = record;
  ledger_.TakeWhole(KeyOf(there.gpu()), GpuSet::Of(record.gpus));
}

// One that is being unmade may lie where the next is to be.
void Keeper::MakeSlices(GpuIndex gpu) {
  const auto is_going = [gpu](const auto& entry) {
    return entry.second.gpu() == gpu && entry.second.state == Sliced::State::kUnmaking;
  };
  if (std::ranges::any_of(sliced_, is_going)) return;
  for (auto& [id, sliced] : sliced_) {
    if (sliced.gpu() != gpu || sliced.state != Sliced::State::kWaiting) continue;
    sliced.state = Sliced::State::kMaking;
    slices_->Make({id, gpu, sliced.record.terms.slice, may_switch_mig_});
  }
}

void Keeper::OnSliceReady(std::uint64_t job) { MakeSlices(static_cast<GpuIndex>(job - kFirstKey)); }

void Keeper::OnSliceFailed(std::uint64_t job, const std::string& why) {
  const auto gpu = static_cast<GpuIndex>(job - kFirstKey);
  for (auto at = sliced_.begin(); at != sliced_.end();) {
    if (at->second.gpu() != gpu || at->second.state != Sliced::State::kWaiting) {
      ++at;
      continue;
    }
    FailSlice(at->first, at->second, FailedPrecondition(why));
    at = sliced_.erase(at);
  }
  GiveBack(gpu);
}

void Keeper::FailSlice(TenantId id, Sliced& sliced, const Error& why) {
  records_.Forget(id);
  for (const std::uint64_t request : std::exchange(sliced.pending, {})) door_->Answer(request, why);
}

void Keeper::OnSliceMade(TenantId id, const Result<Slices::Made>& made) {
  is_ledger_changed_ = true;
  const auto at = sliced_.find(id);
  if (at == sliced_.end() || at->second.state == Sliced::State::kUnmaking) return;
  Sliced& sliced = at->second;
  if (!made) {
    FailSlice(id, sliced, made.error());
    // What there is of it, and the mode, go first.
    sliced.state = Sliced::State::kUnmaking;
    return slices_->Unmake(id);
  }
  sliced.state = Sliced::State::kThere;
  sliced.made = *made;
  for (const std::uint64_t request : std::exchange(sliced.pending, {})) AnswerSlice(request, sliced);
}

void Keeper::AnswerSlice(std::uint64_t id, const Sliced& sliced) {
  wire::KeeperLine line;
  line.answer.emplace().id = id;
  wire::KeeperAdded& added = line.answer->added.emplace();
  const std::string& uuid = sliced.made.instance.uuid;
  added.gpus = sliced.record.gpus;
  added.uuids = {uuid};
  added.reachable = GpuSet::Of(sliced.record.gpus);
  added.environment = {"CUDA_VISIBLE_DEVICES=" + uuid, "NVIDIA_VISIBLE_DEVICES=" + uuid,
                       "DIVVY_SLICE=" + sliced.record.terms.slice.profile};
  added.device_files = sliced.made.device_files;
  door_->Say(line);
}

bool Keeper::RemoveSlice(TenantId id) {
  const auto at = sliced_.find(id);
  if (at == sliced_.end()) return false;
  Sliced& sliced = at->second;
  FailSlice(id, sliced, FailedPrecondition("the job is over"));
  if (sliced.state == Sliced::State::kWaiting) {
    const GpuIndex gpu = sliced.gpu();
    sliced_.erase(at);
    GiveBack(gpu);
    return true;
  }
  if (sliced.state != Sliced::State::kUnmaking) slices_->Unmake(id);
  sliced.state = Sliced::State::kUnmaking;
  return true;
}

void Keeper::OnSliceUnmade(TenantId id, const Status& status) {
  is_ledger_changed_ = true;
  const auto at = sliced_.find(id);
  if (at == sliced_.end()) return;
  if (!status) {
    at->second.trouble = status.error().message;
    return;
  }
  const GpuIndex gpu = at->second.gpu();
  sliced_.erase(at);
  MakeSlices(gpu);
  GiveBack(gpu);
}

bool Keeper::HasSlices(GpuIndex gpu) const {
  return std::ranges::any_of(sliced_, [gpu](const auto& entry) { return entry.second.gpu() == gpu; });
}

void Keeper::GiveBack(GpuIndex gpu) {
  if (HasSlices(gpu)) return;
  ledger_.GiveWhole(KeyOf(gpu));
  is_ledger_changed_ = true;
  for (const auto& [id, take] : std::exchange(postponed_takes_, {})) OnTakeWhole(id, take);
}

bool Keeper::PostponeTake(std::uint64_t id, const wire::KeeperTakeWhole& take) {
  const std::vector<int> gpus = take.gpus.ToVector();
  if (std::ranges::none_of(gpus, [this](int gpu) { return HasSlices(static_cast<GpuIndex>(gpu)); })) return false;
  postponed_takes_.emplace_back(id, take);
  return true;
}

wire::KeptTenant Keeper::StateOf(const Sliced& sliced) const {
  wire::KeptTenant shown;
  shown.job = sliced.record.terms.job;
  shown.attempt = sliced.record.terms.attempt;
  shown.mechanism = "enforced by MIG";
  shown.unmovable = "is in a MIG instance";
  shown.trouble = sliced.trouble;
  wire::KeptShare& share = shown.shares.emplace_back();
  share.paper = share.gpu = sliced.gpu();
  share.request = share.limit = share.ceiling = sliced.made.instance.memory;
  share.used = sliced.used;
  constexpr int kComputeSlices = 7;
  share.compute_request = share.compute_limit =
      GpuShare(GpuShare::kWhole * sliced.record.terms.slice.compute / kComputeSlices);
  return shown;
}

void Keeper::OnSliceSight(const GpuSight& sight) {
  for (auto& [id, sliced] : sliced_) {
    if (sliced.gpu() != sight.gpu || sliced.state != Sliced::State::kThere) continue;
    sliced.used = Bytes();
    for (const GpuSight::Process& process : sight.processes) {
      if (process.instance == static_cast<int>(sliced.made.instance.id)) sliced.used += process.memory;
    }
  }
}

}  // namespace divvy::keeper
