#include "engine/shares.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace divvy {
namespace {

__extension__ using Wide = unsigned __int128;  // For products of two 64-bit numbers.

/// A team that wants more, and at most how much.
struct Open {
  std::size_t claim;
  std::int64_t room;
  std::uint64_t weight;
};

/// Divides `amount` by weight, in whole units, and gives no team more than its room. Returns what is left over.
std::int64_t ByWeight(std::int64_t amount, std::vector<Open> open, std::vector<std::int64_t>& shares,
                      std::int64_t unit) {
  std::erase_if(open, [](const Open& o) { return o.room <= 0 || o.weight == 0; });
  while (amount > 0 && !open.empty()) {
    Wide weights = 0;
    for (const Open& o : open) weights += o.weight;
    const Wide pot = static_cast<Wide>(amount);
    // Teams whose part is at least what they can still use get that, and the rest is divided again among the others.
    bool is_anyone_content = false;
    for (Open& o : open) {
      if (pot * o.weight < static_cast<Wide>(o.room) * weights) continue;
      is_anyone_content = true;
      shares[o.claim] += o.room;
      amount -= o.room;
      o.room = 0;
    }
    std::erase_if(open, [](const Open& o) { return o.room == 0; });
    if (is_anyone_content) continue;
    std::vector<Wide> rests;
    std::int64_t given = 0;
    for (Open& o : open) {
      const Wide part = pot * o.weight;
      const std::int64_t whole = static_cast<std::int64_t>(part / weights) / unit * unit;
      shares[o.claim] += whole;
      given += whole;
      o.room -= whole;
      rests.push_back(part - static_cast<Wide>(whole) * weights);
    }
    std::vector<std::size_t> order(open.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rests[a] > rests[b]; });
    std::int64_t left = amount - given;
    // No team gets all that it can use from its part, so each can use some of what is left after rounding.
    while (left > 0) {
      for (const std::size_t i : order) {
        const std::int64_t more = std::min({unit, left, open[i].room});
        shares[open[i].claim] += more;
        open[i].room -= more;
        left -= more;
      }
    }
    return 0;
  }
  return amount;
}

}  // namespace

std::vector<std::int64_t> Divide(std::int64_t total, std::span<const TeamDemand> claims, std::int64_t unit) {
  std::vector<std::int64_t> shares(claims.size(), 0);
  std::vector<std::int64_t> wants;
  std::int64_t rights = 0;
  std::vector<Open> by_right;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    wants.push_back(std::max<std::int64_t>(0, std::min(claims[i].demand, claims[i].limit)));
    if (claims[i].quota == kNoBound) continue;
    const std::int64_t right = std::min(wants[i], std::max<std::int64_t>(0, claims[i].quota));
    rights += right;
    by_right.push_back({i, right, static_cast<std::uint64_t>(right)});
  }
  if (rights > total) {
    ByWeight(total, std::move(by_right), shares, unit);
    return shares;
  }
  for (const Open& o : by_right) shares[o.claim] = o.room;
  std::int64_t surplus = total - rights;
  const auto divide_surplus = [&](bool has_quota) {
    std::map<int, std::vector<Open>, std::greater<>> by_priority;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if ((claims[i].quota != kNoBound) != has_quota) continue;
      by_priority[claims[i].priority].push_back({i, wants[i] - shares[i], claims[i].weight});
    }
    for (auto& [priority, open] : by_priority) {
      surplus = ByWeight(surplus, open, shares, unit);
      // No team with a weight wants it: a team without weight gets it, rather than one of lower priority or none.
      for (Open& o : open) o = {o.claim, wants[o.claim] - shares[o.claim], 1};
      surplus = ByWeight(surplus, std::move(open), shares, unit);
    }
  };
  // A team without a quota may get all of its demand before other teams exceed their quotas.
  divide_surplus(false);
  divide_surplus(true);
  return shares;
}

void DecayedUsage::Add(double amount, Time now) {
  value_ = At(now) + amount;
  as_of_ = std::max(as_of_, now);
}

double DecayedUsage::At(Time now) const {
  if (half_life_ <= Duration(0) || now <= as_of_) return value_;
  return value_ * std::exp2(-static_cast<double>((now - as_of_).count()) / static_cast<double>(half_life_.count()));
}

}  // namespace divvy
