// Priority, then predicted GPU time minus a credit for the time waited (PoolRules::ageing), so no job starves. A
// one-GPU job that has waited as long as its predicted length ranks like a new job of length 0. A job without a
// prediction counts as a day.
//
// Source: QSSF (Hu et al., SC 2021) orders by predicted GPU time. The ageing is the response ratio of HRRN (Brinch
// Hansen 1971) as a difference, which keeps the relative order of two waiting jobs constant.
#include <algorithm>

#include "engine/core/state/order.h"

namespace divvy::core {
namespace {

constexpr double kUnknownSeconds = 86'400;

}  // namespace

void RankShortest(const PoolRules& rules, const Standing& standing, std::int64_t* rank) {
  const double seconds =
      standing.predicted > Duration(0) ? std::chrono::duration<double>(standing.predicted).count() : kUnknownSeconds;
  const double gpus = std::max(static_cast<double>(standing.gpu_parts) / placement::kGpuParts, 0.01);
  const double since = std::chrono::duration<double>(standing.place.since.time_since_epoch()).count();
  rank[0] = -std::int64_t{standing.place.priority};
  rank[1] = static_cast<std::int64_t>((gpus * seconds + rules.ageing * since) * 1000);
}

}  // namespace divvy::core
