#include "keeper/tenants/page_map.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "platform/os/unique_fd.h"

namespace divvy::keeper {
namespace {

// Touching a mapped file beyond its end raises SIGBUS, and the user controls the end. The handler maps private memory
// there and marks the page as broken.
constexpr int kMostPages = 4096;
struct Guarded {
  std::atomic<char*> begin{nullptr};
  std::atomic<bool> is_broken{false};
};
Guarded guarded[kMostPages];

constexpr std::size_t MappedSize() {
  constexpr std::size_t kUnit = 4096;
  return (sizeof(share::Page) + kUnit - 1) / kUnit * kUnit;
}

void OnBusError(int, siginfo_t* info, void*) {
  const int error = errno;
  const char* at = static_cast<char*>(info->si_addr);
  for (Guarded& page : guarded) {
    char* begin = page.begin.load();
    if (begin == nullptr || at < begin || at >= begin + MappedSize()) continue;
    page.is_broken.store(true);
    if (::mmap(begin, MappedSize(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == begin) {
      errno = error;
      return;
    }
  }
  ::signal(SIGBUS, SIG_DFL);  // A fault of our own: it is raised again and ends the process.
}

void GuardPages() {
  static const bool is_guarded = [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGBUS, &action, nullptr);
    return true;
  }();
  static_cast<void>(is_guarded);
}

Error SystemError(const std::string& doing) { return Internal(doing + ": " + std::strerror(errno)); }

}  // namespace

Result<std::unique_ptr<PageMap>> PageMap::Map(int fd) {
  GuardPages();
  int index = 0;
  while (index < kMostPages && guarded[index].begin.load() != nullptr) ++index;
  if (index == kMostPages) return LimitExceeded("a node has at most " + std::to_string(kMostPages) + " tenants");
  struct stat about {};
  if (::fstat(fd, &about) != 0) return SystemError("mapping a tenant's page");
  void* at = ::mmap(nullptr, MappedSize(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return SystemError("mapping a tenant's page");
  guarded[index].is_broken.store(false);
  guarded[index].begin.store(static_cast<char*>(at));
  return std::unique_ptr<PageMap>(new PageMap(static_cast<share::Page*>(at), index, about.st_ino));
}

Result<std::unique_ptr<PageMap>> PageMap::Create(int folder, uid_t uid, gid_t gid, unsigned device_count) {
  DIVVY_ASSERT(device_count >= 1 && device_count <= share::kMaxDevices);
  const Descriptor file(::openat(folder, share::kPageFile, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return SystemError("making a tenant's page");
  if (::ftruncate(file.get(), static_cast<off_t>(MappedSize())) != 0) return SystemError("making a tenant's page");
  // Allocates the file's blocks now. Otherwise a full disk would raise SIGBUS when the page is written.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(MappedSize())); error != 0)
    return LimitExceeded(std::string("making a tenant's page: ") + std::strerror(error));
  if (::geteuid() == 0 && ::fchown(file.get(), uid, gid) != 0) return SystemError("giving a tenant its page");
  DIVVY_TRY(std::unique_ptr<PageMap> map, Map(file.get()));
  share::Page& page = map->page();
  page.device_count = device_count;
  for (share::PageDevice& device : page.devices) device.gate = share::kShut;
  page.layout = share::kPageLayout;
  __atomic_store_n(&page.magic, share::kPageMagic, __ATOMIC_RELEASE);
  return map;
}

Result<std::unique_ptr<PageMap>> PageMap::Open(int folder) {
  const Descriptor file(::openat(folder, share::kPageFile, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat found {};
  if (!file.is_open() || ::fstat(file.get(), &found) != 0) return CorruptData("a tenant's page cannot be opened");
  if (!S_ISREG(found.st_mode) || found.st_size != static_cast<off_t>(MappedSize()))
    return CorruptData("a tenant's page was not made by a keeper");
  DIVVY_TRY(std::unique_ptr<PageMap> map, Map(file.get()));
  if (!map->is_sound()) return CorruptData("a tenant's page has another layout or was overwritten");
  return map;
}

PageMap::~PageMap() {
  guarded[index_].begin.store(nullptr);
  ::munmap(page_, MappedSize());
}

bool PageMap::is_sound() const {
  return __atomic_load_n(&page_->magic, __ATOMIC_ACQUIRE) == share::kPageMagic &&
         __atomic_load_n(&page_->layout, __ATOMIC_RELAXED) == share::kPageLayout && !guarded[index_].is_broken.load();
}

bool PageMap::Lock() { return share::LockPage(*page_, share::kLockedByKeeper, kLockWaitNs) == 0; }

void PageMap::Unlock() { share::UnlockPage(*page_, share::kLockedByKeeper); }

void PageMap::BreakLock() {
  share::UnlockPage(*page_, __atomic_load_n(&page_->lock, __ATOMIC_RELAXED) & ~share::kLockHasWaiters);
}

}  // namespace divvy::keeper
