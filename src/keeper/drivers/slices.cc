#include "keeper/drivers/slices.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "platform/gpu/slice_record.h"

namespace divvy::keeper {
namespace {

using TenantId = sharing::TenantId;

/// Retry interval for destroying instances that are still in use: the first, and the maximum after doubling.
constexpr Duration kBetweenTries = 250ms;
constexpr Duration kBetweenLateTries = 4s;

Error IsNotThere(const std::string& uuid, GpuIndex gpu) {
  return NotFound("its MIG instance " + uuid + " is not on GPU " + std::to_string(gpu) +
                  " any more: it was destroyed, or the GPU was reset");
}

bool IsOf(const OwnSlice& own, TenantId tenant) { return own.job == tenant.job && own.attempt == tenant.attempt; }

}  // namespace

// The mutex guards `tasks` (the worker thread's queue) and `loop`. `events` are called on the loop's thread. Only the
// worker thread uses the rest.
struct Slices::Shared : std::enable_shared_from_this<Slices::Shared> {
  std::mutex mutex;
  std::condition_variable changed;
  EventLoop* loop = nullptr;  // Guarded by the mutex. Null: results are no longer wanted.
  std::deque<std::function<void(Shared&)>> tasks;
  Events events;
  std::string directory;
  std::string library;

  std::unique_ptr<Mig> mig;
  bool has_record = false;
  bool is_abandoned = false;
  SliceRecord record;
  std::optional<Status> probed;  // The last reported value.

  void Run();
  Status HasDriver();
  Status HasRecord();
  Status IsReady();
  void Post(std::function<void()> then);
  Status Write() { return is_abandoned ? Status() : WriteSliceRecord(directory, record); }
  void WriteUntilDone(int tries = 0);
  Result<GpuIndex> IndexOf(const std::string& uuid);
  Result<Made> Make(const Wanted& wanted);
  Status Look(TenantId tenant, GpuIndex gpu);
  Status SwitchOn(const Wanted& wanted, const std::string& gpu);
  Result<MigInstance> MakeAt(const Wanted& wanted, const std::string& gpu);
  bool HasAt(GpuIndex gpu, const GpuSlice& slice);
  Status Unmake(const OwnSlice& own);
  Status SwitchOff(const std::string& gpu);
  Status UnmakeAll(Unmade& unmade);
  void UnmakeOf(TenantId tenant, std::string gpu, int tries = 0);
  void SwitchIdleOff(int tries = 0);
  /// Runs `task` a little later.
  void Again(int tries, std::function<void(Shared&)> task);
};

Slices::Slices(EventLoop& loop, std::string directory, std::string library, Events events)
    : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
  shared_->events = std::move(events);
  shared_->directory = std::move(directory);
  shared_->library = std::move(library);
  // The thread is detached, because it may be inside a driver call that never returns. It keeps the shared state alive
  // itself.
  std::thread([shared = shared_] { shared->Run(); }).detach();
}

Slices::~Slices() {
  const std::lock_guard lock(shared_->mutex);
  shared_->loop = nullptr;
  shared_->changed.notify_all();
}

void Slices::Do(std::function<void(Shared&)> task) {
  const std::lock_guard lock(shared_->mutex);
  shared_->tasks.push_back(std::move(task));
  shared_->changed.notify_all();
}

void Slices::Make(Wanted wanted) {
  Do([wanted = std::move(wanted)](Shared& shared) {
    auto made = shared.Make(wanted);
    shared.Post([&shared, tenant = wanted.tenant, made = std::move(made)] { shared.events.made(tenant, made); });
  });
}

void Slices::Look(TenantId tenant, GpuIndex gpu) {
  Do([tenant, gpu](Shared& shared) {
    const Status is_there = shared.Look(tenant, gpu);
    shared.Post([&shared, tenant, is_there] { shared.events.looked(tenant, is_there); });
  });
}

void Slices::Unmake(TenantId tenant, GpuIndex gpu) {
  Do([tenant, gpu](Shared& shared) {
    const auto uuid = shared.HasDriver() ? shared.mig->UuidOf(gpu) : Result<std::string>(std::string());
    shared.UnmakeOf(tenant, uuid ? *uuid : "");
  });
}

void Slices::KeepOnly(std::set<TenantId> tenants) {
  Do([tenants = std::move(tenants)](Shared& shared) {
    std::set<TenantId> others;
    for (const OwnSlice& own : shared.record.slices) others.insert({own.job, own.attempt});
    for (const TenantId other : others) {
      if (!tenants.contains(other)) shared.UnmakeOf(other, "");
    }
    shared.SwitchIdleOff();
  });
}

void Slices::Abandon() {
  Do([](Shared& shared) { shared.is_abandoned = true; });
}

void Slices::Shared::Run() {
  [[maybe_unused]] const Status is_ready = IsReady();
  for (;;) {
    std::function<void(Shared&)> task;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return loop == nullptr || !tasks.empty(); });
      if (loop == nullptr) return;
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task(*this);
  }
}

// Retried on each call: a driver may be installed later, and an unreadable record may be repaired.
Status Slices::Shared::HasDriver() {
  if (mig != nullptr) return {};
  DIVVY_TRY(mig, OpenMig(library));
  return {};
}

Status Slices::Shared::HasRecord() {
  if (has_record || is_abandoned) return {};
  DIVVY_TRY(record, ReadSliceRecord(directory));
  has_record = true;
  return {};
}

Status Slices::Shared::IsReady() {
  Status status = HasDriver();
  if (const Status read = HasRecord(); status) status = read;
  const bool is_news = !probed || probed->has_value() != status.has_value();
  if (is_news) Post([this, status] { events.probed(status); });
  probed = status;
  return status;
}

void Slices::Shared::Post(std::function<void()> then) {
  const std::lock_guard lock(mutex);
  if (loop == nullptr) return;
  loop->Post([self = shared_from_this(), then = std::move(then)] {
    {
      const std::lock_guard still(self->mutex);
      if (self->loop == nullptr) return;
    }
    then();
  });
}

Result<GpuIndex> Slices::Shared::IndexOf(const std::string& uuid) {
  std::optional<Error> unreadable;  // An unreadable GPU may be the one that is searched.
  for (int index = 0; index < GpuSet::kCapacity; ++index) {
    const auto its = mig->UuidOf(static_cast<GpuIndex>(index));
    if (!its && its.error().code != ErrorCode::kNotFound) unreadable = its.error();
    if (its && *its == uuid) return static_cast<GpuIndex>(index);
  }
  if (unreadable) return *unreadable;
  return NotFound("the driver shows no GPU " + uuid + " any more");
}

Result<Slices::Made> Slices::Shared::Make(const Wanted& wanted) {
  DIVVY_CHECK(IsReady());
  DIVVY_TRY(const std::string gpu, mig->UuidOf(wanted.gpu));
  DIVVY_CHECK(SwitchOn(wanted, gpu));
  auto instance = MakeAt(wanted, gpu);
  if (!instance) return instance.error();
  return Made{*instance, mig->DeviceFiles(wanted.gpu, instance->id)};
}

// Checks whether the tenant's MIG instance still exists. A driver that cannot answer now does not mean that it is gone.
Status Slices::Shared::Look(TenantId tenant, GpuIndex gpu) {
  DIVVY_CHECK(IsReady());
  const auto own = std::ranges::find_if(record.slices, [&](const OwnSlice& one) { return IsOf(one, tenant); });
  if (own == record.slices.end() || own->uuid.empty()) return {};
  const auto uuid = mig->UuidOf(gpu);
  if (!uuid || *uuid != own->gpu) return Unreachable("the driver does not show GPU " + own->gpu);
  DIVVY_TRY(const std::vector<MigInstance> there, mig->Instances(gpu));
  if (std::ranges::find(there, own->uuid, &MigInstance::uuid) != there.end()) return {};
  // If it cannot be read whether the GPU is in MIG mode, an empty list of instances does not mean that there are none.
  if (const auto is_on = mig->IsOn(gpu); !is_on) return is_on.error();
  return IsNotThere(own->uuid, gpu);
}

Status Slices::Shared::SwitchOn(const Wanted& wanted, const std::string& gpu) {
  DIVVY_TRY(const bool is_on, mig->IsOn(wanted.gpu));
  if (is_on) return {};
  if (!wanted.may_switch) {
    return FailedPrecondition("GPU " + std::to_string(wanted.gpu) +
                              " is no longer in MIG mode; restart divvy to use the whole GPU");
  }
  if (!record.HasSwitched(gpu)) record.switched.push_back(gpu);
  DIVVY_CHECK(Write());
  const Status switched = mig->Switch(wanted.gpu, true);
  if (switched) return {};
  std::erase(record.switched, gpu);
  static_cast<void>(Write());
  return switched;
}

Result<MigInstance> Slices::Shared::MakeAt(const Wanted& wanted, const std::string& gpu) {
  const GpuSlice& slice = wanted.slice;
  const OwnSlice* known = record.Find(gpu, slice.start, slice.size);
  if (known != nullptr && !IsOf(*known, wanted.tenant))
    return FailedPrecondition("GPU " + std::to_string(wanted.gpu) + " still has the instance of job " +
                              std::to_string(known->job) + " in the place of the new one");
  DIVVY_TRY(const std::vector<MigInstance> there, mig->Instances(wanted.gpu));
  const auto same = std::ranges::find_if(there, [&](const MigInstance& one) {
    return one.start == slice.start && one.size == slice.size && one.compute == slice.compute;
  });
  const bool is_there = known == nullptr || known->uuid.empty() || (same != there.end() && same->uuid == known->uuid);
  if (!is_there) return IsNotThere(known->uuid, wanted.gpu);
  if (known == nullptr) {
    record.slices.push_back({gpu, wanted.tenant.job, wanted.tenant.attempt, slice, ""});
    if (same != there.end()) {
      record.slices.pop_back();
      return FailedPrecondition("GPU " + std::to_string(wanted.gpu) +
                                " has a MIG instance there that divvy did not make; nvidia-smi mig -lgi shows it");
    }
    if (const Status noted = Write(); !noted) {
      record.slices.pop_back();
      return noted.error();
    }
  }
  auto made = same == there.end() ? mig->Make(wanted.gpu, slice) : mig->Complete(wanted.gpu, same->id);
  const auto own = std::ranges::find_if(record.slices, [&](const OwnSlice& one) { return IsOf(one, wanted.tenant); });
  if (made) own->uuid = made->uuid;
  else if (same == there.end() && !HasAt(wanted.gpu, slice)) record.slices.erase(own);
  const Status written = Write();
  if (made && !written) return written.error();
  return made;
}

// Returns true if the GPU has an instance at this place, or if the driver cannot list its instances. An instance that
// divvy could create only in part must be destroyed.
bool Slices::Shared::HasAt(GpuIndex gpu, const GpuSlice& slice) {
  const auto there = mig->Instances(gpu);
  return !there || std::ranges::any_of(*there, [&](const MigInstance& one) {
    return one.start == slice.start && one.size == slice.size && one.compute == slice.compute;
  });
}

Status Slices::Shared::Unmake(const OwnSlice& own) {
  DIVVY_TRY(const GpuIndex gpu, IndexOf(own.gpu));
  DIVVY_TRY(const bool is_on, mig->IsOn(gpu));
  if (!is_on) return {};
  DIVVY_TRY(const std::vector<MigInstance> there, mig->Instances(gpu));
  for (const MigInstance& one : there) {
    if (one.start != own.slice.start || one.size != own.slice.size || one.compute != own.slice.compute) continue;
    // Another program destroyed our instance and created a different one there.
    if (!own.uuid.empty() && !one.uuid.empty() && own.uuid != one.uuid) continue;
    DIVVY_CHECK(mig->Unmake(gpu, one.id));
  }
  return {};
}

// Switches MIG mode off only if no instance is left and divvy had switched it on.
Status Slices::Shared::SwitchOff(const std::string& gpu) {
  const bool is_used = std::ranges::any_of(record.slices, [&](const OwnSlice& own) { return own.gpu == gpu; });
  if (is_used || !record.HasSwitched(gpu)) return {};
  const auto index = IndexOf(gpu);
  if (!index && index.error().code != ErrorCode::kNotFound) return index.error();
  if (index) {
    DIVVY_TRY(const bool is_on, mig->IsOn(*index));
    if (is_on) DIVVY_CHECK(mig->Switch(*index, false));
  }
  std::erase(record.switched, gpu);
  WriteUntilDone();
  // Reports success even if there was nothing to do, because an earlier attempt may have reported a failure.
  Post([this, gpu] { events.unmade({TenantId{}, gpu, true, {}}); });
  return {};
}

// Switches off the MIG mode of GPUs without instances. An earlier keeper may have left it on, because it died before it
// created the first instance or after it destroyed the last one.
void Slices::Shared::SwitchIdleOff(int tries) {
  if (!HasRecord() || record.switched.empty()) return;
  bool is_done = true;
  for (const std::string& gpu : std::vector<std::string>(record.switched)) {
    Status status = HasDriver();
    if (status) status = SwitchOff(gpu);
    is_done = is_done && status;
    Post([this, gpu, status] { events.unmade({TenantId{}, gpu, true, status}); });
  }
  if (!is_done) Again(tries, [tries](Shared& shared) { shared.SwitchIdleOff(tries + 1); });
}

void Slices::Shared::Again(int tries, std::function<void(Shared&)> task) {
  constexpr int kMostDoublings = 8;
  const Duration wait = std::min(kBetweenTries * (1 << std::min(tries, kMostDoublings)), kBetweenLateTries);
  Post([this, wait, task = std::move(task)] {
    loop->After(wait, [self = shared_from_this(), task] {
      const std::lock_guard lock(self->mutex);
      self->tasks.push_back(task);
      self->changed.notify_all();
    });
  });
}

// Writes the record, and tries again until that succeeds. Until then it may list a destroyed instance; a later keeper
// then finds that it is gone.
void Slices::Shared::WriteUntilDone(int tries) {
  if (!Write()) Again(tries, [tries](Shared& shared) { shared.WriteUntilDone(tries + 1); });
}

Status Slices::Shared::UnmakeAll(Unmade& unmade) {
  DIVVY_CHECK(HasRecord());
  for (;;) {
    const auto own = std::ranges::find_if(record.slices, [&](const OwnSlice& one) { return IsOf(one, unmade.tenant); });
    if (own == record.slices.end()) break;
    unmade.gpu = own->gpu;
    DIVVY_CHECK(IsReady());
    if (const Status status = Unmake(*own); !status && status.error().code != ErrorCode::kNotFound) return status;
    record.slices.erase(own);
    WriteUntilDone();
  }
  unmade.is_gone = true;
  // A job that waits for the whole GPU also waits until its MIG mode is off, if divvy has switched it on.
  if (!record.HasSwitched(unmade.gpu)) return {};
  DIVVY_CHECK(HasDriver());
  return SwitchOff(unmade.gpu);
}

// `gpu`: UUID of the GPU with the tenant's instance, if it had one.
void Slices::Shared::UnmakeOf(TenantId tenant, std::string gpu, int tries) {
  Unmade unmade;
  unmade.tenant = tenant;
  unmade.gpu = std::move(gpu);
  unmade.status = UnmakeAll(unmade);
  if (!unmade.status)
    Again(tries, [tenant, at = unmade.gpu, tries](Shared& shared) { shared.UnmakeOf(tenant, at, tries + 1); });
  Post([this, unmade = std::move(unmade)] { events.unmade(unmade); });
}

}  // namespace divvy::keeper
