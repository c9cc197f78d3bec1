// A small cluster in virtual time that follows the rule's plans and checks what must hold after each of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/time_sharing/time_sharing.h"

namespace divvy::time_sharing {

class TestWorld {
 public:
  struct Job {
    Duration run_time{0};
    Time submitted{};
    Time first_start = kNoTime;
    Time end = kNoTime;
    int parkings = 0;
  };

  TestWorld(int nodes, int gpus, const Options& options, double host_memory = 1) : options_(options) {
    world_.nodes.assign(static_cast<std::size_t>(nodes), {gpus, static_cast<int>(gpus * host_memory)});
  }

  /// Submits a job now. Call Decide, or Run, afterwards.
  JobId Submit(int gpus, Duration run_time, bool can_park = true) {
    const JobId id(jobs.size() + 1);
    JobView view;
    view.id = id;
    view.gpus = gpus;
    view.can_park = can_park && gpus <= world_.nodes.front().gpus;
    view.queued_at = view.since = now;
    world_.jobs.push_back(std::move(view));
    jobs[id] = {run_time, now};
    return id;
  }

  /// Lets time pass until `until`; jobs end and the rule decides on the way.
  void Run(Time until) {
    for (;;) {
      Decide();
      Time next = std::min(wakeup_, NextEnd());
      if (next >= until) break;
      Advance(next);
    }
    Advance(until);
    Decide();
  }

  void Decide() {
    EraseEnded();
    const Plan plan = time_sharing::Decide(world_, now, options_);
    EXPECT_GT(plan.next_wakeup, now);
    wakeup_ = plan.next_wakeup;
    for (const Action& action : plan.actions) Apply(action);
    last = plan.actions;
    Check();
  }

  const JobView* View(JobId id) const {
    const auto at = std::ranges::find(world_.jobs, id, &JobView::id);
    return at == world_.jobs.end() ? nullptr : &*at;
  }
  Phase PhaseOf(JobId id) const { return View(id)->phase; }
  bool IsDone(JobId id) const { return jobs.at(id).end != kNoTime; }
  std::size_t unfinished() const { return world_.jobs.size(); }
  void SetGangNodes(int nodes) { world_.gang_nodes = nodes; }

  Time now = Time(std::chrono::hours(1000));
  std::map<JobId, Job> jobs;
  std::vector<Action> last;  // The last decision.

 private:
  Time NextEnd() const {
    Time next = kNever;
    for (const JobView& job : world_.jobs) {
      if (job.phase == Phase::kRunning)
        next = std::min(next, std::max(now, job.since) + jobs.at(job.id).run_time - job.ran);
    }
    return next;
  }

  void Advance(Time to) {
    for (JobView& job : world_.jobs) {
      if (job.phase == Phase::kWaiting) continue;
      const Duration passed = to - now;
      const Duration ran = job.phase == Phase::kRunning ? std::clamp(to - job.since, Duration(0), passed) : Duration(0);
      job.ran += ran;
      job.lost += passed - ran;
      if (job.is_settled) job.lost_settled += passed - ran;
      if (!job.is_settled || !job.can_park || !options_.at_most) continue;
      EXPECT_GE(BudgetLeft(job, options_), -Duration(1ms)) << "job " << job.id.value() << " is above its contract";
    }
    now = to;
  }

  void EraseEnded() {
    std::erase_if(world_.jobs, [&](const JobView& job) {
      Job& known = jobs.at(job.id);
      if (job.phase != Phase::kRunning || job.ran < known.run_time) return false;
      known.end = now;
      return true;
    });
  }

  void Apply(const Action& action) {
    JobView& job = *std::ranges::find(world_.jobs, action.job, &JobView::id);
    switch (action.kind) {
      case ActionKind::kSettle:
        EXPECT_FALSE(job.is_settled);
        job.is_settled = true;
        return;
      case ActionKind::kPark:
        EXPECT_TRUE(job.can_park && job.phase == Phase::kRunning);
        EXPECT_TRUE(action.other.is_set());
        job.phase = Phase::kParked;
        job.since = now;
        ++jobs.at(job.id).parkings;
        return;
      case ActionKind::kStart:
        EXPECT_EQ(job.phase, Phase::kWaiting);
        jobs.at(job.id).first_start = now + action.delay;
        break;
      case ActionKind::kReturn:
        EXPECT_EQ(job.phase, Phase::kParked);
        EXPECT_EQ(job.place, action.place) << "a parked job returns to its own node";
        break;
    }
    job.phase = Phase::kRunning;
    job.since = now + action.delay;
    job.place = action.place;
    job.is_settled = job.is_settled || !job.can_park;
  }

  void Check() {
    std::vector<int> running(world_.nodes.size()), held(running), settled(running);
    for (const JobView& job : world_.jobs) {
      int gpus = 0;
      for (const NodeGpus& part : job.place) {
        gpus += part.gpus;
        held[part.node] += part.gpus;
        if (job.phase == Phase::kRunning) running[part.node] += part.gpus;
        if (job.is_settled) settled[part.node] += part.gpus;
      }
      EXPECT_EQ(gpus, job.phase == Phase::kWaiting ? 0 : job.gpus);
    }
    for (std::size_t i = 0; i < running.size(); ++i) {
      EXPECT_LE(running[i], world_.nodes[i].gpus) << "a GPU has two owners";
      EXPECT_LE(settled[i], world_.nodes[i].gpus) << "settled jobs do not fit beside each other";
      EXPECT_LE(held[i], world_.nodes[i].gpus + world_.nodes[i].parkable_gpus) << "the host memory is too small";
    }
  }

  Options options_;
  World world_;
  Time wakeup_ = kNever;
};

}  // namespace divvy::time_sharing
