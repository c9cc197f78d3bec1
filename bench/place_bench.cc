// Measures the cost of a placement decision. This is not a test: slow results do not fail.
//
//   place_bench [NODES JOBS]
//
// With openb's lists (plain or .gz): fills that cluster and reports jobs placed and started per second of one core's
// time, for each policy; the median of five seeds. Always: synthetic fleets of growing size, nine tenths full, in which
// jobs of 100 shapes start and end. Reports the time per decision, and the time that rating every node for every job
// would take.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "engine/placement/fleet.h"
#include "engine/placement/policy.h"
#include "simulate/fill.h"
#include "simulate/traces/random.h"

namespace divvy {
namespace {

using placement::Fleet;
using placement::NodeState;
using placement::Shape;
using placement::ShapeIndex;
using placement::Spot;

constexpr int kShapes = 100;
constexpr int kDecisions = 20'000;

double CpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

int FillFrom(const std::string& nodes_file, const std::string& jobs_file) {
  const auto nodes = simulate::ReadOpenbNodes(nodes_file);
  const auto jobs = nodes ? simulate::ReadOpenbJobs(jobs_file, *nodes) : nodes.error();
  if (!nodes || !jobs) {
    std::fprintf(stderr, "place_bench: %s\n", (nodes ? jobs.error() : nodes.error()).message.c_str());
    return 1;
  }
  std::printf("Filling %zu nodes, %lld GPUs:\n", nodes->nodes.size(),
              static_cast<long long>(nodes->capacity_parts() / placement::kGpuParts));
  for (const std::string_view policy : simulate::FillPolicies()) {
    simulate::FillOptions options;
    options.policy = policy;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) options.seeds.push_back(seed);
    const auto result = simulate::RunFill(*nodes, *jobs, options);
    if (!result) return 1;
    std::vector<double> rates;
    for (const auto& run : result->runs) rates.push_back(static_cast<double>(run.arrived) / run.cpu_seconds);
    std::ranges::sort(rates);
    std::printf("  %-12s %9.0f decisions/s\n", result->policy.c_str(), rates[rates.size() / 2]);
  }
  return 0;
}

std::vector<Shape> MadeUpShapes(simulate::Random& random) {
  std::vector<Shape> shapes;
  for (int i = 0; i < kShapes; ++i) {
    Shape shape;
    shape.cpu_milli = static_cast<std::int32_t>(1000 + 500 * random.Below(30));
    shape.memory_mib = static_cast<std::int32_t>(4096 * (1 + random.Below(8)));
    const bool is_share = random.Below(2) == 0;
    shape.gpus = static_cast<std::int16_t>(is_share || random.Below(4) > 0 ? 1 : 2 << random.Below(3));
    shape.parts = static_cast<std::int16_t>(is_share ? 50 + 50 * random.Below(18) : placement::kGpuParts);
    shapes.push_back(shape);
  }
  return shapes;
}

void StartsAndEnds(std::size_t count) {
  simulate::Random random(count);
  const std::vector<Shape> shapes = MadeUpShapes(random);
  const std::vector<NodeState> nodes(count, placement::MakeNode(96'000, 786'432, 8, 0));
  const auto capacity = static_cast<std::int64_t>(count) * 8 * placement::kGpuParts;
  Fleet fleet(nodes, placement::MakeScorer("default", placement::CountShapes(shapes), kShapes, {capacity}));
  std::vector<std::pair<ShapeIndex, Spot>> running;
  std::int64_t used = 0;
  const auto start_one = [&] {
    const ShapeIndex shape = fleet.Know(shapes[random.Below(kShapes)]);
    const auto spot = fleet.Find(shape);
    if (!spot) return;
    fleet.Take(shape, *spot);
    running.emplace_back(shape, *spot);
    used += fleet.shape(shape).gpu_parts();
  };
  const auto end_one = [&] {
    auto& one = running[random.Below(running.size())];
    fleet.Release(one.first, one.second);
    used -= fleet.shape(one.first).gpu_parts();
    one = running.back();
    running.pop_back();
  };
  double filling = CpuSeconds();
  std::size_t started = 0;
  for (; used < capacity * 9 / 10 && started < count * 40; ++started) start_one();
  filling = CpuSeconds() - filling;

  std::vector<double> times;
  for (int i = 0; i < kDecisions; ++i) {
    while (used > capacity * 9 / 10) end_one();
    const double before = CpuSeconds();
    start_one();
    times.push_back((CpuSeconds() - before) * 1e6);
  }
  std::ranges::sort(times);

  // Rates every node for every job. Only a few jobs are rated, because it takes long.
  const int rated = static_cast<int>(std::max<std::size_t>(1, 1'000'000 / count));
  double plain = CpuSeconds();
  std::int64_t sum = 0;
  for (int i = 0; i < rated; ++i) {
    const Shape& shape = shapes[random.Below(kShapes)];
    for (const NodeState& node : fleet.nodes()) sum += fleet.scorer().Rate(node, fleet.scorer().Worth(node), shape);
  }
  plain = (CpuSeconds() - plain) * 1e6 / rated;
  std::printf(
      "  %7zu nodes: filling %9.0f decisions/s; full: median %6.1f us, 99th percentile %7.1f us; plain %9.1f us%s\n",
      count, static_cast<double>(started) / filling, times[times.size() / 2], times[times.size() * 99 / 100], plain,
      sum == 0 ? " " : "");
}

}  // namespace
}  // namespace divvy

int main(int argc, char** argv) {
  if (argc != 1 && argc != 3) {
    std::fprintf(stderr, "usage: place_bench [NODES JOBS]\n");
    return 2;
  }
  if (argc == 3 && divvy::FillFrom(argv[1], argv[2]) != 0) return 1;
  std::printf("Fleets of 8 GPUs a node, 100 shapes, starts and ends at nine tenths:\n");
  for (const std::size_t nodes : {100u, 1000u, 10'000u, 100'000u}) divvy::StartsAndEnds(nodes);
  return 0;
}
