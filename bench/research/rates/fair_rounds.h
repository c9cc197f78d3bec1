// Turns shares of time into the set of jobs that run in each round, after Gavel (Narayanan et al., OSDI 2020, section
// 5). A job's rank on a GPU type is the time that it is owed there divided by the time that it has received. In each
// round a job runs or waits, but over many rounds every job gets its share.
//   * Only whole gangs run. A gang that does not fit in the remaining GPUs is skipped, and GPUs that no job is owed go
//     to the next job in rank order: no GPU stays idle while a job could use it.
//   * Equal ranks: jobs that received too little before the last settlement go first, then those that already run on
//     the type (moves cost time), then the lower id.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace divvy::rates {

class FairRounds {
 public:
  struct Place {
    std::size_t job = 0, type = 0;
  };

  /// `first_s`: seconds that a new job counts as having received on each type; half a round is a good value.
  FairRounds(std::vector<int> gpus_by_type, double first_s);

  /// Requires: `job` has not joined yet; gpus > 0. It has no share before the next Settle().
  void Join(std::size_t job, int gpus);
  void Leave(std::size_t job);

  /// Ends a period of `seconds`: adds to what each job is owed its share of that period, minus the time that it
  /// received. The next period has the shares `shares`, which are fractions of time by type, one entry for each job by
  /// ascending id.
  void Settle(double seconds, std::span<const std::vector<double>> shares);

  /// Returns the jobs that run in the next round, each with its GPU type. The types are filled in the order of `types`;
  /// a job runs on one type only.
  std::vector<Place> Pick(std::span<const std::size_t> types);
  /// Records how long `job` really ran in the round.
  void Ran(std::size_t job, std::size_t type, double seconds);

 private:
  struct Account {
    int gpus = 1;
    bool has_share = false;
    std::size_t last_type = static_cast<std::size_t>(-1);
    std::vector<double> share, received, owed;
  };

  std::vector<int> gpus_by_type_;
  double first_s_;
  std::vector<double> given_;  // Seconds given to all jobs since the last settlement, by type.
  std::map<std::size_t, Account> accounts_;
};

}  // namespace divvy::rates
