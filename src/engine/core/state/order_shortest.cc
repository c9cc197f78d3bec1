// Priority, then predicted GPU time minus a credit for the time waited (PoolRules::ageing), so no job starves. A
// one-GPU job that has waited as long as its predicted length ranks like a new job of length 0. A job without a
// prediction counts as a day.
//
// Predictions of wide jobs are often wrong, and their credit grows slowly compared with their GPU time. So a job
// without a time limit goes before all others, the oldest first, once it has waited for PoolRules::escalate_after (an
// hour if that is 0) and as long as it is predicted to run. A job with a time limit usually has a reservation by then;
// if it still waits after kWaitsUnsurelyAfter, it goes before all others, too.
//
// Source: QSSF (Hu et al., SC 2021) orders by predicted GPU time. The ageing is the response ratio of HRRN (Brinch
// Hansen 1971) as a difference, which keeps the relative order of two waiting jobs constant.
#include <algorithm>

#include "engine/core/state/order.h"

namespace divvy::core {
namespace {

constexpr double kUnknownSeconds = 86'400;
/// If jobs do not escalate, ageing alone still lets an old job go first.
constexpr Duration kLeastWait = std::chrono::hours(1);

}  // namespace

Time ShortestEscalatesAt(const PoolRules& rules, const Standing& standing) {
  if (rules.ageing <= 0) return kNever;
  const Duration least = standing.is_limited                  ? kWaitsUnsurelyAfter
                         : rules.escalate_after > Duration(0) ? rules.escalate_after
                                                              : kLeastWait;
  return AddSaturating(standing.place.since, std::max(least, standing.predicted));
}

void RankShortest(const PoolRules& rules, const Standing& standing, Time now, std::int64_t* rank) {
  const double seconds =
      standing.predicted > Duration(0) ? std::chrono::duration<double>(standing.predicted).count() : kUnknownSeconds;
  const double gpus = std::max(static_cast<double>(standing.gpu_parts) / placement::kGpuParts, 0.01);
  const double since = std::chrono::duration<double>(standing.place.since.time_since_epoch()).count();
  rank[0] = -std::int64_t{standing.place.priority};
  const bool is_escalated = ShortestEscalatesAt(rules, standing) <= now;
  rank[1] = is_escalated ? 0 : 1;
  rank[2] = is_escalated ? standing.place.since.time_since_epoch().count()
                         : static_cast<std::int64_t>((gpus * seconds + rules.ageing * since) * 1000);
}

}  // namespace divvy::core
