// The jobs of Gavel's continuous experiments. The published simulator draws them with Python's random module from fixed
// seeds. Here the same draws give the same jobs, so that figures can be compared job by job.
//   * Arrivals are Poisson: the first job at 0, then exponential gaps with mean 1 / rate.
//   * Time on `gpus` V100s: 10^x minutes; x is uniform in [1.5, 3] for 80 % of the jobs and in [3, 4] for the rest.
//   * Model and batch size: one of 26, all equally likely. GPUs: 1; with `multi_gpu` 70 % 1, 10 % 2, 15 % 4, 5 % 8.
// Source: stanford-futuredata/gavel, scheduler/utils.py and scheduler.py.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "research/gavel_throughputs.h"

namespace divvy::research {

/// The numbers of Python's random.Random(seed): the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), seeded by
/// its init_by_array.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);

  /// Like Python's random.random(): returns x with 0 <= x < 1, with 53 random bits.
  double Unit();
  /// Like Python's random.uniform(): returns a number from `low` to `high`.
  double Uniform(double low, double high) { return low + (high - low) * Unit(); }
  /// Returns the index of the item that Python's random.choice() would pick from a list of `bound` items. Requires:
  /// bound > 0.
  std::size_t Below(std::size_t bound);
  /// Like Python's random.shuffle(): puts `items` into a random order.
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[Below(left)]);
  }

 private:
  std::uint32_t Word();

  std::array<std::uint32_t, 624> state_{};
  std::size_t at_ = 624;
};

struct GavelJob {
  std::size_t kind = 0;  // Index into GavelWorkload::kinds.
  double arrival_s = 0;
  double steps = 0;
};

struct GavelWorkload {
  std::vector<JobKind> kinds;
  std::vector<GavelJob> jobs;  // Sorted by arrival.
};

/// The largest number of GPUs of one job in a workload with gangs.
inline constexpr int kWidestGavelGang = 8;

/// Returns the first `count` jobs. Fails if the throughputs lack one of the kinds on "v100".
Result<GavelWorkload> GenerateGavelJobs(const GavelThroughputs& throughputs, double jobs_per_hour, std::size_t count,
                                        std::uint32_t seed, bool multi_gpu);

}  // namespace divvy::research
