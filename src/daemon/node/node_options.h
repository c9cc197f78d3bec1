// The settings of a node that runs jobs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/container_plan.h"
#include "model/run_description.h"
#include "node/job_environment.h"
#include "platform/isolation/isolation.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

struct NodeOptions {
  std::string run_directory;
  std::string log_directory;
  Bytes log_limit;  // How much of each kept log is retained, newest bytes first; 0: all.
  /// The folder with srun and the other Slurm commands, put first in the PATH of Slurm jobs; empty: not used. Open
  /// creates the links.
  std::string slurm_directory;
  LeasePlace lease;  // Set for an agent; passed to the supervisors of its jobs.
  NodeNames names;
  std::string divvy = "divvy";   // The path of this executable, with which jobs start their tasks.
  std::int64_t uid = 0;          // The daemon's own uid.
  bool may_change_user = false;  // True if each job runs as its submitter: this process or the launcher is root.
  /// Operations that a launcher with root's rights does for this node; null: the node does them itself.
  std::shared_ptr<RootErrands> errands;
  /// Returns the signed right to run jobs as this user, without which the launcher refuses to; an empty right if the
  /// launcher has given none for this user.
  std::function<UserRight(const User& user)> right_of;
  /// Set for an agent that may change users: returns the account of that name on this node, whose uid may differ from
  /// the controller's. Called from any thread. Null: users are identified by their uids.
  std::function<std::optional<User>(const std::string& name)> find_user;
  // The lowest uid that may run jobs, on a node whose launcher runs nothing as a system user.
  std::int64_t lowest_uid = 0;
  bool runs_root_jobs = true;                 // If false, a job that would run as uid 0 on this node is refused.
  Duration grace = std::chrono::seconds(30);  // The grace period of jobs that set none.
  Isolation isolation;
  // Emulated GPUs only: how programs find them.
  std::string gpu_libraries;                 // Optional. A folder that the loader searches first.
  std::vector<std::string> gpu_environment;  // NAME=value.
  ContainerSettings container;
  // How long a foreground job that may start waits for the streams of its caller, with or without a restart of the
  // daemon.
  Duration awaits_callers{0};

  Duration GraceOf(const JobSpec& spec) const { return spec.grace < Duration(0) ? grace : spec.grace; }
  /// Returns the name of the node on which this part of a gang runs.
  const std::string& NameOf(const NodeAllocation& allocation) const {
    return allocation.node.empty() ? names.name() : allocation.node;
  }
};

}  // namespace divvy
