// Collects the waiting jobs and the nodes as input for engine/growth, which decides which nodes to request from
// providers; and describes the shapes (kinds of nodes) that providers offer to the controller.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "control/controller/controller.h"
#include "engine/growth/growth.h"
#include "engine/pool_row.h"
#include "model/growth_wishes.h"
#include "providers/provisioner.h"

namespace divvy::providers {

/// Returns a scheduler with the nodes that providers offer, as if these existed. Jobs that fit on them are not refused
/// as impossible (Scheduler::SetOffers). There are several nodes of each shape, as far as the limits allow, so that
/// jobs on several nodes fit too.
std::shared_ptr<const Scheduler> OfferedNodes(const std::vector<Provider>& providers,
                                              const std::vector<PoolRow>& pools);

/// Returns whether a GPU can be one of a shape whose `gpu_model` is `configured`. Each piece of it must be part of the
/// GPU's name, so "V100-16GB" is a "Tesla V100-SXM2-16GB" (see MatchesGpuType). A size at its end may be missing in
/// that name; then the GPU's memory must be about that size.
bool IsGpuOfModel(std::string_view configured, const GpuFacts& gpu);
/// Returns what is wrong with the GPUs of a new node whose shape has `configured` as its `gpu_model`; empty: nothing.
/// Also if they are of this model but `--gpu-type` with it does not match them: then jobs with it are accepted because
/// of the shape, and never start on its nodes.
std::string ModelProblem(std::string_view configured, const GpuFacts& gpu);

/// Returns what nodes of providers cost for the jobs of each team and of the teams below it, by the team's name.
/// Contains all teams that have a limit on cost or have caused some.
std::map<std::string, Provisioner::Spending> TeamSpending(const TeamRegistry& teams, const Provisioner& provisioner,
                                                          Time now);
struct TeamMoney {
  Money left;        // The further price per hour. Negative if a limit was lowered.
  std::string team;  // The team whose limit this is.
};
/// Returns by how much the hourly price of nodes for the team's jobs may still rise: the least that the limits of the
/// team and of the teams above it allow. nullopt: no limit. A monthly limit allows the hourly price with which the rest
/// of the month's money lasts for GrowthRules::budget_reserve.
std::optional<TeamMoney> TeamMoneyLeft(const TeamRegistry& teams,
                                       const std::map<std::string, Provisioner::Spending>& spending,
                                       std::string_view team);

/// Facts about a provider's node that are remembered from one decision to the next.
struct NodeMemory {
  Time idle_since = kNever;          // kNever: jobs run on it.
  std::vector<JobId> requested_for;  // Some of the jobs for which it was requested.
};

/// About a job for which nodes were requested and returned without having run a job.
struct Unused {
  int times = 0;
  Time not_before = kNoTime;  // No further node is requested for the job before this time.
};

struct GrowthFeed {
  growth::GrowthInput input;
  std::shared_ptr<const growth::Catalogue> catalogue;  // Of `input`.
  // A demand is a group of waiting jobs (or arrays) with equal requests, by its index in `input`.
  std::vector<std::vector<JobId>> jobs;    // By demand: some of its jobs or arrays, in the order of the queue.
  std::map<JobId, std::size_t> demand_of;  // By job or array: its demand. At most kJobsKept of each demand.
  std::vector<std::string> nodes;          // By OwnedNode::id: the node's name.
};
inline constexpr std::size_t kJobsKept = 1'000;

/// A job that is not submitted, for which a decision shall tell which nodes would be requested (divvy submit
/// --dry-run).
struct Imagined {
  JobId id;  // An id that no job has.
  const JobSpec* spec = nullptr;
  std::uint64_t elements = 0;  // 0: a single job.
};

/// Collects the input of a decision. `memory`: by node name. `wishes`: what jobs (or arrays as a whole) want of nodes
/// on demand; for jobs that are missing there, no node is requested, because their wishes may forbid it. The demand of
/// `imagined` is the last one. Cost: linear in the nodes, running jobs and job classes, and in the waiting jobs.
GrowthFeed CollectGrowth(const Controller& controller, const Provisioner& provisioner,
                         const std::map<std::string, NodeMemory>& memory, const std::map<JobId, Unused>& unused,
                         const std::map<JobId, GrowthWishes>& wishes, Time now,
                         const std::optional<Imagined>& imagined = {});

}  // namespace divvy::providers
