#include "daemon/cluster_sample.h"

#include "daemon/views.h"

namespace divvy {
namespace {

constexpr std::size_t kFewJobs = 2'000;
constexpr samples::Second kCountEvery = 10;

}  // namespace

samples::Snapshot ClusterSampler::Look(const Controller& controller, const SampleBook& book, samples::Second now) {
  double total = 0;
  double allocated = 0;
  const Server& cluster = controller.cluster();
  for (const BookNode& node : cluster.nodes()) {
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
                     {samples::Metric::kGpusUsed, book.GpusUsed(now)},
                     {samples::Metric::kJobsQueued, queued_},
                     {samples::Metric::kJobsRunning, static_cast<double>(cluster.running_jobs().size())}};
  return snapshot;
}

}  // namespace divvy
