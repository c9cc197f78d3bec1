#include "cli/shims/slurm_show.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "dialect/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

std::string Label(const wire::JobDetail& job, const std::string& name, const std::string& none = "(null)") {
  const auto found = job.labels.find("slurm." + name);
  return found == job.labels.end() || found->second.empty() ? none : found->second;
}

std::string IdWords(const wire::JobView& view) {
  std::string words = "JobId=" + ToString(view.id);
  if (view.array_id || !view.array_indices.empty()) {
    words += " ArrayJobId=" + ArrayJobId(view) + " ArrayTaskId=" + ArrayTaskId(view);
    if (view.array_at_once > 0) words += " ArrayTaskThrottle=" + std::to_string(view.array_at_once);
  }
  return words + " JobName=" + view.name;
}

}  // namespace

std::string ShowJob(const wire::JobDetail& job, const Scene& scene, bool is_one_line) {
  const wire::JobView view = ViewOf(job);
  const std::string uid = std::to_string(scene.uid_of(job.user));
  const std::string cpus = std::to_string(std::max<std::int64_t>({job.request.cpus, job.request.tasks, 1}));
  const std::string tasks = std::to_string(job.request.tasks);
  const bool has_started = job.start_time.has_value();
  const std::string limit =
      job.request.time_limit_s > 0 ? LongElapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
  std::optional<double> end = job.end_time;
  if (!end && has_started && job.request.time_limit_s > 0) end = *job.start_time + job.request.time_limit_s;
  std::vector<std::string> dependencies = job.dependencies;
  std::vector<std::string> gpu_indices;
  for (const std::int64_t gpu : job.gpus) gpu_indices.push_back(std::to_string(gpu));

  std::vector<std::string> lines = {
      IdWords(view),
      "UserId=" + job.user + "(" + uid + ") GroupId=N/A MCS_label=N/A",
      "Priority=" + std::to_string(job.priority) + " Nice=" + Label(job, "nice", "0") +
          " Account=" + OrNull(job.account) + " QOS=" + OrNull(job.qos),
      "JobState=" + StateName(job.state) + " Reason=" + ReasonCode(view) +
          " Dependency=" + OrNull(Join(dependencies, ",")),
      "Requeue=" + Label(job, "requeue", "0") + " Restarts=" + std::to_string(job.restarts) +
          " BatchFlag=" + (job.is_foreground ? "0" : "1") + " Reboot=0 ExitCode=" + ExitCode(view),
      "RunTime=" + LongElapsed(RunTime(view, scene.now)) + " TimeLimit=" + limit +
          " TimeMin=" + Label(job, "time-min", "N/A"),
      "SubmitTime=" + Moment(job.submit_time) + " EligibleTime=" + Moment(job.eligible_time, "Unknown"),
      "AccrueTime=" + Moment(job.eligible_time, "Unknown"),
      "StartTime=" + Moment(job.start_time, "Unknown") + " EndTime=" + Moment(end, "Unknown") +
          " Deadline=" + Label(job, "deadline", "N/A"),
      "SuspendTime=None SecsPreSuspend=0 Scheduler=divvy",
      "Partition=" + Partition(view) + " AllocNode:Sid=" + scene.hostname + ":0",
      "ReqNodeList=" + Label(job, "nodelist") + " ExcNodeList=" + Label(job, "exclude"),
      "NodeList=" + (has_started ? scene.hostname : std::string("")),
  };
  if (has_started) lines.push_back("BatchHost=" + scene.hostname);
  const std::vector<std::string> rest = {
      "NumNodes=1 NumCPUs=" + cpus + " NumTasks=" + tasks + " CPUs/Task=" + Label(job, "cpus-per-task", "1") +
          " ReqB:S:C:T=0:0:*:*",
      "TRES=" + Tres(view),
      "MinCPUsNode=" + cpus + " MinMemoryNode=" + Megabytes(job.request.memory_bytes) + " MinTmpDiskNode=0",
      "Features=" + OrNull(job.request.gpu_type) + " DelayBoot=00:00:00",
      "OverSubscribe=OK Contiguous=0 Licenses=" + Label(job, "licenses") + " Network=(null)",
      "Command=" + Label(job, "script", OrNull(job.command)),
      "WorkDir=" + job.directory,
      "Comment=" + OrNull(job.comment),
      "StdErr=" + (job.error.empty() ? job.output : job.error),
      "StdIn=/dev/null",
      "StdOut=" + job.output,
  };
  lines.insert(lines.end(), rest.begin(), rest.end());
  if (job.request.gpus > 0) lines.push_back("TresPerNode=" + TresPerNode(view));
  if (!gpu_indices.empty())
    lines.push_back("GRES=gpu:" + std::to_string(gpu_indices.size()) + "(IDX:" + Join(gpu_indices, ",") + ")");
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

}  // namespace divvy::cli::slurm
