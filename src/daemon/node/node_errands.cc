// Operations that take root's rights. A node that has them runs them itself; on a served node, which is not root, the
// launcher does.
#include <csignal>
#include <utility>

#include "daemon/node/container.h"
#include "daemon/node/job_log.h"
#include "daemon/node/node.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/supervisor_seat.h"

namespace divvy {

UserWithRight Node::WithRight(const User& user) const {
  UserWithRight with{user.uid, user.gid, {}};
  if (options_.right_of) with.right = options_.right_of(user);
  return with;
}

std::string Node::MissingRight(const User& user) const {
  const bool is_agents = options_.lease.is_set();
  return "divvy may not run jobs as " + user.name + " on " + options_.names.name() + " yet: " + user.name +
         " allows it by running any divvy command " + (is_agents ? "on the controller's node" : "there") +
         ", such as divvy status; then submit the job again";
}

std::string Node::RefusedRight(const User& user) const {
  if (!options_.lease.is_set()) return MissingRight(user);
  const std::string& node = options_.names.name();
  return "the launcher of " + node + " does not accept the permission to run jobs as " + user.name +
         " that the controller has sent; if the key of the controller's launcher has changed, run divvy agent --stop "
         "and divvy agent --join with a new token, as root on " + node;
}

Status Node::SetGpusFile(JobId job, GpuSet gpus) const {
  return options_.errands ? options_.errands->WriteGpus(job, gpus) : WriteGpusFile(options_.run_directory, job, gpus);
}

// An adopted node allocation has no supervisor that could pass on the GoOrder.
Status Node::Stage(const Run& run, const GangFile& gang, const User& owner) const {
  const JobId job = run.record.job;
  const bool says = run.adopted != nullptr;
  if (options_.errands) return options_.errands->StageGang(WithRight(owner), job, GangFileText(gang), says);
  const std::string steps = StepListPath(options_.run_directory, owner.uid, job.value());
  DIVVY_CHECK(StageGo(steps, GangFileText(gang), owner.uid, owner.gid));
  if (says) SayGo(steps);
  return {};
}

void Node::LendRights(JobLog& log) const {
  log.right = WithRight(log.user).right;
  log.errands = options_.errands;
}

int Node::SignalAdopted(const Run& run, int signal, OrphanReach reach) const {
  if (options_.errands) return options_.errands->SignalOrphans(run.record.job, signal, reach).value_or(1);
  if (reach == OrphanReach::kTree) return run.adopted->SignalTree(signal);
  run.adopted->Signal(signal);
  return 1;
}

std::optional<Exit> Node::ExitOfAdopted(const Run& run) const {
  const auto ended = run.adopted->PollExit();
  if (!ended || !options_.errands) return ended;
  const auto status = options_.errands->ExitOf(run.record.job);
  return status ? ExitOfWaitStatus(*status) : *ended;
}

std::optional<std::int64_t> Node::RefusedDevicesOf(const Run& run) const {
  // Most jobs have no cgroup; then no device opens are refused.
  if (run.record.cgroup.empty()) return std::nullopt;
  if (options_.errands) return options_.errands->RefusedDevices(run.record.job);
  return JobCgroup::Open(run.record.cgroup).RefusedDevices();
}

bool Node::EndLeftovers(const RunRecord& record) const {
  if (options_.errands)
    return options_.errands->SignalOrphans(record.job, SIGKILL, OrphanReach::kLeftBehind).value_or(0) == 0;
  return SignalLeftBehind(record.process, "DIVVY_JOB_ID=" + ToString(record.job), SIGKILL) == 0;
}

ContainerRemoval Node::RemoveContainers(const User& user, const std::string& list) const {
  if (!options_.errands)
    return StartContainerRemoval(options_.divvy, user.uid, user.gid, list, options_.container.engine);
  ContainerRemoval removal;
  auto started = options_.errands->Start(WithRight(user), UserProgram::kContainerRemoval, list, -1);
  if (started) removal.pidfd = std::move(started->pidfd);
  return removal;
}

}  // namespace divvy
