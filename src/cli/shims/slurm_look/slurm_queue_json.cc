// squeue --json.
#include <cmath>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_components.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "cli/shims/slurm_look/slurm_queue_fields.h"
#include "dialect/options/slurm_hostlist.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

std::int64_t Seconds(std::optional<double> time) { return static_cast<std::int64_t>(time.value_or(0)); }

/// Adds the fields that only a job's full answer has.
void AddDetail(const wire::JobDetail& job, JsonFields& out) {
  out.Text("command", LabelOf(job, "script", job.command));
  out.Text("current_working_directory", job.directory);
  out.Text("standard_output", job.output);
  out.Text("standard_error", job.error.empty() ? job.output : job.error);
  out.Text("standard_input", "/dev/null");
  out.Bool("batch_flag", !job.is_foreground);
  out.SetNumber("cpus_per_task", ParseInteger(LabelOf(job, "cpus-per-task", "1")).value_or(1));
  out.Number("nice", ParseInteger(LabelOf(job, "nice", "0")).value_or(0));
  out.Bool("requeue", LabelOf(job, "requeue", "0") == "1");
  out.Text("resv_name", LabelOf(job, "reservation", ""));
  out.Text("licenses", LabelOf(job, "licenses", ""));
  out.Text("wckey", LabelOf(job, "wckey", ""));
  out.Text("required_nodes", dialect::FoldHostList(job.request.node_list));
  out.Text("excluded_nodes", dialect::FoldHostList(job.request.excluded_nodes));
  out.Text("tres_per_job", LabelOf(job, "gpus", ""));
  out.Text("tres_per_task", LabelOf(job, "gpus-per-task", ""));
  out.Text("tres_bind", LabelOf(job, "gpu-bind", ""));
}

void AddGpuDetail(const wire::JobView& job, JsonWriter& json) {
  json.Key("gres_detail");
  json.BeginArray();
  if (job.allocations.empty() && !job.gpus.empty()) json.String(HeldGpus(job.gpus));
  for (const wire::AllocationView& allocation : job.allocations) json.String(HeldGpus(allocation.gpus));
  json.EndArray();
}

void AddJob(const QueueRow& row, const Scene& scene, JsonSchema schema, JsonWriter& json) {
  const wire::JobView& job = row.job;
  JsonFields out(json, schema);
  const bool is_newer = schema == JsonSchema::k40;
  json.BeginObject();
  out.Number("job_id", static_cast<std::int64_t>(job.id.value()));
  const auto component = ComponentNumber(job);
  out.SetNumber("het_job_id", component ? static_cast<std::int64_t>(job.id.value() - *component) : 0);
  out.Text("het_job_id_set", component ? ComponentIds(job, row.components) : "");
  out.SetNumber("het_job_offset", component ? static_cast<std::int64_t>(*component) : 0);
  out.SetNumber("array_job_id", static_cast<std::int64_t>(job.array_id.value_or(JobId(0)).value()));
  if (job.array_index || is_newer) {
    out.SetNumber("array_task_id", job.array_index);
  } else {
    json.Key("array_task_id");
    json.Null();
  }
  out.Text("array_task_string", job.array_indices);
  out.SetNumber("array_max_tasks", job.array_at_once);
  out.Text("cluster", dialect::kSlurmCluster);
  out.Text("name", job.name);
  out.Text("user_name", job.user);
  out.Number("user_id", scene.uid_of(job.user));
  const auto [group, group_id] = scene.group_of(job.user);
  out.Number("group_id", group_id);
  out.Text("group_name", group);
  out.Words("job_state", StateName(job));
  out.Text("state_reason", ReasonCode(job));
  out.Text("state_description", job.reason);
  out.Text("partition", Partition(job));
  out.Text("account", job.account);
  out.Text("qos", job.qos);
  out.Text("comment", job.comment);
  const std::string features = FeaturesOf(job);
  out.Text("features", features == "(null)" ? "" : features);
  out.Text("nodes", HostListOf(job, scene));
  out.Text("batch_host", BatchHostOf(job, scene));
  out.SetNumber("node_count", NodeCountOf(job));
  out.SetNumber("cpus", CpusOf(job));
  out.SetNumber("tasks", job.request.tasks);
  const std::int64_t memory = job.request.memory_bytes >> 20;
  out.SetNumber("memory_per_node", memory > 0 ? std::optional(memory) : std::nullopt);
  if (is_newer) out.SetNumber("memory_per_cpu", std::nullopt);
  out.SetNumber("threads_per_core", 1);
  out.Text("tres_req_str", Tres(job, GpusAskedBy(job)));
  out.Text("tres_alloc_str", job.start_time ? Tres(job, GpusOf(job)) : "");
  out.Text("tres_per_node", job.request.gpus > 0 ? TresPerNode(job) : "");
  AddGpuDetail(job, json);
  out.SetNumber("priority", job.priority);
  out.Bool("hold", job.state == "held");
  out.Text("dependency", DependencyText(row));
  out.Limit("time_limit", static_cast<std::int64_t>(std::ceil(job.request.time_limit_s / 60)));
  out.SetNumber("submit_time", Seconds(job.submit_time));
  out.SetNumber("eligible_time", Seconds(job.eligible_time));
  out.SetNumber("start_time", Seconds(StartOf(row)));
  out.SetNumber("end_time", Seconds(EndOf(row)));
  for (const std::string_view key : {"exit_code", "derived_exit_code"}) {
    if (is_newer) AddExit(key, job, schema, json);
    else out.Number(key, job.exit_code.value_or(0));
  }
  out.Number("restart_cnt", job.restarts);
  if (row.detail != nullptr) AddDetail(*row.detail, out);
  json.EndObject();
}

}  // namespace

std::string QueueJson(const std::vector<QueueRow>& rows, const Scene& scene, JsonSchema schema) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  AddMeta(json, "squeue", schema);
  json.Key("jobs");
  json.BeginArray();
  for (const QueueRow& row : rows) AddJob(row, scene, schema, json);
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace divvy::cli::slurm
