// Steps of one job that run side by side: who is step 0, 1, 2, and which of the job's GPUs each has for itself.
//
// One small file for each job, under /tmp, private to the user. Its first bytes count the steps; byte 64 + k is locked
// by the srun whose step has the job's GPU k. The locks are open-file locks: they go when that srun goes, however it
// ends.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli::slurm {

class StepLock {
 public:
  /// `job` names the file: the id, and how often it was started.
  static Result<StepLock> Open(const std::string& job);
  StepLock(StepLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  StepLock(const StepLock&) = delete;
  StepLock& operator=(const StepLock&) = delete;
  ~StepLock();

  /// 0 for the job's first step, then 1, 2, ...
  int NextStep();
  /// Takes `count` of `total` GPUs that no other step has, all of them or none. The answer holds their places,
  /// ascending; empty: not now.
  std::vector<std::size_t> TakeGpus(std::size_t count, std::size_t total);

 private:
  explicit StepLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace divvy::cli::slurm
