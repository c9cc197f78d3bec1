// Measures the cost of a scheduling decision on a large cluster: 10,000 nodes of 8 GPUs (or as set by --nodes and
// --gpus) and a million queued jobs of 5,000 shapes, with as many arrivals as ends. A decision follows each event; the
// reported time is from the event to the plan. "from nothing" is one decision over the whole queue on an empty cluster.
//
//   cluster_bench [--nodes N] [--gpus N] [--jobs N] [--shapes N] [--events N] [--curve]
//                 [--order small-first|fifo|fair|shortest]
//   cluster_bench --arrays   memory of a thousand waiting arrays of 10,000 equal jobs
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine/core/state/cluster.h"
#include "engine/placement/demand.h"
#include "engine/placement/policy.h"

namespace {

using namespace divvy;
using namespace divvy::core;
// CPU time of this thread, so that other work on the machine does not count.
struct Clock {
  using duration = std::chrono::nanoseconds;
  static duration now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
  }
};

double Micros(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

std::uint64_t draw_state = 1;
std::uint64_t Draw() {
  std::uint64_t x = draw_state += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
int Below(int n) { return static_cast<int>(Draw() % static_cast<std::uint64_t>(n)); }

// Returns the resident memory of this process, in MiB.
double ResidentMib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0;
  long resident = 0;
  statm >> pages >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

struct Options {
  int nodes = 10'000;
  int gpus = 8;  // Per node.
  int jobs = 1'000'000;
  int shapes = 5'000;
  int events = 20'000;
  QueuePolicy order = QueuePolicy::kSmallFirst;
};

struct Figures {
  double fill_s = 0;
  double starts = 0;
  double p50 = 0;
  double p99 = 0;
  double worst = 0;
  double arrival_p50 = 0;
  double end_p50 = 0;
  double mib = 0;
};

std::vector<ResourceRequest> MakeAsks(int count) {
  std::vector<ResourceRequest> asks;
  for (int i = 0; i < count; ++i) {
    Shape shape;
    const int kind = Below(100);
    shape.gpus = static_cast<std::int16_t>(kind < 55 ? 1 : kind < 70 ? 2 : kind < 85 ? 4 : 8);
    shape.parts = static_cast<std::int16_t>(kind < 20 ? 1000 * (1 + Below(9)) : placement::kGpuParts);
    shape.cpu_milli = 1000 * (1 + Below(8)) * shape.gpus;
    shape.memory_mib = 1024 * (4 + Below(100)) * shape.gpus;
    if (Below(4) == 0) shape.models = std::uint64_t{1} << Below(4);
    ResourceRequest request;
    request.groups.push_back({{shape}, 1, 1});
    asks.push_back(request);
  }
  return asks;
}

Figures Measure(const Options& options) {
  draw_state = 1;
  Rules rules;
  rules.order = options.order;
  const double before = ResidentMib();
  Cluster cluster(rules);
  for (int i = 0; i < options.nodes; ++i) {
    NodeFacts facts;
    facts.name = "n" + std::to_string(i);
    facts.cpu_milli = 16'000 * options.gpus;
    facts.memory_mib = (1 << 18) * options.gpus;
    facts.gpus = options.gpus;
    facts.node_class = facts.gpu_model = i % 4;
    facts.rack = static_cast<std::uint32_t>(i / 16);
    cluster.AddNode(std::move(facts));
  }
  std::vector<RequestIndex> known;
  std::vector<Shape> shapes;
  for (const ResourceRequest& request : MakeAsks(options.shapes)) {
    known.push_back(cluster.Know(request));
    shapes.push_back(request.groups.front().alternatives.front());
  }
  for (Shape& shape : shapes) shape.memory_mib = 0;
  const std::vector<std::int64_t> capacity(4, std::int64_t{options.nodes} * 2 * 1000);
  cluster.SetScorer(placement::MakeScorer("default", placement::CountShapes(shapes), 1e4, capacity));

  Time now = Time(std::chrono::seconds(1'000'000));
  std::uint64_t next_id = 1;
  const auto put = [&] {
    Job job;
    job.id = JobId(next_id++);
    const int shape = Below(options.shapes);
    job.request = known[static_cast<std::size_t>(shape)];
    job.queued_at = now;
    job.limit = shape % 2 == 0 ? std::chrono::hours(1 + shape % 24) : std::chrono::hours(0);
    job.predicted = std::chrono::minutes(10 + shape % 700);
    cluster.Put(job, now);
    return job.id;
  };
  for (int i = 0; i < options.jobs; ++i) {
    if (i % 100 == 0) now += std::chrono::milliseconds(1);
    put();
  }
  std::vector<JobId> running;
  const auto started = [&](const Plan& plan) {
    for (const Start& start : plan.starts) running.push_back(start.job);
  };
  Figures figures;
  {
    const auto begin = Clock::now();
    const Plan plan = cluster.Decide(now);
    figures.fill_s = Micros(Clock::now() - begin) / 1e6;
    figures.starts = static_cast<double>(plan.starts.size());
    started(plan);
  }
  std::vector<double> all;
  std::vector<double> arrivals;
  std::vector<double> ends;
  for (int i = 0; i < options.events; ++i) {
    now += std::chrono::milliseconds(20);
    const bool is_end = i % 2 == 0 && !running.empty();
    const auto begin = Clock::now();
    if (is_end) {
      const auto at = static_cast<std::size_t>(Draw() % running.size());
      std::swap(running[at], running.back());
      cluster.Finish(running.back(), now);
      running.pop_back();
    } else {
      put();
    }
    const Plan plan = cluster.Decide(now);
    const double took = Micros(Clock::now() - begin);
    started(plan);
    all.push_back(took);
    (is_end ? ends : arrivals).push_back(took);
  }
  const auto quantile = [](std::vector<double>& values, double q) {
    if (values.empty()) return 0.0;
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  figures.p50 = quantile(all, 0.5);
  figures.p99 = quantile(all, 0.99);
  figures.worst = all.empty() ? 0 : all.back();
  figures.arrival_p50 = quantile(arrivals, 0.5);
  figures.end_p50 = quantile(ends, 0.5);
  figures.mib = ResidentMib() - before;
  const std::string broken = cluster.CheckInvariants();
  if (!broken.empty()) std::printf("BROKEN: %s\n", broken.c_str());
  return figures;
}

void Print(const Options& options, const Figures& f) {
  std::printf(
      "%7d nodes %8d jobs %5d shapes: from nothing %.3f s (%.0f starts, %.0f/s); event to plan p50 %.1f us "
      "(arrival %.1f, end %.1f), p99 %.0f us, worst %.0f us; %.0f MiB\n",
      options.nodes, options.jobs, options.shapes, f.fill_s, f.starts, f.starts / f.fill_s, f.p50, f.arrival_p50,
      f.end_p50, f.p99, f.worst, f.mib);
}

void MeasureArrays() {
  constexpr int kArrays = 1000;
  constexpr std::uint32_t kMembers = 10'000;
  Cluster cluster{Rules()};
  const std::vector<ResourceRequest> asks = MakeAsks(kArrays);
  const Time now = Time(std::chrono::seconds(1'000'000));
  const double before = ResidentMib();
  for (int i = 0; i < kArrays; ++i) {
    Job job;
    job.id = JobId(1 + std::uint64_t{kMembers + 1} * static_cast<std::uint64_t>(i));
    job.count = kMembers;
    job.request = cluster.Know(asks[static_cast<std::size_t>(i)]);
    job.queued_at = now;
    cluster.Put(job, now);
  }
  cluster.Decide(now);
  const double mib = ResidentMib() - before;
  std::printf("%d arrays of %u jobs, each with a shape of its own: %.2f MiB, %.3f bytes a job\n", kArrays, kMembers,
              mib, mib * (1 << 20) / (double{kMembers} * kArrays));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bool curve = false;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (name == "--nodes") options.nodes = number();
    else if (name == "--gpus") options.gpus = number();
    else if (name == "--jobs") options.jobs = number();
    else if (name == "--shapes") options.shapes = number();
    else if (name == "--events") options.events = number();
    else if (name == "--curve") curve = true;
    else if (name == "--arrays") {
      MeasureArrays();
      return 0;
    } else if (name == "--order" && i + 1 < argc) {
      const std::string order = argv[++i];
      options.order = order == "fifo"       ? QueuePolicy::kFifo
                      : order == "fair"     ? QueuePolicy::kFair
                      : order == "shortest" ? QueuePolicy::kShortest
                                            : QueuePolicy::kSmallFirst;
    } else {
      std::fprintf(stderr, "cluster_bench: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  if (!curve) {
    Print(options, Measure(options));
    return 0;
  }
  for (const int nodes : {2, 13, 125, 1250, 12'500}) {
    options.nodes = nodes;
    options.jobs = nodes * 100;
    Print(options, Measure(options));
  }
  for (const int jobs : {10'000, 100'000, 1'000'000}) {
    options.nodes = 1250;
    options.jobs = jobs;
    Print(options, Measure(options));
  }
  return 0;
}
