#include "cli/shims/slurm_look/slurm_queue_fields.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

/// The job's id for a component, else "N/A".
std::string HetId(const QueueRow& row) { return ComponentNumber(row.job) ? LeaderId(row.job) : std::string("N/A"); }

std::string HetIdSet(const QueueRow& row) {
  return ComponentNumber(row.job) ? ComponentIds(row.job, row.components) : std::string("N/A");
}

std::string Cpus(const QueueRow& row) { return std::to_string(CpusOf(row.job)); }

std::string Nodes(const QueueRow& row) { return std::to_string(NodeCountOf(row.job)); }

std::string Number(double number) { return std::to_string(static_cast<std::int64_t>(std::floor(number))); }

std::string TimeLeft(const QueueRow& row, const Scene& scene) {
  if (row.job.request.time_limit_s <= 0) return "UNLIMITED";
  return Elapsed(row.job.request.time_limit_s - RunTime(row.job, scene.now));
}

/// A constant column: it has the same value for every job here.
JobField ConstantJobField(char letter, std::string_view name, std::string_view header, std::string text) {
  return {letter, name, header, [text = std::move(text)](const QueueRow&) { return text; }};
}

/// A column that needs the full answer about a job (wire::JobDetail).
JobField Detail(char letter, std::string_view name, std::string_view header,
                std::function<std::string(const wire::JobDetail&)> text, std::string none = "(null)") {
  return {letter, name, header,
          [text = std::move(text), none = std::move(none)](const QueueRow& row) {
            const std::string got = row.detail == nullptr ? "" : text(*row.detail);
            return got.empty() ? none : got;
          },
          true};
}

/// A column with the value of the Slurm option --OPTION that the job was submitted with.
JobField Said(char letter, std::string_view name, std::string_view header, std::string option,
              const std::string& none = "(null)") {
  return Detail(
      letter, name, header,
      [option = std::move(option)](const wire::JobDetail& job) { return LabelOf(job, option, ""); }, none);
}

void AddIdentity(const Scene& scene, std::vector<JobField>& out) {
  std::vector<JobField> fields = {
      {'i', "jobarrayid", "JOBID", [](const QueueRow& r) { return JobIdText(r.job); }},
      {'A', "jobid", "JOBID", [](const QueueRow& r) { return ToString(r.job.id); }},
      {'F', "arrayjobid", "ARRAY_JOB_ID", [](const QueueRow& r) { return ArrayJobId(r.job); }},
      {'K', "arraytaskid", "ARRAY_TASK_ID", [](const QueueRow& r) { return ArrayTaskId(r.job); }},
      {'j', "name", "NAME", [](const QueueRow& r) { return r.job.name; }},
      {'u', "username", "USER", [](const QueueRow& r) { return r.job.user; }},
      {'U', "userid", "UID", [&scene](const QueueRow& r) { return std::to_string(scene.uid_of(r.job.user)); }},
      {'g', "groupname", "GROUP", [&scene](const QueueRow& r) { return scene.group_of(r.job.user).first; }},
      {'G', "groupid", "GROUP",
       [&scene](const QueueRow& r) { return std::to_string(scene.group_of(r.job.user).second); }},
      {'t', "statecompact", "ST", [](const QueueRow& r) { return StateCode(r.job); }},
      {'T', "state", "STATE", [](const QueueRow& r) { return StateName(r.job); }},
      {'r', "reason", "REASON", [](const QueueRow& r) { return ReasonCode(r.job); }},
      {'R', "reasonlist", "NODELIST(REASON)", [&scene](const QueueRow& r) { return NodesOrReason(r.job, scene); }},
      {'N', "nodelist", "NODELIST", [&scene](const QueueRow& r) { return HostListOf(r.job, scene); }},
      {0, "nodes", "NODES", [&scene](const QueueRow& r) { return HostListOf(r.job, scene); }},
      {'B', "batchhost", "EXEC_HOST", [&scene](const QueueRow& r) { return BatchHostOf(r.job, scene, "n/a"); }},
      {'P', "partition", "PARTITION", [](const QueueRow& r) { return Partition(r.job); }},
      {'a', "account", "ACCOUNT", [](const QueueRow& r) { return OrNull(r.job.account); }},
      {'q', "qos", "QOS", [](const QueueRow& r) { return OrNull(r.job.qos); }},
      {'k', "comment", "COMMENT", [](const QueueRow& r) { return OrNull(r.job.comment); }},
      Said('w', "wckey", "WCKEY", "wckey"),
      Said('v', "reservation", "RESERVATION", "reservation"),
      Said(0, "mcslabel", "MCSLABEL", "mcs-label"),
      ConstantJobField(0, "associd", "ASSOC_ID", "0"),
      ConstantJobField(0, "cluster", "CLUSTER", std::string(dialect::kSlurmCluster)),
      ConstantJobField(0, "clusterfeature", "CLUSTER_FEATURES", "(null)"),
      {0, "hetjobid", "HET_JOB_ID", [](const QueueRow& r) { return HetId(r); }},
      {0, "hetjoboffset", "HET_JOB_OFFSET",
       [](const QueueRow& r) {
         const auto component = ComponentNumber(r.job);
         return component ? std::to_string(*component) : std::string("N/A");
       }},
      {0, "hetjobidset", "HET_JOB_ID_SET", [](const QueueRow& r) { return HetIdSet(r); }},
      ConstantJobField(0, "admin_comment", "ADMIN_COMMENT", "(null)"),
      ConstantJobField(0, "system_comment", "SYSTEM_COMMENT", "(null)"),
      ConstantJobField(0, "origin", "ORIGIN", "NA"),
      ConstantJobField(0, "originraw", "ORIGIN_RAW", "0"),
      ConstantJobField(0, "siblingsactive", "ACTIVE_SIBLINGS", "NA"),
      ConstantJobField(0, "siblingsviable", "VIABLE_SIBLINGS", "NA"),
  };
  std::ranges::move(fields, std::back_inserter(out));
}

void AddTimes(const Scene& scene, std::vector<JobField>& out) {
  std::vector<JobField> fields = {
      {'M', "timeused", "TIME", [&scene](const QueueRow& r) { return Elapsed(RunTime(r.job, scene.now)); }},
      {'l', "timelimit", "TIME_LIMIT", [](const QueueRow& r) { return TimeLimit(r.job); }},
      {'L', "timeleft", "TIME_LEFT", [&scene](const QueueRow& r) { return TimeLeft(r, scene); }},
      {'S', "starttime", "START_TIME", [](const QueueRow& r) { return Moment(StartOf(r)); }},
      {'e', "endtime", "END_TIME", [](const QueueRow& r) { return Moment(EndOf(r)); }},
      {'V', "submittime", "SUBMIT_TIME", [](const QueueRow& r) { return Moment(r.job.submit_time); }},
      {0, "eligibletime", "ELIGIBLE_TIME", [](const QueueRow& r) { return Moment(r.job.eligible_time); }},
      {0, "accruetime", "ACCRUE_TIME", [](const QueueRow& r) { return Moment(r.job.eligible_time); }},
      {0, "lastschedeval", "LAST_SCHED_EVAL",
       [&scene](const QueueRow& r) { return Moment(IsPending(r.job) ? std::optional(scene.now) : r.job.start_time); }},
      {0, "pendingtime", "PENDING_TIME",
       [&scene](const QueueRow& r) { return Number(r.job.start_time.value_or(scene.now) - r.job.submit_time); }},
      {0, "deadline", "DEADLINE", [](const QueueRow& r) { return Moment(r.job.request.end_by); }},
      Said(0, "mintime", "MIN_TIME", "time-min", "N/A"),
      ConstantJobField(0, "preempttime", "PREEMPT_TIME", "N/A"),
      ConstantJobField(0, "resizetime", "TIME_RESIZE", "N/A"),
      ConstantJobField(0, "delayboot", "DELAY_BOOT", "00:00:00"),
  };
  std::ranges::move(fields, std::back_inserter(out));
}

void AddRequest(std::vector<JobField>& out) {
  std::vector<JobField> fields = {
      {'C', "numcpus", "CPUS", Cpus},
      {'c', "mincpus", "MIN_CPUS", [](const QueueRow& r) { return std::to_string(CpusPerNode(r.job)); }},
      {0, "maxcpus", "MAX_CPUS", Cpus},
      {0, "numtasks", "TASKS", [](const QueueRow& r) { return std::to_string(r.job.request.tasks); }},
      Said(0, "cpus-per-task", "CPUS_PER_TASK", "cpus-per-task", "N/A"),
      {'m', "minmemory", "MIN_MEMORY", [](const QueueRow& r) { return Megabytes(r.job.request.memory_bytes); }},
      {'b', "tres-per-node", "TRES_PER_NODE", [](const QueueRow& r) { return TresPerNode(r.job); }},
      {0, "gres", "TRES_PER_NODE", [](const QueueRow& r) { return TresPerNode(r.job); }},
      {0, "tres-alloc", "TRES_ALLOC", [](const QueueRow& r) { return Tres(r.job, GpusOf(r.job)); }},
      Said(0, "tres-per-job", "TRES_PER_JOB", "gpus", "N/A"),
      Said(0, "tres-per-socket", "TRES_PER_SOCKET", "gpus-per-socket", "N/A"),
      Said(0, "tres-per-task", "TRES_PER_TASK", "gpus-per-task", "N/A"),
      Said(0, "tres-bind", "TRES_BIND", "gpu-bind", "N/A"),
      Said(0, "tres-freq", "TRES_FREQ", "gpu-freq", "N/A"),
      Said(0, "cpus-per-tres", "CPUS_PER_TRES", "cpus-per-gpu", "N/A"),
      Said(0, "mem-per-tres", "MEM_PER_TRES", "mem-per-gpu", "N/A"),
      {'f', "feature", "FEATURES", [](const QueueRow& r) { return FeaturesOf(r.job); }},
      Said(0, "prefer", "PREFER", "prefer", "N/A"),
      {'n', "reqnodes", "REQ_NODES", [](const QueueRow& r) { return dialect::FoldHostList(r.job.request.node_list); }},
      {'x', "excnodes", "EXC_NODES",
       [](const QueueRow& r) { return dialect::FoldHostList(r.job.request.excluded_nodes); }},
      Said('W', "licenses", "LICENSES", "licenses"),
      Said(0, "network", "NETWORK", "network"),
      Said(0, "profile", "PROFILE", "profile", "NotSet"),
      Said(0, "reqswitch", "REQ_SWITCH", "switches", "0"),
      ConstantJobField(0, "wait4switch", "WAIT4SWITCH", "N/A"),
      {'D', "numnodes", "NODES", Nodes},
      {0, "maxnodes", "MAX_NODES", Nodes},
      ConstantJobField('d', "mintmpdisk", "MIN_TMP_DISK", "0"),
      ConstantJobField('h', "oversubscribe", "OVER_SUBSCRIBE", "OK"),
      ConstantJobField(0, "shared", "OVER_SUBSCRIBE", "OK"),
      ConstantJobField('H', "sockets", "SOCKETS_PER_NODE", "*"),
      ConstantJobField('I', "cores", "CORES_PER_SOCKET", "*"),
      ConstantJobField('J', "threads", "THREADS_PER_CORE", "*"),
      ConstantJobField('O', "contiguous", "CONTIGUOUS", "0"),
      ConstantJobField('X', "corespec", "CORE_SPEC", "N/A"),
      ConstantJobField('z', "sct", "S:C:T", "*:*:*"),
      ConstantJobField(0, "cpufreq", "CPU_FREQ", "N/A"),
      ConstantJobField(0, "boardspernode", "BOARDS_PER_NODE", "N/A"),
      ConstantJobField(0, "sperboard", "SOCKETS_PER_BOARD", "N/A"),
      ConstantJobField(0, "ntperboard", "TASKS_PER_BOARD", "N/A"),
      Said(0, "ntpercore", "TASKS_PER_CORE", "ntasks-per-core", "N/A"),
      Said(0, "ntpernode", "TASKS_PER_NODE", "ntasks-per-node", "0"),
      Said(0, "ntpersocket", "TASKS_PER_SOCKET", "ntasks-per-socket", "N/A"),
      ConstantJobField(0, "burstbuffer", "BURST_BUFFER", "(null)"),
      ConstantJobField(0, "burstbufferstate", "BURST_BUFFER_STATE", "(null)"),
      ConstantJobField(0, "resvport", "RESV_PORTS", "N/A"),
      ConstantJobField('Y', "schednodes", "SCHEDNODES", "(null)"),
      ConstantJobField('s', "selectjobinfo", "", ""),
  };
  std::ranges::move(fields, std::back_inserter(out));
}

void AddRest(const Scene& scene, std::vector<JobField>& out) {
  const std::string host = scene.hostname;
  std::vector<JobField> fields = {
      {'E', "dependency", "DEPENDENCY", [](const QueueRow& r) { return OrNull(DependencyText(r)); }},
      {'Q', "prioritylong", "PRIORITY", [](const QueueRow& r) { return std::to_string(PriorityOf(r.job)); }},
      {'p', "priority", "PRIORITY",
       [](const QueueRow& r) { return std::to_string(static_cast<double>(PriorityOf(r.job))); }},
      {'y', "nice", "NICE", [](const QueueRow& r) { return std::to_string(-r.job.priority); }},
      {0, "restartcnt", "RESTART_COUNT", [](const QueueRow& r) { return std::to_string(r.job.restarts); }},
      {0, "exit_code", "EXIT_CODE", [](const QueueRow& r) { return std::to_string(r.job.exit_code.value_or(0)); }},
      {0, "derivedec", "DERIVED_EC", [](const QueueRow& r) { return ExitCode(r.job); }},
      Detail('o', "command", "COMMAND", [](const wire::JobDetail& d) { return LabelOf(d, "script", d.command); }),
      Detail('Z', "workdir", "WORK_DIR", [](const wire::JobDetail& d) { return d.directory; }),
      Detail(0, "stdout", "STDOUT", [](const wire::JobDetail& d) { return d.output; }),
      Detail(0, "stderr", "STDERR", [](const wire::JobDetail& d) { return d.error.empty() ? d.output : d.error; }),
      ConstantJobField(0, "stdin", "STDIN", "/dev/null"),
      Detail(0, "batchflag", "BATCH_FLAG",
             [](const wire::JobDetail& d) { return std::string(d.is_foreground ? "0" : "1"); }),
      Said(0, "requeue", "REQUEUE", "requeue", "0"),
      ConstantJobField(0, "reboot", "REBOOT", "0"),
      ConstantJobField(0, "allocnodes", "ALLOC_NODES", host),
      ConstantJobField(0, "allocsid", "ALLOC_SID", "0"),
      Said(0, "container", "CONTAINER", "container"),
      Said(0, "containerid", "CONTAINER_ID", "container-id"),
  };
  std::ranges::move(fields, std::back_inserter(out));
}

}  // namespace

std::string DependencyText(const QueueRow& row) {
  std::string text;
  if (!IsPending(row.job)) return text;
  for (const std::string& one : row.job.dependencies) text += (text.empty() ? "" : ",") + one + "(unfulfilled)";
  return text;
}

std::optional<double> StartOf(const QueueRow& row) {
  return row.job.start_time ? row.job.start_time : row.predicted_start;
}

std::optional<double> EndOf(const QueueRow& row) {
  if (row.job.end_time) return row.job.end_time;
  if (row.job.start_time && row.job.request.time_limit_s > 0) return *row.job.start_time + row.job.request.time_limit_s;
  return std::nullopt;
}

std::vector<JobField> JobFields(const Scene& scene) {
  std::vector<JobField> fields;
  AddIdentity(scene, fields);
  AddTimes(scene, fields);
  AddRequest(fields);
  AddRest(scene, fields);
  return fields;
}

std::vector<JobField> StepFields(const Scene& scene) {
  const auto id_of = [](const QueueRow& r) { return JobIdText(r.job); };
  const auto job_of = [](const QueueRow& r) { return r.job.display_id.substr(0, r.job.display_id.rfind('.')); };
  const auto tasks_of = [](const QueueRow& r) { return std::to_string(r.step_tasks); };
  const auto name_of = [](const QueueRow& r) { return r.job.name; };
  const auto state_of = [](const QueueRow& r) { return StateName(r.job); };
  std::vector<JobField> fields = {
      {'i', "stepid", "STEPID", id_of}, {'A', "numtasks", "TASKS", tasks_of}, {'j', "stepname", "NAME", name_of},
      {0, "name", "NAME", name_of},     {0, "stepstate", "STATE", state_of},  {0, "jobarrayid", "JOBID", job_of},
  };
  for (JobField& field : JobFields(scene)) {
    const auto is_taken = [&](const JobField& own) { return own.name == field.name; };
    if (std::ranges::any_of(fields, is_taken)) continue;
    if (std::ranges::any_of(fields, [&](const JobField& own) { return own.letter == field.letter; })) field.letter = 0;
    fields.push_back(std::move(field));
  }
  return fields;
}

}  // namespace divvy::cli::slurm
