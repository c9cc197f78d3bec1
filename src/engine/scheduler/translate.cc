#include "engine/scheduler/translate.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <map>

#include "base/result.h"
#include "base/text.h"
#include "engine/core/state/state.h"
#include "model/gpus/slice_counts.h"

namespace divvy {
namespace {

static_assert(placement::kMigComputeSlices == kComputeSlices && placement::kMigMemorySlices == kMemorySlices);

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMebibyte = 1 << 20;

}  // namespace

std::int32_t CpuMilli(int cpus) { return static_cast<std::int32_t>(std::min(std::int64_t{cpus} * 1000, kMost)); }

std::int32_t MebibytesUp(Bytes bytes) {
  const std::int64_t whole = bytes.count() / kMebibyte + (bytes.count() % kMebibyte > 0 ? 1 : 0);
  return static_cast<std::int32_t>(std::min(whole, kMost));
}

std::int32_t MebibytesDown(Bytes bytes) {
  return static_cast<std::int32_t>(std::min(bytes.count() / kMebibyte, kMost));
}

namespace {

std::int32_t Share(std::int32_t all, int parts) { return (all + parts - 1) / parts; }

// The resources on one node, or of one task if tasks may be spread over nodes.
core::Shape ShapeOf(const Request& request, int gpus) {
  core::Shape shape;
  const int parts = request.spreads_tasks ? std::max(request.tasks, 1) : 1;
  shape.cpu_milli = Share(CpuMilli(request.cpus), parts);
  shape.memory_mib = Share(MebibytesUp(request.memory), parts);
  shape.gpus =
      static_cast<std::int16_t>(std::min(Share(gpus, parts), std::int32_t{std::numeric_limits<std::int16_t>::max()}));
  return shape;
}

void WantTopology(const Request& request, core::ResourceRequest& resources) {
  resources.topology = OfGpus(request.topology);
  resources.requires_topology = request.requires_topology && resources.topology != TopologyNeed::kAny;
}

// Applies a requested rack or block. By default a gang prefers nodes that are close to each other. With a required
// block single racks are still tried first.
void WantMachines(const Request& request, core::ResourceRequest& resources) {
  if (!IsOfMachines(request.topology) || !request.is_gang()) return;
  if (request.topology == TopologyNeed::kBlock) {
    if (request.requires_topology) resources.widest = core::Locality::kBlock;
    else if (request.nodes > 1) resources.locality = core::Locality::kBlock;
  } else if (request.requires_topology) {
    resources.widest = core::Locality::kRack;
    resources.requires_locality = request.nodes > 1;
  }
}

}  // namespace

core::ResourceRequest ResourceRequestOf(const Request& request, PlacementStrategy placement, int gpus) {
  if (request.is_heterogeneous()) {
    core::ResourceRequest all;
    for (std::size_t i = 0; i < request.components(); ++i) {
      const Request component = ComponentOf(request, i);
      core::ResourceRequest one = ResourceRequestOf(component, placement, component.gpus);
      for (core::TaskGroup& group : one.groups) {
        group.component = static_cast<std::uint8_t>(i);
        all.groups.push_back(std::move(group));
      }
    }
    all.placement = placement;
    if (core::WantsGpu(all)) WantTopology(request, all);
    return all;
  }
  core::Shape shape = ShapeOf(request, gpus);
  core::ResourceRequest resources;
  resources.placement = placement;
  if (gpus > 0) {
    // A fraction given by memory depends on the GPU (NodeClassifier::Use). Until that is known, it is the smallest one.
    if (request.portion.request > GpuShare())
      shape.parts = static_cast<std::int16_t>(request.portion.request.ten_thousandths());
    else shape.parts = request.is_portioned() ? std::int16_t{1} : std::int16_t{placement::kGpuParts};
    // The size of a MIG instance depends on the GPU as well.
    if (!request.slice.empty()) {
      shape.slice = placement::MigProfile::k1g;
      shape.parts = placement::SliceShape(*shape.slice).parts;
    }
    WantTopology(request, resources);
  }
  const int placements = request.spreads_tasks ? request.tasks : request.nodes;
  const int full = placements - request.short_nodes;
  resources.groups.push_back({{shape}, full, full, {}, {}, request.nodes > 1});
  if (request.short_nodes > 0) {
    --shape.gpus;
    resources.groups.push_back({{shape}, request.short_nodes, request.short_nodes, {}, {}, true});
  }
  if (request.spreads_tasks) resources.locality = core::Locality::kNode;
  resources.wants_few_nodes = request.spreads_tasks && placement != PlacementStrategy::kSpread;
  if (request.nodes > 1) resources.locality = core::Locality::kRack;
  WantMachines(request, resources);
  return resources;
}

NodeResources PlaceOf(const Request& request, NodeIndex node, GpuSet gpus, int tasks,
                      std::vector<ComponentAllocation> parts) {
  if (!parts.empty()) {
    NodeResources all{node, gpus, tasks, 0, Bytes(0), std::move(parts)};
    for (const ComponentAllocation& part : all.parts) {
      const NodeResources one =
          PlaceOf(ComponentOf(request, static_cast<std::size_t>(part.component)), node, part.gpus, part.tasks);
      all.cpus += one.cpus;
      all.memory += one.memory;
    }
    return all;
  }
  NodeResources place{node, gpus, tasks, request.cpus, request.memory, {}};
  if (!request.spreads_tasks) return place;
  const int all = std::max(request.tasks, 1);
  place.cpus = Share(request.cpus * tasks, all);
  place.memory = Bytes(request.memory.count() / all * tasks);
  return place;
}

namespace {

// Computes the places of each component, then merges those on the same node.
std::vector<NodeResources> PlacesOfComponents(const Request& request, const core::ResourceRequest& resources,
                                              const std::vector<core::TaskPlacement>& placements) {
  std::vector<NodeResources> places;
  for (std::size_t i = 0; i < request.components(); ++i) {
    std::vector<core::TaskPlacement> own;
    std::ranges::copy_if(placements, std::back_inserter(own), [&](const core::TaskPlacement& placed) {
      return resources.groups[placed.group].component == i;
    });
    for (const NodeResources& part : PlacesOf(ComponentOf(request, i), resources, own)) {
      auto at = std::ranges::find(places, part.node, &NodeResources::node);
      if (at == places.end()) at = places.insert(places.end(), NodeResources{part.node, GpuSet(), 0, 0, Bytes(0), {}});
      at->gpus = at->gpus | part.gpus;
      at->tasks += part.tasks;
      at->cpus += part.cpus;
      at->memory += part.memory;
      at->parts.push_back({static_cast<int>(i), part.gpus, part.tasks});
    }
  }
  return places;
}

}  // namespace

core::GpuPlace PlaceIn(const NodeResources& place) {
  if (!place.slice.any()) return {place.gpus};
  return {place.gpus, static_cast<std::uint8_t>(((1u << place.slice.size) - 1) << place.slice.start)};
}

std::vector<NodeResources> PartPlaces(const Request& request, const std::vector<NodeResources>& places) {
  if (!request.is_heterogeneous()) return places;
  std::vector<NodeResources> parts;
  for (std::size_t i = 0; i < request.components(); ++i) {
    for (const NodeResources& place : places) {
      for (const ComponentAllocation& part : place.parts) {
        if (static_cast<std::size_t>(part.component) != i) continue;
        parts.push_back(PlaceOf(request, place.node, part.gpus, part.tasks, {part}));
      }
    }
  }
  return parts;
}

namespace {

/// The profile name is the standard one. Decision::NameSlice replaces it with the name that the node's driver uses.
GpuSlice SliceOf(placement::MigProfile profile, const core::GpuPlace& place) {
  return {std::string(placement::MigProfileName(profile)), placement::ComputeSlices(profile),
          placement::MemorySlices(profile), std::countr_zero(place.slices)};
}

}  // namespace

std::vector<NodeResources> PlacesOf(const Request& request, const core::ResourceRequest& resources,
                                    const std::vector<core::TaskPlacement>& placements) {
  if (request.is_heterogeneous()) return PlacesOfComponents(request, resources, placements);
  std::vector<NodeResources> places;
  for (const core::TaskPlacement& placed : placements) {
    const auto at =
        std::find_if(places.begin(), places.end(), [&](const NodeResources& one) { return one.node == placed.node; });
    NodeResources& place =
        at == places.end() ? places.emplace_back(NodeResources{placed.node, GpuSet(), 0, 0, Bytes(0), {}}) : *at;
    place.gpus = place.gpus | placed.place.gpus;
    place.tasks += 1;
    const core::Shape& shape = core::ShapeOf(resources, placed);
    if (!placed.place.gpus.empty()) place.share = GpuShare(shape.parts);
    if (shape.slice) place.slice = SliceOf(*shape.slice, placed.place);
  }
  // Tasks that were not placed one by one are divided evenly; the first nodes get one more.
  const int machines = static_cast<int>(places.size());
  for (int i = 0; i < machines; ++i) {
    NodeResources& place = places[static_cast<std::size_t>(i)];
    const int tasks =
        request.spreads_tasks ? place.tasks : request.tasks / machines + (i < request.tasks % machines ? 1 : 0);
    const NodeResources before = place;
    place = PlaceOf(request, place.node, place.gpus, std::max(tasks, 1));
    place.share = before.share;
    place.slice = before.slice;
  }
  return places;
}

core::ResourceRequest RequestOfPlaces(const Request& request, const std::vector<NodeResources>& places) {
  Request on_one = request;
  on_one.nodes = 1;
  on_one.short_nodes = 0;
  on_one.spreads_tasks = false;
  on_one.others.clear();
  const auto component_of = [](const NodeResources& place) {
    return static_cast<std::uint8_t>(place.parts.empty() ? 0 : place.parts.front().component);
  };
  core::ResourceRequest resources;
  const NodeResources* before = nullptr;
  for (const NodeResources& place : places) {
    const bool is_equal = before != nullptr && before->gpus.size() == place.gpus.size() && before->cpus == place.cpus &&
                          before->memory == place.memory && component_of(*before) == component_of(place);
    before = &place;
    if (is_equal) {
      resources.groups.back().least = resources.groups.back().most += 1;
      continue;
    }
    on_one.cpus = place.cpus;
    on_one.memory = place.memory;
    core::ResourceRequest one = ResourceRequestOf(on_one, PlacementStrategy::kSequential, place.gpus.size());
    if (!place.gpus.empty()) {
      core::Shape& shape = one.groups.front().alternatives.front();
      shape.parts = static_cast<std::int16_t>(place.share.ten_thousandths());
      if (place.slice.any()) shape.slice = placement::MigProfileOf(place.slice.compute, place.slice.size);
    }
    if (resources.groups.empty()) resources = one;
    else resources.groups.push_back(one.groups.front());
    resources.groups.back().component = component_of(place);
  }
  return resources;
}

std::uint8_t AlternativeOf(const core::TaskGroup& group, const std::vector<std::uint8_t>& node_classes) {
  const std::vector<core::Shape>& alternatives = group.alternatives;
  const auto at = std::find_if(alternatives.begin(), alternatives.end(), [&](const core::Shape& shape) {
    return std::all_of(node_classes.begin(), node_classes.end(),
                       [&](std::uint8_t node_class) { return ((shape.models >> node_class) & 1) != 0; });
  });
  return at == alternatives.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(at - alternatives.begin());
}

core::PoolRules RulesOf(const Policy& policy, const PoolRow& pool) {
  core::PoolRules rules = RulesOf(policy);
  rules.order = pool.policy.value_or(policy.order);
  rules.tier = pool.priority;
  return rules;
}

core::Rules RulesOf(const Policy& policy) {
  core::Rules rules;
  rules.order = policy.order;
  rules.escalate_after = policy.escalate_after;
  // Backfill reservations rely on time limits alone.
  rules.uses_predictions = false;
  rules.cpu_jobs_pass = true;
  rules.reclaims = policy.preemption.reclaims;
  rules.preempts = policy.preemption.preempts;
  rules.consolidates = policy.preemption.consolidates;
  rules.min_runtime = policy.preemption.min_runtime;
  rules.wait_before = policy.preemption.wait_before;
  rules.grace = policy.preemption.grace;
  return rules;
}

}  // namespace divvy
