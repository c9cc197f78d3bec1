#include "keeper/slices.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "platform/slice_record.h"

namespace divvy::keeper {
namespace {

using TenantId = sharing::TenantId;

/// Between two tries to unmake what is still in use.
constexpr Duration kBetweenTries = 250ms;

bool IsOf(const OwnSlice& own, TenantId tenant) { return own.job == tenant.job && own.attempt == tenant.attempt; }

}  // namespace

// All but the queue is the thread's alone.
struct Slices::Shared : std::enable_shared_from_this<Slices::Shared> {
  std::mutex mutex;
  std::condition_variable changed;
  EventLoop* loop = nullptr;  // Under the mutex; null: nobody wants to know any more.
  std::deque<std::function<void(Shared&)>> tasks;
  Events events;
  std::string directory;
  std::string library;

  std::unique_ptr<Mig> mig;
  SliceRecord record;
  Status trouble;  // Why nothing can be made.

  void Run();
  void Open();
  void Post(std::function<void()> then);
  Status Write() { return WriteSliceRecord(directory, record); }
  Result<GpuIndex> IndexOf(const std::string& uuid);
  Result<Made> Make(const Wanted& wanted);
  Status SwitchOn(const Wanted& wanted, const std::string& gpu);
  Result<MigInstance> MakeAt(const Wanted& wanted, const std::string& gpu);
  Status Unmake(const OwnSlice& own);
  Status SwitchOff(const std::string& gpu);
  void UnmakeOf(TenantId tenant, std::string gpu = "");
  /// Until none is left that divvy switched on and nothing is on.
  void SwitchIdleOff();
  /// A little later.
  void Again(std::function<void(Shared&)> task);
};

Slices::Slices(EventLoop& loop, std::string directory, std::string library, Events events)
    : shared_(std::make_shared<Shared>()) {
  shared_->loop = &loop;
  shared_->events = std::move(events);
  shared_->directory = std::move(directory);
  shared_->library = std::move(library);
  // Detached: it may be inside a call that never returns. What it shares with us it keeps alive by itself.
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

void Slices::Unmake(TenantId tenant) {
  Do([tenant](Shared& shared) { shared.UnmakeOf(tenant); });
}

void Slices::KeepOnly(std::set<TenantId> tenants) {
  Do([tenants = std::move(tenants)](Shared& shared) {
    std::set<TenantId> others;
    for (const OwnSlice& own : shared.record.slices) others.insert({own.job, own.attempt});
    for (const TenantId other : others) {
      if (!tenants.contains(other)) shared.UnmakeOf(other);
    }
    // Of a keeper that died between the mode and the first instance, or between the last and the mode.
    shared.SwitchIdleOff();
  });
}

void Slices::Shared::Run() {
  Open();
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

void Slices::Shared::Open() {
  auto opened = OpenMig(library);
  if (opened) mig = *std::move(opened);
  else trouble = opened.error();
  auto read = ReadSliceRecord(directory);
  if (read) record = *std::move(read);
  else trouble = read.error();
  Post([this, trouble = trouble] { events.probed(trouble); });
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
  std::optional<Error> unreadable;  // It may be this one.
  for (int index = 0; index < GpuSet::kCapacity; ++index) {
    const auto its = mig->UuidOf(static_cast<GpuIndex>(index));
    if (!its && its.error().code != ErrorCode::kNotFound) unreadable = its.error();
    if (its && *its == uuid) return static_cast<GpuIndex>(index);
  }
  if (unreadable) return *unreadable;
  return NotFound("the driver shows no GPU " + uuid + " any more");
}

Result<Slices::Made> Slices::Shared::Make(const Wanted& wanted) {
  if (mig == nullptr || !trouble) return trouble.error();
  DIVVY_TRY(const std::string gpu, mig->UuidOf(wanted.gpu));
  DIVVY_CHECK(SwitchOn(wanted, gpu));
  auto instance = MakeAt(wanted, gpu);
  if (!instance) {
    // Where the mode stays on, the next slice finds it so.
    static_cast<void>(SwitchOff(gpu));
    return instance.error();
  }
  return Made{*instance, mig->DeviceFiles(wanted.gpu, instance->id)};
}

Status Slices::Shared::SwitchOn(const Wanted& wanted, const std::string& gpu) {
  DIVVY_TRY(const bool is_on, mig->IsOn(wanted.gpu));
  if (is_on) return {};
  if (!wanted.may_switch) {
    return FailedPrecondition("GPU " + std::to_string(wanted.gpu) +
                              " is not in MIG mode any more; restart divvy to use it whole");
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
                              std::to_string(known->job) + " where this one is to lie");
  DIVVY_TRY(const std::vector<MigInstance> there, mig->Instances(wanted.gpu));
  const auto same = std::ranges::find_if(there, [&](const MigInstance& one) {
    return one.start == slice.start && one.size == slice.size && one.compute == slice.compute;
  });
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
  else if (same == there.end()) record.slices.erase(own);
  const Status written = Write();
  if (made && !written) return written.error();
  return made;
}

Status Slices::Shared::Unmake(const OwnSlice& own) {
  DIVVY_TRY(const GpuIndex gpu, IndexOf(own.gpu));
  DIVVY_TRY(const bool is_on, mig->IsOn(gpu));
  if (!is_on) return {};
  DIVVY_TRY(const std::vector<MigInstance> there, mig->Instances(gpu));
  for (const MigInstance& one : there) {
    if (one.start != own.slice.start || one.size != own.slice.size || one.compute != own.slice.compute) continue;
    // Somebody unmade ours and made another there.
    if (!own.uuid.empty() && !one.uuid.empty() && own.uuid != one.uuid) continue;
    DIVVY_CHECK(mig->Unmake(gpu, one.id));
  }
  return {};
}

// Only where nothing is on it any more, and only if divvy switched it on.
Status Slices::Shared::SwitchOff(const std::string& gpu) {
  const bool is_used = std::ranges::any_of(record.slices, [&](const OwnSlice& own) { return own.gpu == gpu; });
  if (is_used || !record.HasSwitched(gpu)) return {};
  DIVVY_TRY(const GpuIndex index, IndexOf(gpu));
  DIVVY_TRY(const bool is_on, mig->IsOn(index));
  if (is_on) DIVVY_CHECK(mig->Switch(index, false));
  std::erase(record.switched, gpu);
  return Write();
}

void Slices::Shared::SwitchIdleOff() {
  bool is_done = true;
  for (const std::string& gpu : std::vector<std::string>(record.switched))
    is_done = SwitchOff(gpu).has_value() && is_done;
  if (!is_done && mig != nullptr) Again([](Shared& shared) { shared.SwitchIdleOff(); });
}

void Slices::Shared::Again(std::function<void(Shared&)> task) {
  Post([this, task = std::move(task)] {
    loop->After(kBetweenTries, [self = shared_from_this(), task] {
      const std::lock_guard lock(self->mutex);
      self->tasks.push_back(task);
      self->changed.notify_all();
    });
  });
}

// `gpu`: where it had its instance, if that is known to have gone already.
void Slices::Shared::UnmakeOf(TenantId tenant, std::string gpu) {
  Status status = trouble;
  while (status && mig != nullptr) {
    const auto own = std::ranges::find_if(record.slices, [&](const OwnSlice& one) { return IsOf(one, tenant); });
    if (own == record.slices.end()) break;
    gpu = own->gpu;
    status = Unmake(*own);
    if (!status && status.error().code == ErrorCode::kNotFound) status = {};
    if (!status) break;
    record.slices.erase(own);
    status = Write();
  }
  // Whoever is to have it whole waits for its mode as well; other GPUs' are others' affair.
  if (status && mig != nullptr && !gpu.empty()) status = SwitchOff(gpu);
  Post([this, tenant, status] { events.unmade(tenant, status); });
  if (!status && mig != nullptr) Again([tenant, gpu](Shared& shared) { shared.UnmakeOf(tenant, gpu); });
}

}  // namespace divvy::keeper
