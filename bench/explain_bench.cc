// Measures the cost of an explanation on a large cluster: 10,000 nodes of 8 GPUs (or as set by --nodes), all in use,
// and a million queued jobs of 5,000 shapes. It explains jobs from all over the queue, and checks feasible and
// infeasible requests as at submission. It reports thread CPU time, which other work on the machine does not change,
// and wall time.
//
//   explain_bench [--nodes N] [--jobs N] [--shapes N] [--asked N] [--order small-first|fifo|fair|shortest] [--gangs]
//                 [--users N]   N users, each limited to half of an equal share of the GPUs
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/core/explain/explain_blockers.h"
#include "engine/core/explain/explain_change.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/place/explain_ahead.h"
#include "engine/core/place/job_perspective.h"
#include "engine/core/state/cluster.h"
#include "engine/placement/demand.h"
#include "engine/placement/policy.h"

namespace {

using namespace divvy;
using namespace divvy::core;

double Micros(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

std::uint64_t draw_state = 1;
int Below(int n) {
  std::uint64_t x = draw_state += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return static_cast<int>((x ^ (x >> 31)) % static_cast<std::uint64_t>(n));
}

struct Options {
  int nodes = 10'000;
  int jobs = 1'000'000;
  int shapes = 5'000;
  int asked = 300;
  QueuePolicy order = QueuePolicy::kSmallFirst;
  bool gangs = false;
  int users = 0;
};

struct Times {
  std::vector<double> cpu;
  std::vector<double> wall;

  template <typename Work>
  void Measure(Work work) {
    const double wall_begin = Micros(CLOCK_MONOTONIC);
    const double cpu_begin = Micros(CLOCK_THREAD_CPUTIME_ID);
    work();
    cpu.push_back(Micros(CLOCK_THREAD_CPUTIME_ID) - cpu_begin);
    wall.push_back(Micros(CLOCK_MONOTONIC) - wall_begin);
  }

  void Print(const char* what) {
    std::sort(cpu.begin(), cpu.end());
    std::sort(wall.begin(), wall.end());
    const auto at = [](const std::vector<double>& values, double q) {
      return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))] / 1000;
    };
    std::printf("%-28s %5zu times: CPU p50 %.3f ms, p99 %.3f, worst %.3f; wall p50 %.3f ms, worst %.3f\n", what,
                cpu.size(), at(cpu, 0.5), at(cpu, 0.99), cpu.back() / 1000, at(wall, 0.5), wall.back() / 1000);
  }
};

ResourceRequest RandomRequest(bool gangs) {
  Shape shape;
  const int kind = Below(100);
  shape.gpus = static_cast<std::int16_t>(kind < 55 ? 1 : kind < 70 ? 2 : kind < 85 ? 4 : 8);
  shape.parts = static_cast<std::int16_t>(kind < 20 ? 1000 * (1 + Below(9)) : placement::kGpuParts);
  shape.cpu_milli = 1000 * (1 + Below(8)) * shape.gpus;
  shape.memory_mib = 1024 * (4 + Below(100)) * shape.gpus;
  if (Below(4) == 0) shape.models = std::uint64_t{1} << Below(4);
  ResourceRequest request;
  request.groups.push_back({{shape}, 1, 1});
  if (gangs && kind >= 85) {
    request.groups.front().least = request.groups.front().most = 2 << Below(6);
    request.locality = Below(2) == 0 ? Locality::kRack : Locality::kBlock;
    request.requires_locality = Below(2) == 0;
  }
  return request;
}

struct World {
  Cluster cluster;
  std::vector<JobId> waiting;
  Time now = Time(std::chrono::seconds(1'000'000));
};

World MakeWorld(const Options& options) {
  Rules rules;
  rules.order = options.order;
  World world{Cluster(rules), {}};
  Cluster& cluster = world.cluster;
  for (int i = 0; i < options.nodes; ++i) {
    NodeFacts facts;
    facts.name = "n" + std::to_string(i);
    facts.cpu_milli = 128'000;
    facts.memory_mib = 2 << 20;
    facts.gpus = 8;
    facts.node_class = facts.gpu_model = i % 4;
    facts.rack = static_cast<std::uint32_t>(i / 16);
    facts.block = static_cast<std::uint32_t>(i / 256);
    cluster.AddNode(std::move(facts));
  }
  std::vector<RequestIndex> known;
  std::vector<Shape> shapes;
  for (int i = 0; i < options.shapes; ++i) {
    const ResourceRequest request = RandomRequest(options.gangs);
    known.push_back(cluster.Know(request));
    shapes.push_back(request.groups.front().alternatives.front());
  }
  const std::vector<std::int64_t> capacity(4, std::int64_t{options.nodes} * 2 * placement::kGpuParts);
  cluster.SetScorer(placement::MakeScorer("default", placement::CountShapes(shapes), 1e4, capacity));
  std::vector<CapIndex> caps;
  for (int i = 0; i < options.users; ++i) {
    const std::int64_t gpus = std::max(1, options.nodes * 4 / options.users);
    caps.push_back(cluster.AddCap("user u" + std::to_string(i), 0, gpus * placement::kGpuParts));
  }
  for (int i = 0; i < options.jobs; ++i) {
    if (i % 100 == 0) world.now += std::chrono::milliseconds(1);
    Job job;
    job.id = JobId(static_cast<std::uint64_t>(i) + 1);
    const int shape = Below(options.shapes);
    job.request = known[static_cast<std::size_t>(shape)];
    job.queued_at = world.now;
    job.limit = shape % 2 == 0 ? std::chrono::hours(1 + shape % 24) : std::chrono::hours(0);
    job.predicted = std::chrono::minutes(10 + shape % 700);
    if (!caps.empty()) job.caps = {caps[static_cast<std::size_t>(shape) % caps.size()]};
    cluster.Put(job, world.now);
  }
  cluster.Decide(world.now);
  world.now += std::chrono::minutes(5);
  cluster.Decide(world.now);
  for (int i = 1; i <= options.jobs; ++i) {
    const JobId id(static_cast<std::uint64_t>(i));
    if (cluster.is_waiting(id)) world.waiting.push_back(id);
  }
  return world;
}

void Explanations(const Options& options, World& world) {
  Times whole;
  Times ahead;
  Times blockers;
  Times listed;
  Times change;
  std::map<BlockerKind, int> kinds;
  int changes = 0;
  int dated = 0;
  Explanation last;
  for (int i = 0; i < options.asked; ++i) {
    const JobId id = world.waiting[static_cast<std::size_t>(Below(static_cast<int>(world.waiting.size())))];
    whole.Measure([&] { last = Explain(world.cluster, id, world.now); });
    if (last.blockers.empty()) std::printf("job %s waits without a blocker\n", ToString(id).c_str());
    else kinds[last.blockers.front().kind] += 1;
    changes += last.change.has_value();
    dated += last.start.typical != kNever;
    ClusterState& state = world.cluster.state();
    const Seeker seeker = SeekerOf(state, id);
    {
      JobPerspective view(state, seeker, world.now);
      ahead.Measure([&] { CountAhead(state, view.order(), world.now); });
      blockers.Measure([&] { FindBlockers(view, Names()); });
      listed.Measure([&] { FindBlockers(view, Names(), false); });
    }
    change.Measure([&] { FindChange(world.cluster, seeker, world.now, Names()); });
  }
  whole.Print("explain");
  ahead.Print("  place in line");
  blockers.Print("  blockers");
  listed.Print("  blockers without holders, as listings ask");
  change.Print("  a change that starts it");
  std::printf("%d of %d got a change, %d a time; first blocker by kind:", changes, options.asked, dated);
  for (const auto& [kind, count] : kinds) std::printf(" %d:%d", static_cast<int>(kind), count);
  std::printf("\nsuch as: %s; position %llu; %s\n", last.blockers.empty() ? "" : last.blockers.front().text.c_str(),
              static_cast<unsigned long long>(last.position), last.start.basis.c_str());
}

void Verdicts(const Options& options, World& world) {
  Times possible;
  Times impossible;
  int refused = 0;
  std::string text;
  for (int i = 0; i < options.asked; ++i) {
    ResourceRequest request = RandomRequest(true);
    possible.Measure([&] { refused += !Feasible(world.cluster, request); });
    request.groups.front().least = request.groups.front().most = 1;
    switch (i % 4) {
      case 0:
        request.groups.front().alternatives.front().gpus = 16;
        request.groups.front().alternatives.front().parts = placement::kGpuParts;
        break;
      case 1:
        request.groups.front().alternatives.front().memory_mib = 4 << 20;
        break;
      case 2:
        request.groups.front().least = 1'000'000;
        break;
      default:
        request.groups.front().alternatives.front() = {1000, 1024, 8, 1000, placement::kAnyModel};
        request.groups.front().least = 17;
        request.locality = Locality::kRack;
        request.requires_locality = true;
    }
    impossible.Measure([&] {
      const Status status = Feasible(world.cluster, request);
      if (!status) text = status.error().message;
    });
  }
  possible.Print("verdict, mostly possible");
  impossible.Print("verdict, impossible");
  std::printf("%d refused; such as: %s\n", refused, text.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (name == "--nodes") options.nodes = number();
    else if (name == "--jobs") options.jobs = number();
    else if (name == "--shapes") options.shapes = number();
    else if (name == "--asked") options.asked = number();
    else if (name == "--users") options.users = number();
    else if (name == "--gangs") options.gangs = true;
    else if (name == "--order" && i + 1 < argc) {
      const std::string order = argv[++i];
      options.order = order == "fifo"       ? QueuePolicy::kFifo
                      : order == "fair"     ? QueuePolicy::kFair
                      : order == "shortest" ? QueuePolicy::kShortest
                                            : QueuePolicy::kSmallFirst;
    } else {
      std::fprintf(stderr, "explain_bench: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  World world = MakeWorld(options);
  std::printf("%d nodes, %zu running, %zu waiting, %d shapes\n", options.nodes, world.cluster.running_count(),
              world.waiting.size(), options.shapes);
  Explanations(options, world);
  Verdicts(options, world);
  return 0;
}
