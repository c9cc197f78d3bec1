// A program of one's own that is started beside this process (posix_spawn): with the descriptors that it is given,
// none of this process's signal mask, and in a session or process group of its own.
#pragma once

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

/// What is to be started, put together step by step; Start may be called more than once.
class Spawn {
 public:
  /// Whether a Ctrl-C at this process's terminal, or the terminal's end, reaches it.
  enum class Apart {
    kGroup,    // A process group of its own: not the Ctrl-C.
    kSession,  // A session of its own: neither; for what outlives this process.
  };

  explicit Spawn(Apart apart);
  ~Spawn();
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  /// Its descriptor `fd` is a copy of `ours`, which stays open here.
  Spawn& Give(int fd, int ours);
  /// Its descriptor `fd` is this file, opened there. A file that cannot be opened is Start's error.
  Spawn& Open(int fd, const std::string& path, int flags, mode_t mode = 0);
  /// /dev/null, for reading and writing.
  Spawn& OpenNull(int fd);
  /// Nothing from 3 on is left to it; after all that it is given.
  Spawn& CloseRest();
  /// The signal does there what it does by itself, whatever this process does with it.
  Spawn& Reset(int signal);

  /// `words`: the program's own name for itself and its arguments. Internal: the system's words.
  Result<pid_t> Start(const std::string& program, const std::vector<std::string>& words) const;
  /// With these variables ("NAME=value") in place of this process's own.
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
