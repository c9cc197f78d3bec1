// What is taken when: the GPUs, CPUs and memory of running jobs until their known ends, and what is held for jobs that
// wait. All questions of "does it fit, and from when" are answered here, GPU by GPU.
//
// Assumptions: a job that runs past its known end is about to end; a job without one never ends as far as plans go.
// Source: the availability profile of EASY backfill (Lifka 1995; Mu'alem and Feitelson 2001), kept per GPU instead of
// as a count, because GPUs differ in model and memory and a promise is about particular ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/gpu_choice.h"
#include "engine/queue.h"

namespace divvy {

/// What one job asks of the timeline.
struct Need {
  int gpus = 0;
  int gpus_most = 0;  // Elastic: takes up to so many; else `gpus`.
  int cpus = 0;
  Bytes memory;
  GpuSet matches;     // Suitable and usable GPUs.
  Duration limit{0};  // 0: none known.
  std::span<Group* const> groups;
  GpuChoice choice;

  bool wants_host() const { return cpus > 0 || memory > Bytes(0); }
  /// When it surely ends if it starts at `start`.
  Time Until(Time start) const { return limit > Duration(0) ? AddSaturating(start, limit) : kNever; }
};

/// A stretch of time in which something is kept for a job that waits.
struct Hold {
  GpuSet gpus;
  int cpus = 0;
  Bytes memory;
  Time from = kNever;
  Time until = kNever;
  std::span<Group* const> groups;
  bool is_gpu_job = true;
  bool drains = false;  // Its job takes the GPUs whenever enough of them are free, which nobody can date.
  std::size_t ask = 0;  // Whose it is: the index of the reservation.

  bool Meets(Time start, Time end) const { return from < end && start < until; }
};

/// A job's answer to "from when": `start` is kNever where it drains `gpus`, or where gpus is empty, nothing.
struct Promise {
  Time start = kNever;
  GpuSet gpus;
  std::vector<Hold> holds;
};

class Timeline {
 public:
  Timeline(const Cluster& cluster, int cpu_jobs_at_once, Time now);

  Time now() const { return now_; }
  /// GPUs without an owner at this moment, usable or not.
  GpuSet idle() const { return idle_; }
  /// Kept until then by a running job; `now` when idle.
  Time busy_until(GpuIndex gpu) const { return busy_until_[gpu]; }
  int free_cpus() const { return free_cpus_; }
  Bytes free_memory() const { return free_memory_; }
  int cpu_jobs_running() const { return cpu_jobs_running_; }
  /// Running jobs of `group`, those started in this pass included.
  int RunningOf(const Group& group) const;

  /// Which of `candidates` are free from `from` to `until`, with respect to running jobs and `holds`.
  GpuSet FreeThroughout(GpuSet candidates, std::span<const Hold> holds, Time from, Time until) const;
  bool HostFits(const Need& need, std::span<const Hold> holds, Time from) const;
  /// The first cap that leaves no room for one more from now on; nullptr: none.
  const Group* FullGroup(const Need& need, std::span<const Hold> holds) const;
  bool HasRoomForCpuJob() const { return cpu_jobs_running_ < cpu_jobs_at_once_; }

  /// The earliest start of `need` behind `holds`, and what to hold for it. Where no known ends give one: what it drains
  /// if `may_drain`, else nothing.
  Promise Earliest(const Need& need, std::span<const Hold> holds, bool may_drain) const;

  /// `need` starts now on `gpus`.
  void Claim(const Need& need, GpuSet gpus);
  /// Takes the last Claim back, which was this one.
  void Unclaim(const Need& need, GpuSet gpus);
  /// Who claimed for `need` has `to` instead of `from`; what it has of the host stays.
  void Move(const Need& need, GpuSet from, GpuSet to);

 private:
  struct HostClaim {
    int cpus = 0;
    Bytes memory;
    Time until = kNever;
  };

  std::vector<Time> Moments(const Need& need, std::span<const Hold> holds) const;
  bool HostFitsAt(const Need& need, std::span<const Hold> holds, Time moment) const;
  void Occupy(GpuSet gpus, Time until);
  void Vacate(GpuSet gpus);
  Promise Drain(const Need& need, std::span<const Hold> holds) const;

  Time now_;
  int cpu_jobs_at_once_ = 0;
  GpuSet idle_;
  std::array<Time, GpuSet::kCapacity> busy_until_;
  std::array<Time, GpuSet::kCapacity> owner_started_;
  std::vector<HostClaim> host_claims_;
  int cpus_ = 0;
  Bytes memory_;
  int free_cpus_ = 0;
  Bytes free_memory_;
  int cpu_jobs_running_ = 0;
  std::vector<const Group*> started_of_group_;  // One entry per start and cap; few.
};

}  // namespace divvy
