// [isolation] of divvy.toml: how the jobs of a node are isolated (implemented in platform/isolation/isolation.h).
#pragma once

#include <cstdint>
#include <string>

namespace divvy {

struct IsolationWishes {
  std::string devices = "auto";  // "auto" | "cgroup" | "mounts" | "off"
  std::string device_files;      // GPU device files, * is the number: "/dev/nvidia*". Empty: the driver's files; none
                                 // for emulated GPUs.
  bool is_required = false;      // If isolation cannot be enforced, the start, or the change of a job's GPUs, is
                                 // refused.
  bool keeps_near_gpus = false;  // Jobs with GPUs run only on the cores of the NUMA nodes of their GPUs.
  std::int64_t processes = 0;    // Maximal number of processes and threads of one job. 0: unlimited.
  bool has_own_tmp = false;      // Each job gets a private /tmp and /dev/shm, unless it opts out.
  bool has_own_shm = false;      // Each job gets a private /dev/shm, even without a private /tmp.
  bool limits_cpus = false;      // A job that requests CPUs gets at most the time of that many CPUs.
  bool keeps_privileges = true;  // False: set-uid programs give a job no privileges (no_new_privs).

  friend bool operator==(const IsolationWishes&, const IsolationWishes&) = default;
};

}  // namespace divvy
