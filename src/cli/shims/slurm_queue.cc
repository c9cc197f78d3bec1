#include "cli/shims/slurm_queue.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "cli/shims/slurm_format.h"
#include "dialect/slurm_environment.h"
#include "wire/json.h"

namespace divvy::cli::slurm {
namespace {

using JobField = Field<QueueRow>;

std::string Cpus(const QueueRow& row) {
  return std::to_string(std::max<std::int64_t>({row.job.request.cpus, row.job.request.tasks, 1}));
}

std::string Number(double number) { return std::to_string(static_cast<std::int64_t>(std::floor(number))); }

/// Slurm prints "afterok:12(unfulfilled)".
std::string Dependencies(const QueueRow& row) {
  std::string text;
  for (const std::string& one : row.job.dependencies) text += (text.empty() ? "" : ",") + one + "(unfulfilled)";
  return text.empty() || !IsPending(row.job) ? "(null)" : text;
}

std::optional<double> ExpectedEnd(const QueueRow& row) {
  if (row.job.end_time) return row.job.end_time;
  if (row.job.start_time && row.job.request.time_limit_s > 0) return *row.job.start_time + row.job.request.time_limit_s;
  return std::nullopt;
}

std::string TimeLeft(const QueueRow& row, const Scene& scene) {
  if (row.job.request.time_limit_s <= 0) return "UNLIMITED";
  return Elapsed(row.job.request.time_limit_s - RunTime(row.job, scene.now));
}

std::optional<double> Start(const QueueRow& row) {
  return row.job.start_time ? row.job.start_time : row.predicted_start;
}

/// A plain text for columns that have one answer on one server.
JobField Always(char letter, std::string_view name, std::string_view header, std::string text) {
  return {letter, name, header, [text = std::move(text)](const QueueRow&) { return text; }};
}

std::vector<JobField> JobFields(const Scene& scene) {
  const std::string host = scene.hostname;
  std::vector<JobField> fields = {
      {'i', "jobarrayid", "JOBID", [](const QueueRow& r) { return JobIdText(r.job); }},
      {'A', "jobid", "JOBID", [](const QueueRow& r) { return ToString(r.job.id); }},
      {'F', "arrayjobid", "ARRAY_JOB_ID", [](const QueueRow& r) { return ArrayJobId(r.job); }},
      {'K', "arraytaskid", "ARRAY_TASK_ID", [](const QueueRow& r) { return ArrayTaskId(r.job); }},
      {'j', "name", "NAME", [](const QueueRow& r) { return r.job.name; }},
      {'u', "username", "USER", [](const QueueRow& r) { return r.job.user; }},
      {'U', "userid", "UID", [&scene](const QueueRow& r) { return std::to_string(scene.uid_of(r.job.user)); }},
      {'t', "statecompact", "ST", [](const QueueRow& r) { return StateCode(r.job.state); }},
      {'T', "state", "STATE", [](const QueueRow& r) { return StateName(r.job.state); }},
      {'r', "reason", "REASON", [](const QueueRow& r) { return ReasonCode(r.job); }},
      {'R', "reasonlist", "NODELIST(REASON)", [&scene](const QueueRow& r) { return NodesOrReason(r.job, scene); }},
      {'N', "nodelist", "NODELIST", [host](const QueueRow& r) { return r.job.start_time ? host : ""; }},
      {'B', "batchhost", "EXEC_HOST", [host](const QueueRow& r) { return r.job.start_time ? host : "n/a"; }},
      {'M', "timeused", "TIME", [&scene](const QueueRow& r) { return Elapsed(RunTime(r.job, scene.now)); }},
      {'l', "timelimit", "TIME_LIMIT", [](const QueueRow& r) { return TimeLimit(r.job); }},
      {'L', "timeleft", "TIME_LEFT", [&scene](const QueueRow& r) { return TimeLeft(r, scene); }},
      {'S', "starttime", "START_TIME", [](const QueueRow& r) { return Moment(Start(r)); }},
      {'e', "endtime", "END_TIME", [](const QueueRow& r) { return Moment(ExpectedEnd(r)); }},
      {'V', "submittime", "SUBMIT_TIME", [](const QueueRow& r) { return Moment(r.job.submit_time); }},
      {0, "eligibletime", "ELIGIBLE_TIME", [](const QueueRow& r) { return Moment(r.job.eligible_time); }},
      {'C', "numcpus", "CPUS", Cpus},
      {'c', "mincpus", "MIN_CPUS", Cpus},
      {0, "numtasks", "TASKS", [](const QueueRow& r) { return std::to_string(r.job.request.tasks); }},
      {'m', "minmemory", "MIN_MEMORY", [](const QueueRow& r) { return Megabytes(r.job.request.memory_bytes); }},
      {'b', "tres-per-node", "TRES_PER_NODE", [](const QueueRow& r) { return TresPerNode(r.job); }},
      {0, "gres", "TRES_PER_NODE", [](const QueueRow& r) { return TresPerNode(r.job); }},
      {0, "tres-alloc", "TRES_ALLOC", [](const QueueRow& r) { return Tres(r.job); }},
      {'E', "dependency", "DEPENDENCY", Dependencies},
      {'Q', "prioritylong", "PRIORITY", [](const QueueRow& r) { return std::to_string(r.job.priority); }},
      {'p', "priority", "PRIORITY",
       [](const QueueRow& r) { return std::to_string(static_cast<double>(r.job.priority)); }},
      {'y', "nice", "NICE", [](const QueueRow& r) { return std::to_string(-r.job.priority); }},
      {'P', "partition", "PARTITION", [](const QueueRow& r) { return Partition(r.job); }},
      {'a', "account", "ACCOUNT", [](const QueueRow& r) { return OrNull(r.job.account); }},
      {'q', "qos", "QOS", [](const QueueRow& r) { return OrNull(r.job.qos); }},
      {'k', "comment", "COMMENT", [](const QueueRow& r) { return OrNull(r.job.comment); }},
      {'f', "feature", "FEATURES", [](const QueueRow& r) { return OrNull(r.job.request.gpu_type); }},
      {0, "restartcnt", "RESTART_COUNT", [](const QueueRow& r) { return std::to_string(r.job.restarts); }},
      {0, "exit_code", "EXIT_CODE", [](const QueueRow& r) { return std::to_string(r.job.exit_code.value_or(0)); }},
      {0, "pendingtime", "PENDING_TIME",
       [&scene](const QueueRow& r) { return Number(r.job.start_time.value_or(scene.now) - r.job.submit_time); }},
  };
  const std::vector<JobField> plain = {Always('D', "numnodes", "NODES", "1"),
                                       Always('g', "groupname", "GROUP", "(null)"),
                                       Always('G', "groupid", "GROUP", "0"),
                                       Always('d', "mintmpdisk", "MIN_TMP_DISK", "0"),
                                       Always('h', "oversubscribe", "OVER_SUBSCRIBE", "OK"),
                                       Always('H', "sockets", "SOCKETS_PER_NODE", "*"),
                                       Always('I', "cores", "CORES_PER_SOCKET", "*"),
                                       Always('J', "threads", "THREADS_PER_CORE", "*"),
                                       Always('n', "reqnodes", "REQ_NODES", ""),
                                       Always('o', "command", "COMMAND", "(null)"),
                                       Always('O', "contiguous", "CONTIGUOUS", "0"),
                                       Always('s', "selectjobinfo", "", ""),
                                       Always('v', "reservation", "RESERVATION", "(null)"),
                                       Always('w', "wckey", "WCKEY", "(null)"),
                                       Always('W', "licenses", "LICENSES", "(null)"),
                                       Always('x', "excnodes", "EXC_NODES", ""),
                                       Always('X', "corespec", "CORE_SPEC", "N/A"),
                                       Always('Y', "schednodes", "SCHEDNODES", "(null)"),
                                       Always('z', "sct", "S:C:T", "*:*:*"),
                                       Always('Z', "workdir", "WORK_DIR", "(null)"),
                                       Always(0, "cluster", "CLUSTER", std::string(dialect::kSlurmCluster))};
  fields.insert(fields.end(), plain.begin(), plain.end());
  return fields;
}

/// Numbers by value, other texts by letters.
bool Less(const std::string& a, const std::string& b) {
  const auto x = ParseNumber(a);
  const auto y = ParseNumber(b);
  return x && y ? *x < *y : a < b;
}

void SortBy(std::vector<QueueRow>& rows, std::string_view sort, const std::vector<JobField>& fields) {
  const std::vector<std::string_view> keys = Split(sort, ',');
  // The last key first, stably, so that the first key decides.
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    std::string_view letters = Trim(*key);
    const bool is_descending = letters.starts_with('-');
    if (letters.starts_with('-') || letters.starts_with('+')) letters.remove_prefix(1);
    if (letters.size() != 1) continue;
    const auto field = std::ranges::find(fields, letters.front(), &JobField::letter);
    if (field == fields.end()) continue;
    std::ranges::stable_sort(rows, [&](const QueueRow& a, const QueueRow& b) {
      const std::string x = field->text(a);
      const std::string y = field->text(b);
      return is_descending ? Less(y, x) : Less(x, y);
    });
  }
}

}  // namespace

Result<std::string> FormatQueue(std::vector<QueueRow> rows, const QueueFormat& format, const Scene& scene) {
  const std::vector<JobField> fields = JobFields(scene);
  std::vector<Shown<QueueRow>> columns;
  if (!format.names.empty()) {
    DIVVY_TRY(columns, ParseNames(format.names, fields, "job"));
  } else {
    DIVVY_TRY(columns, ParseLetters(format.letters, fields, "job"));
  }
  if (!format.sort.empty()) SortBy(rows, format.sort, fields);
  std::string text = format.has_header ? HeaderLine(columns) : "";
  for (const QueueRow& row : rows) text += RowLine(columns, row);
  return text;
}

std::string QueueJson(const std::vector<QueueRow>& rows, const Scene& scene) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  json.Key("jobs");
  json.BeginArray();
  for (const QueueRow& row : rows) {
    const wire::JobView& job = row.job;
    const auto text = [&](std::string_view key, std::string_view value) {
      json.Key(key);
      json.String(value);
    };
    const auto number = [&](std::string_view key, std::int64_t value) {
      json.Key(key);
      json.Int(value);
    };
    json.BeginObject();
    number("job_id", static_cast<std::int64_t>(job.id.value()));
    number("array_job_id", static_cast<std::int64_t>(job.array_id.value_or(JobId(0)).value()));
    json.Key("array_task_id");
    if (job.array_index) {
      json.Int(*job.array_index);
    } else {
      json.Null();
    }
    text("array_task_string", job.array_indices);
    text("name", job.name);
    text("user_name", job.user);
    number("user_id", scene.uid_of(job.user));
    text("job_state", StateName(job.state));
    text("state_reason", ReasonCode(job));
    text("state_description", job.reason);
    text("partition", Partition(job));
    text("account", job.account);
    text("qos", job.qos);
    text("nodes", job.start_time ? scene.hostname : "");
    number("node_count", 1);
    number("cpus", std::max<std::int64_t>({job.request.cpus, job.request.tasks, 1}));
    number("tasks", job.request.tasks);
    text("tres_req_str", Tres(job));
    text("tres_per_node", job.request.gpus > 0 ? TresPerNode(job) : "");
    number("priority", job.priority);
    number("time_limit", static_cast<std::int64_t>(std::ceil(job.request.time_limit_s / 60)));
    number("submit_time", static_cast<std::int64_t>(job.submit_time));
    number("start_time", static_cast<std::int64_t>(Start(row).value_or(0)));
    number("end_time", static_cast<std::int64_t>(ExpectedEnd(row).value_or(0)));
    number("exit_code", job.exit_code.value_or(0));
    number("restart_cnt", job.restarts);
    text("comment", job.comment);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace divvy::cli::slurm
