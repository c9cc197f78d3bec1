#include "research/rates/fair_rounds.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "base/result.h"

namespace divvy::rates {

FairRounds::FairRounds(std::vector<int> gpus_by_type, double first_s)
    : gpus_by_type_(std::move(gpus_by_type)), first_s_(first_s), given_(gpus_by_type_.size(), 0) {}

void FairRounds::Join(std::size_t job, int gpus) {
  const auto [account, is_new] = accounts_.try_emplace(job);
  DIVVY_ASSERT(is_new);
  account->second.gpus = gpus;
  account->second.share.assign(gpus_by_type_.size(), 0);
  account->second.received.assign(gpus_by_type_.size(), first_s_);
  account->second.owed.assign(gpus_by_type_.size(), 0);
}

void FairRounds::Leave(std::size_t job) { accounts_.erase(job); }

void FairRounds::Settle(double seconds, std::span<const std::vector<double>> shares) {
  DIVVY_ASSERT(shares.size() == accounts_.size());
  given_.assign(gpus_by_type_.size(), 0);
  std::size_t next = 0;
  for (auto& [job, account] : accounts_) {
    for (std::size_t type = 0; type < gpus_by_type_.size(); ++type) {
      account.owed[type] += account.share[type] * seconds - (account.received[type] - first_s_);
      account.received[type] = first_s_;
      given_[type] += first_s_;
    }
    account.share = shares[next++];
    account.has_share = true;
  }
}

std::vector<FairRounds::Place> FairRounds::Pick(std::span<const std::size_t> types) {
  struct Turn {
    double turn, owed, share;
    bool is_there;
    std::size_t job;
    int gpus;
  };
  std::vector<Place> places;
  std::set<std::size_t> taken;
  for (const std::size_t type : types) {
    std::vector<Turn> turns;
    for (const auto& [job, account] : accounts_) {
      if (taken.contains(job)) continue;
      const double turn = account.share[type] * given_[type] / account.received[type];
      turns.push_back({turn, account.owed[type], account.share[type], account.last_type == type, job, account.gpus});
    }
    std::ranges::stable_sort(turns, [](const Turn& a, const Turn& b) {
      return std::tie(b.turn, b.owed, b.share, b.is_there) < std::tie(a.turn, a.owed, a.share, a.is_there);
    });
    int left = gpus_by_type_[type];
    for (const Turn& turn : turns) {
      if (turn.gpus > left) continue;
      left -= turn.gpus;
      taken.insert(turn.job);
      places.push_back({turn.job, type});
    }
  }
  for (auto& [job, account] : accounts_)
    if (!taken.contains(job)) account.last_type = static_cast<std::size_t>(-1);
  for (const Place& place : places) accounts_.at(place.job).last_type = place.type;
  return places;
}

void FairRounds::Ran(std::size_t job, std::size_t type, double seconds) {
  accounts_.at(job).received[type] += seconds;
  given_[type] += seconds;
}

}  // namespace divvy::rates
