// What keeps jobs on one machine apart: which way of closing devices works here, and what one launch asks for.
// docs/isolation.md has the table of what is enforced how and where.
//
// Decided once, when the daemon or agent starts; each launch then says what is to be done, and its supervisor does it
// or fails the job: what was promised is never left out silently.
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
  kNone,        // CUDA_VISIBLE_DEVICES alone, which a program may ignore.
  kProgram,     // A program at a cgroup v2: EPERM, and counted.
  kController,  // cgroup v1's controller of devices: EPERM.
  kMounts,      // A mount namespace: EACCES.
};

inline constexpr DeviceLock kLastDeviceLock = DeviceLock::kMounts;

/// One launch's part.
struct JobIsolation {
  DeviceLock lock = DeviceLock::kNone;
  std::vector<std::string> closed_devices;  // Device files of GPUs that are not the job's.
  std::string cores;                        // "0-15,32-47"; empty: all. Enforced where cgroups are.
  std::int64_t processes = 0;               // And threads, at once; 0: any number. Enforced where cgroups are.
  int cpus = 0;                             // No more time than of so many; 0: any. Enforced where cgroups are.
  bool has_own_tmp = false;                 // A /tmp of its own, which goes with it;
  bool has_own_shm = false;                 // and a /dev/shm.
  bool keeps_privileges = true;             // False: no set-uid program gives it any (no_new_privs).

  friend bool operator==(const JobIsolation&, const JobIsolation&) = default;
};

/// What holds on this machine.
struct Isolation {
  DeviceLock lock = DeviceLock::kNone;
  std::vector<std::string> device_files;  // By GPU index; empty where `lock` is kNone.
  IsolationWishes wishes;
  std::string no_mounts;                     // Why no job can have a /tmp or /dev/shm of its own; empty: each can.
  std::vector<std::vector<int>> node_cores;  // By NUMA node; only where wishes.keeps_near_gpus.
  std::string gpus = "advisory (CUDA_VISIBLE_DEVICES)";  // In words, of each GPU: "enforced (cgroup v2)".
  std::string text = gpus;                               // Of everything.
};

/// Which ways work, for whoever starts the jobs here.
struct IsolationFacts {
  bool is_root = false;
  bool has_programs = false;    // There is a cgroup v2 hierarchy that may be written;
  std::string no_program;       // and why no device program can be attached there; empty: one can.
  bool has_controller = false;  // The same of cgroup v1's controller of devices.
  std::string no_controller;
  std::string no_mounts;    // Why no mount namespace can be made; empty: one can.
  std::string controllers;  // CgroupRoots::Text().
  bool limits_cpus = false;
};
/// Tries them with this process's rights.
IsolationFacts LearnIsolation();
/// As lines of key=value, between the launcher and the daemon.
std::string IsolationFactsText(const IsolationFacts& facts);
IsolationFacts ReadIsolationFacts(std::string_view text);

/// Takes the first way that `wishes` leave open and that works. kFailedPrecondition where they name one that does not
/// work here. `is_emulated`: the GPUs are stand-ins, whose devices have no files unless the wishes say so.
Result<Isolation> ChooseIsolation(const IsolationWishes& wishes, const std::vector<GpuFacts>& gpus, bool is_emulated,
                                  const IsolationFacts& facts = LearnIsolation());

/// For a job with `mine`. Closes nothing of one whose GPUs change while it runs (`is_elastic`).
JobIsolation IsolationOf(const Isolation& here, const std::vector<GpuFacts>& gpus, GpuSet mine, bool is_elastic);

/// kFailedPrecondition where the wishes require what cannot be enforced here: that a job opens exactly the GPUs that it
/// holds at any time. `changes`: what changes these while it runs, such as "an elastic job"; empty: nothing.
Status CheckRequired(const Isolation& here, std::string_view changes);

/// For a job with a MIG instance, whose capability files are `own`: closes those of the others that there are, where
/// devices are closed here at all. `folder`: where the driver has them.
void CloseOtherSlices(const Isolation& here, const std::vector<std::string>& own, JobIsolation& job,
                      const std::string& folder = "/dev/nvidia-caps");

/// What a job says itself; nothing: as the machine has it.
struct OwnFolders {
  std::optional<bool> tmp;
  std::optional<bool> shm;
};
/// Who has a /tmp of its own has such a /dev/shm, unless it says otherwise. kFailedPrecondition where the machine can
/// give none.
Status SetOwnFolders(const Isolation& here, const OwnFolders& asked, JobIsolation& job);

/// CUDA_VISIBLE_DEVICES of a job that can open its GPUs alone: CUDA counts only what it can open, so 0 is its first.
std::string VisibleDevices(const JobIsolation& job, GpuSet mine);

/// "enforced (cgroup v2)": of one GPU.
std::string_view Text(DeviceLock lock);

/// The driver's number of each GPU's device file, by /proc/driver/nvidia (`proc`): NVML's order is another. Empty where
/// it is not told of all.
std::vector<std::string> NvidiaDeviceFiles(const std::vector<GpuFacts>& gpus, const std::string& proc);

}  // namespace divvy
