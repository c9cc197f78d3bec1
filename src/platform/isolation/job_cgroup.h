// A job's cgroup: its limits on memory, cores, CPU time and processes, and the device files that it may not open. Used
// if we are root and the kernel supports it. Each of the five controllers may be in its own hierarchy (v1) or in that
// of v2, so a job's cgroup consists of one directory or several. It is created only for jobs that have such a limit.
//
// Otherwise limits on memory, cores, CPU time and processes are advisory, and devices are denied by mounts
// (job_mounts.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace divvy {

enum class CgroupController { kMemory, kCores, kProcesses, kCpu, kDevices };
constexpr std::size_t kCgroupControllers = 5;

/// The directory in which one controller's cgroups are created.
struct CgroupRoot {
  std::string directory;    // Mount point of the hierarchy.
  bool is_unified = false;  // cgroup v2.

  friend bool operator==(const CgroupRoot&, const CgroupRoot&) = default;
};

/// The controllers found on this machine. Looked up once; never changes while a process lives.
class CgroupRoots {
 public:
  /// Finds the cgroup hierarchies whose controllers can be used here; none if this process is not root. For devices it
  /// prefers v2 if any v2 hierarchy exists, because a BPF program denies devices there without a controller. `mounts`:
  /// the text of /proc/self/mounts.
  static CgroupRoots Find(std::string_view mounts);
  static CgroupRoots Find();

  const std::optional<CgroupRoot>& of(CgroupController controller) const {
    return roots_[static_cast<std::size_t>(controller)];
  }
  /// The devices controller of cgroup v1, if it can be used to deny devices. For kernels that do not support the BPF
  /// program that denies devices with v2.
  const std::optional<CgroupRoot>& device_controller() const { return device_controller_; }
  /// Returns a text such as "memory, cores by cgroup v1; processes by cgroup v2"; empty if there are none.
  std::string Text() const;

 private:
  std::array<std::optional<CgroupRoot>, kCgroupControllers> roots_;
  std::optional<CgroupRoot> device_controller_;
};

/// True if a memory limit is enforced here; false if it is advisory.
bool CanEnforceMemory();

struct CgroupLimits {
  Bytes memory;                             // 0: no limit.
  std::string cores;                        // "0-15,32-47"; empty: all.
  std::int64_t processes = 0;               // Maximum of processes and threads; 0: no limit.
  int cpus = 0;                             // Maximum CPU time in cores, per period of 100 ms; 0: no limit.
  std::vector<std::string> closed_devices;  // Paths; those that are not device files are skipped.
  bool uses_device_controller = false;      // Uses v1's controller instead of a program.
  bool is_killable = false;                 // Also creates a v2 cgroup for Kill(), if v2 exists.

  bool IsEmpty() const {
    return memory == Bytes(0) && cores.empty() && processes == 0 && cpus == 0 && closed_devices.empty() && !is_killable;
  }
};

/// The cgroup of one job. Copyable: it is a list of paths.
class JobCgroup {
 public:
  /// Creates ROOT/divvy-HASH/NAME in each available hierarchy that `limits` needs. HASH is the hash of `run_directory`,
  /// so that two daemons never use the same cgroup. Replaces empty leftovers of the same name. Skips limits on memory,
  /// cores and processes that have no controller here; denied devices without a controller are an error.
  static Result<JobCgroup> Create(const CgroupRoots& roots, std::string_view run_directory, std::string_view name,
                                  const CgroupLimits& limits);
  /// Opens an existing cgroup. `text`: the text() of the cgroup that Create() returned.
  static JobCgroup Open(std::string_view text);

  /// Returns the directories of the cgroup, separated by blanks; empty if none of the limits needs a cgroup here.
  std::string text() const;
  bool is_empty() const { return directories_.empty(); }
  /// Returns the files to each of which a process writes "0" to join the cgroup.
  std::vector<std::string> procs_files() const;

  bool SawOutOfMemoryKill() const;
  /// Returns the peak memory use, or zero if the kernel does not record it.
  Bytes Peak() const;
  /// Returns how often a process was denied a device, or nullopt if that is not counted.
  std::optional<std::int64_t> RefusedDevices() const;
  /// Sends SIGKILL to all processes in the cgroup at once, including those that are being forked. Returns false if the
  /// kernel does not support this (v1).
  bool Kill() const;
  /// Removes the cgroup. If a process is left in it, returns false and keeps the cgroup.
  bool Remove() const;
  /// Kills the processes in the cgroup repeatedly until none is left, then removes the cgroup. Waits for at most
  /// `timeout`: a process that hangs in the kernel keeps its cgroup.
  void End(std::chrono::milliseconds timeout) const;

 private:
  std::vector<std::string> directories_;
};

}  // namespace divvy
