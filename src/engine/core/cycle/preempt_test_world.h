// A small cluster whose jobs follow orders: victims leave and are queued again.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/core/state/test_world.h"

namespace divvy::core {

class PreemptWorld {
 public:
  PreemptWorld(int nodes, int gpus, Rules rules) : cluster(MakeCluster(nodes, gpus, rules)) {
    cluster.SetScorer(placement::MakeSimpleScorer("pack"));
  }

  /// Sets teams without hierarchy, numbered from 1.
  void SetTeams(std::vector<std::pair<std::int64_t, std::uint64_t>> quotas_and_weights) {
    std::vector<TeamSpec> specs;
    for (const auto& [quota, weight] : quotas_and_weights) {
      TeamSpec spec;
      spec.name = "t" + std::to_string(specs.size() + 1);
      spec.quota_parts = quota * placement::kGpuParts;
      spec.weight = weight;
      specs.push_back(spec);
    }
    cluster.teams().Reset(std::move(specs));
    cluster.RecountTeams(At(0));
  }

  Job Make(std::uint64_t id, const ResourceRequest& request, int priority = 0,
           Preemptible preemptible = Preemptible::kRequeue, TeamIndex team = kRootTeam) {
    Job job = MakeJob(cluster, id, request, At(static_cast<std::int64_t>(id)));
    job.priority = priority;
    job.preemptible = preemptible;
    job.team = team;
    jobs[id] = job;
    return job;
  }
  void Run(const Job& job, std::vector<TaskPlacement> placements, std::int64_t started = 0) {
    cluster.Adopt(job, std::move(placements), At(started), At(started));
  }
  void Wait(const Job& job, std::int64_t now = 100) { cluster.Put(job, At(now)); }

  /// Decides, and lets victims leave.
  Plan Round(std::int64_t now) {
    const Plan plan = cluster.Decide(At(now));
    Leave(plan, now);
    return plan;
  }
  void Leave(const Plan& plan, std::int64_t now) {
    for (const Preemption& preemption : plan.preemptions) {
      if (preemption.is_all) {
        Requeue(preemption.job, now);
      } else {
        cluster.GiveBack(preemption.job, preemption.placements, At(now));
      }
    }
    for (const Move& move : plan.moves) {
      if (cluster.running(move.job)->is_leaving) {
        Requeue(move.job, now);
      } else {
        cluster.GiveBack(move.job, move.from, At(now));
      }
    }
  }
  void Requeue(JobId id, std::int64_t now) {
    cluster.Finish(id, At(now));
    cluster.Put(jobs.at(id.value()), At(now));
  }

  std::vector<std::uint64_t> Running() const {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, job] : jobs) {
      if (cluster.running(JobId(id)) != nullptr) ids.push_back(id);
    }
    return ids;
  }

  Cluster cluster;
  std::map<std::uint64_t, Job> jobs;
};

inline std::vector<std::uint64_t> TakenBy(const Plan& plan) {
  std::vector<std::uint64_t> ids;
  for (const Preemption& preemption : plan.preemptions) ids.push_back(preemption.job.value());
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace divvy::core
