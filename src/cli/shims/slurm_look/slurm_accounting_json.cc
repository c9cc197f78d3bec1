// sacct --json.
#include <cmath>
#include <span>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_accounting.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

/// "cpu=2,mem=4G,gres/gpu=2" as [{"type": "cpu", "name": "", "count": 2}, ...]; memory in MiB.
void AddTres(const wire::JobView& job, std::int64_t gpus, JsonWriter& json) {
  JsonFields out(json);
  const auto add = [&](std::string_view type, std::string_view name, std::int64_t count) {
    json.BeginObject();
    out.Text("type", type);
    out.Text("name", name);
    out.Number("count", count);
    json.EndObject();
  };
  json.BeginArray();
  add("cpu", "", CpusOf(job));
  if (job.request.memory_bytes > 0) add("mem", "", MemoryOf(job) >> 20);
  add("node", "", NodeCountOf(job));
  if (gpus > 0) add("gres", "gpu", gpus);
  json.EndArray();
}

void AddTime(const AccountRow& row, const Scene& scene, JsonSchema schema, JsonWriter& json) {
  JsonFields out(json, schema);
  const wire::JobView& job = row.job;
  const auto seconds = [](std::optional<double> time) { return static_cast<std::int64_t>(time.value_or(0)); };
  json.Key("time");
  json.BeginObject();
  out.Number("elapsed", static_cast<std::int64_t>(RunTime(job, scene.now)));
  out.Number("eligible", seconds(job.eligible_time));
  out.Number("submission", seconds(job.submit_time));
  out.Number("start", seconds(job.start_time));
  out.Number("end", seconds(job.end_time));
  out.Number("suspended", 0);
  out.Limit("limit", static_cast<std::int64_t>(std::ceil(job.request.time_limit_s / 60)));
  json.Key("total");
  json.BeginObject();
  out.Number("seconds", row.is_step() && !row.is_step_measured ? 0 : static_cast<std::int64_t>(row.cpu_time_s));
  out.Number("microseconds", 0);
  json.EndObject();
  json.EndObject();
}

void AddState(const AccountRow& row, const Scene& scene, JsonSchema schema, JsonWriter& json) {
  JsonFields out(json, schema);
  // In JSON, the user who cancelled is a separate field, not part of the state.
  const std::string state = AccountState(row, scene);
  json.Key("state");
  json.BeginObject();
  out.Words("current", state.substr(0, state.find(' ')));
  out.Text("reason", ReasonCode(row.job));
  json.EndObject();
}

void AddStep(const AccountRow& row, const Scene& scene, JsonSchema schema, JsonWriter& json) {
  JsonFields out(json);
  json.BeginObject();
  json.Key("step");
  json.BeginObject();
  out.Text("id", ToString(row.job.id) + "." + row.step);
  out.Text("name", row.job.name);
  json.EndObject();
  AddState(row, scene, schema, json);
  AddExit("exit_code", row.job, schema, json);
  AddTime(row, scene, schema, json);
  json.Key("nodes");
  json.BeginObject();
  out.Number("count", NodeCountOf(row.job));
  out.Text("range", HostListOf(row.job, scene));
  json.EndObject();
  json.Key("tasks");
  json.BeginObject();
  out.Number("count", row.step_tasks);
  json.EndObject();
  json.Key("tres");
  json.BeginObject();
  json.Key("allocated");
  AddTres(row.job, GpusOf(row.job), json);
  json.EndObject();
  json.EndObject();
}

void AddJob(const AccountRow& row, std::span<const AccountRow> steps, const Scene& scene, JsonSchema schema,
            JsonWriter& json) {
  JsonFields out(json, schema);
  const wire::JobView& job = row.job;
  json.BeginObject();
  out.Number("job_id", static_cast<std::int64_t>(job.id.value()));
  out.Text("name", job.name);
  out.Text("user", job.user);
  out.Text("group", scene.group_of(job.user).first);
  out.Text("account", job.account);
  out.Text("cluster", dialect::kSlurmCluster);
  out.Text("partition", Partition(job));
  out.Text("qos", job.qos);
  out.Text("nodes", HostListOf(job, scene, "None assigned"));
  out.Number("allocation_nodes", job.start_time ? NodeCountOf(job) : 0);
  out.SetNumber("priority", job.priority);
  out.Number("restart_cnt", job.restarts);
  out.Text("constraints", LabelOf(row.labels, "constraint", ""));
  out.Text("working_directory", row.directory);
  out.Text("submit_line", row.command);
  json.Key("comment");
  json.BeginObject();
  out.Text("job", job.comment);
  json.EndObject();
  json.Key("wckey");
  json.BeginObject();
  out.Text("wckey", LabelOf(row.labels, "wckey", ""));
  json.EndObject();
  json.Key("array");
  json.BeginObject();
  out.Number("job_id", static_cast<std::int64_t>(job.array_id.value_or(JobId(0)).value()));
  if (job.array_index || schema == JsonSchema::k40) {
    out.SetNumber("task_id", job.array_index);
  } else {
    json.Key("task_id");
    json.Null();
  }
  out.Text("task", job.array_indices);
  json.EndObject();
  AddState(row, scene, schema, json);
  AddExit("exit_code", row.job, schema, json);
  AddTime(row, scene, schema, json);
  json.Key("required");
  json.BeginObject();
  out.Number("CPUs", CpusOf(job));
  out.Number("memory", MemoryOf(job) >> 20);
  json.EndObject();
  json.Key("tres");
  json.BeginObject();
  json.Key("requested");
  AddTres(job, GpusAskedBy(job), json);
  if (job.start_time) {
    json.Key("allocated");
    AddTres(job, GpusOf(job), json);
  }
  json.EndObject();
  json.Key("steps");
  json.BeginArray();
  for (const AccountRow& step : steps) AddStep(step, scene, schema, json);
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string AccountsJson(const std::vector<AccountRow>& rows, const Scene& scene, JsonSchema schema) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  AddMeta(json, "sacct", schema);
  json.Key("jobs");
  json.BeginArray();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].is_step()) continue;
    std::size_t end = i + 1;
    while (end < rows.size() && rows[end].is_step()) ++end;
    AddJob(rows[i], std::span(rows).subspan(i + 1, end - i - 1), scene, schema, json);
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

std::string StepsJson(const std::vector<AccountRow>& steps, const Scene& scene, JsonSchema schema) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  AddMeta(json, "scontrol", schema);
  json.Key("steps");
  json.BeginArray();
  for (const AccountRow& step : steps) AddStep(step, scene, schema, json);
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace divvy::cli::slurm
