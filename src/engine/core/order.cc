#include "engine/core/order.h"

namespace divvy::core {

bool IsEscalated(const Rules& rules, Time since, Time now) {
  return rules.escalate_after > Duration(0) && now - since >= rules.escalate_after;
}

Time EscalatesAt(const Rules& rules, Time since) {
  return rules.escalate_after > Duration(0) ? AddSaturating(since, rules.escalate_after) : kNever;
}

Key KeyOf(const Rules& rules, const Teams& teams, const Standing& standing, Time now) {
  Key key;
  key.id = standing.place.id;
  switch (rules.order) {
    case Order::kSmallFirst:
      RankSmallFirst(rules, standing, now, key.rank.data());
      break;
    case Order::kFifo:
      RankFifo(standing, key.rank.data());
      break;
    case Order::kShortest:
      RankShortest(rules, standing, key.rank.data());
      break;
    case Order::kFair:
      RankFair(rules, teams, standing, now, key.rank.data());
      break;
  }
  return key;
}

}  // namespace divvy::core
