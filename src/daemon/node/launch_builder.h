// Builds the launch of a job on this node from its record and specification: command, environment, files, isolation and
// limits. Changes nothing.
#pragma once

#include <string>
#include <vector>

#include "daemon/node/container.h"
#include "daemon/node/node_users.h"
#include "driver/node_command_port.h"
#include "model/gpus/share_grant.h"

namespace divvy {

/// Returns which folders (/tmp, /dev/shm) the job has privately instead of the machine's.
OwnFolders FoldersOf(const JobSpec& spec);

class LaunchBuilder {
 public:
  LaunchBuilder(const NodeOptions& options, const NodeUsers& users, const std::vector<GpuFacts>& gpus)
      : options_(options), users_(users), gpus_(gpus) {}

  /// Returns the launch of the job as `here`, its user's account on this node. `grant`: the GPUs that the node has
  /// given to a job with GPU fractions; null for a job with whole GPUs. The caller adds streams, terminal and the key
  /// of a gang.
  LaunchRequest RequestFor(const LaunchCommand& command, const JobSpec& spec, const User& here,
                           const ShareGrant* grant) const;
  /// Return the paths of the output and error file of a started job, with all patterns filled in. If the specification
  /// names no output file, it is the log that divvy keeps.
  std::string OutputOf(const JobRecord& record, const JobSpec& spec) const;
  std::string ErrorOf(const JobRecord& record, const JobSpec& spec) const;

 private:
  void StartTasks(const JobRecord& record, const JobSpec& spec, LaunchRequest& request) const;
  void TakeAllocation(const LaunchCommand& command, LaunchRequest& request) const;
  /// Variables that the job's dialect adds to those of all jobs. `part` is the record with the job's share on this
  /// node.
  std::vector<std::string> DialectEnvironment(const LaunchCommand& command, const JobRecord& part,
                                              const JobSpec& spec) const;
  std::vector<std::string> SlurmVariables(const LaunchCommand& command, const JobRecord& part,
                                          const JobSpec& spec) const;

  // launch_builder_containers.cc
  void IntoContainer(const JobSpec& spec, const ShareGrant* grant, LaunchRequest& request) const;
  ContainerNeeds NeedsInside(const ShareGrant* grant) const;

  const NodeOptions& options_;
  const NodeUsers& users_;
  const std::vector<GpuFacts>& gpus_;
};

}  // namespace divvy
