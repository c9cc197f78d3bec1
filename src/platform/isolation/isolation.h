// Isolates the jobs of one machine from each other: which way of denying devices works here, and what one launch uses.
// docs/isolation.md has the table of what is enforced how and where.
//
// The choice is made once, when the daemon or agent starts. Each launch then states what is required, and its
// supervisor does it or fails the job: nothing is skipped silently.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/isolation_wishes.h"

namespace divvy {

enum class DeviceLock {
  kNone,        // Only CUDA_VISIBLE_DEVICES, which a program may ignore.
  kProgram,     // A BPF program at a cgroup v2: EPERM, counted.
  kController,  // The devices controller of cgroup v1: EPERM.
  kMounts,      // A mount namespace: EACCES.
};

inline constexpr DeviceLock kLastDeviceLock = DeviceLock::kMounts;

/// The isolation of one launch.
struct JobIsolation {
  DeviceLock lock = DeviceLock::kNone;
  std::vector<std::string> closed_devices;  // Device files of GPUs that are not the job's.
  std::string cores;                        // "0-15,32-47"; empty: all. Enforced only with cgroups.
  std::int64_t processes = 0;    // Maximum of processes and threads; 0: no limit. Enforced only with cgroups.
  int cpus = 0;                  // Maximum CPU time, in cores; 0: no limit. Enforced only with cgroups.
  bool has_own_tmp = false;      // The job has a private /tmp that is removed with it.
  bool has_own_shm = false;      // The job has a private /dev/shm.
  bool keeps_privileges = true;  // False: set-uid programs give no privileges (no_new_privs).

  friend bool operator==(const JobIsolation&, const JobIsolation&) = default;
};

/// The isolation that this machine provides.
struct Isolation {
  DeviceLock lock = DeviceLock::kNone;
  std::vector<std::string> device_files;  // By GPU index; empty where `lock` is kNone.
  IsolationWishes wishes;
  std::string no_mounts;                     // Why no job can have a private /tmp or /dev/shm; empty if it can.
  std::vector<std::vector<int>> node_cores;  // By NUMA node. Set only with wishes.keeps_near_gpus.
  // Describes how each GPU is protected, such as "enforced (cgroup v2)".
  std::string gpus = "advisory (CUDA_VISIBLE_DEVICES)";
  std::string text = gpus;  // Describes all of it.
};

/// The mechanisms that work for the process that starts the jobs here.
struct IsolationFacts {
  bool is_root = false;
  bool has_programs = false;    // A cgroup v2 hierarchy exists and is writable.
  std::string no_program;       // Why no device program can be attached there; empty if one can.
  bool has_controller = false;  // The same for the devices controller of cgroup v1.
  std::string no_controller;
  std::string no_mounts;    // Why no mount namespace can be created; empty if one can.
  std::string controllers;  // CgroupRoots::Text().
  bool limits_cpus = false;
};
/// Tries the mechanisms with this process's rights.
IsolationFacts LearnIsolation();
/// Converts the facts to lines of key=value and back, for the launcher and the daemon.
std::string IsolationFactsText(const IsolationFacts& facts);
IsolationFacts ReadIsolationFacts(std::string_view text);

/// Chooses the first mechanism that `wishes` allow and that works. kFailedPrecondition if they name one that does not
/// work here. `is_emulated`: the GPUs are stand-ins, whose devices have no files unless the wishes name some.
Result<Isolation> ChooseIsolation(const IsolationWishes& wishes, const std::vector<GpuFacts>& gpus, bool is_emulated,
                                  const IsolationFacts& facts = LearnIsolation());

/// Returns the isolation of a job with the GPUs `mine`. Sets no denied devices and no cores for a job whose GPUs change
/// while it runs (`is_elastic`).
JobIsolation IsolationOf(const Isolation& here, const std::vector<GpuFacts>& gpus, GpuSet mine, bool is_elastic);

/// Returns kFailedPrecondition if the wishes require enforcement that is not possible here: that a job can open exactly
/// the GPUs that it holds at any time. `changes` names what changes these GPUs at run time, such as "an elastic job";
/// empty if they do not change.
Status CheckRequired(const Isolation& here, std::string_view changes);

/// For a job with a MIG instance whose capability files are `own`: denies the capability files of other instances, if
/// devices are denied here at all. `folder`: where the driver keeps these files.
void CloseOtherSlices(const Isolation& here, const std::vector<std::string>& own, JobIsolation& job,
                      const std::string& folder = "/dev/nvidia-caps");

/// The job's own choice; unset: the machine's default.
struct OwnFolders {
  std::optional<bool> tmp;
  std::optional<bool> shm;
};
/// Applies the job's choice. A job with a private /tmp also gets a private /dev/shm, unless it chose otherwise.
/// kFailedPrecondition if the job asks for one and the machine cannot provide it.
Status SetOwnFolders(const Isolation& here, const OwnFolders& asked, JobIsolation& job);

/// Returns CUDA_VISIBLE_DEVICES for the job. If the job can open only its own GPUs, the numbers start at 0, because
/// CUDA counts only the GPUs that it can open: `open`.
std::string VisibleDevices(const JobIsolation& job, GpuSet mine, GpuSet open);

/// Returns "enforced (cgroup v2)", for example: how one GPU is protected.
std::string_view Text(DeviceLock lock);

/// Returns the driver's number of each GPU's device file, from /proc/driver/nvidia (`proc`), because NVML uses another
/// order. Empty if the driver does not report the number of every GPU.
std::vector<std::string> NvidiaDeviceFiles(const std::vector<GpuFacts>& gpus, const std::string& proc);

}  // namespace divvy
