// Random clusters for tests of explanations: mixed hardware, teams, limits, gangs, GPU fractions, elastic jobs, advance
// reservations, GPUs out of service, and jobs that end early or late.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/state/test_world.h"

namespace divvy::core {

class RandomWorld {
 public:
  explicit RandomWorld(std::uint64_t seed, bool may_be_strict = true, bool has_gpu_caps = false,
                       bool has_slices = false)
      : draws_(seed), has_slices_(has_slices), cluster_(RulesOf(may_be_strict)) {
    const int gpus = 1 << draws_.Below(4);
    nodes_ = 1 + draws_.Below(7);
    for (int i = 0; i < nodes_; ++i) {
      NodeFacts facts;
      facts.name = "n" + std::to_string(i);
      facts.cpu_milli = 8'000 * (1 + draws_.Below(3));
      facts.memory_mib = 65'536 * (1 + draws_.Below(3));
      facts.gpus = gpus;
      facts.node_class = facts.gpu_model = draws_.Below(2);
      facts.rack = static_cast<std::uint32_t>(i / 2);
      facts.block = static_cast<std::uint32_t>(i / 4);
      if (has_slices_) {
        facts.gpu_memory_mib.assign(static_cast<std::size_t>(gpus), 81'920);
        facts.sliceable = GpuSet::FromBits(draws_.Next()) & GpuSet::FirstN(gpus);
      }
      cluster_.AddNode(facts);
    }
    if (draws_.Below(3) == 0) MakeTeams(gpus);
    cap_ = cluster_.AddCap("group eval", 1 + draws_.Below(4));
    for (int user = 0; has_gpu_caps && user < 2; ++user) {
      user_caps_.push_back(cluster_.AddCap("user " + std::to_string(user), 0,
                                           placement::kGpuParts / 2 * (1 + draws_.Below(2 * nodes_ * gpus))));
    }
    for (int i = 0; i < 8; ++i) asks_.push_back(RandomRequest(gpus));
  }

  Cluster& cluster() { return cluster_; }
  Time now() const { return At(now_); }
  const std::map<JobId, Job>& waiting() const { return waiting_; }
  int Below(int n) { return draws_.Below(n); }

  /// Advances time, ends and submits jobs, and runs decisions.
  void Step() {
    now_ += draws_.Below(300);
    for (auto at = ends_.begin(); at != ends_.end();) {
      if (at->second > now()) {
        ++at;
        continue;
      }
      cluster_.Finish(at->first, now());
      at = ends_.erase(at);
    }
    const int arrivals = draws_.Below(4);
    for (int i = 0; i < arrivals; ++i) Arrive();
    if (draws_.Below(25) == 0) {
      const auto node = static_cast<NodeIndex>(draws_.Below(nodes_));
      cluster_.SetUsable(node, GpuSet::FromBits(draws_.Next()), draws_.Below(3) != 0);
    }
    if (draws_.Below(30) == 0) Reserve();
    Decide();
  }

  void Decide() {
    for (int round = 0; round < 5; ++round) {
      const Plan plan = cluster_.Decide(now());
      if (plan.starts.empty()) break;
      for (const Start& start : plan.starts) Note(start);
    }
  }

  static Job JobOf(const Job& job, const ResourceRequest& request, Cluster& cluster) {
    Job other = job;
    other.request = cluster.Know(request);
    return other;
  }

 private:
  Rules RulesOf(bool may_be_strict) {
    Rules rules;
    rules.order = static_cast<QueuePolicy>(draws_.Below(4));
    rules.escalate_after = std::chrono::minutes(1 + draws_.Below(60));
    if (may_be_strict && draws_.Below(8) == 0) rules.backfill = Backfill::kNone;
    return rules;
  }

  void MakeTeams(int gpus) {
    std::vector<TeamSpec> specs(3);
    for (std::size_t i = 0; i < specs.size(); ++i) {
      specs[i].name = "t" + std::to_string(i);
      if (draws_.Below(2) == 0) specs[i].quota_parts = placement::kGpuParts * (1 + draws_.Below(nodes_ * gpus));
      if (draws_.Below(3) == 0) specs[i].limit_parts = placement::kGpuParts * (1 + draws_.Below(nodes_ * gpus));
    }
    specs[2].parent = 1;
    cluster_.teams().Reset(specs);
    cluster_.RecountTeams(now());
    has_teams_ = true;
  }

  ResourceRequest RandomRequest(int gpus) {
    ResourceRequest request =
        draws_.Below(5) == 0 ? ShareRequest(1000 * (1 + draws_.Below(9)))
                             : GpuRequest(draws_.Below(gpus + 1), 1 + (draws_.Below(3) == 0 ? draws_.Below(3) : 0));
    Shape& shape = request.groups.front().alternatives.front();
    if (draws_.Below(2) == 0) shape.cpu_milli = 1000 * (1 + draws_.Below(12));
    if (draws_.Below(3) == 0) shape.memory_mib = 8'192 * (1 + draws_.Below(12));
    if (shape.gpus > 0 && draws_.Below(4) == 0) shape.models = placement::ModelSet{1} << draws_.Below(2);
    if (draws_.Below(8) == 0) {
      Shape other = shape;
      other.models = ~shape.models;
      if (other.models != 0 && shape.gpus > 0) request.groups.front().alternatives.push_back(other);
    }
    if (draws_.Below(3) == 0) request.locality = static_cast<Locality>(draws_.Below(4));
    request.requires_locality = draws_.Below(3) == 0;
    if (draws_.Below(5) == 0) request.groups.front().most += 2;
    if (has_slices_) MakeParts(request.groups.front());
    return request;
  }

  // Turns some requests into MIG instances, and gives fractions a random memory requirement.
  void MakeParts(TaskGroup& group) {
    if (draws_.Below(2) == 0) {
      const Shape slice = placement::SliceShape(static_cast<placement::MigProfile>(draws_.Below(6)));
      for (Shape& shape : group.alternatives) {
        shape.gpus = 1;
        shape.parts = slice.parts;
        shape.slice = slice.slice;
      }
    } else if (group.alternatives.front().is_share()) {
      const int memory = 8'192 * draws_.Below(11);
      for (Shape& shape : group.alternatives) shape.gpu_memory_mib = memory;
    }
  }

  void Arrive() {
    Job job = MakeJob(cluster_, next_id_, asks_[static_cast<std::size_t>(draws_.Below(8))], now(),
                      draws_.Below(2) == 0 ? Duration(0) : Duration(std::chrono::minutes(1 + draws_.Below(90))));
    job.priority = draws_.Below(10) == 0 ? draws_.Below(3) : 0;
    job.user = static_cast<UserIndex>(draws_.Below(2));
    if (has_teams_) job.team = static_cast<TeamIndex>(1 + draws_.Below(3));
    if (draws_.Below(4) == 0) job.preemptible = Preemptible::kRequeue;
    if (draws_.Below(8) == 0) job.begin = At(now_ + draws_.Below(900));
    if (draws_.Below(6) == 0) job.caps = {cap_};
    if (!user_caps_.empty()) job.caps.push_back(user_caps_[job.user]);
    if (draws_.Below(6) == 0) job.count = static_cast<std::uint32_t>(1 + draws_.Below(5));
    if (draws_.Below(4) == 0) job.predicted = std::chrono::minutes(1 + draws_.Below(50));
    next_id_ += job.count + 1;
    cluster_.Put(job, now());
    waiting_[job.id] = job;
  }

  void Reserve() {
    AdvanceReservation advance;
    advance.id = ++reserved_;
    advance.request = cluster_.Know(GpuRequest(1));
    advance.user = static_cast<UserIndex>(draws_.Below(2));
    advance.from = At(now_ + draws_.Below(2000));
    advance.until = advance.from + std::chrono::seconds(600 + draws_.Below(3000));
    cluster_.Reserve(advance, now());
  }

  void Note(const Start& start) {
    const core::Run* run = cluster_.running(start.job);
    Time end = At(now_ + 1 + draws_.Below(4000));
    if (run->end != kNever && draws_.Below(4) != 0) end = std::min(end, run->end);
    ends_[start.job] = end;
    if (!cluster_.is_waiting(start.entry)) {
      waiting_.erase(start.entry);
    } else {
      waiting_[start.entry].count -= 1;
    }
  }

  Draws draws_;
  bool has_slices_ = false;
  Cluster cluster_;
  int nodes_ = 1;
  int now_ = 0;
  bool has_teams_ = false;
  CapIndex cap_ = 0;
  std::vector<CapIndex> user_caps_;  // Limits on GPUs; may be empty.
  std::vector<ResourceRequest> asks_;
  std::map<JobId, Time> ends_;
  std::map<JobId, Job> waiting_;
  std::uint64_t next_id_ = 1;
  std::uint64_t reserved_ = 0;
};

}  // namespace divvy::core
