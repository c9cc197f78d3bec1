// The durable state, with one writer and concurrent readers. Everything in one commit becomes durable together: after
// Commit returns, it survives kill -9 and a power cut (SQLite WAL, synchronous=FULL; PostgreSQL, synchronous_commit).
//
// Final jobs are only kept here, so the daemon's memory does not grow with history.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
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
  std::optional<std::pair<JobId, JobId>> ids;  // Both ends inclusive; without array elements.
  Time since = kNoTime;                        // Jobs that ended at or after this. Jobs that have not ended: submitted
                                               // at or after this.
  std::uint64_t limit = 0;                     // Newest first; 0: all.
};

class Store {
 public:
  virtual ~Store() = default;

  /// Writes all batches together; they are durable when it returns. kLimitExceeded: writing is impossible now (the disk
  /// is full, or another program holds a lock). Then no batch was written, and a later try may succeed. After other
  /// errors the store cannot be used any more. Inserting an existing id or updating a missing one is kInternal.
  virtual Status Commit(const std::vector<Batch>& batches) = 0;

  struct Loaded {
    /// Every record that is not final. The controller keeps this map itself: with a long queue, moving each record
    /// costs a third of a take-over.
    std::map<JobId, JobRecord> live;
    std::vector<std::pair<std::string, std::string>> settings;
    std::uint64_t next_id = 1;
    std::uint64_t jobs_total = 0;  // Jobs that were ever submitted; array elements count one by one.
  };
  virtual Result<Loaded> Load() = 0;

  /// Removes final jobs that ended before `finished_before`, with their specifications, captures and history, and node
  /// events before that time. An array is removed after all of its elements. One step is a short transaction of at most
  /// 1,000 jobs (about 20 ms), so that commits can run in between. Returns true while there is more to do. The file
  /// keeps its size, and its space is reused.
  virtual Result<bool> PruneStep(Time finished_before) = 0;
  /// Runs all steps: about 15 ms per 1,000 jobs.
  Status Prune(Time finished_before) {
    while (true) {
      DIVVY_TRY(const bool has_more, PruneStep(finished_before));
      if (!has_more) return {};
    }
  }

  // Reads. They may run on other threads than Commit, and wait neither for it nor for a running History. They only see
  // committed batches.
  virtual Result<JobRecord> Find(JobId id) = 0;  // kNotFound.
  virtual Result<JobSpec> Spec(JobId id) = 0;    // Includes the environment. For an array element: the array's spec.
  virtual Result<std::vector<JobRecord>> History(const HistoryFilter& filter) = 0;
  virtual Result<std::vector<Batch::HistoryLine>> HistoryOf(JobId id) = 0;
  /// Runs that ended at or after `since`, of jobs that were started again. Newest first, at most `limit`.
  virtual Result<std::vector<JobRecord>> PastRuns(Time since, std::uint64_t limit) = 0;
  /// History lines of all jobs and nodes, newest first, at most `limit`.
  virtual Result<std::vector<Batch::HistoryLine>> LatestHistory(std::uint64_t limit) = 0;
  /// Returns the job that the user submitted last, or, if `back` is not 0, the job that many submissions earlier ("@~2"
  /// on the command line). Array elements do not count.
  virtual Result<std::optional<JobId>> LastOf(std::int64_t uid, std::uint64_t back) = 0;
  /// Returns the ids of the newest jobs with this name, newest first, at most 100. `user` empty: of all users. An array
  /// element is included only if its name differs from the name of its array.
  virtual Result<std::vector<JobId>> Named(const std::string& name, const std::string& user) = 0;

  /// True if Commit waits for another process. Then Commit must not be called on a thread that has other work.
  virtual bool is_remote() const { return false; }
  /// A remote store waits with Commit until it knows the outcome. After this call, such a Commit fails instead with
  /// kUnreachable. For a process that is about to end; may be called by any thread.
  virtual void StopWaiting() {}
};

/// Opens or creates the database file (mode 0600, because it holds environments), and migrates its schema to the
/// version of this program. A newer schema is kFailedPrecondition, with both versions. A file that is damaged or not a
/// database is kCorruptData with a remedy, and stays unchanged. While the store lives, it holds a lock on `path` +
/// "-lock"; a second store on the same file is kFailedPrecondition and names the first one's pid.
Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path);

struct FollowedJobs;

struct PostgresOptions {
  std::string url;           // postgresql://...
  std::string cluster;       // The id of the caller's cluster. An empty database becomes its database. Empty: any.
  std::string cluster_file;  // Where the caller keeps that id, for messages.
  bool is_copy = false;      // An unfinished copy may be opened.
  bool is_source = false;    // For checking and copying: creates and migrates nothing.
  /// The epoch of the caller's lease (store/lease.h): every commit checks that it is still the newest. 0: no lease.
  std::int64_t lease = 0;
  /// Optional. Live jobs that were read before (store/follower.h): Load reads only what has changed since.
  std::shared_ptr<FollowedJobs> followed = nullptr;
  Duration patience = std::chrono::seconds(30);          // For one transaction; then the connection counts as lost.
  Duration outcome_patience = std::chrono::minutes(10);  // How long Commit tries to learn the outcome of a transaction.
};

/// Opens or creates divvy's tables in a database of PostgreSQL, and migrates them to the version of this program.
/// kUnreachable if the server cannot be reached. kFailedPrecondition if libpq is missing, the schema is newer, the
/// database belongs to another cluster, or another process has it open for writing (it is named). No message contains a
/// password.
Result<std::unique_ptr<Store>> OpenPostgresStore(const PostgresOptions& options);

}  // namespace divvy
