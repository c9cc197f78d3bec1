// divvy simulate history: replays what ran on this server with other policies or other hardware.
#include <algorithm>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/progress_indicator.h"
#include "cli/simulate/simulate_replay.h"
#include "dialect/options/quantities.h"
#include "model/job_record.h"
#include "simulate/history.h"

namespace divvy::cli {

simulate::Workload WorkloadOf(const std::vector<wire::JobView>& jobs) {
  std::vector<JobRecord> records;
  for (const wire::JobView& job : jobs) {
    JobRecord record;
    record.id = job.id;
    record.name = job.name;
    record.user.name = job.user;
    record.project = job.team.empty() ? job.project : job.team;
    record.state = JobStateFromName(job.state).value_or(JobState::kQueued);
    record.submitted = TimeFromSeconds(job.submit_time);
    // Held jobs and those with dependencies could not start earlier.
    record.begin = job.eligible_time ? TimeFromSeconds(*job.eligible_time) : kNoTime;
    record.started = job.start_time ? TimeFromSeconds(*job.start_time) : kNoTime;
    record.ended = job.end_time ? TimeFromSeconds(*job.end_time) : kNoTime;
    record.time_limit = TimeFromSeconds(job.request.time_limit_s).time_since_epoch();
    record.request.gpus = static_cast<int>(std::max(job.request.gpus, static_cast<std::int64_t>(job.gpus.size())));
    record.request.cpus = static_cast<int>(job.request.cpus);
    record.request.memory = Bytes(job.request.memory_bytes);
    record.priority = static_cast<int>(job.priority);
    records.push_back(std::move(record));
  }
  return simulate::WorkloadOf(records);
}

simulate::TraceCluster ClusterOf(const std::vector<wire::GpuView>& gpus) {
  // A node with GPUs of several models becomes one node per model.
  std::vector<std::pair<std::pair<std::string, std::string>, int>> nodes;
  for (const wire::GpuView& gpu : gpus) {
    const std::pair key(gpu.node, gpu.model);
    auto node = std::ranges::find(nodes, key, [](const auto& one) { return one.first; });
    if (node == nodes.end()) node = nodes.insert(nodes.end(), {key, 0});
    node->second += 1;
  }
  simulate::TraceCluster cluster;
  for (const auto& [key, count] : nodes) {
    const auto is_alike = [&](const simulate::NodeGroup& group) {
      return group.model == key.second && group.gpus == count;
    };
    auto group = std::ranges::find_if(cluster.groups, is_alike);
    if (group == cluster.groups.end()) {
      group = cluster.groups.insert(cluster.groups.end(), simulate::NodeGroup());
      group->gpus = count;
      group->model = key.second;
    }
    group->count += 1;
  }
  return cluster;
}

int SimulateHistory(const SimulateFlags& flags) {
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  wire::JobSelector select;
  select.user = "all";
  select.includes_final = true;
  if (!flags.history.empty()) {
    const auto span = dialect::ParseDuration(flags.history, std::chrono::hours(24));
    if (!span) return Fail(span.error());
    select.since = NowSeconds() - ToSeconds(*span);
  }
  std::optional<ProgressIndicator> progress(std::in_place, "reading the history");
  const auto jobs = api.Jobs(select);
  progress.reset();
  if (!jobs) return Fail(jobs.error());
  simulate::Workload workload = WorkloadOf(*jobs);
  if (workload.jobs.empty()) return Fail(NotFound("no job ended here in that period, so there is nothing to replay"));
  simulate::TraceCluster cluster;
  if (!flags.nodes.empty()) {
    auto parsed = simulate::ParseCluster(flags.nodes);
    if (!parsed) return Fail(parsed.error());
    cluster = std::move(*parsed);
  } else {
    const auto gpus = api.Gpus();
    if (!gpus) return Fail(gpus.error());
    cluster = ClusterOf(*gpus);
  }
  return ReplayAndShow(std::move(workload), cluster, "history", flags);
}

}  // namespace divvy::cli
