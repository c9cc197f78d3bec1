// The epoch of a writer of a PostgreSQL store, and its number of commits. By these it decides what has become of a
// commit whose connection was lost. The database has the same numbers in the table `writer`. The store and the
// simulator share this class.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace divvy {

class WriterTerm {
 public:
  /// The epoch of this writer, greater than that of every earlier one. 0: it has not opened the store yet.
  std::int64_t epoch() const { return epoch_; }
  bool is_open() const { return epoch_ != 0; }
  /// How many commits the store has had.
  std::int64_t commits() const { return commits_; }
  std::int64_t next_commit() const { return commits_ + 1; }

  /// The writer has taken `epoch`, so no earlier transaction of it can still be committed, and reads that the store has
  /// had `commits`. kFailedPrecondition if the store has lost some, or has others: this writer's state is worthless.
  /// Only the last commit can have an unknown outcome.
  Status OnTaken(std::int64_t epoch, std::int64_t commits, const std::string& store) {
    if (is_open() && commits != commits_ && commits != commits_ + 1) {
      return FailedPrecondition(
          store + " has lost commits that were acknowledged (" + std::to_string(commits) + " of " +
          std::to_string(commits_) +
          "), after a failover to a standby that was behind, or a restore: the daemon starts again with what is there; "
          "see synchronous_standby_names");
    }
    epoch_ = epoch;
    commits_ = commits;
    return {};
  }
  void OnCommitted(std::int64_t number) { commits_ = number; }
  /// After OnTaken: whether the commit `number`, whose outcome was unknown, has happened.
  bool Has(std::int64_t number) const { return commits_ == number; }

 private:
  std::int64_t epoch_ = 0;
  std::int64_t commits_ = 0;
};

}  // namespace divvy
