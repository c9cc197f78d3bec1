#include "platform/job_mounts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "platform/unix_socket.h"

namespace divvy {
namespace {

constexpr std::string_view kOwnTmp = "/tmp/divvy-job.";

Error MountError(std::string_view what, const std::string& path) {
  return Internal("cannot " + std::string(what) + " '" + path + "': " + std::strerror(errno));
}

bool IsUnder(const std::string& path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

// What the file system at `path` is mounted with: a mount that changes one thing must repeat the others, and those that
// were there before a user namespace are locked.
unsigned long FlagsOf(const std::string& path) {
  struct statvfs about = {};
  if (::statvfs(path.c_str(), &about) != 0) return 0;
  unsigned long flags = 0;
  if ((about.f_flag & ST_RDONLY) != 0) flags |= MS_RDONLY;
  if ((about.f_flag & ST_NOSUID) != 0) flags |= MS_NOSUID;
  if ((about.f_flag & ST_NOEXEC) != 0) flags |= MS_NOEXEC;
  if ((about.f_flag & ST_NOATIME) != 0) flags |= MS_NOATIME;
  if ((about.f_flag & ST_NODIRATIME) != 0) flags |= MS_NODIRATIME;
  if ((about.f_flag & ST_RELATIME) != 0) flags |= MS_RELATIME;
  return flags;
}

bool Write(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool is_written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return is_written;
}

bool Mount(const MountPlan::Step& step) {
  if (step.source.empty())
    return ::mount("tmpfs", step.target.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") == 0;
  if (::mount(step.source.c_str(), step.target.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) return false;
  if (step.flags == 0) return true;
  return ::mount(nullptr, step.target.c_str(), nullptr, MS_REMOUNT | MS_BIND | step.flags, nullptr) == 0;
}

int Try(void* plan) { ::_exit(EnterMounts(*static_cast<const MountPlan*>(plan)) == 0 ? 0 : errno); }

}  // namespace

Result<MountPlan> PlanMounts(const MountWishes& wishes) {
  MountPlan plan;
  for (const std::string& device : wishes.closed_devices) {
    if (::access(device.c_str(), F_OK) != 0) continue;
    plan.steps.push_back({.source = device, .target = device, .flags = FlagsOf(device) | MS_NODEV});
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
  // What is mounted outside later is seen in here, and nothing of ours there.
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
  // The user namespace first: it gives the right to enter the other one.
  for (const Descriptor* one : {&namespaces.user, &namespaces.mounts}) {
    if (one->is_open() && ::setns(one->get(), 0) != 0) return -1;
  }
  return 0;
}

Status CanMount() {
  MountPlan plan;
  DIVVY_TRY(plan, PlanMounts({.closed_devices = {"/dev/null"}}));
  alignas(16) static char stack[16384];
  // As the job's first process is made: the daemon has threads, and its memory is not copied.
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

void RemoveOwnTmp(const std::string& folder) {
  if (!folder.starts_with(kOwnTmp) || folder.find("/../") != std::string::npos) return;
  std::error_code ignored;
  std::filesystem::remove_all(std::filesystem::path(folder).parent_path(), ignored);
}

}  // namespace divvy
