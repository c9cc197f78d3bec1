#include "model/job.h"

#include "base/result.h"

namespace divvy {

Request ComponentOf(const Request& request, std::size_t component) {
  DIVVY_ASSERT(component < request.components());
  Request one = request;
  one.others.clear();
  if (component == 0) return one;
  const Component& its = request.others[component - 1];
  one.gpus = its.gpus;
  one.gpu_type = its.gpu_type;
  one.gpu_memory = its.gpu_memory;
  one.cpus = its.cpus;
  one.memory = its.memory;
  one.tasks = its.tasks;
  one.nodes = its.nodes;
  one.short_nodes = its.short_nodes;
  one.spreads_tasks = its.spreads_tasks;
  one.constraint = its.constraint;
  one.node_list = its.node_list;
  one.excluded_nodes = its.excluded_nodes;
  // The request has one topology. GPU topologies apply to all components with GPUs, node topologies only to the first
  // component.
  if (its.gpus == 0 || IsOfMachines(one.topology)) {
    one.topology = TopologyNeed::kAny;
    one.requires_topology = false;
  }
  return one;
}

}  // namespace divvy
