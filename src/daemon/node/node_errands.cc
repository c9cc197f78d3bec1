#include "daemon/node/node_errands.h"

#include <csignal>
#include <utility>

#include "platform/isolation/job_cgroup.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/node_allocation_start.h"

namespace divvy {

Status NodeErrands::SetGpusFile(JobId job, GpuSet gpus) const {
  return options_.errands ? options_.errands->WriteGpus(job, gpus) : WriteGpusFile(options_.run_directory, job, gpus);
}

// An adopted node allocation has no supervisor that could pass on the GoCommand.
Status NodeErrands::Stage(const RunRecord& run, bool is_adopted, const GangFile& gang, const User& owner) const {
  const JobId job = run.job;
  if (options_.errands)
    return options_.errands->StageGang(users_.WithRight(owner), job, GangFileText(gang), is_adopted);
  const std::string steps = StepListPath(options_.run_directory, owner.uid, job.value());
  DIVVY_CHECK(StageGo(steps, GangFileText(gang), owner.uid, owner.gid));
  if (is_adopted) SayGo(steps);
  return {};
}

int NodeErrands::SignalAdopted(JobId job, const AdoptedProcess& process, int signal, OrphanReach reach) const {
  if (options_.errands) return options_.errands->SignalOrphans(job, signal, reach).value_or(1);
  if (reach == OrphanReach::kTree) return process.SignalTree(signal);
  process.Signal(signal);
  return 1;
}

std::optional<Exit> NodeErrands::ExitOfAdopted(JobId job, AdoptedProcess& process) const {
  const auto ended = process.PollExit();
  if (!ended || !options_.errands) return ended;
  const auto status = options_.errands->ExitOf(job);
  return status ? ExitOfWaitStatus(*status) : *ended;
}

std::optional<std::int64_t> NodeErrands::RefusedDevicesOf(const RunRecord& run) const {
  // Most jobs have no cgroup; then no device opens are refused.
  if (run.cgroup.empty()) return std::nullopt;
  if (options_.errands) return options_.errands->RefusedDevices(run.job);
  return JobCgroup::Open(run.cgroup).RefusedDevices();
}

bool NodeErrands::EndLeftovers(const RunRecord& record) const {
  if (options_.errands)
    return options_.errands->SignalOrphans(record.job, SIGKILL, OrphanReach::kLeftBehind).value_or(0) == 0;
  return SignalLeftBehind(record.process, "DIVVY_JOB_ID=" + ToString(record.job), SIGKILL) == 0;
}

ContainerRemoval NodeErrands::RemoveContainers(const User& user, const std::string& list) const {
  if (!options_.errands)
    return StartContainerRemoval(options_.divvy, user.uid, user.gid, list, options_.container.engine);
  ContainerRemoval removal;
  auto started = options_.errands->Start(users_.WithRight(user), UserProgram::kContainerRemoval, list, -1);
  if (started) removal.pidfd = std::move(started->pidfd);
  return removal;
}

}  // namespace divvy
