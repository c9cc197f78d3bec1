// A pool as an administrator describes it: which machines it is made of, who may use it, what one of its jobs and all
// of them together may have, and how they stand in line. Slurm's partition, Valohai's environment. Plain values;
// control/books/pool_book.h knows the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "engine/feature_expression.h"
#include "engine/policy.h"

namespace divvy {

/// As Slurm has it of partitions.
enum class PoolState {
  kUp,
  kDown,      // Jobs may be submitted, and none starts.
  kDrain,     // None may be submitted, and those that wait start.
  kInactive,  // Neither.
};

struct PoolRow {
  std::string name;

  // Its machines: those that any of these names, and those with the label pool=NAME.
  bool has_all = false;
  std::vector<std::string> nodes;
  std::string constraint;      // As --constraint of a job; empty: names none.
  FeatureCondition condition;  // What that means.

  // Who may use it; both empty: everybody. Else whoever either names.
  std::vector<std::string> users;
  std::vector<std::string> teams;  // And those below them: the job runs on the share of one of these.

  // One job.
  Duration max_time{0};      // 0: no limit.
  Duration default_time{0};  // Of one that names none; 0: as [jobs] says, else max_time.
  std::optional<int> min_gpus;
  std::optional<int> max_gpus;  // On all machines together; 0: none at all.
  int max_nodes = 0;            // 0: no limit.

  // All of its jobs that run; 0: no limit.
  int running = 0;
  int gpus = 0;

  std::optional<QueuePolicy> policy;           // Nothing: that of [queue].
  std::optional<PlacementStrategy> placement;  // Of jobs that name none; as above.
  int priority = 0;                            // Where pools share machines, jobs of a higher one go first.
  bool is_exclusive = false;                   // A job has its machines to itself.
  int jobs_per_gpu = 1;                        // So many share each GPU that they ask for whole (docs/sharing.md).
  bool is_default = false;                     // Of jobs that name none.
  PoolState state = PoolState::kUp;

  bool takes_jobs() const { return state == PoolState::kUp || state == PoolState::kDown; }
  bool starts_jobs() const { return state == PoolState::kUp || state == PoolState::kDrain; }
  bool is_capped() const { return running > 0 || gpus > 0; }
  friend bool operator==(const PoolRow&, const PoolRow&) = default;
};

/// "up"
constexpr std::string_view Name(PoolState state) {
  return state == PoolState::kUp      ? "up"
         : state == PoolState::kDown  ? "down"
         : state == PoolState::kDrain ? "drain"
                                      : "inactive";
}

/// "a,b" as its names in order, each once.
std::vector<std::string> PoolsIn(std::string_view list);

}  // namespace divvy
