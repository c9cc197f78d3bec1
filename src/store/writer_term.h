// The epoch of a writer of a PostgreSQL store, and its number of commits. From these two numbers the writer learns
// whether a commit happened whose connection was lost. The database has the same numbers in the table `writer`. The
// store and the simulator share this class.
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

  /// Call this when the writer has taken `epoch` in the database, so that none of its earlier transactions can still be
  /// committed. `commits` is the number of commits that the database has. Only the last commit of this writer can have
  /// an unknown outcome, so any other difference is kFailedPrecondition: the database has lost commits, or has commits
  /// of another writer, and the caller must load its state again.
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
  /// Call this after OnTaken. Returns true if the commit with this number, whose outcome was unknown, has happened.
  bool Has(std::int64_t number) const { return commits_ == number; }

 private:
  std::int64_t epoch_ = 0;
  std::int64_t commits_ = 0;
};

}  // namespace divvy
