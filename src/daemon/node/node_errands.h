// Operations on runs that take root's rights. A node that has them runs them itself; on a served node, which is not
// root, the launcher does.
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
  /// Writes what a gang's node allocation needs for its start. `is_adopted`: it has no supervisor that could pass on
  /// the GoCommand, so this also starts it.
  Status Stage(const RunRecord& run, bool is_adopted, const GangFile& gang, const User& owner) const;
  /// Returns how many processes had the signal sent to them; with OrphanReach::kFirst, 1.
  int SignalAdopted(JobId job, const AdoptedProcess& process, int signal, OrphanReach reach) const;
  /// Returns nullopt while the process runs.
  std::optional<Exit> ExitOfAdopted(JobId job, AdoptedProcess& process) const;
  /// Returns how many opens of other GPUs were refused; nullopt if the job has no cgroup.
  std::optional<std::int64_t> RefusedDevicesOf(const RunRecord& run) const;
  /// Kills what is left of a run without supervisor and guard; returns false if something was left.
  bool EndLeftovers(const RunRecord& record) const;
  /// Starts the removal of the containers in the list, as this user.
  ContainerRemoval RemoveContainers(const User& user, const std::string& list) const;

 private:
  const NodeOptions& options_;
  const NodeUsers& users_;
};

}  // namespace divvy
