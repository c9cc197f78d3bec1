// Waits for and ends a job whose supervisor was killed: a process that is not our child.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "platform/os/unique_fd.h"

namespace divvy {

/// Converts the status that waitpid(2) returned.
Exit ExitOfWaitStatus(int status);

class AdoptedProcess {
 public:
  /// Opens a job's first process, to wait for its end without a supervisor. kNotFound if exactly this process has ended
  /// already.
  static Result<AdoptedProcess> Open(const ProcessIdentity& process);

  /// A pidfd: readable once the process has ended.
  int fd() const { return pidfd_.get(); }
  const ProcessIdentity& process() const { return process_; }

  /// Returns how the process ended; nullopt while it runs. The exit code is known if the process is not reaped yet and
  /// this process may inspect it, or if the kernel keeps the code (Linux 6.15). Otherwise is_known is false. CPU time
  /// and memory are never known.
  std::optional<Exit> PollExit() const;

  /// Signals the process, its descendants and the processes in its session. Cannot reach a process that forked twice
  /// into its own session. Returns how many processes it reached; also works after the process's end.
  int SignalTree(int signal) const;
  /// Signals only this process, if it still exists.
  void Signal(int signal) const;

 private:
  AdoptedProcess(const ProcessIdentity& process, Descriptor pidfd) : process_(process), pidfd_(std::move(pidfd)) {}

  ProcessIdentity process_;
  Descriptor pidfd_;
};

}  // namespace divvy
