// A pool as the administrator defines it: its nodes, who may use it, limits per job and in total, and its queue policy.
// Corresponds to Slurm's partition and Valohai's environment. Plain values; control/books/pool_registry.h has the
// rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/feature_expression.h"
#include "engine/policy.h"

namespace divvy {

/// The same states as Slurm's partitions.
enum class PoolState {
  kUp,
  kDown,      // Jobs may be submitted, but none starts.
  kDrain,     // No job may be submitted; waiting jobs still start.
  kInactive,  // No job may be submitted and none starts.
};

struct PoolRow {
  std::string name;

  // The pool's nodes: those that match any of these fields, and those with the label pool=NAME.
  // All nodes belong to the pool.
  bool has_all = false;
  std::vector<std::string> nodes;
  std::string constraint;      // An expression as in a job's --constraint. Empty: matches no node.
  FeatureCondition condition;  // `constraint`, parsed.

  // Users who may use it. Both empty: everyone; otherwise users named by either list.
  std::vector<std::string> users;
  std::vector<std::string> teams;  // Includes the teams below them. The job runs on the share of one of these.

  // Limits of one job.
  Duration max_time{0};      // 0: no limit.
  Duration default_time{0};  // For jobs that specify none; 0: the default of [jobs], otherwise max_time.
  std::optional<int> min_gpus;
  std::optional<int> max_gpus;  // On all nodes together; 0: jobs get no GPUs.
  int max_nodes = 0;            // 0: no limit.

  // Limits of all running jobs of the pool together; 0: no limit.
  int running = 0;
  int gpus = 0;

  std::optional<QueuePolicy> policy;           // Unset: the policy of [queue].
  std::optional<PlacementStrategy> placement;  // For jobs that specify none. Unset: the default placement.
  int priority = 0;                            // If pools share nodes, jobs of a pool with higher priority go first.
  bool is_exclusive = false;                   // A job gets its nodes exclusively.
  int jobs_per_gpu = 1;                        // This many jobs share each GPU that they request as whole GPUs
                                               // (docs/sharing.md).
  bool is_default = false;                     // The pool of jobs that name none.
  PoolState state = PoolState::kUp;

  bool takes_jobs() const { return state == PoolState::kUp || state == PoolState::kDown; }
  bool starts_jobs() const { return state == PoolState::kUp || state == PoolState::kDrain; }
  bool is_capped() const { return running > 0 || gpus > 0; }
  friend bool operator==(const PoolRow&, const PoolRow&) = default;
};

/// Returns the name of a pool's state, such as "up".
constexpr std::string_view Name(PoolState state) {
  return state == PoolState::kUp      ? "up"
         : state == PoolState::kDown  ? "down"
         : state == PoolState::kDrain ? "drain"
                                      : "inactive";
}

/// Splits "a,b" into its names, in order and without duplicates.
std::vector<std::string> PoolsIn(std::string_view list);

}  // namespace divvy
