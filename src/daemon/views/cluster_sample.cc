#include "daemon/views/cluster_sample.h"

#include "daemon/views/views.h"

namespace divvy {
namespace {

constexpr std::size_t kFewJobs = 2'000;
constexpr samples::Second kCountEvery = 10;
/// The limit on teams whose values are sampled, in the order of the tree of teams; each takes about 10 KiB of memory.
constexpr std::size_t kMostTeams = 1'000;

}  // namespace

samples::Snapshot ClusterSampler::Look(const Controller& controller, const MetricStore& store, samples::Second now) {
  double total = 0;
  double allocated = 0;
  const Scheduler& cluster = controller.scheduler();
  for (const NodeUsage& node : cluster.nodes()) {
    for (const GpuFacts& gpu : node.capacity.gpus) {
      total += 1;
      allocated += 1 - PartOfWhole(node.room(gpu.index));
    }
  }
  if (controller.live().size() <= kFewJobs || now % kCountEvery == 0) {
    queued_ = 0;
    for (const auto& [id, record] : controller.live()) {
      if (record.state != JobState::kQueued) continue;
      queued_ += record.array_count > 0 ? static_cast<double>(record.array_waiting.size()) : 1;
    }
  }
  samples::Snapshot snapshot;
  snapshot.at = now;
  samples::Sample& sample = snapshot.samples.emplace_back();
  sample.subject.of = samples::Of::kCluster;
  sample.readings = {{samples::Metric::kGpusTotal, total},
                     {samples::Metric::kGpusAllocated, allocated},
                     {samples::Metric::kGpusUsed, store.GpusUsed(now)},
                     {samples::Metric::kJobsQueued, queued_},
                     {samples::Metric::kJobsRunning, static_cast<double>(cluster.running_jobs().size())}};
  AddTeams(controller, snapshot);
  return snapshot;
}

void ClusterSampler::AddTeams(const Controller& controller, samples::Snapshot& snapshot) {
  const Scheduler& cluster = controller.scheduler();
  std::size_t left = kMostTeams;
  for (const TeamRow* row : controller.teams().InOrder()) {
    const core::TeamIndex index = cluster.TeamOf(row->name);
    if (index == core::kRootTeam || left-- == 0) break;
    samples::Sample& sample = snapshot.samples.emplace_back();
    sample.subject.of = samples::Of::kTeam;
    sample.subject.node = row->name;
    const double share = static_cast<double>(cluster.teams().FairShare(index)) / GpuShare::kWhole;
    sample.readings = {{samples::Metric::kTeamShare, share}};
    const auto add = [&](samples::Metric metric, const std::optional<std::int64_t>& milli) {
      if (milli) sample.readings.push_back({metric, static_cast<double>(*milli) / 1000});
    };
    add(samples::Metric::kTeamQuota, row->quota_milli);
    add(samples::Metric::kTeamLimit, row->limit_milli);
  }
}

}  // namespace divvy
