// Numbers that jobs say of themselves past their output (`divvy metrics --add`; what `divvy run` reads as it passes),
// until their machines' samples of those seconds come: an agent's are ten seconds late, and a job's seconds are kept in
// their order.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "samples/sample.h"

namespace divvy {

class SaidMetrics {
 public:
  static constexpr std::size_t kMostSeconds = 600;  // Kept of a job; the oldest go.
  static constexpr samples::Second kReach = 900;    // After that nobody comes for them any more.

  struct Second {
    samples::Second at = 0;
    std::vector<samples::Reading> readings;
  };

  /// `at`: not before what the job said before. The newest value of each name in each second counts; what is of no
  /// name, as how much was left out, is summed up.
  void Add(std::uint64_t job, samples::Second at, const std::vector<samples::Reading>& readings);
  /// What the job said up to that second, the oldest first; it is taken out.
  std::vector<Second> Take(std::uint64_t job, samples::Second until);
  void Forget(samples::Second now);
  bool empty() const { return jobs_.empty(); }
  std::vector<std::uint64_t> jobs() const;

 private:
  std::map<std::uint64_t, std::vector<Second>> jobs_;  // None of them without seconds.
};

}  // namespace divvy
