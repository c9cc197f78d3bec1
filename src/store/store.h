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
  std::string user;  // Empty: all.
  std::string name;
  std::string project;
  std::string group;
  std::vector<JobState> states;  // Empty: all.
  std::optional<JobId> array;
  std::optional<std::pair<JobId, JobId>> ids;  // From the first to the last; no elements of arrays.
  Time since = kNoTime;                        // Ended, or submitted when it has not, at or after this.
  std::uint64_t limit = 0;                     // Newest first; 0: all.
};

class Store {
 public:
  virtual ~Store() = default;

  /// Durable when it returns, all batches together. kLimitExceeded: it could not be written now (the disk is full, or
  /// another program holds a lock), nothing of any batch was kept, and a later try may succeed; other errors mean the
  /// store cannot be used any more. Inserting an id that exists or updating one that does not is kInternal.
  virtual Status Commit(const std::vector<Batch>& batches) = 0;

  struct Loaded {
    std::vector<JobRecord> live;  // Every record that is not final, ascending by id.
    std::vector<std::pair<std::string, std::string>> settings;
    std::uint64_t next_id = 1;
    std::uint64_t jobs_total = 0;  // Ever submitted, elements of arrays counted one by one.
  };
  virtual Result<Loaded> Load() = 0;

  /// Forgets final jobs that ended before `finished_before`, with their specifications, captures and history, and what
  /// happened to machines before that; an array
  /// after all of its elements. One step is one short transaction of at most 1,000 jobs (about 20 ms), so that commits
  /// can pass in between; it says true while there is more. The file keeps its size; the space is used again.
  virtual Result<bool> PruneStep(Time finished_before) = 0;
  /// All steps, one after another: about 15 ms per 1,000 jobs.
  Status Prune(Time finished_before) {
    while (true) {
      DIVVY_TRY(const bool has_more, PruneStep(finished_before));
      if (!has_more) return {};
    }
  }

  // Reads; safe on other threads than Commit's, and they do not wait for it, nor for a History under way. They see
  // committed batches only.
  virtual Result<JobRecord> Find(JobId id) = 0;  // kNotFound.
  virtual Result<JobSpec> Spec(JobId id) = 0;    // Environment included. An element gives its array's.
  virtual Result<std::vector<JobRecord>> History(const HistoryFilter& filter) = 0;
  virtual Result<std::vector<Batch::HistoryLine>> HistoryOf(JobId id) = 0;
  /// Runs that were over at or after `since`, of jobs that were started again; newest first, at most `limit`.
  virtual Result<std::vector<JobRecord>> PastRuns(Time since, std::uint64_t limit) = 0;
  /// Lines of all jobs and machines as they came, newest first, at most `limit`.
  virtual Result<std::vector<Batch::HistoryLine>> LatestHistory(std::uint64_t limit) = 0;
  virtual Result<std::optional<JobId>> LastOf(std::int64_t uid, std::uint64_t back) = 0;  // "@~back"; no elements.
  /// Newest first, at most 100; every user's when `user` is empty. Elements only where their array is called otherwise.
  virtual Result<std::vector<JobId>> Named(const std::string& name, const std::string& user) = 0;
};

/// Opens or creates the database file (mode 0600: it holds environments) and brings its schema up to this version; a
/// newer schema is refused by both numbers, kFailedPrecondition. A file that is not a database, or is damaged, is
/// kCorruptData with what to do, and stays as it is. While the store lives it holds a lock on `path` + "-lock"; a
/// second one is kFailedPrecondition and names the first one's pid.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

}  // namespace divvy
