// Why a waiting job waits, when it will start, and what could never run: the answers of core/explain, completed with
// what only the controller knows.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "engine/core/explain/explain.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

/// Explains why a job waits and when it will start, as of the scheduler's last decision. Unlike core::Explain, the
/// blockers include holds, dependencies, and elastic jobs that were asked to release GPUs. `spread`: optional; returns
/// how long similar jobs ran.
core::Explanation Explain(const Scheduler& scheduler, JobId entry, Time now, const core::SpreadOf& spread = {},
                          std::uint64_t members_before = 0);

/// Returns only the estimated start of Explain, which costs less. Empty for a job that does not wait.
core::Estimate StartOf(const Scheduler& scheduler, JobId entry, Time now, const core::SpreadOf& spread = {});

/// The blocker that Explain would name first, without its holders, for listings of many jobs at one moment. Jobs with
/// the same request behind the same reservations share one search.
/// Requires: the scheduler does not change while this object is used.
class FirstBlockers {
 public:
  FirstBlockers(const Scheduler& scheduler, Time now);
  /// Returns the first thing that keeps the waiting job from starting; nullopt if the next scheduling cycle starts it.
  std::optional<core::Blocker> Find(JobId entry);

 private:
  /// Everything that the blockers of an entry depend on, except its own hold, dependencies and begin time: its class,
  /// the reservations before it and its own, the first blocked job in strict order, and the request as its texts quote
  /// it.
  using Like = std::tuple<core::ClassIndex, std::vector<JobId>, JobId, JobId, Request, std::string, PlacementStrategy>;

  const Scheduler& scheduler_;
  Time now_;
  core::Names names_;
  std::map<Like, std::optional<core::Blocker>> known_;
};

/// Fails if a GPU with this much memory cannot give this fraction. `whose`: names the GPU in the error, such as "the
/// largest of this server" or "GPU 3".
Status CheckPortion(const GpuPortion& portion, Bytes gpu_memory, const std::string& whose);

/// Refuses with kLimitExceeded what the present nodes could never run; the message names the nearest possible request:
/// "asks for 9 GPUs, but this server has 8; --gpus 8 is the maximum". GPUs that are restricted or fenced
/// count as present, because they may come back. `pool`: only nodes of this pool; empty: all nodes. A request that fits
/// on nodes that could be added (Scheduler::SetOffers) is possible.
Status CheckFeasible(const Scheduler& scheduler, const Request& request, const std::string& pool = {});
/// Like CheckFeasible, but also refuses a request that would only fit on nodes that could be added.
Status CheckFeasibleHere(const Scheduler& scheduler, const Request& request, const std::string& pool = {});

/// Fails if the limit or the quota of the team, or of a team above it, never allows the request. The error says what
/// would have to change.
Status CheckTeamFeasible(const Scheduler& scheduler, const Request& request, const std::string& pool,
                         const std::string& team, Preemptible preemptible);

/// Returns waiting jobs and arrays in queue order, at most `limit` of them (0: all). Those that cannot start yet, such
/// as held ones, come last.
std::vector<JobId> QueueOrder(const Scheduler& scheduler, Time now, std::size_t limit);

}  // namespace divvy
