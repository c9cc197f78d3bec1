#include "engine/core/state/order.h"

namespace divvy::core {

bool IsEscalated(const PoolRules& rules, Time since, Time now) {
  return rules.escalate_after > Duration(0) && now - since >= rules.escalate_after;
}

Time EscalatesAt(const PoolRules& rules, Time since) {
  return rules.escalate_after > Duration(0) ? AddSaturating(since, rules.escalate_after) : kNever;
}

Key KeyOf(const PoolRules& rules, const Teams& teams, const Standing& standing, Time now) {
  Key key;
  key.id = standing.place.id;
  // There are few tiers and pools, so both fit into one number.
  key.rank[0] = -(std::int64_t{rules.tier} << 32) + standing.pool;
  std::int64_t* rank = key.rank.data() + kPoolRanks;
  switch (rules.order) {
    case QueuePolicy::kSmallFirst:
      RankSmallFirst(rules, standing, now, rank);
      break;
    case QueuePolicy::kFifo:
      RankFifo(standing, rank);
      break;
    case QueuePolicy::kShortest:
      RankShortest(rules, standing, now, rank);
      break;
    case QueuePolicy::kFair:
      RankFair(rules, teams, standing, now, rank);
      break;
  }
  return key;
}

}  // namespace divvy::core
