// Operations on runs that take root's rights. A node whose process has these rights performs the operations itself. On
// a machine where the daemon or agent is not root, the launcher (a process with root's rights) performs them.
#pragma once

#include <optional>
#include <string>

#include "daemon/node/container.h"
#include "daemon/node/node_users.h"
#include "model/steps/gang_environment.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {

class NodeErrands {
 public:
  NodeErrands(const NodeOptions& options, const NodeUsers& users) : options_(options), users_(users) {}

  /// Writes the file that tells an elastic job its GPUs.
  Status SetGpusFile(JobId job, GpuSet gpus) const;
  /// Writes the file that the part of a gang on this node needs for its start. `is_adopted`: this part has no
  /// supervisor that could tell it to start, so this function also starts it.
  Status Stage(const RunRecord& run, bool is_adopted, const GangFile& gang, const User& owner) const;
  /// Sends a signal to the processes of a run without a supervisor; with OrphanReach::kFirst, to its first process
  /// only. Returns the number of processes that the signal was sent to.
  int SignalAdopted(JobId job, const AdoptedProcess& process, int signal, OrphanReach reach) const;
  /// Returns how the first process of a run without a supervisor ended; nullopt while it runs.
  std::optional<Exit> ExitOfAdopted(JobId job, AdoptedProcess& process) const;
  /// Returns how often the job's processes were refused a GPU that is not theirs; nullopt if the job has no cgroup.
  std::optional<std::int64_t> RefusedDevicesOf(const RunRecord& run) const;
  /// Sends SIGKILL to the processes that are left after the end of a run without supervisor. Returns false if there
  /// were some, so that the caller must try again.
  bool EndLeftovers(const RunRecord& record) const;
  /// Starts a process with this user's rights that removes the containers which the record at path `list` names as
  /// left.
  ContainerRemoval RemoveContainers(const User& user, const std::string& list) const;

 private:
  const NodeOptions& options_;
  const NodeUsers& users_;
};

}  // namespace divvy
