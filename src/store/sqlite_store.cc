#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "store/batch_writer.h"
#include "store/file_lock.h"
#include "store/history_query.h"
#include "store/row.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "wire/messages/spec_json.h"

namespace divvy {
namespace {

constexpr std::int64_t kNamedAtMost = 100;

// synchronous=FULL syncs the log at every commit, so commits are durable. The log is copied into the file whenever it
// has 1,000 pages (4 MB). It is truncated if a burst or a full disk made it longer than 64 MB.
constexpr char kWriterSettings[] =
    "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 67108864;"
    "PRAGMA cache_size = -8192; PRAGMA temp_store = MEMORY;";
constexpr char kReaderSettings[] = "PRAGMA query_only = ON; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;";

std::int64_t Number(JobId id) { return static_cast<std::int64_t>(id.value()); }
std::int64_t Number(Time time) { return time.time_since_epoch().count(); }

Error NoSuchJob(JobId id) { return NotFound("there is no job " + ToString(id)); }

std::int64_t LimitOf(std::uint64_t limit) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(limit, INT64_MAX));
}

Result<std::vector<JobRecord>> ReadRows(Statement& statement) {
  std::vector<JobRecord> records;
  while (true) {
    DIVVY_TRY(const bool has_row, statement.Next());
    if (!has_row) return records;
    DIVVY_TRY(JobRecord record, ReadRow(statement));
    records.push_back(std::move(record));
  }
}

class SqliteStore : public Store {
 public:
  SqliteStore(FileLock lock, const std::string& path)
      : lock_(std::move(lock)), writing_(path), reading_(path), scanning_(path) {}

  Status Open();

  Status Commit(const std::vector<Batch>& batches) override;
  Result<Loaded> Load() override;
  Result<bool> PruneStep(Time finished_before) override;

  Result<JobRecord> Find(JobId id) override;
  Result<JobSpec> Spec(JobId id) override;
  Result<std::vector<JobRecord>> History(const HistoryFilter& filter) override;
  Result<std::vector<Batch::HistoryLine>> HistoryOf(JobId id) override;
  Result<std::vector<JobRecord>> PastRuns(Time since, std::uint64_t limit) override;
  Result<std::vector<Batch::HistoryLine>> LatestHistory(std::uint64_t limit) override;
  Result<std::optional<JobId>> LastOf(std::int64_t uid, std::uint64_t back) override;
  Result<std::vector<JobId>> Named(const std::string& name, const std::string& user) override;

 private:
  Status PrepareReads();

  // The lock is declared first, so that it is released last, after all connections are closed.
  FileLock lock_;

  std::mutex writer_mutex_;
  Connection writing_;
  std::unique_ptr<BatchWriter> writer_;

  std::mutex reader_mutex_;
  Connection reading_;
  Statement find_, spec_, history_of_, last_of_, named_;

  // A separate connection for queries that may take seconds, so that short reads do not wait for them.
  std::mutex scan_mutex_;
  Connection scanning_;
};

Status SqliteStore::Open() {
  DIVVY_CHECK(writing_.Open());
  DIVVY_CHECK(MigrateSchema(writing_, Migrations()));
  DIVVY_TRY(const std::int64_t is_copy, writing_.QueryInteger("SELECT count(*) FROM meta WHERE key = 'copying'"));
  if (is_copy != 0) {
    return FailedPrecondition(writing_.path() +
                              " holds an unfinished copy: finish it with \"divvy store copy\", or move it away");
  }
  DIVVY_TRY(Statement journal, writing_.Prepare("PRAGMA journal_mode = WAL"));
  DIVVY_TRY(const bool has_mode, journal.Next());
  if (!has_mode || journal.Text(0) != "wal") {
    return FailedPrecondition(writing_.path() +
                              " is on a file system without shared memory (a network disk?); "
                              "put the daemon's state on a local disk");
  }
  journal.Reset();
  DIVVY_CHECK(writing_.Execute(kWriterSettings));
  DIVVY_TRY(writer_, BatchWriter::Create(writing_));
  DIVVY_CHECK(reading_.Open());
  DIVVY_CHECK(reading_.Execute(kReaderSettings));
  DIVVY_CHECK(scanning_.Open());
  DIVVY_CHECK(scanning_.Execute(kReaderSettings));
  return PrepareReads();
}

Status SqliteStore::PrepareReads() {
  DIVVY_TRY(find_, reading_.Prepare("SELECT " + RowColumns() + " FROM jobs WHERE id = ?1"));
  DIVVY_TRY(spec_, reading_.Prepare("SELECT spec, body FROM jobs JOIN specs ON specs.job = jobs.spec_of "
                                    "LEFT JOIN captures ON captures.id = specs.capture WHERE jobs.id = ?1"));
  DIVVY_TRY(history_of_, reading_.Prepare("SELECT at, text FROM history WHERE job = ?1 ORDER BY rowid"));
  DIVVY_TRY(last_of_, reading_.Prepare("SELECT id FROM jobs WHERE uid = ?1 AND array_id = 0 "
                                       "ORDER BY id DESC LIMIT 1 OFFSET ?2"));
  DIVVY_TRY(named_, reading_.Prepare("SELECT id FROM jobs WHERE name = ?1 AND has_own_name = 1 "
                                     "AND (?2 = '' OR user = ?2) ORDER BY id DESC LIMIT ?3"));
  return {};
}

Status SqliteStore::Commit(const std::vector<Batch>& batches) {
  if (std::ranges::all_of(batches, &Batch::empty)) return {};
  const std::lock_guard lock(writer_mutex_);
  return writer_->Write(batches);
}

Result<Store::Loaded> SqliteStore::Load() {
  const std::lock_guard lock(writer_mutex_);
  Loaded loaded;
  DIVVY_TRY(Statement live, writing_.Prepare("SELECT " + RowColumns() + " FROM jobs WHERE state < 6 ORDER BY id"));
  while (true) {
    DIVVY_TRY(const bool has_row, live.Next());
    if (!has_row) break;
    DIVVY_TRY(JobRecord record, ReadRow(live));
    const JobId id = record.id;
    loaded.live.emplace_hint(loaded.live.end(), id, std::move(record));
  }
  DIVVY_TRY(Statement settings, writing_.Prepare("SELECT key, value FROM settings ORDER BY key"));
  while (true) {
    DIVVY_TRY(const bool has_row, settings.Next());
    if (!has_row) break;
    loaded.settings.emplace_back(settings.Text(0), settings.Text(1));
  }
  DIVVY_TRY(const std::int64_t next, writing_.QueryInteger("SELECT value FROM meta WHERE key = 'next_id'"));
  // The next id is never one that a job has, even if a batch was written without the counter of ids.
  DIVVY_TRY(const std::int64_t free,
            writing_.QueryInteger("SELECT id + array_count + 1 FROM jobs ORDER BY id DESC LIMIT 1"));
  loaded.next_id = static_cast<std::uint64_t>(std::max(next, free));
  DIVVY_TRY(const std::int64_t total, writing_.QueryInteger("SELECT value FROM meta WHERE key = 'jobs_total'"));
  loaded.jobs_total = static_cast<std::uint64_t>(total);
  return loaded;
}

Result<bool> SqliteStore::PruneStep(Time finished_before) {
  const std::lock_guard lock(writer_mutex_);
  return writer_->PruneStep(finished_before);
}

Result<JobRecord> SqliteStore::Find(JobId id) {
  const std::lock_guard lock(reader_mutex_);
  find_.Bind(1, Number(id));
  DIVVY_TRY(const bool has_row, find_.Next());
  if (!has_row) return NoSuchJob(id);
  Result<JobRecord> record = ReadRow(find_);
  find_.Reset();
  return record;
}

Result<JobSpec> SqliteStore::Spec(JobId id) {
  const std::lock_guard lock(reader_mutex_);
  spec_.Bind(1, Number(id));
  DIVVY_TRY(const bool has_row, spec_.Next());
  if (!has_row) return NoSuchJob(id);
  Result<JobSpec> spec = SpecFromJson(spec_.Text(0));
  Result<Capture> capture = spec_.IsNull(1) ? Result<Capture>(Capture()) : CaptureFromJson(spec_.Text(1));
  spec_.Reset();
  if (!spec)
    return CorruptData("the specification of job " + ToString(id) + " cannot be read: " + spec.error().message);
  if (!capture) {
    return CorruptData("the environment of job " + ToString(id) + " cannot be read: " + capture.error().message);
  }
  spec->capture = *std::move(capture);
  return spec;
}

Result<std::vector<JobRecord>> SqliteStore::History(const HistoryFilter& filter) {
  const std::lock_guard lock(scan_mutex_);
  const HistoryQuery query = QueryFor(filter);
  DIVVY_TRY(Statement statement, scanning_.Prepare(query.sql));
  int parameter = 0;
  for (const std::string& text : query.texts) statement.Bind(++parameter, std::string_view(text));
  return ReadRows(statement);
}

Result<std::vector<JobRecord>> SqliteStore::PastRuns(Time since, std::uint64_t limit) {
  const std::lock_guard lock(scan_mutex_);
  DIVVY_TRY(Statement statement, scanning_.Prepare("SELECT " + ColumnsOfRuns() +
                                                   " FROM runs JOIN jobs ON jobs.id = runs.job "
                                                   "WHERE runs.ended >= ?1 ORDER BY runs.ended DESC LIMIT ?2"));
  statement.Bind(1, Number(since));
  statement.Bind(2, LimitOf(limit));
  return ReadRows(statement);
}

Result<std::vector<Batch::HistoryLine>> SqliteStore::LatestHistory(std::uint64_t limit) {
  const std::lock_guard lock(scan_mutex_);
  DIVVY_TRY(Statement statement, scanning_.Prepare("SELECT at, text, job FROM history ORDER BY rowid DESC LIMIT ?1"));
  statement.Bind(1, LimitOf(limit));
  std::vector<Batch::HistoryLine> lines;
  while (true) {
    DIVVY_TRY(const bool has_row, statement.Next());
    if (!has_row) return lines;
    lines.push_back({JobId(static_cast<std::uint64_t>(statement.Integer(2))), Time(Duration(statement.Integer(0))),
                     std::string(statement.Text(1))});
  }
}

Result<std::vector<Batch::HistoryLine>> SqliteStore::HistoryOf(JobId id) {
  const std::lock_guard lock(reader_mutex_);
  history_of_.Bind(1, Number(id));
  std::vector<Batch::HistoryLine> lines;
  while (true) {
    DIVVY_TRY(const bool has_row, history_of_.Next());
    if (!has_row) return lines;
    lines.push_back({id, Time(Duration(history_of_.Integer(0))), std::string(history_of_.Text(1))});
  }
}

Result<std::optional<JobId>> SqliteStore::LastOf(std::int64_t uid, std::uint64_t back) {
  const std::lock_guard lock(reader_mutex_);
  last_of_.Bind(1, uid);
  last_of_.Bind(2, LimitOf(back));
  DIVVY_TRY(const bool has_row, last_of_.Next());
  if (!has_row) return std::nullopt;
  const JobId id(static_cast<std::uint64_t>(last_of_.Integer(0)));
  last_of_.Reset();
  return id;
}

Result<std::vector<JobId>> SqliteStore::Named(const std::string& name, const std::string& user) {
  const std::lock_guard lock(reader_mutex_);
  named_.Bind(1, std::string_view(name));
  named_.Bind(2, std::string_view(user));
  named_.Bind(3, kNamedAtMost);
  std::vector<JobId> ids;
  while (true) {
    DIVVY_TRY(const bool has_row, named_.Next());
    if (!has_row) return ids;
    ids.emplace_back(static_cast<std::uint64_t>(named_.Integer(0)));
  }
}

// SQLite would create the file readable by all users. Its -wal and -shm files get the mode of this file.
Status CreateFile(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) {
    const int error_number = errno;
    const std::string cause = std::strerror(error_number);
    if (error_number == ENOSPC || error_number == EDQUOT) return LimitExceeded("cannot create " + path + ": " + cause);
    return FailedPrecondition("cannot open " + path + " (" + cause + "): check the folder and its permissions");
  }
  ::close(descriptor);
  return {};
}

}  // namespace

Result<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path) {
  DIVVY_TRY(FileLock lock, FileLock::Acquire(path + "-lock", path));
  DIVVY_CHECK(CreateFile(path));
  auto store = std::make_unique<SqliteStore>(std::move(lock), path);
  DIVVY_CHECK(store->Open());
  return store;
}

}  // namespace divvy
