#include "platform/os/spawn.h"

#include <fcntl.h>

#include <csignal>
#include <cstring>

extern char** environ;

namespace divvy {
namespace {

std::vector<char*> PointersTo(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Spawn::Spawn(Apart apart) {
  ::posix_spawn_file_actions_init(&files_);
  ::posix_spawnattr_init(&attributes_);
  ::sigemptyset(&standard_);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes_, &none);
  const int own = apart == Apart::kSession ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
  ::posix_spawnattr_setflags(&attributes_, static_cast<short>(own | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
}

Spawn::~Spawn() {
  ::posix_spawnattr_destroy(&attributes_);
  ::posix_spawn_file_actions_destroy(&files_);
}

Spawn& Spawn::Give(int fd, int ours) {
  ::posix_spawn_file_actions_adddup2(&files_, ours, fd);
  return *this;
}

Spawn& Spawn::Open(int fd, const std::string& path, int flags, mode_t mode) {
  ::posix_spawn_file_actions_addopen(&files_, fd, path.c_str(), flags, mode);
  return *this;
}

Spawn& Spawn::OpenNull(int fd) { return Open(fd, "/dev/null", O_RDWR); }

Spawn& Spawn::CloseRest() {
  ::posix_spawn_file_actions_addclosefrom_np(&files_, 3);
  return *this;
}

Spawn& Spawn::Reset(int signal) {
  ::sigaddset(&standard_, signal);
  ::posix_spawnattr_setsigdefault(&attributes_, &standard_);
  return *this;
}

Result<pid_t> Spawn::Start(const std::string& program, const std::vector<std::string>& words) const {
  return StartIn(program, words, environ);
}

Result<pid_t> Spawn::Start(const std::string& program, const std::vector<std::string>& words,
                           const std::vector<std::string>& environment) const {
  return StartIn(program, words, PointersTo(environment).data());
}

Result<pid_t> Spawn::StartIn(const std::string& program, const std::vector<std::string>& words,
                             char* const* variables) const {
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &files_, &attributes_, PointersTo(words).data(), variables);
  if (error != 0) return Internal(std::strerror(error));
  return pid;
}

}  // namespace divvy
