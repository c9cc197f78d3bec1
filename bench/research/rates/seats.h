// Who runs on which type of GPU in the next round, and with whom, so that all together get furthest: the sum over the
// running jobs of weight * relative speed is largest.
//
// With all weights 1 that is the most progress in sum, which may leave somebody waiting for ever. ProgressWeight is the
// derivative of an alpha-fair utility (Mo and Walrand, IEEE/ACM ToN 2000) of what a job has got of its time so far,
// with alpha = 1/4: choosing by derivatives step by step maximises that utility in the long run (Stolyar, Queueing
// Systems 2005; the cellular world's proportional-fair schedulers are its case alpha = 1). alpha = 0 is the most
// progress, alpha to infinity is max-min (max_min.h). Nothing about the future is used: no run times, no predictions.
//
// A seat is as many GPUs of one type as its job needs, for one job or for two of equal size that share each GPU at
// measured speeds. The search starts from the seats of the last round and takes steps that gain: into free GPUs, to sit
// with another job, to change places with one, to make others wait. So a job stays where it is unless moving it gains
// more than `keep`; gangs run whole or not at all; and the result depends on the input alone.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace divvy::rates {

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

/// Relative speeds of kinds of jobs; 1: a job's fastest type to itself.
class Speeds {
 public:
  Speeds(std::size_t kinds, std::size_t types)
      : kinds_(kinds), types_(types), alone_(kinds * types), together_(kinds * kinds * types) {}

  std::size_t types() const { return types_; }
  double Alone(std::size_t kind, std::size_t type) const { return alone_[kind * types_ + type]; }
  void SetAlone(std::size_t kind, std::size_t type, double speed) { alone_[kind * types_ + type] = speed; }

  /// Of both on the same GPUs; 0 for either: they do not fit together.
  std::pair<double, double> Together(std::size_t kind, std::size_t other, std::size_t type) const {
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
  std::size_t kind = 0;  // Of Speeds.
  int gpus = 1;
  double weight = 1;  // > 0.
};

struct Seat {
  std::size_t type = 0;
  std::size_t first = kNobody, second = kNobody;  // Jobs; `second` shares the GPUs of `first`.

  friend bool operator==(const Seat&, const Seat&) = default;
};

struct SeatOptions {
  bool together = false;  // Two jobs may share GPUs.
  double keep = 0.02;     // A move of a running job must gain more than this part of its weight.
};

/// `before`: the seats of the last round, of jobs that still exist; what no longer fits is dropped from the end.
std::vector<Seat> BestSeats(std::span<const SeatJob> jobs, const Speeds& speeds, std::span<const int> gpus_by_type,
                            std::span<const Seat> before, const SeatOptions& options);

/// ((age + grace) / (progress + grace))^(1/4). `progress_s`: seconds on its fastest type that would have got it as far.
double ProgressWeight(double age_s, double progress_s, double grace_s);

}  // namespace divvy::rates
