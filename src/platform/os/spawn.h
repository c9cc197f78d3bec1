// Starts a program as a child process (posix_spawn) with only the descriptors that it is given, an empty signal mask,
// and its own session or process group.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// Describes the program to start, step by step. Start() may be called more than once.
class Spawn {
 public:
  /// Whether the child is reached by a Ctrl-C at this process's terminal, or by the terminal's end.
  enum class Apart {
    kGroup,    // Its own process group: a Ctrl-C does not reach it.
    kSession,  // Its own session: neither reaches it. For a child that outlives this process.
  };

  explicit Spawn(Apart apart);
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// Makes the child's descriptor `fd` a copy of this process's descriptor `ours`, which stays open in this process.
  Spawn& Give(int fd, int ours);
  /// Opens this file in the child as descriptor `fd`. If that fails, Start() returns the error.
  Spawn& Open(int fd, const std::string& path, int flags, mode_t mode = 0);
  /// Opens /dev/null as descriptor `fd` for reading and writing.
  Spawn& OpenNull(int fd);
  /// Closes all descriptors from 3 on in the child. Call it after the other descriptors were given.
  Spawn& CloseRest();
  /// Gives the signal its default action in the child, whatever this process does with it.
  Spawn& Reset(int signal);

  /// Starts the program in a child process and returns its pid. `words`: argv[0] and the arguments. On failure the
  /// error is kInternal with the system's message.
  Result<pid_t> Start(const std::string& program, const std::vector<std::string>& words) const;
  /// Starts the program with these variables ("NAME=value") instead of this process's environment.
  Result<pid_t> Start(const std::string& program, const std::vector<std::string>& words,
                      const std::vector<std::string>& environment) const;

 private:
  Result<pid_t> StartIn(const std::string& program, const std::vector<std::string>& words,
                        char* const* variables) const;

  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
  sigset_t standard_;
};

}  // namespace divvy
