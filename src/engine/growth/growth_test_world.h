// Builders for tests of engine/growth.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/growth/growth.h"
#include "engine/growth/packing.h"

namespace divvy::growth::testing_world {

/// The time of all decisions, unless a test advances it, plus `later`.
inline Time At(Duration later) { return Time(std::chrono::hours(1000)) + later; }

inline NodeShape OneShape(std::string name, int gpus, double hourly) {
  NodeShape shape;
  shape.name = std::move(name);
  shape.gpu_model = "V100";
  shape.gpus = gpus;
  shape.cpus = 16 * gpus;
  shape.memory = 64_GiB;
  shape.hourly = Money(static_cast<std::int64_t>(hourly * 1e6 + 0.5));
  shape.startup = 3min;
  return shape;
}

inline Demand GpuJob(int gpus, std::uint32_t jobs = 1, Duration run_time = 1h) {
  Demand demand;
  TaskNeed need;
  need.shape.gpus = static_cast<std::int16_t>(gpus);
  need.shape.parts = placement::kGpuParts;
  demand.tasks = {need};
  demand.jobs = jobs;
  demand.run_time = run_time;
  return demand;
}

/// One provider "p" with these shapes, all of node class 0.
struct World {
  explicit World(std::vector<NodeShape> shapes) {
    Provider provider;
    provider.name = "p";
    provider.shapes = std::move(shapes);
    providers = {std::move(provider)};
    Compile();
    input.now = At(0s);
    input.providers.resize(1);
    input.rules.settle = 1min;
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void Compile() {
    catalogue = std::make_unique<Catalogue>(providers, [](const NodeShape&) { return 0; });
    input.catalogue = catalogue.get();
  }
  void Change(const std::function<void(Provider&)>& change) {
    change(providers[0]);
    Compile();
  }
  void SetLimits(ProviderLimits limits) {
    Change([&](Provider& provider) { provider.limits = std::move(limits); });
  }
  /// Also checks the rules, and that the same input gives the same decision.
  GrowthDecision Decide() const {
    GrowthDecision decision = DecideGrowth(input);
    EXPECT_EQ(CheckGrowth(input, decision), "");
    EXPECT_EQ(DecideGrowth(input), decision);
    return decision;
  }

  std::vector<Provider> providers;
  std::unique_ptr<Catalogue> catalogue;
  GrowthInput input;
};

/// A node of the first offer, requested just now; if ready, with all its room free but not counted as idle.
inline OwnedNode Node(const World& world, std::uint64_t id, NodePhase phase, OfferIndex offer = 0) {
  OwnedNode node;
  node.id = id;
  node.offer = offer;
  node.phase = phase;
  node.room = world.catalogue->offers()[offer].node;
  node.created = world.input.now;
  node.ready = world.input.now + world.catalogue->offers()[offer].startup;
  node.was_used = true;
  return node;
}

/// A node of the first offer whose GPUs are all in use until `end`.
inline OwnedNode BusyNode(const World& world, std::uint64_t id, Time end, OfferIndex offer = 0) {
  OwnedNode node = Node(world, id, NodePhase::kReady, offer);
  placement::Shape shape;
  shape.gpus = static_cast<std::int16_t>(node.room.gpus);
  shape.parts = placement::kGpuParts;
  const placement::GpuPlace place = placement::TightestGpus(node.room, shape);
  placement::Take(node.room, shape, place);
  node.releases = {{end, shape, place}};
  return node;
}

}  // namespace divvy::growth::testing_world
