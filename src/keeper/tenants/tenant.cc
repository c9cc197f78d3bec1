#include "keeper/tenants/tenant.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

namespace divvy::keeper {
namespace {

/// Consecutive failures, each at least a millisecond after the previous one. A process that holds a lock this long is
/// stopped.
constexpr int kMostRefusedLocks = 500;

Error TenantSystemError(const std::string& doing) { return Internal(doing + ": " + std::strerror(errno)); }

std::string FolderOf(const std::string& directory, sharing::TenantId id) {
  return directory + "/" + std::to_string(id.job) + "." + std::to_string(id.attempt);
}

template <typename T>
T Load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <typename T>
void Store(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

std::uint64_t AddCapped(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace

Result<std::unique_ptr<Tenant>> Tenant::Create(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                               sharing::TenantId id, uid_t uid, gid_t gid,
                                               std::vector<TenantDevice> devices) {
  std::unique_ptr<Tenant> tenant(new Tenant(loop, remover, FolderOf(directory, id), id, uid));
  // Created under a temporary name and renamed, so that it is never visible without its content. First removes a
  // leftover of a killed keeper.
  const std::string fresh = tenant->folder_ + ".new";
  remover.Remove(fresh);
  if (::mkdir(fresh.c_str(), 0700) != 0) return TenantSystemError("making " + fresh);
  const Descriptor folder(::open(fresh.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.is_open()) return TenantSystemError("opening " + fresh);
  DIVVY_TRY(tenant->map_, PageMap::Create(folder.get(), uid, gid, static_cast<unsigned>(devices.size())));
  tenant->devices_ = std::move(devices);
  tenant->map_->page().is_enforced = tenant->devices_.front().is_whole ? 0 : 1;
  for (unsigned i = 0; i < tenant->devices_.size(); ++i) tenant->WriteDevice(i);
  DIVVY_CHECK(tenant->OpenSocket(folder.get()));
  if (::geteuid() == 0 && ::fchown(folder.get(), uid, gid) != 0) return TenantSystemError("giving away " + fresh);
  // Removes the set-group-ID bit inherited from the parent folder.
  if (::fchmod(folder.get(), 0700) != 0) return TenantSystemError("closing " + fresh);
  remover.Remove(tenant->folder_);
  if (::rename(fresh.c_str(), tenant->folder_.c_str()) != 0) return TenantSystemError("making " + tenant->folder_);
  return tenant;
}

Result<std::unique_ptr<Tenant>> Tenant::Adopt(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                              sharing::TenantId id, uid_t uid, std::vector<TenantDevice> devices) {
  std::unique_ptr<Tenant> tenant(new Tenant(loop, remover, FolderOf(directory, id), id, uid));
  const Descriptor folder(::open(tenant->folder_.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!folder.is_open() && errno == ENOENT) return NotFound("the folder " + tenant->folder_ + " no longer exists");
  if (!folder.is_open()) return TenantSystemError("opening " + tenant->folder_);
  tenant->devices_ = std::move(devices);
  if (auto map = PageMap::Open(folder.get())) {
    tenant->map_ = *std::move(map);
    share::UnlockPage(tenant->map_->page(), share::kLockedByKeeper);  // Lock of the previous keeper.
    for (unsigned i = 0; i < tenant->devices_.size(); ++i) {
      TenantDevice& device = tenant->devices_[i];
      device.ceiling = std::min(Load(tenant->map_->page().devices[i].ceiling), device.limit);
      tenant->WriteDevice(i);
    }
    tenant->AdoptSlots();
  }
  DIVVY_CHECK(tenant->OpenSocket(folder.get()));
  return tenant;
}

Tenant::~Tenant() {
  for (auto& [slot, process] : processes_) {
    loop_.Forget(process.link.get());
    if (process.life.is_open()) loop_.Forget(process.life.get());
  }
  for (auto& [slot, missing] : missing_) loop_.Forget(missing.life.get());
  for (auto& [number, caller] : callers_) HangUp(*caller);
  if (listener_.is_open()) loop_.Forget(listener_.get());
}

void Tenant::RemoveFolder() { remover_.Remove(folder_); }

void Tenant::WriteDevice(unsigned device) {
  const TenantDevice& from = devices_[device];
  share::PageDevice& to = map_->page().devices[device];
  std::snprintf(to.uuid, sizeof to.uuid, "%s", from.uuid.c_str());
  Store(to.gpu, from.gpu);
  Store(to.request, from.request);
  Store(to.limit, from.limit);
  Store(to.shown_total, from.is_whole ? std::uint64_t{0} : from.limit);
  Store(to.ceiling, from.ceiling);
  SetGate(device, from.gate);
}

void Tenant::SetGate(unsigned device, share::Gate gate) {
  devices_[device].gate = gate;
  if (map_ == nullptr) return;
  std::uint32_t& word = map_->page().devices[device].gate;
  if (Load(word) == gate) return;
  Store(word, static_cast<std::uint32_t>(gate));
  share::PageFutex(&word, FUTEX_WAKE, INT_MAX, nullptr);
}

void Tenant::SetAllGates(share::Gate gate) {
  for (unsigned i = 0; i < devices_.size(); ++i) SetGate(i, gate);
}

std::optional<std::uint64_t> Tenant::SetCeiling(unsigned device, std::uint64_t bytes) {
  TenantDevice& ours = devices_[device];
  if (map_ == nullptr) return ours.ceiling = bytes;
  share::Page& page = map_->page();
  if (bytes >= ours.ceiling) {
    // Raising the ceiling needs no lock, since it is no problem for a process that holds the lock and has read the old
    // value.
    ours.ceiling = std::max(bytes, Used(device));
    Store(page.devices[device].ceiling, ours.ceiling);
    return ours.ceiling;
  }
  if (!map_->Lock()) {
    if (++refused_locks_ < kMostRefusedLocks) return std::nullopt;
    map_->BreakLock();
    refused_locks_ = 0;
    return std::nullopt;
  }
  refused_locks_ = 0;
  ours.ceiling = std::max(bytes, Used(device));
  Store(page.devices[device].ceiling, ours.ceiling);
  map_->Unlock();
  return ours.ceiling;
}

void Tenant::SetTerms(std::uint64_t request, std::uint64_t limit) {
  for (unsigned i = 0; i < devices_.size(); ++i) {
    devices_[i].request = request;
    devices_[i].limit = limit;
    if (map_ == nullptr) continue;
    share::PageDevice& device = map_->page().devices[i];
    Store(device.request, request);
    Store(device.limit, limit);
    Store(device.shown_total, limit);
  }
}

void Tenant::SetPlace(unsigned device, const std::string& uuid, std::uint32_t gpu) {
  devices_[device].uuid = uuid;
  devices_[device].gpu = gpu;
  if (map_ == nullptr) return;
  share::PageDevice& shown = map_->page().devices[device];
  std::snprintf(shown.uuid, sizeof shown.uuid, "%s", uuid.c_str());
  Store(shown.gpu, gpu);
}

std::uint64_t Tenant::SeeMemory(Slot slot, unsigned device, std::uint64_t has) {
  const auto found = processes_.find(slot);
  if (found == processes_.end()) return 0;
  ResidualSights& sights = found->second.sights[device];
  std::uint64_t& residual = found->second.residual[device];
  residual = sights.Follow(residual, has, UsedBy(slot, device));
  if (map_ != nullptr) Store(map_->page().processes[slot].residual[device], residual);
  return sights.least();
}

bool Tenant::IsMissingAny(const std::set<std::int64_t>& pids) const {
  return std::any_of(missing_.begin(), missing_.end(),
                     [&pids](const auto& missing) { return pids.contains(missing.second.pid); });
}

void Tenant::ExpectAway(std::int64_t pid, unsigned device, std::uint64_t bytes) {
  for (auto& [slot, missing] : missing_) {
    // If the process already counts the memory as on the GPU again, it had returned, but the earlier keeper could not
    // record that.
    const bool is_back = UsedBy(slot, device) >= bytes;
    if (missing.pid == pid && !is_back) missing.away[device] = std::min(bytes, devices_[device].limit);
  }
}

std::uint64_t Tenant::UsedBy(Slot slot, unsigned device) const {
  return map_ == nullptr ? 0 : Load(map_->page().processes[slot].used[device]);
}

std::uint64_t Tenant::Used(unsigned device) const {
  std::uint64_t said = 0;
  std::uint64_t away = 0;
  std::uint64_t residual = 0;
  const auto count = [&](const auto& processes) {
    for (const auto& [slot, process] : processes) {
      said = AddCapped(said, UsedBy(slot, device));
      away = AddCapped(away, process.away[device]);
      residual = AddCapped(residual, process.residual[device]);
    }
  };
  count(processes_);
  count(missing_);
  // Reports above the ceiling are ignored; memory allocated without the library is known from the driver. Memory on the
  // host was allowed earlier and must fit again.
  const TenantDevice& ours = devices_[device];
  const std::uint64_t most = away == 0 ? ours.ceiling : std::max(ours.ceiling, ours.limit);
  return AddCapped(std::min(AddCapped(said, away), most), residual);
}

std::uint32_t Tenant::Flags() const {
  std::uint32_t flags = 0;
  if (map_ == nullptr) return flags;
  for (const auto& [slot, process] : processes_) flags |= Load(map_->page().processes[slot].flags);
  for (const auto& [slot, missing] : missing_) flags |= Load(map_->page().processes[slot].flags);
  return flags;
}

std::uint64_t Tenant::Launches(Slot slot) const {
  return map_ == nullptr ? 0 : Load(map_->page().processes[slot].launches);
}
std::uint32_t Tenant::Waiting(Slot slot) const {
  return map_ == nullptr ? 0 : Load(map_->page().processes[slot].waiting);
}
std::uint32_t Tenant::Entered(Slot slot) const {
  return map_ == nullptr ? 0 : Load(map_->page().processes[slot].entered);
}

}  // namespace divvy::keeper
