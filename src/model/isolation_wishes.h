// [isolation] of divvy.toml: how jobs on one machine are to be kept apart (platform/isolation/isolation.h does it).
#pragma once

#include <cstdint>
#include <string>

namespace divvy {

struct IsolationWishes {
  std::string devices = "auto";  // "auto" | "cgroup" | "mounts" | "off"
  std::string device_files;      // "/dev/nvidia*": the GPUs', * is the number. Empty: the driver's; none of stand-ins.
  bool is_required = false;      // What cannot be enforced is refused: the start, or a job whose GPUs change.
  bool keeps_near_gpus = false;  // Jobs with GPUs stay on the cores of the NUMA nodes of these.
  std::int64_t processes = 0;    // And threads, at once, of one job; 0: any number.
  bool has_own_tmp = false;      // Each job has a /tmp and a /dev/shm of its own, unless it says otherwise.
  bool has_own_shm = false;      // A /dev/shm, also where it has no such /tmp.
  bool limits_cpus = false;      // A job that asked for CPUs gets no more time than so many have.
  bool keeps_privileges = true;  // False: no set-uid program gives a job any (no_new_privs).

  friend bool operator==(const IsolationWishes&, const IsolationWishes&) = default;
};

}  // namespace divvy
