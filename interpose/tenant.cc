#include "tenant.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "link.h"
#include "memory.h"
#include "platform/os/old_glibc.h"
#include "sync.h"

namespace divvy::interpose {

namespace {

constexpr int kMostOrdinals = 64;
/// After this time the keeper should have broken a page lock.
constexpr std::uint64_t kPageTimeout = 10 * kSecond;

enum PageState : std::uint32_t { kNotLooked, kNone, kMapped };

std::atomic<std::uint32_t> g_page_state{kNotLooked};
std::atomic<share::Page*> g_page{nullptr};
std::uint64_t g_page_inode = 0;  // Modified under g_bytes_mutex.
char g_folder[256] = "";
Mutex g_page_mutex;
Mutex g_bytes_mutex;  // Guards this process's counts; locked before the page's lock.
std::atomic<bool> g_has_spoken{false};

std::atomic<std::uint32_t> g_slot{share::kNoSlot};
std::atomic<std::uint64_t> g_generation{0};
share::PageProcess g_slotless{};  // The entry used while the process has no slot.
std::atomic<share::PageProcess*> g_words{&g_slotless};
std::atomic<std::uint64_t> g_mine[share::kMaxDevices];
std::atomic<std::uint32_t> g_flags{0};

int g_ordinal_count = 0;
unsigned g_device_of[kMostOrdinals];
cuda::Device g_ordinal_of[share::kMaxDevices];

const char* WhyNoPage(const char* folder, share::Page*& page, std::uint64_t& inode) {
  static char why[192];
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, share::kPageFile);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    snprintf(why, sizeof why, "cannot open %.120s (%s)", path, strerror(errno));
    return why;
  }
  struct stat about {};
  void* mapped = MAP_FAILED;
  // A shared-memory page of another version may have another size; its first words tell the version.
  if (old_glibc::Fstat(fd, &about) == 0 && about.st_size >= static_cast<off_t>(2 * sizeof(std::uint32_t))) {
    const auto size = static_cast<std::size_t>(about.st_size);
    mapped = mmap(nullptr, size < sizeof(share::Page) ? size : sizeof(share::Page), PROT_READ | PROT_WRITE, MAP_SHARED,
                  fd, 0);
  }
  close(fd);
  if (mapped == MAP_FAILED) return "the shared memory page of the job cannot be mapped";
  auto* const found = static_cast<share::Page*>(mapped);
  if (found->magic != share::kPageMagic) return "the shared memory page of the job is invalid";
  if (found->layout != share::kPageLayout || about.st_size < static_cast<off_t>(sizeof(share::Page))) {
    return "the shared memory page of the job is from another version of divvy";
  }
  if (found->device_count == 0 || found->device_count > share::kMaxDevices) {
    return "the shared memory page of the job has no devices";
  }
  page = found;
  inode = about.st_ino;
  return nullptr;
}

/// Formats a UUID as NVML does, with "GPU-" in front.
void FormatUuid(const cuda::Uuid& uuid, char (&text)[64]) {
  char* out = text + snprintf(text, sizeof text, "GPU-");
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
    out += snprintf(out, 3, "%02x", uuid.bytes[i]);
  }
}

unsigned DeviceWithUuid(const share::Page& page, const char* uuid) {
  for (unsigned device = 0; device < page.device_count; ++device) {
    if (strncmp(page.devices[device].uuid, uuid, sizeof page.devices[device].uuid) == 0) return device;
  }
  return kNotOurs;
}

bool LockShared(share::Page& page, std::uint64_t timeout) {
  const std::uint32_t slot = g_slot.load(std::memory_order_acquire);
  return share::LockPage(page, share::LockedBySlot(slot), timeout) == 0;
}

void UnlockShared(share::Page& page, std::uint32_t slot) { share::UnlockPage(page, share::LockedBySlot(slot)); }

/// Returns false if the keeper has dropped this process, so that the slot may belong to another. Requires the page's
/// lock.
bool IsStillMine(const share::Page& page, std::uint32_t slot) {
  const share::PageProcess& words = page.processes[slot];
  return __atomic_load_n(&words.is_taken, __ATOMIC_ACQUIRE) != 0 &&
         __atomic_load_n(&words.generation, __ATOMIC_ACQUIRE) == static_cast<std::uint32_t>(g_generation.load());
}

}  // namespace

void Say(const char* what, const char* repair) {
  char line[512];
  const int length =
      snprintf(line, sizeof line, "divvy: process %d: %s: %s\n", static_cast<int>(getpid()), what, repair);
  if (length <= 0) return;
  const Uncancelled uncancelled;
  const SignalsBlocked quiet;
  const ssize_t written =
      write(STDERR_FILENO, line,
            static_cast<std::size_t>(length) < sizeof line ? static_cast<std::size_t>(length) : sizeof line - 1);
  if (written >= 0 || errno != EPIPE) return;
  // If no process reads the program's standard error, SIGPIPE would end the program. It is blocked for this write.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  const timespec now = {0, 0};
  sigtimedwait(&pipe, nullptr, &now);
}

share::Page* SharedPage() {
  const std::uint32_t state = g_page_state.load(std::memory_order_acquire);
  if (state == kMapped) return g_page.load(std::memory_order_acquire);
  if (state == kNone) return nullptr;
  const Locked locked(g_page_mutex);
  if (g_page_state.load(std::memory_order_acquire) != kNotLooked) return g_page;
  const char* const folder = getenv(share::kFolderVariable);
  if (folder == nullptr || *folder == 0) {
    g_page_state.store(kNone, std::memory_order_release);
    return nullptr;
  }
  share::Page* page = nullptr;
  const bool is_short = static_cast<std::size_t>(snprintf(g_folder, sizeof g_folder, "%s", folder)) < sizeof g_folder;
  const char* const why = is_short ? WhyNoPage(g_folder, page, g_page_inode) : "the path in DIVVY_SHARE is too long";
  if (why != nullptr) {
    g_page_state.store(kNone, std::memory_order_release);
    Say(why, "this program runs without sharing its GPU; start the job again");
    return nullptr;
  }
  g_page.store(page, std::memory_order_release);
  g_page_state.store(kMapped, std::memory_order_release);
  return page;
}

const char* ShareFolder() { return g_folder; }

void StopSharing(const char* what, const char* repair) {
  const Locked locked(g_page_mutex);
  // The mapping stays, because other threads may still use it.
  g_page_state.store(kNone, std::memory_order_release);
  if (!g_has_spoken.exchange(true)) Say(what, repair);
}

bool FindDevices() {
  share::Page* const page = SharedPage();
  int count = 0;
  if (page == nullptr || DRIVER(cuDeviceGetCount)(&count) != cuda::kSuccess || count <= 0) return false;
  if (count > kMostOrdinals) count = kMostOrdinals;
  bool is_known = false;
  for (unsigned device = 0; device < share::kMaxDevices; ++device) g_ordinal_of[device] = -1;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::Uuid uuid{};
    char text[64];
    g_device_of[ordinal] = kNotOurs;
    if (DRIVER(cuDeviceGetUuid)(&uuid, ordinal) != cuda::kSuccess) continue;
    FormatUuid(uuid, text);
    g_device_of[ordinal] = DeviceWithUuid(*page, text);
    is_known = is_known || g_device_of[ordinal] != kNotOurs;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    // No UUID matches, because the tenant has been moved. The job sees only its own GPUs, so their order tells which is
    // which.
    if (!is_known)
      g_device_of[ordinal] =
          static_cast<unsigned>(ordinal) < page->device_count ? static_cast<unsigned>(ordinal) : kNotOurs;
    if (g_device_of[ordinal] != kNotOurs) g_ordinal_of[g_device_of[ordinal]] = ordinal;
  }
  g_ordinal_count = count;
  return true;
}

unsigned DeviceOf(cuda::Device ordinal) {
  return ordinal >= 0 && ordinal < g_ordinal_count ? g_device_of[ordinal] : kNotOurs;
}

cuda::Device OrdinalOf(unsigned device) { return device < share::kMaxDevices ? g_ordinal_of[device] : -1; }

bool HasOneDevice() { return g_ordinal_count == 1; }

unsigned CurrentDevice(cuda::Device* ordinal) {
  if (g_ordinal_count == 1) {  // No driver call needed.
    if (ordinal != nullptr) *ordinal = 0;
    return g_device_of[0];
  }
  cuda::Device current = -1;
  if (DRIVER(cuCtxGetDevice)(&current) != cuda::kSuccess) return kNotOurs;
  if (ordinal != nullptr) *ordinal = current;
  return DeviceOf(current);
}

share::PageProcess* ProcessWords() { return g_words.load(std::memory_order_acquire); }
std::uint32_t SlotNow() { return g_slot.load(std::memory_order_acquire); }
std::uint64_t GenerationNow() { return g_generation.load(std::memory_order_acquire); }
std::uint64_t Mine(unsigned device) { return g_mine[device].load(std::memory_order_relaxed); }

namespace {

/// Switches to a new page that the keeper created, for example because it could not read the old one. The old one stays
/// mapped for threads that still use it. Requires g_bytes_mutex. Returns false if the new page cannot be mapped.
bool FollowPage(std::uint64_t inode) {
  if (inode == 0 || inode == g_page_inode) return true;
  share::Page* page = nullptr;
  std::uint64_t found = 0;
  if (WhyNoPage(g_folder, page, found) != nullptr) return false;
  if (found != inode || page->device_count != SharedPage()->device_count) {
    munmap(page, sizeof *page);
    return false;
  }
  g_slot.store(share::kNoSlot, std::memory_order_release);
  g_generation.store(0, std::memory_order_release);
  g_page_inode = inode;
  g_page.store(page, std::memory_order_release);
  return true;
}

}  // namespace

bool AdoptSlot(std::uint32_t slot, std::uint64_t generation, std::uint64_t inode) {
  if (SharedPage() == nullptr || slot >= share::kMaxProcesses) return false;
  const Locked own(g_bytes_mutex);
  if (!FollowPage(inode)) return false;
  share::Page* const page = SharedPage();
  if (slot == SlotNow() && generation == GenerationNow()) return true;
  const SignalsBlocked quiet;
  share::PageProcess& words = page->processes[slot];
  const bool is_locked = share::LockPage(*page, share::LockedBySlot(slot), kPageTimeout) == 0;
  for (unsigned device = 0; device < share::kMaxDevices; ++device) {
    __atomic_store_n(&words.used[device], g_mine[device].load(std::memory_order_relaxed), __ATOMIC_RELEASE);
  }
  __atomic_store_n(&words.flags, g_flags.load(std::memory_order_relaxed), __ATOMIC_RELEASE);
  g_slot.store(slot, std::memory_order_release);
  g_generation.store(generation, std::memory_order_release);
  g_words.store(&words, std::memory_order_release);
  if (is_locked) share::UnlockPage(*page, share::LockedBySlot(slot));
  return true;
}

bool TakeAtOnce(unsigned device, std::uint64_t bytes) {
  const Locked own(g_bytes_mutex);
  share::Page* const page = SharedPage();
  if (page == nullptr || device >= page->device_count) return true;
  const SignalsBlocked quiet;
  const std::uint32_t slot = SlotNow();
  if (slot == share::kNoSlot) {
    // Without a slot, the ceiling cannot be guaranteed.
    if (__atomic_load_n(&page->is_enforced, __ATOMIC_RELAXED) != 0) return false;
    g_mine[device].fetch_add(bytes, std::memory_order_relaxed);
    return true;
  }
  if (!LockShared(*page, kPageTimeout)) return false;
  const bool is_taken = IsStillMine(*page, slot) ? share::Reserve(*page, slot, device, bytes)
                                                 : __atomic_load_n(&page->is_enforced, __ATOMIC_RELAXED) == 0;
  if (is_taken) g_mine[device].fetch_add(bytes, std::memory_order_relaxed);
  UnlockShared(*page, slot);
  return is_taken;
}

void TakeRegardless(unsigned device, std::uint64_t bytes) {
  const Locked own(g_bytes_mutex);
  share::Page* const page = SharedPage();
  if (page == nullptr || device >= page->device_count || bytes == 0) return;
  g_mine[device].fetch_add(bytes, std::memory_order_relaxed);
  const SignalsBlocked quiet;
  const std::uint32_t slot = SlotNow();
  if (slot == share::kNoSlot) return;
  // Only this process changes this word, so the update is correct without the page's lock; sums of other processes may
  // lag.
  const bool is_locked = LockShared(*page, kPageTimeout);
  if (IsStillMine(*page, slot)) __atomic_fetch_add(&page->processes[slot].used[device], bytes, __ATOMIC_ACQ_REL);
  if (is_locked) UnlockShared(*page, slot);
}

void GiveBack(unsigned device, std::uint64_t bytes) {
  const Locked own(g_bytes_mutex);
  share::Page* const page = SharedPage();
  if (page == nullptr || device >= page->device_count || bytes == 0) return;
  const std::uint64_t mine = g_mine[device].load(std::memory_order_relaxed);
  if (bytes > mine) bytes = mine;
  g_mine[device].store(mine - bytes, std::memory_order_relaxed);
  const SignalsBlocked quiet;
  const std::uint32_t slot = SlotNow();
  if (slot == share::kNoSlot) return;
  std::uint64_t& used = page->processes[slot].used[device];
  // If the page's lock cannot be taken, continues without it. That is safe, because sums only decrease here.
  const bool is_locked = LockShared(*page, kPageTimeout);
  if (IsStillMine(*page, slot)) {
    const std::uint64_t before = __atomic_load_n(&used, __ATOMIC_ACQUIRE);
    __atomic_store_n(&used, before < bytes ? 0 : before - bytes, __ATOMIC_RELEASE);
  }
  if (is_locked) UnlockShared(*page, slot);
}

cuda::Return Take(unsigned device, std::uint64_t bytes) {
  share::Page* const page = SharedPage();
  if (page == nullptr || device >= page->device_count) return cuda::kSuccess;
  if (TakeAtOnce(device, bytes)) return cuda::kSuccess;
  ShrinkOwn(device);
  if (TakeAtOnce(device, bytes)) return cuda::kSuccess;
  const std::uint64_t started = NowNs();
  for (;;) {
    const std::uint64_t limit = __atomic_load_n(&page->devices[device].limit, __ATOMIC_RELAXED);
    const std::uint64_t used = share::UsedOf(*page, device);
    if (bytes > limit || used > limit - bytes) return cuda::kOutOfMemory;  // No keeper could grant it.
    if (!AskForMore(device, bytes, started)) return cuda::kOutOfMemory;
    // If this fails, another thread has used the memory that the keeper granted, so the keeper is asked again.
    if (TakeAtOnce(device, bytes)) return cuda::kSuccess;
  }
}

bool ShownMemory(unsigned device, std::uint64_t& total, std::uint64_t& used) {
  share::Page* const page = SharedPage();
  used = 0;
  if (page == nullptr || device >= page->device_count) return true;
  const share::PageDevice& shown = page->devices[device];
  const std::uint64_t shown_total = __atomic_load_n(&shown.shown_total, __ATOMIC_RELAXED);
  if (shown_total == 0) return false;
  if (shown_total < total) total = shown_total;
  used = share::UsedOf(*page, device);
  // Memory above the limit is not available to this tenant, whatever total it is shown.
  const std::uint64_t limit = __atomic_load_n(&shown.limit, __ATOMIC_RELAXED);
  if (limit < total) used += total - limit;
  if (used > total) used = total;
  return true;
}

std::uint32_t FlagsNow() { return g_flags.load(std::memory_order_relaxed); }

void SetFlags(std::uint32_t flags) {
  g_flags.fetch_or(flags, std::memory_order_relaxed);
  __atomic_fetch_or(&ProcessWords()->flags, flags, __ATOMIC_ACQ_REL);
}

void ForgetTenancy() {
  g_page_mutex.Renew();
  g_bytes_mutex.Renew();
  g_slot.store(share::kNoSlot, std::memory_order_release);
  g_generation.store(0, std::memory_order_release);
  g_slotless = {};
  g_words.store(&g_slotless, std::memory_order_release);
  for (auto& mine : g_mine) mine.store(0, std::memory_order_relaxed);
  g_flags.store(0, std::memory_order_relaxed);
}

}  // namespace divvy::interpose
