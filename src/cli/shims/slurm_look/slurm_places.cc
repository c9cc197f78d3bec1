#include "cli/shims/slurm_look/slurm_places.h"

#include <algorithm>

#include "base/text.h"
#include "dialect/options/slurm_hostlist.h"

namespace divvy::cli::slurm {
namespace {

/// The share of `all` for `tasks` of `all_tasks`.
std::int64_t PartOf(std::int64_t all, std::int64_t tasks, std::int64_t all_tasks) {
  return all_tasks > 0 ? all * tasks / all_tasks : all;
}

}  // namespace

std::vector<Place> PlacesOf(const wire::JobView& job, const Scene& scene) {
  if (!job.start_time && !HoldsGpus(job)) return {};
  const auto named = [&](const std::string& node) { return node.empty() ? scene.hostname : node; };
  if (job.allocations.empty()) return {{named(job.node), job.gpus, CpusOf(job), job.request.memory_bytes}};
  std::vector<Place> places;
  for (const wire::AllocationView& allocation : job.allocations) {
    Place place{named(allocation.node), allocation.gpus, std::max(job.request.cpus, allocation.tasks),
                job.request.memory_bytes};
    if (job.request.spreads_tasks) {
      place.cpus = std::max(PartOf(job.request.cpus, allocation.tasks, job.request.tasks), allocation.tasks);
      place.memory_bytes = PartOf(job.request.memory_bytes, allocation.tasks, job.request.tasks);
    }
    places.push_back(std::move(place));
  }
  return places;
}

std::string HostListOf(const wire::JobView& job, const Scene& scene, std::string_view none) {
  std::vector<std::string> hosts;
  for (const Place& place : PlacesOf(job, scene)) hosts.push_back(place.host);
  return hosts.empty() ? std::string(none) : dialect::FoldHostList(hosts);
}

std::string NodesOrReason(const wire::JobView& job, const Scene& scene) {
  if (IsPending(job) || job.state == "failed" || job.state == "timed_out" || job.state == "lost") {
    return "(" + ReasonCode(job) + ")";
  }
  return HostListOf(job, scene);
}

std::string BatchHostOf(const wire::JobView& job, const Scene& scene, std::string_view none) {
  const std::vector<Place> places = PlacesOf(job, scene);
  return places.empty() ? std::string(none) : places.front().host;
}

bool IsSameHost(std::string_view a, std::string_view b) { return a.substr(0, a.find('.')) == b.substr(0, b.find('.')); }

bool IsOnOneOf(const wire::JobView& job, const std::vector<std::string>& names, const Scene& scene) {
  return std::ranges::any_of(PlacesOf(job, scene), [&](const Place& place) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return IsSameHost(name, place.host) || (name == "localhost" && place.host == scene.hostname);
    });
  });
}

Result<std::vector<std::string>> HostNames(const std::vector<std::string>& parts) {
  return dialect::ExpandHostList(Join(parts, ","));
}

std::string HeldGpusOf(const wire::JobView& job) {
  if (job.allocations.empty()) return HeldGpus(job.gpus);
  std::string text;
  for (const wire::AllocationView& allocation : job.allocations) {
    const std::string one = HeldGpus(allocation.gpus);
    if (!one.empty()) text += (text.empty() ? "" : ",") + one;
  }
  return text;
}

}  // namespace divvy::cli::slurm
