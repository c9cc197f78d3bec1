// Measures the decision about nodes from providers: many waiting jobs of many shapes, a large catalogue, and the nodes
// that exist. It reports thread CPU time and wall time of grouping the jobs and of the decision.
//
//   growth_bench [--offers N] [--jobs N] [--shapes N] [--nodes N] [--rounds N]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "engine/growth/growth.h"
#include "engine/growth/packing.h"

namespace {

using namespace divvy;
using namespace divvy::growth;

double Millis(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

std::uint64_t draw_state = 1;
int Below(int n) {
  std::uint64_t x = draw_state += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<int>((x ^ (x >> 31)) % static_cast<std::uint64_t>(n));
}

/// Ten providers; shapes of 1 to 8 GPUs of four models with different CPUs, memory and prices.
std::vector<Provider> Providers(int offers) {
  std::vector<Provider> providers(10);
  for (int i = 0; i < offers; ++i) {
    Provider& provider = providers[static_cast<std::size_t>(i % 10)];
    provider.name = "p" + std::to_string(i % 10);
    NodeShape shape;
    shape.name = "s" + std::to_string(i);
    shape.gpus = 1 << Below(4);
    shape.gpu_model = std::string("m") + static_cast<char>('0' + Below(4));
    shape.cpus = shape.gpus * (4 + Below(28));
    shape.memory = Bytes((std::int64_t{shape.gpus} * (16 + Below(240))) << 30);
    shape.hourly = Money(shape.gpus * (500'000 + 10'000 * Below(300)));
    shape.startup = std::chrono::seconds(60 + 30 * Below(8));
    provider.shapes.push_back(std::move(shape));
  }
  return providers;
}

Demand SomeDemand() {
  Demand demand;
  TaskNeed need;
  const int size = Below(10);
  need.shape.gpus = static_cast<std::int16_t>(size < 6 ? 1 : 1 << (size - 6));
  need.shape.parts = static_cast<std::int16_t>(size < 3 ? 1000 * (1 + Below(9)) : placement::kGpuParts);
  need.shape.cpu_milli = 1000 * need.shape.gpus * (1 + Below(8));
  need.shape.memory_mib = 1024 * need.shape.gpus * (1 + Below(32));
  if (Below(2) == 0) need.shape.models = std::uint64_t{1} << Below(4);
  if (size == 9) need.count = 1 + Below(3);
  demand.tasks = {need};
  demand.run_time = std::chrono::minutes(1 << Below(12));
  return demand;
}

}  // namespace

int main(int argc, char** argv) {
  int offers = 1000, jobs = 100'000, shapes = 5000, nodes = 1000, rounds = 21;
  for (int i = 1; i + 1 < argc; i += 2) {
    int* into = std::strcmp(argv[i], "--offers") == 0   ? &offers
                : std::strcmp(argv[i], "--jobs") == 0   ? &jobs
                : std::strcmp(argv[i], "--shapes") == 0 ? &shapes
                : std::strcmp(argv[i], "--nodes") == 0  ? &nodes
                : std::strcmp(argv[i], "--rounds") == 0 ? &rounds
                                                        : nullptr;
    if (into == nullptr) return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
    *into = std::max(1, std::atoi(argv[i + 1]));
  }
  const Catalogue catalogue(Providers(offers), [](const NodeShape& shape) { return shape.gpu_model[1] - '0'; });
  GrowthInput input;
  input.now = Time(std::chrono::hours(1000));
  input.catalogue = &catalogue;
  input.providers.resize(catalogue.providers().size());
  input.gpus_per_hour = 100;
  for (int i = 0; i < nodes; ++i) {
    OwnedNode node;
    node.id = static_cast<std::uint64_t>(i);
    node.offer = static_cast<OfferIndex>(Below(offers));
    node.room = catalogue.offers()[*node.offer].node;
    node.created = input.now - std::chrono::hours(1);
    // All GPUs are in use, each by a task of its own; some end soon.
    placement::Shape shape;
    shape.gpus = 1;
    shape.parts = placement::kGpuParts;
    for (int gpu = 0; gpu < node.room.gpus; ++gpu) {
      const placement::GpuPlace place{GpuSet::FromBits(std::uint64_t{1} << gpu)};
      placement::Take(node.room, shape, place);
      node.releases.push_back({input.now + std::chrono::seconds(Below(7200)), shape, place});
    }
    std::ranges::sort(node.releases, {}, &Release::time);
    input.nodes.push_back(std::move(node));
  }
  std::vector<Demand> kinds, all;
  for (int i = 0; i < shapes; ++i) kinds.push_back(SomeDemand());
  for (int i = 0; i < jobs; ++i) all.push_back(kinds[static_cast<std::size_t>(Below(shapes))]);

  std::vector<double> merge_cpu, decide_cpu, decide_wall;
  GrowthDecision decision;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Demand> copy = all;
    double cpu = Millis(CLOCK_THREAD_CPUTIME_ID);
    input.demands = MergeDemands(std::move(copy)).demands;
    merge_cpu.push_back(Millis(CLOCK_THREAD_CPUTIME_ID) - cpu);
    const double wall = Millis(CLOCK_MONOTONIC);
    cpu = Millis(CLOCK_THREAD_CPUTIME_ID);
    decision = DecideGrowth(input);
    decide_cpu.push_back(Millis(CLOCK_THREAD_CPUTIME_ID) - cpu);
    decide_wall.push_back(Millis(CLOCK_MONOTONIC) - wall);
  }
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  std::printf("%d offers (%zu worth considering), %d jobs of %zu shapes, %d nodes: %zu requests\n", offers,
              catalogue.by_value().size(), jobs, input.demands.size(), nodes, decision.requests.size());
  std::printf("grouping, CPU: median %.2f ms, worst %.2f ms\n", median(merge_cpu),
              *std::ranges::max_element(merge_cpu));
  std::printf("decision, CPU: median %.2f ms, worst %.2f ms; wall: median %.2f ms\n", median(decide_cpu),
              *std::ranges::max_element(decide_cpu), median(decide_wall));
  const std::string broken = CheckGrowth(input, decision);
  if (!broken.empty()) return std::fprintf(stderr, "%s\n", broken.c_str()), 1;
  return 0;
}
