#include "platform/users/fuse_connections.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "platform/os/unique_fd.h"

namespace divvy {
namespace {

constexpr std::size_t kMostFacts = 1 << 20;  // Bytes of facts about one descriptor.

/// Calls `use` with the name of each entry of a folder.
template <typename Use>
void ForEachIn(int folder, const char* path, const Use& use) {
  Descriptor opened(::openat(folder, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(opened.get()), ::closedir);
  if (list == nullptr) return;
  opened.Release();  // It belongs to `list` now.
  while (const dirent* entry = ::readdir(list.get())) {
    if (entry->d_name[0] != '.') use(::dirfd(list.get()), entry->d_name);
  }
}

/// The connections whose server's descriptor this thread of a process holds. Reads the facts about a descriptor only if
/// it is /dev/fuse: that holds the file for a moment, and the end of another one could block. For the same reason it
/// compares the path, and asks no file system which device a file is.
void AddServed(int task, std::set<unsigned>& connections) {
  const Descriptor facts(::openat(task, "fdinfo", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ForEachIn(task, "fd", [&](int folder, const char* number) {
    std::array<char, 64> target{};
    if (::readlinkat(folder, number, target.data(), target.size() - 1) <= 0) return;
    if (std::string_view(target.data()) != "/dev/fuse") return;
    const Descriptor file(::openat(facts.get(), number, O_RDONLY | O_CLOEXEC));
    // A user can put many lines about locks before this one.
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t size = 0; text.size() < kMostFacts && (size = ::read(file.get(), piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(size));
    constexpr std::string_view kName = "\nfuse_connection:\t";
    const auto at = text.find(kName);
    unsigned connection = 0;
    if (at == text.npos) return;
    const std::string_view value = std::string_view(text).substr(at + kName.size());
    if (std::from_chars(value.begin(), value.end(), connection).ec == std::errc()) connections.insert(connection);
  });
}

/// Mounts the kernel's list of connections without a path, because it is not mounted on every machine.
Descriptor OpenConnections() {
  const Descriptor context(static_cast<int>(::syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC)));
  if (!context.is_open() || ::syscall(SYS_fsconfig, context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
    return {};
  return Descriptor(static_cast<int>(::syscall(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, 0)));
}

}  // namespace

int AbortFuseServedBy(std::span<const pid_t> processes, uid_t owner) {
  std::set<unsigned> served;
  for (const pid_t process : processes) {
    // The first thread may have ended while another one has the descriptors.
    ForEachIn(AT_FDCWD, ("/proc/" + std::to_string(process) + "/task").c_str(), [&](int tasks, const char* thread) {
      const Descriptor task(::openat(tasks, thread, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (task.is_open()) AddServed(task.get(), served);
    });
  }
  if (served.empty()) return 0;
  const Descriptor connections = OpenConnections();
  int aborted = 0;
  for (const unsigned number : served) {
    const Descriptor one(
        ::openat(connections.get(), std::to_string(number).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat about {};
    if (::fstat(one.get(), &about) != 0 || about.st_uid != owner) continue;
    const Descriptor abort(::openat(one.get(), "abort", O_WRONLY | O_CLOEXEC));
    aborted += ::write(abort.get(), "1", 1) == 1;
  }
  return aborted;
}

}  // namespace divvy
