// Chooses which jobs run on which GPU type in the next round, and which of them share GPUs, so that the sum of weight *
// relative speed over the running jobs is largest.
//
// With all weights 1 this maximises the sum of progress, which may leave a job waiting indefinitely. ProgressWeight()
// is the derivative of an alpha-fair utility (Mo and Walrand, IEEE/ACM ToN 2000) of the fraction of its time that a job
// has received, with alpha = 1/4. Choosing by derivatives step by step maximises that utility in the long run (Stolyar,
// Queueing Systems 2005; the proportional-fair schedulers of cellular networks are the case alpha = 1). alpha = 0
// maximises progress; alpha to infinity is max-min (max_min.h). Nothing about the future is used: no run times, no
// predictions.
//
// A seat is as many GPUs of one type as its job needs. It holds one job, or two jobs of equal size that share each GPU
// at measured speeds. The search starts from the seats of the last round and takes steps that gain: a job moves to free
// GPUs, joins another job, changes places with one, or displaces others. A running job moves only if that gains more
// than `keep`; gangs run whole or not at all; the result depends on the input alone.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace divvy::rates {

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

/// The relative speed of each kind of job on each GPU type. 1 is the speed of a job alone on its fastest type.
class Speeds {
 public:
  Speeds(std::size_t kinds, std::size_t types)
      : kinds_(kinds), types_(types), alone_(kinds * types), together_(kinds * kinds * types) {}

  std::size_t types() const { return types_; }
  double Alone(std::size_t kind, std::size_t type) const { return alone_[kind * types_ + type]; }
  void SetAlone(std::size_t kind, std::size_t type, double speed) { alone_[kind * types_ + type] = speed; }

  /// Returns the speeds of both jobs on the same GPUs; 0 for either means that they do not fit together.
  std::pair<double, double> Locality(std::size_t kind, std::size_t other, std::size_t type) const {
    return together_[(kind * kinds_ + other) * types_ + type];
  }
  void SetTogether(std::size_t kind, std::size_t other, std::size_t type, std::pair<double, double> speeds) {
    together_[(kind * kinds_ + other) * types_ + type] = speeds;
    together_[(other * kinds_ + kind) * types_ + type] = {speeds.second, speeds.first};
  }

 private:
  std::size_t kinds_, types_;
  std::vector<double> alone_;
  std::vector<std::pair<double, double>> together_;
};

struct SeatJob {
  std::size_t kind = 0;  // Index into Speeds.
  int gpus = 1;
  double weight = 1;  // Must be > 0.
};

struct Seat {
  std::size_t type = 0;
  std::size_t first = kNobody, second = kNobody;  // Indices of jobs; `second` shares the GPUs of `first`.

  friend bool operator==(const Seat&, const Seat&) = default;
};

struct SeatOptions {
  bool together = false;  // Two jobs may share GPUs.
  double keep = 0.02;     // A move of a running job must gain more than this fraction of its weight.
};

/// Returns the seats of the next round. `before` has the seats of the last round, without jobs that have ended. If they
/// no longer fit into gpus_by_type, the last ones are dropped.
std::vector<Seat> BestSeats(std::span<const SeatJob> jobs, const Speeds& speeds, std::span<const int> gpus_by_type,
                            std::span<const Seat> before, const SeatOptions& options);

/// Returns ((age + grace) / (progress + grace))^(1/4). `progress_s`: seconds on its fastest type for the same progress.
double ProgressWeight(double age_s, double progress_s, double grace_s);

}  // namespace divvy::rates
