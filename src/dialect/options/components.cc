#include "dialect/options/components.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "model/growth_wishes.h"
#include "model/job_record.h"

namespace divvy::dialect {
namespace {

/// The largest number of GPUs or tasks in all components of a job together.
constexpr std::int64_t kMostInAll = 1'000'000'000;

/// Returns the specification without the fields that each component has for itself.
JobSpec JobsOwn(JobSpec spec) {
  spec.request = Request();
  spec.pool.clear();
  spec.labels.clear();
  spec.notes.clear();
  spec.time_limit = Duration(0);
  spec.dialect = Dialect::kNative;
  return spec;
}

}  // namespace

JobSpec SpecOfComponent(const JobSpec& job, std::size_t component) {
  JobSpec spec;
  spec.dialect = job.dialect;
  if (component > job.request.others.size()) return spec;
  const Component& known = job.request.others[component - 1];
  spec.request = ComponentOf(job.request, component);
  // Topology is given once for all components.
  spec.request.topology = TopologyNeed::kAny;
  spec.request.requires_topology = false;
  spec.pool = known.pool;
  spec.labels = known.labels;
  return spec;
}

Status TakeComponent(JobSpec component, std::size_t number, JobSpec& job) {
  if (number >= kMostComponents)
    return InvalidArgument("a job can have at most " + std::to_string(kMostComponents) + " components");
  const std::string which = "component " + std::to_string(number) + ": ";
  if (component.request.is_elastic()) {
    return InvalidArgument(which + "--gpus " + GpuCountText(component.request) +
                           " requests an elastic job, which can have only one component; write one number");
  }
  if (component.request.topology != TopologyNeed::kAny)
    return InvalidArgument(which + "--topology may be given only once, with the first component");
  if (component.array || !component.parameters.empty())
    return InvalidArgument(
        which + "an array or sweep of heterogeneous jobs is not supported; submit each element as a separate job");
  for (const auto& [label, option] : {std::pair(kNoGrowLabel, "--no-grow"), std::pair(kProviderLabel, "--provider"),
                                      std::pair(kMaxPriceLabel, "--max-price")}) {
    if (component.labels.contains(std::string(label)))
      return InvalidArgument(which + option + " is for the whole job; give it with the first component");
  }
  if (!(JobsOwn(component) == JobsOwn(JobSpec())))
    AddNote(job, which + "only its resource options are used; give all other options with the first component");
  for (const std::string& note : component.notes) AddNote(job, which + note);
  job.time_limit = std::max(job.time_limit, component.time_limit);
  if (number > job.request.others.size()) job.request.others.emplace_back();
  const Request& request = component.request;
  job.request.others[number - 1] = {request.gpus,          request.gpu_type,
                                    request.gpu_memory,    request.cpus,
                                    request.memory,        request.tasks,
                                    request.nodes,         request.short_nodes,
                                    request.spreads_tasks, request.constraint,
                                    request.node_list,     request.excluded_nodes,
                                    component.pool,        std::move(component.labels)};
  return {};
}

Status CheckComponents(const JobSpec& spec) {
  if (!spec.request.is_heterogeneous()) return {};
  if (spec.request.components() > kMostComponents)
    return InvalidArgument("a job can have at most " + std::to_string(kMostComponents) + " components");
  if (spec.request.is_elastic())
    return InvalidArgument("an elastic job can have only one component; write --gpus as one number, or omit ':'");
  if (spec.request.requires_topology && IsOfMachines(spec.request.topology)) {
    return InvalidArgument("--topology " + TopologyText(spec.request) +
                           " does not work with several components, which are placed independently; omit ':required' "
                           "to place them close together if possible, or submit each component as a separate job");
  }
  std::int64_t gpus = 0;
  std::int64_t tasks = 0;
  for (std::size_t i = 0; i < spec.request.components(); ++i) {
    const Request one = ComponentOf(spec.request, i);
    gpus += std::int64_t{one.gpus} * one.nodes;
    tasks += one.tasks;
  }
  if (gpus > kMostInAll || tasks > kMostInAll)
    return InvalidArgument("the components request " + std::to_string(std::max(gpus, tasks)) +
                           (gpus > kMostInAll ? " GPUs" : " tasks") + " in total; request fewer");
  if (spec.array || !spec.parameters.empty()) {
    return InvalidArgument(
        "an array or sweep of heterogeneous jobs is not supported; submit each element as a separate job");
  }
  return {};
}

}  // namespace divvy::dialect
