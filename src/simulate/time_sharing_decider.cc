#include "simulate/time_sharing_decider.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace divvy::simulate {
namespace {

using time_sharing::Action;
using time_sharing::ActionKind;
using time_sharing::JobView;

/// How long the need of gangs for nodes is remembered.
constexpr Duration kGangMemory = std::chrono::days(7);

/// The largest value of the recent past.
class RecentMaximum {
 public:
  int Add(Time now, int value) {
    while (!values_.empty() && values_.back().second <= value) values_.pop_back();
    values_.emplace_back(now, value);
    while (values_.size() > 1 && values_[1].first < now - kGangMemory) values_.pop_front();
    return values_.front().second;
  }

 private:
  std::deque<std::pair<Time, int>> values_;  // By time, with falling values.
};

/// A queue, and the nodes that only it uses. `world.jobs` has its waiting, running and parked jobs.
struct Pool {
  time_sharing::World world;
  std::vector<std::uint32_t> nodes;  // Indexes in the cluster.
  RecentMaximum gang_nodes;
  std::int64_t gpus = 0;
  int largest = 0;  // GPUs of the largest node.
  Time wakeup = kNever;
  bool has_changed = false;

  int NodesOf(int job_gpus) const { return (job_gpus + largest - 1) / largest; }
};

JobIndex IndexOf(JobId id) { return static_cast<JobIndex>(id.value() - 1); }

class TimeSharing : public Decider {
 public:
  TimeSharing(const TraceCluster& cluster, const TimeSharingRule& rule) : rule_(rule) {
    std::uint32_t next = 0;
    for (const NodeGroup& group : cluster.groups) {
      Pool& pool = pools_[group.team];
      for (int i = 0; i < group.count; ++i) {
        pool.world.nodes.push_back({group.gpus, static_cast<int>(std::lround(rule.host_memory * group.gpus))});
        pool.nodes.push_back(next++);
      }
      pool.gpus += std::int64_t{group.count} * group.gpus;
      pool.largest = std::max(pool.largest, group.gpus);
    }
  }

  void Submit(JobIndex index, const TraceJob& trace_job, Time now) override {
    const auto own = pools_.find(trace_job.team);
    const auto pool = own != pools_.end() ? own : pools_.find("");
    if (pool == pools_.end() || trace_job.gpus > pool->second.gpus || pool->second.largest == 0) return;
    JobView job;
    job.id = JobId(std::uint64_t{index} + 1);
    job.gpus = trace_job.gpus;
    job.can_park = job.gpus <= std::min(rule_.parkable_gpus, pool->second.largest);
    job.queued_at = job.since = now;
    pool->second.world.jobs.push_back(std::move(job));
    pool->second.has_changed = true;
    pool_of_[index] = &pool->second;
  }

  void Ended(JobIndex index, Time) override {
    Pool& pool = *pool_of_.extract(index).mapped();
    std::erase_if(pool.world.jobs, [&](const JobView& job) { return IndexOf(job.id) == index; });
    pool.has_changed = true;
  }

  Decision Decide(Time now) override {
    Decision decision;
    for (auto& [team, pool] : pools_) {
      Advance(pool, now);
      if (!std::exchange(pool.has_changed, false) && now < pool.wakeup) continue;
      const time_sharing::Plan plan = time_sharing::Decide(pool.world, now, rule_.options);
      pool.wakeup = plan.next_wakeup;
      for (const Action& action : plan.actions) Apply(pool, action, now, decision);
    }
    last_ = now;
    return decision;
  }

  Time NextWakeup() const override {
    Time next = kNever;
    for (const auto& [team, pool] : pools_) next = std::min(next, pool.wakeup);
    return next;
  }

  std::optional<ContractFigures> contract() const override { return figures_; }

 private:
  /// Lets the time since the last decision pass.
  void Advance(Pool& pool, Time now) {
    int gang_nodes = 0;
    for (JobView& job : pool.world.jobs) {
      if (job.gpus > pool.largest) gang_nodes += pool.NodesOf(job.gpus);
      if (job.phase == time_sharing::Phase::kWaiting) continue;
      const Duration passed = now - last_;
      const bool is_running = job.phase == time_sharing::Phase::kRunning;
      const Duration ran = is_running ? std::clamp(now - job.since, Duration(0), passed) : Duration(0);
      job.ran += ran;
      job.lost += passed - ran;
      if (job.is_settled) job.lost_settled += passed - ran;
      Note(job, ran);
    }
    pool.world.gang_nodes = pool.gang_nodes.Add(now, std::min(gang_nodes, static_cast<int>(pool.world.nodes.size())));
  }

  void Note(const JobView& job, Duration ran) {
    if (!job.can_park) return;
    const double gpu_seconds = ToSeconds(ran) * job.gpus;
    if (job.is_settled) figures_.settled_gpu_hours += gpu_seconds / 3600;
    else if (job.ran * job.gpus >= rule_.options.trial) figures_.unsettled_gpu_hours += gpu_seconds / 3600;
    if (!job.is_settled || !rule_.options.at_most) return;
    const double excess = -ToSeconds(BudgetLeft(job, rule_.options));
    figures_.worst_excess_seconds = std::max(figures_.worst_excess_seconds, excess);
    if (excess > kTolerance) above_.insert(job.id);
    figures_.jobs_above = static_cast<std::int64_t>(above_.size());
  }

  void Apply(Pool& pool, const Action& action, Time now, Decision& decision) {
    JobView& job = *std::ranges::find(pool.world.jobs, action.job, &JobView::id);
    switch (action.kind) {
      case ActionKind::kSettle:
        job.is_settled = true;
        ++figures_.jobs_settled;
        return;
      case ActionKind::kPark:
        job.phase = time_sharing::Phase::kParked;
        job.since = now;
        decision.stops.push_back({IndexOf(job.id), true});
        return;
      case ActionKind::kStart:
      case ActionKind::kReturn:
        break;
    }
    job.is_settled = job.is_settled || !job.can_park;
    job.phase = time_sharing::Phase::kRunning;
    job.since = now + action.delay;
    job.place = action.place;
    Started started{.job = IndexOf(job.id), .gpus = {}, .speed = 1, .delay = action.delay};
    for (const time_sharing::NodeGpus& part : action.place) started.gpus.push_back({pool.nodes[part.node], part.gpus});
    decision.starts.push_back(std::move(started));
  }

  static constexpr double kTolerance = 0.001;

  TimeSharingRule rule_;
  std::map<std::string, Pool> pools_;  // By team. "": the queue of all others.
  std::map<JobIndex, Pool*> pool_of_;
  std::set<JobId> above_;
  ContractFigures figures_;
  Time last_{};
};

}  // namespace

std::unique_ptr<Decider> MakeTimeSharing(const TraceCluster& cluster, const TimeSharingRule& rule) {
  return std::make_unique<TimeSharing>(cluster, rule);
}

}  // namespace divvy::simulate
