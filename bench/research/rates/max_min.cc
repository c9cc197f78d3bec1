#include "research/rates/max_min.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>

#include "base/result.h"
#include "research/rates/price_game.h"

namespace divvy::rates {
namespace {

constexpr double kTiny = 1e-9;

struct JobClass {
  std::vector<double> gain;  // Level per unit of time, by type.
  double gpus = 1;           // GPUs per job of the class.
  double jobs = 0;
  double top = 0;    // The largest gain.
  double level = 0;  // The settled level, or the one being tried.
  bool is_settled = false;
};

/// The cheapest way to reach `level`: part of the time on `low` (or idle) and `high_time` on `high`.
struct Purchase {
  double cost = 0;
  double slope = 0;  // The change of the cost per unit of level.
  std::size_t low = 0, high = 0;
  double low_time = 0, high_time = 0;
};

Purchase Cheapest(const JobClass& job, const std::vector<double>& price) {
  const std::size_t types = price.size();
  Purchase best;
  bool has_best = false;
  const auto offer = [&](const Purchase& purchase) {
    // Several mixes of GPU types (purchases) may reach the job's level at the same cost. Keep the one with the largest
    // slope (the change of the cost per unit of level), because it is also the cheapest just below this level.
    // SettleSome() lowers the level by Newton's method; with a smaller slope its step would be too long.
    const double slack = 1e-12 * purchase.cost;
    if (has_best && purchase.cost > best.cost + slack) return;
    if (has_best && purchase.cost >= best.cost - slack && purchase.slope <= best.slope) return;
    best = purchase;
    has_best = true;
  };
  for (std::size_t high = 0; high < types; ++high) {
    if (job.gain[high] <= 0 || job.gain[high] < job.level * (1 - 1e-12)) continue;
    const double time = std::min(1.0, job.level / job.gain[high]);
    const double slope = price[high] * job.gpus / job.gain[high];
    offer({slope * job.level, slope, high, high, 0, time});
    for (std::size_t low = 0; low < types; ++low) {
      if (price[low] >= price[high] || job.gain[low] >= job.level) continue;
      const double mix = (job.level - job.gain[low]) / (job.gain[high] - job.gain[low]);
      const double step = (price[high] - price[low]) * job.gpus / (job.gain[high] - job.gain[low]);
      offer({(price[low] * (1 - mix) + price[high] * mix) * job.gpus, step, low, high, 1 - mix, mix});
    }
  }
  DIVVY_ASSERT(has_best || job.level <= 0);
  return best;
}

class WaterFilling {
 public:
  WaterFilling(std::vector<JobClass>& classes, std::span<const double> capacity)
      : classes_(classes), capacity_(capacity) {}

  /// Computes the level of every class. Time() is valid afterwards.
  void Fill() {
    prices_.push_back(std::vector<double>(capacity_.size(), 1.0 / static_cast<double>(capacity_.size())));
    while (SettleSome()) {
    }
  }

  std::vector<std::vector<double>> Time() const {
    std::vector<std::vector<double>> time(classes_.size(), std::vector<double>(capacity_.size()));
    for (std::size_t k = 0; k < prices_.size(); ++k) {
      if (mix_[k] <= 0) continue;
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        const Purchase bought = Cheapest(classes_[c], InGpus(prices_[k]));
        time[c][bought.low] += mix_[k] * bought.low_time;
        time[c][bought.high] += mix_[k] * bought.high_time;
      }
    }
    return time;
  }

 private:
  /// Raises the unsettled classes until one of them cannot follow. Returns false once all are settled.
  bool SettleSome() {
    double z = -1;
    for (const JobClass& job : classes_)
      if (!job.is_settled && (z < 0 || job.top < z)) z = job.top;
    if (z < 0) {
      if (mix_.size() != prices_.size()) Balance();
      return false;
    }
    for (int step = 0;; ++step) {
      for (JobClass& job : classes_)
        if (!job.is_settled) job.level = z;
      const double load = Balance();
      const bool fits = load <= 1 + kTiny || step >= 100;
      if (fits && step == 0) return SettleAtTop(z);
      double slope = 0;
      const std::vector<double> price = InGpus(best_price_);
      for (const JobClass& job : classes_)
        if (!job.is_settled) slope += job.jobs * Cheapest(job, price).slope;
      if (fits || slope <= 0) return SettlePayers(price);
      z = std::max(0.0, z - (load - 1) / slope);
    }
  }

  bool SettleAtTop(double z) {
    for (JobClass& job : classes_) job.is_settled |= job.top <= z;
    return true;
  }

  /// Fixes the level of the classes that cannot be raised any more at these prices.
  bool SettlePayers(const std::vector<double>& price) {
    bool has_settled = false;
    for (JobClass& job : classes_) {
      if (job.is_settled || Cheapest(job, price).slope <= kTiny) continue;
      job.is_settled = has_settled = true;
    }
    if (!has_settled)
      for (JobClass& job : classes_) job.is_settled = true;
    return true;
  }

  /// Returns the smallest load at which all classes get their levels, as a fraction of the capacity of the fullest
  /// type.
  double Balance() {
    std::vector<std::vector<double>> columns;
    for (const std::vector<double>& price : prices_) columns.push_back(Demand(price));
    for (int round = 0;; ++round) {
      const GameResult game = SolvePriceGame(columns, capacity_.size());
      mix_ = game.mix;
      best_price_ = game.price;
      const std::vector<double> demand = Demand(game.price);
      double value = 0;
      for (std::size_t t = 0; t < demand.size(); ++t) value += game.price[t] * demand[t];
      if (value >= game.value * (1 - kTiny / 10) || round >= 200) {
        Forget();
        return game.value;
      }
      columns.push_back(demand);
      prices_.push_back(game.price);
    }
  }

  /// Keeps only the prices that the mix uses.
  void Forget() {
    std::size_t kept = 0;
    for (std::size_t k = 0; k < prices_.size(); ++k) {
      if (mix_[k] <= 0) continue;
      if (kept != k) prices_[kept] = std::move(prices_[k]);
      mix_[kept++] = mix_[k];
    }
    prices_.resize(kept);
    mix_.resize(kept);
  }

  /// Converts prices per whole type, as in the game, to prices per GPU, as the jobs pay them.
  std::vector<double> InGpus(const std::vector<double>& price) const {
    std::vector<double> result(price.size());
    for (std::size_t t = 0; t < price.size(); ++t) result[t] = price[t] / capacity_[t];
    return result;
  }

  std::vector<double> Demand(const std::vector<double>& price) const {
    const std::vector<double> by_gpu = InGpus(price);
    std::vector<double> demand(price.size());
    for (const JobClass& job : classes_) {
      const Purchase bought = Cheapest(job, by_gpu);
      demand[bought.low] += job.jobs * job.gpus * bought.low_time;
      demand[bought.high] += job.jobs * job.gpus * bought.high_time;
    }
    for (std::size_t t = 0; t < demand.size(); ++t) demand[t] /= capacity_[t];
    return demand;
  }

  std::vector<JobClass>& classes_;
  std::span<const double> capacity_;
  std::vector<std::vector<double>> prices_;  // One for each column of the game; the entries of each sum to 1.
  std::vector<double> mix_;
  std::vector<double> best_price_;
};

}  // namespace

Shares MaxMinShares(std::span<const RatedJob> jobs, std::span<const double> gpus_by_type) {
  Shares shares;
  shares.time.assign(jobs.size(), std::vector<double>(gpus_by_type.size()));
  shares.level.assign(jobs.size(), 0);
  std::vector<std::size_t> types;  // The types that have GPUs.
  std::vector<double> capacity;
  double all_gpus = 0;
  for (std::size_t t = 0; t < gpus_by_type.size(); ++t) {
    if (gpus_by_type[t] <= 0) continue;
    types.push_back(t);
    capacity.push_back(gpus_by_type[t]);
    all_gpus += gpus_by_type[t];
  }
  std::map<std::tuple<std::vector<double>, int, double>, std::size_t> known;
  std::vector<JobClass> classes;
  std::vector<std::size_t> class_of(jobs.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const RatedJob& job = jobs[j];
    const auto [found, is_new] = known.try_emplace({job.rates, job.gpus, job.weight}, classes.size());
    class_of[j] = found->second;
    if (is_new) {
      double equal = 0;
      for (std::size_t i = 0; i < types.size(); ++i) equal += job.rates[types[i]] * capacity[i] / all_gpus;
      JobClass& added = classes.emplace_back();
      added.gpus = job.gpus;
      for (std::size_t i = 0; i < types.size(); ++i) {
        // A gang that is larger than the type can never run on it.
        const bool fits = capacity[i] >= added.gpus * (1 - kTiny);
        const double rate = fits && equal > 0 ? job.rates[types[i]] : 0;
        added.gain.push_back(rate > 0 ? rate * job.gpus / (job.weight * equal) : 0);
        added.top = std::max(added.top, added.gain.back());
      }
      added.is_settled = added.top <= 0;
    }
    classes[class_of[j]].jobs += 1;
  }
  if (types.empty()) return shares;
  WaterFilling filling(classes, capacity);
  filling.Fill();
  const auto time = filling.Time();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const std::size_t c = class_of[j];
    shares.level[j] = classes[c].level;
    for (std::size_t i = 0; i < types.size(); ++i) shares.time[j][types[i]] = time[c][i];
  }
  return shares;
}

}  // namespace divvy::rates
