// Copies a store from one database to another, and checks the consistency of a store.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

struct CopyProgress {
  bool is_verifying = false;
  std::string table;
  std::int64_t rows = 0;  // Of this table, so far.
  std::int64_t of = 0;    // Of this table, in all.
};
using OnCopyProgress = std::function<void(const CopyProgress&)>;

struct TableCount {
  std::string table;
  std::int64_t rows = 0;
};

/// Copies all rows of `from` to `to`, in transactions of some thousand rows, and then compares the rows of both by
/// count and hash. `from` and `to` are paths of SQLite files or URLs of PostgreSQL (whole_store.h). A copy that was
/// interrupted continues where it ended; until it is complete, no daemon opens `to`. kFailedPrecondition if a daemon
/// has one of them open, or if `to` has rows other than those of an unfinished copy. kCorruptData if the copy differs
/// from `from`. Copies about 9,000 rows a second into PostgreSQL, and 24,000 into SQLite.
Result<std::vector<TableCount>> CopyStore(const std::string& from, const std::string& to,
                                          const OnCopyProgress& on_progress);

struct CheckedStore {
  std::int64_t schema_version = 0;
  std::vector<TableCount> tables;
  std::vector<std::string> problems;  // One line each, at most about 100.
};
/// Reads the whole store and reports what is damaged or inconsistent. kFailedPrecondition if a daemon has the store
/// open.
Result<CheckedStore> CheckStore(const std::string& where);

}  // namespace divvy
