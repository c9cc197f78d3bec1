#include "platform/isolation/job_mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "platform/os/foreign_descriptor.h"
#include "platform/os/remove_tree.h"
#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr std::string_view kOwnTmp = "/tmp/divvy-job.";
// The name of a /tmp that was set aside, inside its outer folder; before that its name is "tmp". Only we may enter the
// outer folder.
constexpr const char* kOld = "/old";

Error MountError(std::string_view what, const std::string& path) {
  return Internal("cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

bool IsUnder(const std::string& path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

bool Write(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return is_written;
}

// Copied from linux/mount.h, which conflicts with the C library's header.
struct MountAttributes {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;
  std::uint64_t user_namespace = 0;
};
constexpr std::uint64_t kNoDevices = 0x4;
constexpr unsigned kCloneTree = 0x1;
constexpr unsigned kFromDescriptor = 0x4;
constexpr unsigned kToDescriptor = 0x40;

// Makes a device inaccessible on kernels before 5.12. Resolves the path more than once, so it is used only below /dev,
// where only root can change it. Repeats the flags with which the file system is mounted, because a user namespace
// cannot clear flags that it inherited.
bool CloseByPath(const char* path) {
  struct statvfs about = {};
  if (std::strncmp(path, "/dev/", 5) != 0 || std::strstr(path, "/../") != nullptr || ::statvfs(path, &about) != 0 ||
      ::mount(path, path, nullptr, MS_BIND, nullptr) != 0)
    return false;
  constexpr std::array<std::pair<unsigned long, unsigned long>, 6> kFlags = {{{ST_RDONLY, MS_RDONLY},
                                                                              {ST_NOSUID, MS_NOSUID},
                                                                              {ST_NOEXEC, MS_NOEXEC},
                                                                              {ST_NOATIME, MS_NOATIME},
                                                                              {ST_NODIRATIME, MS_NODIRATIME},
                                                                              {ST_RELATIME, MS_RELATIME}}};
  unsigned long flags = MS_NODEV;
  for (const auto& [is_so, flag] : kFlags) flags |= (about.f_flag & is_so) != 0 ? flag : 0;
  return ::mount(nullptr, path, nullptr, MS_REMOUNT | MS_BIND | flags, nullptr) == 0;
}

// Resolves the path once and, if it is a device, mounts that file over itself. So a process that changes the path
// meanwhile cannot cause another file to be mounted. Allocates nothing.
bool CloseDevice(const char* path) {
  const Descriptor found(::open(path, O_PATH | O_CLOEXEC));
  if (!found.is_open()) return errno == ENOENT;
  struct stat about = {};
  if (::fstat(found.get(), &about) != 0) return false;
  errno = ENODEV;
  if (!S_ISCHR(about.st_mode)) return false;
  const Descriptor tree(
      static_cast<int>(::syscall(SYS_open_tree, found.get(), "", AT_EMPTY_PATH | kCloneTree | O_CLOEXEC)));
  MountAttributes attributes = {.set = kNoDevices};
  if (tree.is_open() &&
      ::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) == 0)
    return ::syscall(SYS_move_mount, tree.get(), "", found.get(), "", kFromDescriptor | kToDescriptor) == 0;
  return (errno == ENOSYS || errno == EPERM) && CloseByPath(path);
}

bool Mount(const MountPlan::Step& step) {
  if (step.closes_device) return CloseDevice(step.target.c_str());
  if (step.source.empty())
    return ::mount("tmpfs", step.target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
  return ::mount(step.source.c_str(), step.target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

int Try(void* plan) { ::_exit(EnterMounts(*static_cast<const MountPlan*>(plan)) == 0 ? 0 : errno); }

}  // namespace

Result<MountPlan> PlanMounts(const MountWishes& wishes) {
  MountPlan plan;
  constexpr std::size_t kMostDevices = 512;  // 64 GPUs and their MIG instances.
  if (wishes.closed_devices.size() > kMostDevices)
    return LimitExceeded("a job can be denied access to at most " + std::to_string(kMostDevices) + " devices");
  for (const std::string& device : wishes.closed_devices) {
    if (::access(device.c_str(), F_OK) != 0) continue;
    plan.steps.push_back({.source = "", .target = device, .closes_device = true});
  }
  if (wishes.has_own_shm) plan.steps.push_back({.source = "", .target = "/dev/shm"});
  if (!wishes.own_tmp.empty()) {
    if (IsUnder(wishes.kept, "/tmp")) {
      const std::string inside = wishes.own_tmp + wishes.kept.substr(std::strlen("/tmp"));
      std::error_code error;
      std::filesystem::create_directories(inside, error);
      errno = error.value();
      if (error) return MountError("make the folder", inside);
      plan.steps.push_back({.source = wishes.kept, .target = inside});
    }
    plan.steps.push_back({.source = wishes.own_tmp, .target = "/tmp"});
  }
  plan.needs_user_namespace = !plan.steps.empty() && ::geteuid() != 0;
  const std::string uid = std::to_string(::geteuid()), gid = std::to_string(::getegid());
  plan.user_map = uid + " " + uid + " 1\n";
  plan.group_map = gid + " " + gid + " 1\n";
  return plan;
}

int EnterMounts(const MountPlan& plan) {
  if (plan.steps.empty()) return 0;
  if (::unshare(plan.needs_user_namespace ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) != 0) return -1;
  if (plan.needs_user_namespace &&
      (!Write("/proc/self/setgroups", "deny") || !Write("/proc/self/uid_map", plan.user_map) ||
       !Write("/proc/self/gid_map", plan.group_map))) {
    return -1;
  }
  // From now on, mounts made on the machine still appear in the job's namespace, but mounts made here do not appear
  // outside of it.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return -1;
  for (const MountPlan::Step& step : plan.steps) {
    if (!Mount(step)) return -1;
  }
  return 0;
}

int SendNamespaces(const MountPlan& plan, int socket) {
  const std::array<int, 2> fds = {::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC),
                                  ::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)};
  if (fds[0] < 0 || fds[1] < 0) return -1;
  const std::span<const int> sent(fds.data(), plan.needs_user_namespace ? 2 : 1);
  return SendWithDescriptors(socket, std::string_view("\0", 1), sent, 0) == 1 ? 0 : -1;
}

JobNamespaces ReceiveNamespaces(int socket) {
  std::vector<Descriptor> fds = ReceiveDescriptors(socket, 2);
  fds.resize(2);
  return {.mounts = std::move(fds[0]), .user = std::move(fds[1])};
}

int JoinNamespaces(const JobNamespaces& namespaces) {
  // The user namespace comes first, because it gives the right to enter the mount namespace.
  for (const Descriptor* one : {&namespaces.user, &namespaces.mounts}) {
    if (one->is_open() && ::setns(one->get(), 0) != 0) return -1;
  }
  return 0;
}

Status CanMount() {
  MountPlan plan;
  DIVVY_TRY(plan, PlanMounts({.closed_devices = {"/dev/null"}}));
  alignas(16) static char stack[16384];
  // Tries the mounts in a process that is created like a job's first process: without copying the memory of the daemon,
  // which has threads.
  const int pid = ::clone(Try, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  int status = 0;
  while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (pid > 0) errno = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
  if (errno == 0) return {};
  return FailedPrecondition(std::string("no mount namespace can be made: ") + std::strerror(errno));
}

Result<std::string> MakeOwnTmp(uid_t owner, gid_t group) {
  std::string outer = std::string(kOwnTmp) + "XXXXXX";
  if (::mkdtemp(outer.data()) == nullptr) return MountError("make the job's own /tmp", outer);
  const std::string folder = outer + "/tmp";
  if (::mkdir(folder.c_str(), 01777) != 0 || ::chmod(folder.c_str(), 01777) != 0) {
    return MountError("make the job's own /tmp", folder);
  }
  if (::geteuid() == 0 && ::chown(folder.c_str(), owner, group) != 0) return MountError("give the job", folder);
  return folder;
}

void SetAsideOwnTmp(const std::string& folder) {
  const std::string outer = folder.substr(0, folder.rfind('/'));
  if (!folder.starts_with(kOwnTmp) || outer.rfind('/') != std::strlen("/tmp")) return;
  // No other user can put a link into the outer folder, and renaming in it needs no free inode.
  [[maybe_unused]] const int owned = ::lchown(folder.c_str(), ::geteuid(), ::getegid());
  ::chmod(folder.c_str(), 0700);
  ::rename(folder.c_str(), (outer + kOld).c_str());
}

void RemoveOldTmps() {
  std::error_code none;
  for (std::filesystem::directory_iterator at("/tmp", none), end; !none && at != end; at.increment(none)) {
    const std::string& path = at->path().native();
    struct stat about = {};
    if (!path.starts_with(kOwnTmp) || ::lstat(path.c_str(), &about) != 0 || about.st_uid != ::geteuid()) continue;
    if (::access((path + kOld).c_str(), F_OK) != 0) continue;
    RemoveTree(path + kOld, [] { return false; });
    ::rmdir(path.c_str());
  }
}

}  // namespace divvy
