// What survives. One writer; readers beside it. Everything that one commit holds becomes durable together: after Commit
// returns, it survives kill -9 and a power cut (SQLite WAL, synchronous=FULL).
//
// Final jobs live here only, so the daemon's memory does not grow with history.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "model/job_record.h"

namespace divvy {

struct HistoryFilter {
  std::string user;               // Empty: all.
  std::string name;
  std::string project;
  std::string group;
  std::vector<JobState> states;   // Empty: all.
  std::optional<JobId> array;
  Time since = kNoTime;           // Ended, or submitted when it has not, at or after this.
  std::uint64_t limit = 0;        // Newest first; 0: all.
};

class Store {
 public:
  virtual ~Store() = default;

  /// Durable when it returns. kLimitExceeded: the disk is full, nothing of the batch was kept, and a later try may
  /// succeed; other errors mean the store cannot be used any more.
  virtual Status Commit(const std::vector<Batch>& batches) = 0;

  struct Loaded {
    std::vector<JobRecord> live;  // Every record that is not final, ascending by id.
    std::vector<std::pair<std::string, std::string>> settings;
    std::uint64_t next_id = 1;
    std::uint64_t jobs_total = 0;
  };
  virtual Result<Loaded> Load() = 0;

  // Reads; safe on another thread than Commit's, one reader thread at a time. They see committed batches only.
  virtual Result<JobRecord> Find(JobId id) = 0;             // kNotFound.
  virtual Result<JobSpec> Spec(JobId id) = 0;               // Environment included. An element gives its array's.
  virtual Result<std::vector<JobRecord>> History(const HistoryFilter& filter) = 0;
  virtual Result<std::vector<Batch::HistoryLine>> HistoryOf(JobId id) = 0;
  virtual Result<std::optional<JobId>> LastOf(std::int64_t uid, std::uint64_t back) = 0;  // "@~back".
  virtual Result<std::vector<JobId>> Named(const std::string& name, const std::string& user) = 0;  // Newest first, <= 100.
};

/// Opens or creates the database file and brings its schema up to this version; a newer schema is refused by name.
/// A file that is not a database, or is damaged, is kCorruptData with what to do.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

}  // namespace divvy
