// Writes batches to PostgreSQL, all of them in one transaction and one round trip. The only writer of the database.
//
// Only the session that holds the advisory lock may write. With several controllers, each commit also checks that the
// lease of this one is still the newest (store/lease.h). Each opening for writing, and each reconnection, increments
// the epoch in the table `writer`, and each commit checks it. So an older session can never write after a newer one
// began.
//
// A connection that is lost during a commit leaves its outcome unknown. Each commit writes its number in its
// transaction. After reconnecting, taking the next epoch waits for an unfinished transaction of the old session and
// prevents that a later one succeeds; then the number in the table says whether the commit happened.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "store/capture_cache.h"
#include "store/postgres/postgres_connection.h"
#include "store/store.h"
#include "store/writer_term.h"

namespace divvy {

class PostgresWriter {
 public:
  explicit PostgresWriter(const PostgresOptions& options);

  /// Connects, takes the lock, migrates the schema and checks the cluster. kFailedPrecondition if another writer holds
  /// the database (it is named), it belongs to another cluster, or its schema is newer.
  Status Open();
  /// Writes the batches like Store::Commit. If the connection is lost meanwhile, waits for the database until it is
  /// known whether the transaction was committed.
  Status Write(const std::vector<Batch>& batches);
  /// Removes old jobs, at most 1,000. Returns true while there is more to do. See Store::PruneStep.
  Result<bool> PruneStep(Time finished_before);
  /// Returns the connection, for copying a whole store. Null after the connection was lost.
  PgConnection* connection() { return connection_.get(); }
  /// If Write waits for the database, makes it stop and fail. May be called by another thread.
  void StopWaiting() { is_stopping_ = true; }
  /// How often the writer has connected. May be read on any thread.
  const std::atomic<unsigned>& connects() const { return connects_; }

 private:
  enum class Kind { kFence, kInsert, kUpdate, kOther };

  Status Connect();
  Status TakeLock();
  Status TakeCluster();
  Status TakeEpoch();
  Status PrepareAll();
  /// Reconnects. Waits until that succeeds, so that the outcome of commit `number` is known: true if it happened.
  Result<bool> WasCommitted(std::int64_t number);
  Status CheckSpecs(const std::vector<Batch>& batches) const;
  /// Finds or inserts the captures of all specifications, in a transaction before the commit. A capture without a
  /// specification is harmless; pruning removes it.
  PgConnection::Finished PutCaptures(const std::vector<Batch>& batches);
  std::int64_t CaptureId(const Capture& capture) const;
  /// Rows of one table that are inserted together: one statement for each row would take twice the time.
  struct Group {
    std::string one;   // Inserts one row.
    std::string many;  // Inserts kRowsInGroup rows.
    Kind kind;
    std::vector<PgParameters> rows;  // The first `count` are in use; the others keep their memory.
    std::size_t count = 0;
  };
  static constexpr std::size_t kRowsInGroup = 16;
  /// Adds a row to the group, and returns the row's parameters for the caller to set. If the group is full, sends it
  /// first.
  PgParameters& AddRow(Group& group);
  void SendGroup(Group& group);
  void SendBegin();
  void Send(const char* statement, Kind kind = Kind::kOther);
  void SendBatch(const Batch& batch);
  void SendCheck(const std::vector<Batch>& batches);
  void AddSpec(JobId job, const JobSpec& spec);
  void SendCounters(const std::vector<Batch>& batches);
  Error ErrorOf(const PgConnection::Finished& finished) const;
  /// Sends ROLLBACK for the transaction that failed with `finished`. Drops the connection if that fails too, or if the
  /// server has become a read-only standby.
  void RollBack(const PgConnection::Finished& finished);
  /// Runs the statements that were sent since SendBegin as one transaction.
  PgConnection::Finished Finish(const PgConnection::OnSentRow& on_row = {});

  PostgresOptions options_;
  std::atomic<unsigned> connects_ = 0;
  std::string application_;
  std::string holder_;                        // Names this writer in the table `writer`, and no other one.
  std::unique_ptr<PgConnection> connection_;  // Null after it was lost.
  int server_process_ = 0;                    // The server's process for the last connection.
  WriterTerm term_;
  std::atomic<bool> is_stopping_ = false;

  PgParameters parameters_;
  Group jobs_{"insert_job", "insert_jobs", Kind::kInsert, std::vector<PgParameters>(kRowsInGroup), 0};
  Group specs_{"write_spec", "write_specs", Kind::kOther, std::vector<PgParameters>(kRowsInGroup), 0};
  Group history_{"insert_history", "insert_histories", Kind::kOther, std::vector<PgParameters>(kRowsInGroup), 0};
  std::vector<Kind> sent_;  // The statements of this transaction.
  CaptureCache known_captures_;
  // The captures of this commit, by hash.
  std::unordered_multimap<std::int64_t, std::pair<const Capture*, std::int64_t>> captures_;
};

/// Takes the advisory lock of the only writer. Waits for a moment for a session that is ending. kFailedPrecondition
/// names the holder. `lease`: the epoch of the caller's lease (0: none); if it is the newest, the session that holds
/// the lock is ended: it belongs to a controller that no longer leads.
Status LockForWriting(PgConnection& connection, std::int64_t lease);
Status UnlockForWriting(PgConnection& connection);

/// Returns the types of the parameters of RowParameters(), in the form of PgStatement::types.
std::string RowTypes();

/// SQL with the settings that every connection begins with.
extern const char* const kPgSettings;

}  // namespace divvy
