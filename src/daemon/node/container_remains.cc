// Containers that are left when the process that started them was killed: the node finds them, and a process with the
// user's rights removes them.
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/text.h"
#include "daemon/node/container.h"
#include "platform/isolation/container_engine.h"
#include "platform/os/spawn.h"
#include "platform/users/user_identity.h"

extern "C" char** environ;

namespace divvy {
namespace {

// An engine that does not answer delays the release of a job's GPUs by at most this time.
constexpr unsigned kRemovalSeconds = 60;
// The launcher's environment has no PATH.
constexpr const char* kSearchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin";

bool Become(uid_t uid, gid_t gid) {
  if (::geteuid() != 0) return true;
  UserGroups groups;
  const std::vector<gid_t>& of_user = groups.Of(uid, gid);
  return ::setgroups(of_user.size(), of_user.data()) == 0 && ::setresgid(gid, gid, gid) == 0 &&
         ::setresuid(uid, uid, uid) == 0;
}

int RunToEnd(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  if (::posix_spawn(&child, words.front(), nullptr, nullptr, words.data(), environ) != 0) return 126;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

std::string ContainerLogPath(const std::string& step_list) { return step_list + ".containers"; }

ContainerLog ReadContainerLogFile(const std::string& path) {
  return ReadContainerLog(ReadContainerFile(path, kContainerLogMost));
}

int ContainerRemoveMain(const std::vector<std::string>& words) {
  if (words.size() != 4) return 2;
  const auto uid = ParseInteger(words[0]);
  const auto gid = ParseInteger(words[1]);
  if (!uid || !gid) return 2;
  ::alarm(kRemovalSeconds);
  if (!Become(static_cast<uid_t>(*uid), static_cast<gid_t>(*gid))) return 1;
  const ContainerLog log = ReadContainerLogFile(words[2]);
  if (log.left.empty()) return 0;
  // The user can write this file, so it may name only an engine that the machine has, not any program.
  const std::string named = log.engine.substr(log.engine.rfind('/') + 1);
  const char* path = std::getenv("PATH");
  const auto engine =
      FindContainerEngine(words[3] == "auto" ? named : words[3], path == nullptr ? kSearchPath : path, "");
  if (!engine) return 127;
  // The daemon's environment must not reach the user's process.
  ::clearenv();
  for (const std::string& entry : log.environment) {
    const auto equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  int worst = 0;
  for (const std::string& name : log.left) {
    worst = std::max(worst, RunToEnd({engine->path, "rm", "-f", name}));
    ::unlink((words[2] + "." + name).c_str());
  }
  return worst;
}

void ContainerRemoval::Reap() const {
  int status = 0;
  if (pid > 0) static_cast<void>(::waitpid(pid, &status, WNOHANG));
}

ContainerRemoval StartContainerRemoval(const std::string& divvy, std::int64_t uid, std::int64_t gid,
                                       const std::string& log_path, const std::string& engine) {
  // In its own process group, so that Ctrl-C at the daemon's terminal does not reach it.
  Spawn spawn(Spawn::Apart::kGroup);
  for (int fd = 0; fd < 3; ++fd) spawn.OpenNull(fd);
  ContainerRemoval removal;
  const auto pid = spawn.Start(
      divvy, {divvy, "internal-container-remove", std::to_string(uid), std::to_string(gid), log_path, engine});
  if (!pid) return removal;
  removal.pid = *pid;
  removal.pidfd.Reset(static_cast<int>(::syscall(SYS_pidfd_open, removal.pid, 0)));
  return removal;
}

}  // namespace divvy
