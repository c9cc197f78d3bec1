// From shares of time to who runs in each round, after Gavel (Narayanan et al., OSDI 2020, section 5): a job's turn on
// a type of GPU comes by what it is owed over what it has received there, so that over many rounds everybody gets its
// share although every round is all or nothing.
//   * Whole gangs only; a gang that does not fit in what is left is passed over, and GPUs that nobody is owed still go
//   to
//     the next in line: no GPU stays idle while a job could use it.
//   * Equal turns: first who came off worse before the last settlement, then who is there already (moves cost), then
//     the lower id.
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

  /// A job that joins counts as having received `first_s` seconds on each type; half a round is a good value.
  FairRounds(std::vector<int> gpus_by_type, double first_s);

  /// Requires: `job` has not joined; gpus > 0. It has no share before the next Settle.
  void Join(std::size_t job, int gpus);
  void Leave(std::size_t job);

  /// Closes the accounts of the `seconds` since the last settlement and opens new ones with these shares (fractions of
  /// time by type), one for each job by ascending id.
  void Settle(double seconds, std::span<const std::vector<double>> shares);

  /// Who runs next. Types are filled in this order; a job runs on one of them.
  std::vector<Place> Pick(std::span<const std::size_t> types);
  /// What came of it.
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
  std::vector<double> given_;  // By type, to all jobs since the last settlement.
  std::map<std::size_t, Account> accounts_;
};

}  // namespace divvy::rates
