// A job's cgroup: what it may use of memory, cores, CPU time and processes, and which device files are closed to it.
// Where we are root and the kernel offers it; each of the five controllers may be in a hierarchy of its own (v1) or in
// the one of v2, so a job's cgroup is one directory or several. It is made for jobs that something is limited for, and
// for no others.
//
// Elsewhere memory, cores, CPU time and processes are advisory, and devices are closed by mounts (job_mounts.h).
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

/// Where one controller's cgroups are made.
struct CgroupRoot {
  std::string directory;    // Its mount point.
  bool is_unified = false;  // cgroup v2.

  friend bool operator==(const CgroupRoot&, const CgroupRoot&) = default;
};

/// Found once; never changes while a process lives.
class CgroupRoots {
 public:
  /// None of them where we are not root. Devices are v2's where there is any v2, for the program needs no controller.
  /// `mounts`: the text of /proc/self/mounts.
  static CgroupRoots Find(std::string_view mounts);
  static CgroupRoots Find();

  const std::optional<CgroupRoot>& of(CgroupController controller) const {
    return roots_[static_cast<std::size_t>(controller)];
  }
  /// v1's controller of devices, where it can close any; for kernels that take no program.
  const std::optional<CgroupRoot>& device_controller() const { return device_controller_; }
  /// "memory, cores by cgroup v1; processes by cgroup v2"; empty: none.
  std::string Text() const;

 private:
  std::array<std::optional<CgroupRoot>, kCgroupControllers> roots_;
  std::optional<CgroupRoot> device_controller_;
};

/// Whether a memory limit is enforced here, or advisory.
bool CanEnforceMemory();

struct CgroupLimits {
  Bytes memory;                             // 0: none.
  std::string cores;                        // "0-15,32-47"; empty: all.
  std::int64_t processes = 0;               // And threads, at once; 0: any number.
  int cpus = 0;                             // Time of so many cores at most, each 100 ms; 0: any.
  std::vector<std::string> closed_devices;  // Device files; those that are none are left out.
  bool uses_device_controller = false;      // v1's, not a program.
  bool is_killable = false;                 // One of v2 is made as well, where there is v2, for Kill().

  bool IsEmpty() const {
    return memory == Bytes(0) && cores.empty() && processes == 0 && cpus == 0 && closed_devices.empty() && !is_killable;
  }
};

/// One job's. Copyable: it is a list of paths.
class JobCgroup {
 public:
  /// Makes ROOT/divvy-HASH/NAME in each hierarchy that `limits` needs and that is there; HASH is that of
  /// `run_directory`, so that two daemons never meet. Empty leftovers of the same name are replaced. Limits on memory,
  /// cores and processes that have no controller here are left out; closed devices that have none are an error.
  static Result<JobCgroup> Create(const CgroupRoots& roots, std::string_view run_directory, std::string_view name,
                                  const CgroupLimits& limits);
  /// One that exists: text() of one that Create() made.
  static JobCgroup Open(std::string_view text);

  /// Its directories, with blanks between; empty: none of the limits needs one here.
  std::string text() const;
  bool is_empty() const { return directories_.empty(); }
  /// The files into each of which a process writes "0" to join.
  std::vector<std::string> procs_files() const;

  bool SawOutOfMemoryKill() const;
  /// Zero where the kernel does not keep it.
  Bytes Peak() const;
  /// How often it was refused a device; nothing where that is not counted.
  std::optional<std::int64_t> RefusedDevices() const;
  /// SIGKILL to all in it at once, forks under way included. False where the kernel has no such thing (v1).
  bool Kill() const;
  /// Requires: no process is left in it. False where one is: the cgroup stays.
  bool Remove() const;
  /// Kills all in it, again and again, until none is left, and removes it. Waits for `patience` at most: a process that
  /// hangs in the kernel keeps its cgroup.
  void End(std::chrono::milliseconds patience) const;

 private:
  std::vector<std::string> directories_;
};

}  // namespace divvy
