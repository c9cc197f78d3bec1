// A memory limit for a job: one memory cgroup (v1 or v2) per job that asked for memory, where we are root and the
// kernel offers it. Elsewhere a limit is advisory, and CanEnforceMemory() says so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace divvy {

/// Where this machine's memory cgroups are made. Found once; never changes while a process lives.
struct MemoryCgroupRoot {
  std::string directory;    // The controller's mount point.
  bool is_unified = false;  // cgroup v2.
};

/// Nothing where a limit cannot be enforced: not root, no memory controller, or it is not writable.
std::optional<MemoryCgroupRoot> FindMemoryCgroupRoot();

/// For `divvy gpus` and the like, which say what is enforced and what is advisory.
bool CanEnforceMemory();

/// One job's cgroup. Copyable: it is a path.
class MemoryCgroup {
 public:
  /// Makes ROOT/divvy-HASH/NAME with `limit`; HASH is that of `run_directory`, so that two daemons never meet.
  /// An empty leftover of the same name is replaced.
  static Result<MemoryCgroup> Create(const MemoryCgroupRoot& root, std::string_view run_directory,
                                     std::string_view name, Bytes limit);

  /// One that exists: a directory that Create() made.
  static MemoryCgroup Open(const MemoryCgroupRoot& root, const std::string& directory);

  const std::string& directory() const { return directory_; }
  /// The file into which a process writes "0" to join.
  std::string procs_file() const { return directory_ + "/cgroup.procs"; }
  bool SawOutOfMemoryKill() const;
  /// Zero where the kernel does not keep it.
  Bytes Peak() const;
  /// Requires: no process is left in it.
  void Remove() const;

 private:
  std::string directory_;
  bool is_unified_ = false;
};

}  // namespace divvy
