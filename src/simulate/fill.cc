#include "simulate/fill.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <thread>

#include "base/text.h"
#include "engine/placement/demand.h"
#include "engine/placement/fleet.h"
#include "engine/placement/policy.h"
#include "simulate/cpu_seconds.h"
#include "simulate/repack.h"
#include "simulate/traces/random.h"

namespace divvy::simulate {
namespace {

using placement::Demand;
using placement::Fleet;
using placement::NodeState;
using placement::Scorer;
using placement::Shape;
using placement::ShapeIndex;
using placement::Spot;

// The random numbers of node order and arrivals come from separate streams, so that with one seed every policy sees the
// same of both.
constexpr std::uint64_t kNodeStream = 0x6e6f646573;
constexpr std::uint64_t kDrawStream = 0x6472617773;
// Half-life of the learned demand, in jobs.
constexpr double kDemandHalfLife = 8192;

/// CPU time of this thread, so other load on the machine does not count.
class Filling {
 public:
  Filling(const OpenbNodes& nodes, const std::vector<OpenbJob>& jobs, const FillOptions& options, Demand demand)
      : nodes_(nodes),
        jobs_(jobs),
        options_(options),
        demand_(std::move(demand)),
        capacity_by_model_(nodes.capacity_by_model()),
        capacity_(nodes.capacity_parts()) {}

  FillRun Run(std::uint64_t seed) const {
    FillRun run;
    run.seed = seed;
    const std::vector<std::uint32_t> arrivals = Arrivals(jobs_, capacity_, options_.fill, seed);
    std::vector<NodeState> order = nodes_.nodes;
    Random(seed ^ kNodeStream).Shuffle(std::span(order));
    Random draws(seed ^ kDrawStream);
    const bool is_online = options_.policy == "online";
    const bool is_random = options_.policy == "random";
    placement::RunningDemand learned(kDemandHalfLife);
    std::int64_t next_lesson = 16;

    const double start = CpuSeconds();
    Fleet fleet(std::move(order),
                is_online ? MakeScorer(Demand(), 0) : MakeScorer(demand_, static_cast<double>(jobs_.size())));
    std::vector<ShapeIndex> shapes;
    for (const OpenbJob& job : jobs_) shapes.push_back(fleet.Know(job.shape));
    Repacker repacker(fleet, options_.moves_per_job);
    std::vector<double> sums;
    std::vector<std::int64_t> counts;
    std::int64_t asked = 0, allocated = 0;
    for (const std::uint32_t arrival : arrivals) {
      const Shape& shape = jobs_[arrival].shape;
      if (is_online) {
        learned.Add(shape);
        if (learned.seen() >= next_lesson) {
          fleet.SetScorer(MakeScorer(learned.Snapshot(), learned.Requests()));
          next_lesson = std::min(next_lesson + next_lesson / 4, next_lesson + 1024);
        }
      }
      std::optional<Spot> spot;
      if (is_random) {
        const std::uint64_t node_draw = draws.Next();
        spot = fleet.FindAnywhere(shapes[arrival], node_draw, draws.Next());
      } else {
        spot = fleet.Find(shapes[arrival]);
      }
      asked += shape.gpu_parts();
      if (spot) {
        fleet.Take(shapes[arrival], *spot);
        if (options_.moves_per_job > 0) repacker.Started(shapes[arrival], *spot);
      }
      const bool is_saved =
          !spot && shape.gpus > 0 && options_.moves_per_job > 0 && repacker.StartByMoves(shapes[arrival]);
      run.saved += is_saved;
      run.refused += !spot && !is_saved;
      if (spot || is_saved) allocated += shape.gpu_parts();
      const auto load = static_cast<std::size_t>((200 * asked + capacity_) / (2 * capacity_));
      sums.resize(std::max(sums.size(), load + 1), 0);
      counts.resize(sums.size(), 0);
      sums[load] += 100 * static_cast<double>(allocated) / static_cast<double>(capacity_);
      ++counts[load];
    }
    run.cpu_seconds = CpuSeconds() - start;
    run.moves = repacker.moves();
    run.arrived = static_cast<std::int64_t>(arrivals.size());
    double known = 0;
    for (std::size_t load = 0; load < sums.size(); ++load) {
      if (counts[load] > 0) known = sums[load] / static_cast<double>(counts[load]);
      run.allocation_percent.push_back(known);
    }
    return run;
  }

 private:
  std::shared_ptr<const Scorer> MakeScorer(const Demand& demand, double requests) const {
    return placement::MakeScorer(options_.policy == "online" ? "default" : options_.policy, demand, requests,
                                 capacity_by_model_);
  }

  const OpenbNodes& nodes_;
  const std::vector<OpenbJob>& jobs_;
  const FillOptions& options_;
  Demand demand_;
  std::vector<std::int64_t> capacity_by_model_;
  std::int64_t capacity_;
};

}  // namespace

const std::vector<std::string_view>& FillPolicies() {
  static const std::vector<std::string_view> policies = {"default",  "online",     "fgd",       "best-fit",
                                                         "dot-prod", "clustering", "packing",   "random",
                                                         "pack",     "spread",     "sequential"};
  return policies;
}

std::vector<std::uint32_t> Arrivals(const std::vector<OpenbJob>& jobs, std::int64_t capacity_parts, double fill,
                                    std::uint64_t seed) {
  Random random(seed);
  const auto target = static_cast<std::int64_t>(std::llround(fill * static_cast<double>(capacity_parts)));
  std::vector<std::uint32_t> arrivals(jobs.size());
  std::int64_t asked = 0;
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    arrivals[job] = job;
    asked += jobs[job].shape.gpu_parts();
  }
  random.Shuffle(std::span(arrivals));
  // The order is random, so removing the last job removes a random one.
  while (asked > target && !arrivals.empty()) {
    asked -= jobs[arrivals.back()].shape.gpu_parts();
    arrivals.pop_back();
  }
  while (asked < target) {
    const auto job = static_cast<std::uint32_t>(random.Below(jobs.size()));
    // As in the published experiment: the check for the end counts one GPU of the job, the sum counts all of them.
    if (asked + jobs[job].shape.parts > target) break;
    arrivals.push_back(job);
    asked += jobs[job].shape.gpu_parts();
  }
  return arrivals;
}

Result<FillResult> RunFill(const OpenbNodes& nodes, const std::vector<OpenbJob>& jobs, const FillOptions& options) {
  if (std::ranges::find(FillPolicies(), options.policy) == FillPolicies().end())
    return InvalidArgument("there is no placement policy '" + options.policy + "'");
  std::vector<Shape> shapes;
  for (const OpenbJob& job : jobs) shapes.push_back(job.shape);
  const Filling filling(nodes, jobs, options, placement::CountShapes(shapes));

  FillResult result;
  result.policy = options.policy;
  result.gpus = nodes.capacity_parts() / placement::kGpuParts;
  result.runs.resize(options.seeds.size());
  std::atomic<std::size_t> next{0};
  std::mutex done;
  const auto work = [&] {
    for (std::size_t run = next++; run < options.seeds.size(); run = next++) {
      result.runs[run] = filling.Run(options.seeds[run]);
      const std::lock_guard lock(done);
      if (options.on_run_done) options.on_run_done();
    }
  };
  std::vector<std::jthread> others;
  for (unsigned thread = 1; thread < std::min<std::size_t>(options.threads, options.seeds.size()); ++thread)
    others.emplace_back(work);
  work();
  others.clear();
  return result;
}

std::optional<double> FillResult::MeanAt(int load) const {
  double sum = 0;
  for (const FillRun& run : runs) {
    if (run.allocation_percent.size() <= static_cast<std::size_t>(load)) return std::nullopt;
    sum += run.allocation_percent[static_cast<std::size_t>(load)];
  }
  return runs.empty() ? std::nullopt : std::optional(sum / static_cast<double>(runs.size()));
}

double FillResult::DeviationAt(int load) const {
  const std::optional<double> mean = MeanAt(load);
  if (!mean || runs.size() < 2) return 0;
  double squares = 0;
  for (const FillRun& run : runs) {
    const double off = run.allocation_percent[static_cast<std::size_t>(load)] - *mean;
    squares += off * off;
  }
  return std::sqrt(squares / static_cast<double>(runs.size() - 1));
}

}  // namespace divvy::simulate
