#include "cli/shims/slurm/slurm_show.h"

#include <cmath>
#include <vector>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

std::string IdWords(const wire::JobView& view, std::size_t components) {
  std::string words = "JobId=" + ToString(view.id);
  if (const auto component = ComponentNumber(view)) {
    return words + " HetJobId=" + LeaderId(view) + " HetJobOffset=" + std::to_string(*component) +
           " JobName=" + view.name + " HetJobIdSet=" + ComponentIds(view, components);
  }
  if (view.array_id || !view.array_indices.empty()) {
    words += " ArrayJobId=" + ArrayJobId(view) + " ArrayTaskId=" + ArrayTaskId(view);
    if (view.array_at_once > 0) words += " ArrayTaskThrottle=" + std::to_string(view.array_at_once);
  }
  return words + " JobName=" + view.name;
}

bool Gave(const wire::JobDetail& job, const std::string& option) { return job.labels.contains("slurm." + option); }

/// The host list of an option: the parsed names, or else the option as written. On a single-node server the names were
/// cleared.
std::string Hosts(const wire::JobDetail& job, const std::vector<std::string>& names, const std::string& option) {
  return names.empty() ? LabelOf(job, option) : dialect::FoldHostList(names);
}

/// "TresPerNode=gres:gpu:2" and the other options for GPUs, as they were written.
std::vector<std::string> TresLines(const wire::JobDetail& job, const wire::JobView& view, bool is_step) {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const std::string& option, const std::string& prefix) {
    const std::string value = LabelOf(job, option, "");
    if (!value.empty()) lines.push_back(name + "=" + prefix + value);
  };
  add("CpusPerTres", "cpus-per-gpu", "gres:gpu:");
  if (const auto size = dialect::ParseSize(LabelOf(job, "mem-per-gpu", ""), 1 << 20))
    lines.push_back("MemPerTres=gres:gpu:" + std::to_string(size->count() >> 20));
  add("TresBind", "gpu-bind", "gpu:");
  add("TresFreq", "gpu-freq", "gpu:");
  const std::string cpus = "cpu:" + std::to_string(CpusOf(view)) + ",";
  add(is_step ? "TresPerStep" : "TresPerJob", "gpus", (is_step ? cpus : "") + "gres:gpu:");
  const bool is_written = !LabelOf(job, "gpus-per-node", "").empty();
  const std::string gres = LabelOf(job, "gres", "");
  if (is_written && !gres.empty())
    lines.push_back("TresPerNode=gres:gpu:" + LabelOf(job, "gpus-per-node", "") + ",gres:" + gres);
  else if (is_written) add("TresPerNode", "gpus-per-node", "gres:gpu:");
  else if (job.request.gpus > 0 && HasEqualNodes(job.request)) lines.push_back("TresPerNode=" + TresPerNode(view));
  add("TresPerSocket", "gpus-per-socket", "gres:gpu:");
  add("TresPerTask", "gpus-per-task", "gres:gpu:");
  return lines;
}

/// An option's size in MiB, as Slurm counts memory and /tmp.
std::string MegabytesOf(const wire::JobDetail& job, const std::string& option) {
  const auto size = dialect::ParseSize(LabelOf(job, option, "0"), 1 << 20);
  return Megabytes(size ? size->count() : 0);
}

}  // namespace

std::string ShowStepOf(const wire::JobDetail& job, const JobStep& step, const Scene& scene, const ShowStyle& style) {
  std::string text = ShowStep(step, scene, style.is_one_line);
  if (step.id != "0" || !LabelOf(job, "door", "").starts_with("srun")) return text;
  while (text.ends_with('\n')) text.pop_back();
  for (const std::string& line : TresLines(job, ViewOf(job), true)) text += (style.is_one_line ? " " : "\n   ") + line;
  return text + (style.is_one_line ? "\n" : "\n\n");
}

std::string ShowJob(const wire::JobDetail& job, const Scene& scene, const ShowStyle& style) {
  const bool is_one_line = style.is_one_line;
  const wire::JobView view = ViewOf(job);
  const std::string uid = std::to_string(scene.uid_of(job.user));
  const std::string cpus = std::to_string(CpusOf(view));
  const std::string tasks = std::to_string(job.request.tasks);
  const bool has_started = job.start_time.has_value();
  const std::string limit =
      job.request.time_limit_s > 0 ? LongElapsed(std::ceil(job.request.time_limit_s)) : "UNLIMITED";
  // As in Slurm, a waiting job with a begin time starts then.
  const bool is_later = IsPending(view) && job.eligible_time && *job.eligible_time > scene.now;
  const std::optional<double> start = is_later ? job.eligible_time : job.start_time;
  std::optional<double> end = job.end_time;
  if (!end && has_started && job.request.time_limit_s > 0) end = *job.start_time + job.request.time_limit_s;
  std::vector<std::string> dependencies = job.dependencies;
  const std::string gpus = HeldGpusOf(view);

  std::vector<std::string> lines = {
      IdWords(view, style.components),
      "UserId=" + job.user + "(" + uid + ") GroupId=" + scene.group_of(job.user).first + "(" +
          std::to_string(scene.group_of(job.user).second) + ") MCS_label=" + LabelOf(job, "mcs-label", "N/A"),
      "Priority=" + std::to_string(PriorityOf(view)) + " Nice=" + LabelOf(job, "nice", "0") +
          " Account=" + OrNull(job.account) + " QOS=" + OrNull(job.qos),
      "JobState=" + StateName(view) + " Reason=" + ReasonCode(view) + " Dependency=" + OrNull(Join(dependencies, ",")),
      "Requeue=" + LabelOf(job, "requeue", "1") + " Restarts=" + std::to_string(job.restarts) +
          " BatchFlag=" + (job.is_foreground ? "0" : "1") + " Reboot=0 ExitCode=" + ExitCode(view),
      "RunTime=" + LongElapsed(RunTime(view, scene.now)) + " TimeLimit=" + limit +
          " TimeMin=" + LabelOf(job, "time-min", "N/A"),
      "SubmitTime=" + Moment(job.submit_time) + " EligibleTime=" + Moment(job.eligible_time, "Unknown"),
      "AccrueTime=" + Moment(job.eligible_time, "Unknown"),
      "StartTime=" + Moment(start, "Unknown") + " EndTime=" + Moment(end, "Unknown") +
          " Deadline=" + Moment(job.request.end_by),
      "SuspendTime=None SecsPreSuspend=0 Scheduler=divvy",
      "Partition=" + Partition(view) + " AllocNode:Sid=" + scene.hostname + ":0",
      "ReqNodeList=" + Hosts(job, job.request.node_list, "nodelist") +
          " ExcNodeList=" + Hosts(job, job.request.excluded_nodes, "exclude"),
      "NodeList=" + HostListOf(view, scene),
  };
  if (has_started) lines.push_back("BatchHost=" + BatchHostOf(view, scene));
  const std::vector<std::string> rest = {
      "NumNodes=" + std::to_string(NodeCountOf(view)) + " NumCPUs=" + cpus + " NumTasks=" + tasks + " CPUs/Task=" +
          LabelOf(job, "cpus-per-task", "1") + " ReqB:S:C:T=0:0:*:" + LabelOf(job, "threads-per-core", "*"),
      "TRES=" + Tres(view, GpusOf(view)),
      "Socks/Node=* NtasksPerN:B:S:C=" + LabelOf(job, "ntasks-per-node", "0") +
          ":0:*:" + LabelOf(job, "ntasks-per-core", "*") + " CoreSpec=*",
      "MinCPUsNode=" + std::to_string(CpusPerNode(view)) +
          (job.labels.contains("slurm.mem-per-cpu") ? " MinMemoryCPU=" + MegabytesOf(job, "mem-per-cpu")
                                                    : " MinMemoryNode=" + Megabytes(job.request.memory_bytes)) +
          " MinTmpDiskNode=" + MegabytesOf(job, "tmp"),
      "Features=" + FeaturesOf(view) + " DelayBoot=00:00:00",
      "OverSubscribe=" +
          std::string(Gave(job, "exclusive")       ? "NO"
                      : Gave(job, "oversubscribe") ? "YES"
                                                   : "OK") +
          " Contiguous=" + (Gave(job, "contiguous") ? "1" : "0") + " Licenses=" + LabelOf(job, "licenses") +
          " Network=" + LabelOf(job, "network"),
      "Command=" + LabelOf(job, "script", OrNull(job.command)),
      "WorkDir=" + job.directory,
      "Comment=" + OrNull(job.comment),
      "StdErr=" + (job.error.empty() ? job.output : job.error),
      "StdIn=/dev/null",
      "StdOut=" + job.output,
  };
  lines.insert(lines.end(), rest.begin(), rest.end());
  const std::vector<std::string> tres = TresLines(job, view, false);
  lines.insert(lines.end(), tres.begin(), tres.end());
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
