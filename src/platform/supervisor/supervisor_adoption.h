// Waiting for, and ending, a job whose supervisor has been killed: a process that is not our child.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "platform/os/launch_descriptor.h"

namespace divvy {

/// `status`: as waitpid(2) gives it.
Exit ExitOfWaitStatus(int status);

class AdoptedProcess {
 public:
  /// kNotFound when that very process has ended already.
  static Result<AdoptedProcess> Open(const ProcessIdentity& process);

  /// A pidfd: readable from the process's end on.
  int fd() const { return pidfd_.get(); }
  const ProcessIdentity& process() const { return process_; }

  /// Nothing while it runs. The code is known where it has not been reaped yet and we may look at it, or where the
  /// kernel keeps it (Linux 6.15); else is_known is false. CPU time and memory are never known.
  std::optional<Exit> PollExit() const;

  /// To the process, what descends from it and what shares its session. What forked twice into a session of its own is
  /// out of reach. Returns how many were reached; works after the process's end as well.
  int SignalTree(int signal) const;
  /// To the process alone, if it is there still.
  void Signal(int signal) const;

 private:
  AdoptedProcess(const ProcessIdentity& process, Descriptor pidfd) : process_(process), pidfd_(std::move(pidfd)) {}

  ProcessIdentity process_;
  Descriptor pidfd_;
};

}  // namespace divvy
