// Describes the controller's waiting jobs and nodes to the decision about nodes (engine/growth), and the shapes of the
// providers to the controller.
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

/// The nodes that providers offer, as if they existed: requests that fit on them are not impossible
/// (Scheduler::SetOffers). Several of each shape, as far as the limits allow, so that gangs fit.
std::shared_ptr<const Scheduler> OfferedNodes(const std::vector<Provider>& providers,
                                              const std::vector<PoolRow>& pools);

/// The cost of nodes for the jobs of a team and of the teams below it, by name of the team. Lists all teams with a
/// limit or a cost.
std::map<std::string, Provisioner::Spending> TeamSpending(const TeamRegistry& teams, const Provisioner& provisioner,
                                                          Time now);
struct TeamMoney {
  Money left;        // The further price per hour. Negative if a limit was lowered.
  std::string team;  // The team whose limit this is.
};
/// Returns what the limits of the team, and of those above it, allow. Not set: no limit. The rest of a month's money
/// must last for GrowthRules::budget_reserve.
std::optional<TeamMoney> TeamMoneyLeft(const TeamRegistry& teams,
                                       const std::map<std::string, Provisioner::Spending>& spending,
                                       std::string_view team);

/// Memory about a joined node between decisions.
struct NodeMemory {
  Time idle_since = kNever;          // kNever: it has jobs.
  std::vector<JobId> requested_for;  // Some of the jobs.
};

/// A job for which nodes were returned unused.
struct Unused {
  int times = 0;
  Time not_before = kNoTime;
};

struct GrowthFeed {
  growth::GrowthInput input;
  std::shared_ptr<const growth::Catalogue> catalogue;  // Of `input`.
  std::vector<std::vector<JobId>> jobs;                // By demand: some of its entries, the first in the queue first.
  std::map<JobId, std::size_t> demand_of;              // By entry: at most kJobsKept of each demand.
  std::vector<std::string> nodes;                      // By OwnedNode::id: the node's name.
};
inline constexpr std::size_t kJobsKept = 1'000;

/// A submission that is not made: what would its nodes be?
struct Imagined {
  JobId id;  // Not the id of a job.
  const JobSpec* spec = nullptr;
  std::uint64_t elements = 0;  // 0: a single job.
};

/// Collects the input of a decision. `memory`: by node name. `wishes`: of jobs, or of arrays as a whole; for jobs that
/// are not listed, no node is requested, because they may rule it out. The demand of `imagined` is the last. Cost:
/// linear in the nodes, running jobs and job classes, and in the waiting jobs.
GrowthFeed CollectGrowth(const Controller& controller, const Provisioner& provisioner,
                         const std::map<std::string, NodeMemory>& memory, const std::map<JobId, Unused>& unused,
                         const std::map<JobId, GrowthWishes>& wishes, Time now,
                         const std::optional<Imagined>& imagined = {});

}  // namespace divvy::providers
