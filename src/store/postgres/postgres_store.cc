#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "store/follower.h"
#include "store/history_query.h"
#include "store/postgres/postgres_connection.h"
#include "store/postgres/postgres_writer.h"
#include "store/row.h"
#include "store/store.h"
#include "wire/messages/spec_json.h"

namespace divvy {
namespace {

constexpr std::int64_t kNamedInPostgres = 100;
constexpr std::int64_t kRowsPerLoad = 10'000;
// Short reads may run on the daemon's loop, which must not stand still for long.
constexpr Duration kReadTimeout = std::chrono::seconds(5);
// Queries over the whole history may take long.
constexpr Duration kScanTimeout = std::chrono::minutes(10);
// The same queries in a process that only reads: its callers can ask the process that writes instead.
constexpr Duration kCopyTimeout = std::chrono::seconds(10);

std::int64_t NumberOf(JobId id) { return static_cast<std::int64_t>(id.value()); }
std::int64_t NumberOf(Time time) { return time.time_since_epoch().count(); }
std::int64_t NumberOf(std::uint64_t limit) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(limit, INT64_MAX));
}
JobId IdOf(std::int64_t number) { return JobId(static_cast<std::uint64_t>(number)); }

Error NoSuchJobInPostgres(JobId id) { return NotFound("there is no job " + ToString(id)); }

/// "at, text, job"
Result<Batch::HistoryLine> LineOf(const Columns& row) {
  return Batch::HistoryLine{IdOf(row.Integer(2)), Time(Duration(row.Integer(0))), std::string(row.Text(1))};
}

/// A connection that only reads, for one thread at a time. It connects again after it was lost. After a failed attempt
/// it answers with the same error for a while, because an attempt may take seconds.
class PgReader {
 public:
  /// `writer_connects`: how often the writer has connected. After a failover the old primary may still answer, so this
  /// connection is opened anew whenever the writer's was, if that is possible.
  PgReader(PgConnection::Options options, const std::atomic<unsigned>& writer_connects)
      : options_(std::move(options)), writer_connects_(writer_connects) {
    options_.settings = std::string(kPgSettings) + "; SET default_transaction_read_only = on";
  }

  void Add(PgStatement statement) { statements_.push_back(std::move(statement)); }
  /// How often it has connected.
  unsigned opens() const { return opens_; }

  Status Open() {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_attempt_) return last_error_;
    const unsigned connects = writer_connects_.load();
    auto opened = PgConnection::Open(options_);
    Status done;
    if (!opened) done = opened.error();
    if (opened) done = (*opened)->Prepare(statements_);
    if (done) {
      connection_ = *std::move(opened);
      ++opens_;
      opened_at_ = connects;
      return {};
    }
    last_error_ = done.error();
    // If the attempt failed at once, as with a server that restarts, the next attempt is made soon.
    const auto took = std::chrono::steady_clock::now() - now;
    next_attempt_ = now + took +
                    std::clamp<std::chrono::steady_clock::duration>(took * 5, std::chrono::milliseconds(50),
                                                                    std::chrono::seconds(30));
    return done;
  }

  /// Runs a query and returns one value for each row, made by `convert`. `name`: a prepared statement; if it is empty,
  /// `sql` is run.
  template <typename Convert>
  auto Read(const std::string& name, const std::string& sql, const PgParameters& parameters, Convert convert) {
    using Value = typename decltype(convert(std::declval<const Columns&>()))::value_type;
    Result<std::vector<Value>> out = std::vector<Value>();
    const std::lock_guard lock(mutex_);
    if (opened_at_ != writer_connects_.load()) {
      std::unique_ptr<PgConnection> before = std::move(connection_);
      if (!Open()) connection_ = std::move(before);
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (connection_ == nullptr) {
        if (const Status opened = Open(); !opened) return Result<std::vector<Value>>(opened.error());
      }
      out->clear();
      const auto add = [&](const Columns& row) -> Status {
        DIVVY_TRY(Value value, convert(row));
        out->push_back(std::move(value));
        return {};
      };
      const Status done =
          name.empty() ? connection_->QueryOnce(sql, parameters, add) : connection_->Query(name, parameters, add);
      if (done) return out;
      if (!connection_->is_lost()) return Result<std::vector<Value>>(done.error());
      connection_.reset();
      if (attempt == 1) return Result<std::vector<Value>>(done.error());
    }
    return out;
  }

 private:
  std::mutex mutex_;
  PgConnection::Options options_;
  const std::atomic<unsigned>& writer_connects_;
  unsigned opened_at_ = 0;
  unsigned opens_ = 0;
  std::vector<PgStatement> statements_;
  std::unique_ptr<PgConnection> connection_;
  std::chrono::steady_clock::time_point next_attempt_;
  Error last_error_;  // The last attempt to connect failed with it.
};

Result<std::int64_t> ReadNumber(PgReader& reader, const std::string& sql) {
  const auto integer = [](const Columns& row) -> Result<std::int64_t> { return row.Integer(0); };
  DIVVY_TRY(const auto values, reader.Read("", sql, {}, integer));
  return values.empty() ? 0 : values.front();
}

/// Calls `take` with all live jobs, ascending by id. Reads the jobs in parts; a part is read again if the connection is
/// lost. `take` returns false to stop.
Status ReadLive(PgReader& reader, const std::function<bool(std::vector<JobRecord>)>& take) {
  const std::string page = "SELECT " + RowColumns() + " FROM jobs WHERE state < 6 AND id > ?1 ORDER BY id LIMIT ?2";
  std::int64_t last = INT64_MIN;
  while (true) {
    DIVVY_TRY(auto records, reader.Read("", page, PgParameters::Of(last, kRowsPerLoad), ReadRow));
    if (records.empty()) return {};
    last = NumberOf(records.back().id);
    if (!take(std::move(records))) return Unreachable("stopped while reading jobs");
  }
}

void Append(std::map<JobId, JobRecord>& live, std::vector<JobRecord>& records) {
  for (JobRecord& record : records) {
    const JobId id = record.id;
    live.emplace_hint(live.end(), id, std::move(record));
  }
}

const std::string kCommitsSql = "SELECT commits FROM writer";

// Reads the rows that were changed since the last call. A transaction that is still running now is read in the next
// call: `since` is not greater than its number.
Status ReadChanges(PgReader& reader, FollowedJobs& jobs) {
  DIVVY_TRY(const std::int64_t since, ReadNumber(reader, "SELECT txid_snapshot_xmin(txid_current_snapshot())"));
  DIVVY_TRY(auto records, reader.Read("", "SELECT " + RowColumns() + " FROM jobs WHERE changed >= ?1",
                                      PgParameters::Of(jobs.since), ReadRow));
  for (JobRecord& record : records) {
    const JobId id = record.id;
    if (IsFinal(record.state)) jobs.live.erase(id);
    else jobs.live.insert_or_assign(id, std::move(record));
  }
  jobs.since = since;
  DIVVY_TRY(jobs.commits, ReadNumber(reader, kCommitsSql));  // After the rows, so that it counts them.
  return {};
}

class PostgresFollower final : public StoreFollower {
 public:
  explicit PostgresFollower(const PostgresOptions& options)
      : reader_({options.url, "divvy follows", "", std::min(options.patience, kReadTimeout)}, connects_) {}

  Status Follow() override {
    if (is_stopping_) return Unreachable("stopped");
    // After a reconnection the server may be another one, whose transactions have smaller numbers, or which has lost
    // some transactions.
    if (jobs_->since != 0) {
      const unsigned before = reader_.opens();
      const Status done = ReadChanges(reader_, *jobs_);
      if (reader_.opens() == before) return done;
      jobs_->since = 0;
      DIVVY_CHECK(done);
    }
    DIVVY_TRY(const std::int64_t since, ReadNumber(reader_, "SELECT txid_snapshot_xmin(txid_current_snapshot())"));
    jobs_->live.clear();
    DIVVY_CHECK(ReadLive(reader_, [this](std::vector<JobRecord> records) {
      Append(jobs_->live, records);
      return !is_stopping_;
    }));
    DIVVY_TRY(jobs_->commits, ReadNumber(reader_, kCommitsSql));
    jobs_->since = since;
    return {};
  }
  void Stop() override { is_stopping_ = true; }
  std::shared_ptr<FollowedJobs> jobs() const override { return jobs_; }

 private:
  const std::atomic<unsigned> connects_ = 0;
  PgReader reader_;
  std::shared_ptr<FollowedJobs> jobs_ = std::make_shared<FollowedJobs>();
  std::atomic<bool> is_stopping_ = false;
};

class PostgresStore : public Store {
 public:
  explicit PostgresStore(const PostgresOptions& options, bool is_reader = false)
      : is_reader_(is_reader),
        followed_(options.followed),
        writer_(options),
        reader_({options.url, "divvy reads", "", std::min(options.patience, kReadTimeout)}, writer_.connects()),
        scanner_({options.url, "divvy reads", "", is_reader ? kCopyTimeout : std::max(options.patience, kScanTimeout)},
                 writer_.connects()) {}

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
  bool is_remote() const override { return true; }
  void StopWaiting() override { writer_.StopWaiting(); }

 private:
  const bool is_reader_;
  std::shared_ptr<FollowedJobs> followed_;
  std::mutex writer_mutex_;
  PostgresWriter writer_;
  PgReader reader_;
  PgReader scanner_;  // For queries that may take seconds, so that short reads do not wait for them.
};

Status PostgresStore::Open() {
  if (!is_reader_) DIVVY_CHECK(writer_.Open());
  reader_.Add({"find", "SELECT " + RowColumns() + " FROM jobs WHERE id = ?1", "n"});
  reader_.Add({"spec",
               "SELECT spec, body FROM jobs JOIN specs ON specs.job = jobs.spec_of "
               "LEFT JOIN captures ON captures.id = specs.capture WHERE jobs.id = ?1",
               "n"});
  reader_.Add({"history_of", "SELECT at, text, job FROM history WHERE job = ?1 ORDER BY id", "n"});
  reader_.Add(
      {"last_of", "SELECT id FROM jobs WHERE uid = ?1 AND array_id = 0 ORDER BY id DESC LIMIT 1 OFFSET ?2", "nn"});
  reader_.Add({"named",
               "SELECT id FROM jobs WHERE name = ?1 AND has_own_name = 1 AND (?2 = '' OR \"user\" = ?2) "
               "ORDER BY id DESC LIMIT ?3",
               "ttn"});
  DIVVY_CHECK(reader_.Open());
  return scanner_.Open();
}

Status PostgresStore::Commit(const std::vector<Batch>& batches) {
  if (std::ranges::all_of(batches, &Batch::empty)) return {};
  if (is_reader_) return FailedPrecondition("this store only reads");
  const std::lock_guard lock(writer_mutex_);
  return writer_.Write(batches);
}

Result<bool> PostgresStore::PruneStep(Time finished_before) {
  if (is_reader_) return FailedPrecondition("this store only reads");
  const std::lock_guard lock(writer_mutex_);
  return writer_.PruneStep(finished_before);
}

// The parts of the state are read one after the other. They are consistent in the process that writes. In a reader,
// jobs may be older than the settings.
Result<Store::Loaded> PostgresStore::Load() {
  Loaded loaded;
  const auto number = [&](const std::string& sql) { return ReadNumber(scanner_, sql); };
  // A database that was restored, or a replica that was behind, may have fewer commits than the one that was followed.
  DIVVY_TRY(const std::int64_t commits, number(kCommitsSql));
  if (followed_ && followed_->since != 0 && followed_->commits <= commits) {
    DIVVY_CHECK(ReadChanges(scanner_, *followed_));
    loaded.live = std::move(followed_->live);
    followed_.reset();
  } else {
    DIVVY_CHECK(ReadLive(scanner_, [&](std::vector<JobRecord> records) {
      Append(loaded.live, records);
      return true;
    }));
  }
  DIVVY_TRY(loaded.settings, scanner_.Read("", "SELECT key, value FROM settings ORDER BY key", {},
                                           [](const Columns& row) -> Result<std::pair<std::string, std::string>> {
                                             return std::pair(std::string(row.Text(0)), std::string(row.Text(1)));
                                           }));
  DIVVY_TRY(const std::int64_t next, number("SELECT value FROM meta WHERE key = 'next_id'"));
  // The next id is never one that a job has, even if a batch was written without the counter of ids.
  DIVVY_TRY(const std::int64_t free, number("SELECT id + array_count + 1 FROM jobs ORDER BY id DESC LIMIT 1"));
  loaded.next_id = static_cast<std::uint64_t>(std::max(next, free));
  DIVVY_TRY(const std::int64_t total, number("SELECT value FROM meta WHERE key = 'jobs_total'"));
  loaded.jobs_total = static_cast<std::uint64_t>(total);
  return loaded;
}

Result<JobRecord> PostgresStore::Find(JobId id) {
  DIVVY_TRY(auto records, reader_.Read("find", "", PgParameters::Of(NumberOf(id)), ReadRow));
  if (records.empty()) return NoSuchJobInPostgres(id);
  return std::move(records.front());
}

Result<JobSpec> PostgresStore::Spec(JobId id) {
  const auto read = [id](const Columns& row) -> Result<JobSpec> {
    Result<JobSpec> spec = SpecFromJson(row.Text(0));
    Result<Capture> capture = row.IsNull(1) ? Result<Capture>(Capture()) : CaptureFromJson(row.Text(1));
    if (!spec)
      return CorruptData("the specification of job " + ToString(id) + " cannot be read: " + spec.error().message);
    if (!capture)
      return CorruptData("the environment of job " + ToString(id) + " cannot be read: " + capture.error().message);
    spec->capture = *std::move(capture);
    return spec;
  };
  DIVVY_TRY(auto specs, reader_.Read("spec", "", PgParameters::Of(NumberOf(id)), read));
  if (specs.empty()) return NoSuchJobInPostgres(id);
  return std::move(specs.front());
}

Result<std::vector<JobRecord>> PostgresStore::History(const HistoryFilter& filter) {
  const HistoryQuery query = QueryFor(filter);
  PgParameters parameters;
  int parameter = 0;
  for (const std::string& text : query.texts) parameters.Bind(++parameter, std::string_view(text));
  return scanner_.Read("", query.sql, parameters, ReadRow);
}

Result<std::vector<JobRecord>> PostgresStore::PastRuns(Time since, std::uint64_t limit) {
  return scanner_.Read("",
                       "SELECT " + ColumnsOfRuns() +
                           " FROM runs JOIN jobs ON jobs.id = runs.job WHERE runs.ended >= ?1 "
                           "ORDER BY runs.ended DESC, runs.id DESC LIMIT ?2",
                       PgParameters::Of(NumberOf(since), NumberOf(limit)), ReadRow);
}

Result<std::vector<Batch::HistoryLine>> PostgresStore::LatestHistory(std::uint64_t limit) {
  return scanner_.Read("", "SELECT at, text, job FROM history ORDER BY id DESC LIMIT ?1",
                       PgParameters::Of(NumberOf(limit)), LineOf);
}

Result<std::vector<Batch::HistoryLine>> PostgresStore::HistoryOf(JobId id) {
  return reader_.Read("history_of", "", PgParameters::Of(NumberOf(id)), LineOf);
}

Result<std::optional<JobId>> PostgresStore::LastOf(std::int64_t uid, std::uint64_t back) {
  const auto id = [](const Columns& row) -> Result<JobId> { return IdOf(row.Integer(0)); };
  DIVVY_TRY(const auto ids, reader_.Read("last_of", "", PgParameters::Of(uid, NumberOf(back)), id));
  return ids.empty() ? std::nullopt : std::optional(ids.front());
}

Result<std::vector<JobId>> PostgresStore::Named(const std::string& name, const std::string& user) {
  const auto id = [](const Columns& row) -> Result<JobId> { return IdOf(row.Integer(0)); };
  return reader_.Read("named", "", PgParameters::Of(name, user, kNamedInPostgres), id);
}

}  // namespace

std::unique_ptr<StoreFollower> FollowPostgresStore(const PostgresOptions& options) {
  return std::make_unique<PostgresFollower>(options);
}

Result<std::unique_ptr<Store>> OpenPostgresReader(const PostgresOptions& options) {
  auto store = std::make_unique<PostgresStore>(options, true);
  DIVVY_CHECK(store->Open());
  return store;
}

Result<std::unique_ptr<Store>> OpenPostgresStore(const PostgresOptions& options) {
  auto store = std::make_unique<PostgresStore>(options);
  DIVVY_CHECK(store->Open());
  return store;
}

}  // namespace divvy
