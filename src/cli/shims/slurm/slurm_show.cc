#include "cli/shims/slurm/slurm_show.h"

#include <cmath>
#include <vector>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

std::string IdWords(const wire::JobView& view) {
  std::string words = "JobId=" + ToString(view.id);
  if (const auto component = ComponentNumber(view)) {
    words += " HetJobId=" + ToString(view.id) + " HetJobOffset=" + std::to_string(*component) +
             " HetJobIdSet=" + ToString(view.id);
  }
  if (view.array_id || !view.array_indices.empty()) {
    words += " ArrayJobId=" + ArrayJobId(view) + " ArrayTaskId=" + ArrayTaskId(view);
    if (view.array_at_once > 0) words += " ArrayTaskThrottle=" + std::to_string(view.array_at_once);
  }
  return words + " JobName=" + view.name;
}

/// The host list of an option: the parsed names, or else the option as written. On a single-node server the names were
/// cleared.
std::string Hosts(const wire::JobDetail& job, const std::vector<std::string>& names, const std::string& option) {
  return names.empty() ? LabelOf(job, option) : dialect::FoldHostList(names);
}

}  // namespace

std::string ShowJob(const wire::JobDetail& job, const Scene& scene, const ShowStyle& style) {
  const bool is_one_line = style.is_one_line;
  const wire::JobView view = ViewOf(job);
  const std::string uid = std::to_string(scene.uid_of(job.user));
  const std::string cpus = std::to_string(CpusOf(view));
  const std::string tasks = std::to_string(job.request.tasks);
  const bool has_started = job.start_time.has_value();
  const std::string limit =
      job.request.time_limit_s > 0 ? LongElapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
  std::optional<double> end = job.end_time;
  if (!end && has_started && job.request.time_limit_s > 0) end = *job.start_time + job.request.time_limit_s;
  std::vector<std::string> dependencies = job.dependencies;
  const std::string gpus = HeldGpusOf(view);

  std::vector<std::string> lines = {
      IdWords(view),
      "UserId=" + job.user + "(" + uid + ") GroupId=" + scene.group_of(job.user).first + "(" +
          std::to_string(scene.group_of(job.user).second) + ") MCS_label=" + LabelOf(job, "mcs-label", "N/A"),
      "Priority=" + std::to_string(job.priority) + " Nice=" + LabelOf(job, "nice", "0") +
          " Account=" + OrNull(job.account) + " QOS=" + OrNull(job.qos),
      "JobState=" + StateName(view) + " Reason=" + ReasonCode(view) + " Dependency=" + OrNull(Join(dependencies, ",")),
      "Requeue=" + LabelOf(job, "requeue", "1") + " Restarts=" + std::to_string(job.restarts) +
          " BatchFlag=" + (job.is_foreground ? "0" : "1") + " Reboot=0 ExitCode=" + ExitCode(view),
      "RunTime=" + LongElapsed(RunTime(view, scene.now)) + " TimeLimit=" + limit +
          " TimeMin=" + LabelOf(job, "time-min", "N/A"),
      "SubmitTime=" + Moment(job.submit_time) + " EligibleTime=" + Moment(job.eligible_time, "Unknown"),
      "AccrueTime=" + Moment(job.eligible_time, "Unknown"),
      "StartTime=" + Moment(job.start_time, "Unknown") + " EndTime=" + Moment(end, "Unknown") +
          " Deadline=" + Moment(job.request.end_by),
      "SuspendTime=None SecsPreSuspend=0 Scheduler=divvy",
      "Partition=" + Partition(view) + " AllocNode:Sid=" + scene.hostname + ":0",
      "ReqNodeList=" + Hosts(job, job.request.node_list, "nodelist") +
          " ExcNodeList=" + Hosts(job, job.request.excluded_nodes, "exclude"),
      "NodeList=" + HostListOf(view, scene),
  };
  if (has_started) lines.push_back("BatchHost=" + BatchHostOf(view, scene));
  const std::vector<std::string> rest = {
      "NumNodes=" + std::to_string(NodeCountOf(view)) + " NumCPUs=" + cpus + " NumTasks=" + tasks +
          " CPUs/Task=" + LabelOf(job, "cpus-per-task", "1") + " ReqB:S:C:T=0:0:*:*",
      "TRES=" + Tres(view, GpusOf(view)),
      "Socks/Node=* NtasksPerN:B:S:C=" + LabelOf(job, "ntasks-per-node", "0") + ":0:*:* CoreSpec=*",
      "MinCPUsNode=" + std::to_string(CpusPerNode(view)) + " MinMemoryNode=" + Megabytes(job.request.memory_bytes) +
          " MinTmpDiskNode=0",
      "Features=" + FeaturesOf(view) + " DelayBoot=00:00:00",
      "OverSubscribe=OK Contiguous=0 Licenses=" + LabelOf(job, "licenses") + " Network=(null)",
      "Command=" + LabelOf(job, "script", OrNull(job.command)),
      "WorkDir=" + job.directory,
      "Comment=" + OrNull(job.comment),
      "StdErr=" + (job.error.empty() ? job.output : job.error),
      "StdIn=/dev/null",
      "StdOut=" + job.output,
  };
  lines.insert(lines.end(), rest.begin(), rest.end());
  if (job.request.gpus > 0 && !job.request.spreads_tasks) lines.push_back("TresPerNode=" + TresPerNode(view));
  if (style.has_details && has_started) {
    const std::vector<Place> places = PlacesOf(view, scene);
    std::size_t held = 0;
    for (const Place& place : places) held += place.gpus.size();
    if (held > 0) lines.push_back("JOB_GRES=gpu:" + std::to_string(held));
    for (const Place& place : places) {
      lines.push_back("  Nodes=" + place.host + " CPU_IDs=(null) Mem=" + std::to_string(place.memory_bytes >> 20) +
                      " GRES=" + HeldGpus(place.gpus));
    }
  } else if (!gpus.empty()) {
    lines.push_back("GRES=" + gpus);
  }
  if (job.labels.contains("slurm.mail-type")) {
    lines.push_back("MailUser=" + LabelOf(job, "mail-user") + " MailType=" + LabelOf(job, "mail-type"));
  }
  return Join(lines, is_one_line ? " " : "\n   ") + (is_one_line ? "\n" : "\n\n");
}

}  // namespace divvy::cli::slurm
