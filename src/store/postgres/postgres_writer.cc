#include "store/postgres/postgres_writer.h"

#include <unistd.h>

#include <array>
#include <random>
#include <set>
#include <thread>

#include "base/text.h"
#include "store/postgres/postgres_schema.h"
#include "store/row.h"
#include "wire/messages/spec_json.h"

namespace divvy {

// The keepalives make the server end sessions of machines that died, and so release their lock.
const char* const kPgSettings =
    "SET search_path = divvy; SET jit = off; SET plan_cache_mode = force_generic_plan; SET statement_timeout = 0; SET "
    "idle_in_transaction_session_timeout = 0;"
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";

namespace {

constexpr int kOldestServer = 120'000;
constexpr std::int64_t kPgJobsPerPrune = 1'000;
constexpr std::int64_t kPgCapturesPerPrune = 1'000;
constexpr auto kBetweenAttempts = std::chrono::milliseconds(100);
/// The pause between attempts to take the lock. A session that was just ended is gone within moments.
constexpr auto kBetweenLocks = std::chrono::milliseconds(10);
// How long a new writer waits for the lock: the server notices within moments that a process on its machine was killed.
constexpr auto kLockTimeout = std::chrono::seconds(5);
// The key of the advisory lock: "divv" as a number, as in SQLite's application_id, and 1.
const std::string kLock = "(1684633206, 1)";

// PostgreSQL cuts an application_name after 63 bytes, and TakeLock compares it.
constexpr std::size_t kLongestHostName = 40;

std::string HostNameText() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

/// Returns a text that is different for each writer, even on machines with the same name and for equal process ids.
std::string UniqueText() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random());
}

/// A statement that fails with a division by zero unless `change` changes exactly one row.
std::string MustChangeOne(const std::string& change) {
  return "WITH changed AS (" + change + " RETURNING 1) SELECT 1 / count(*) FROM changed";
}
/// A condition: the lease has this epoch, or it is 0.
std::string HasLease(const std::string& epoch) {
  return "(" + epoch + " = 0 OR " + epoch + " = (SELECT epoch FROM lease))";
}
constexpr std::string_view kDivisionByZero = "22012";
constexpr std::string_view kDuplicateKey = "23505";

std::string OwnNameInPostgres() {
  return "(" + RowParameter("name") +
         " IS DISTINCT FROM (SELECT name FROM jobs WHERE id = " + RowParameter("array_id") + "))::int";
}

}  // namespace

std::string RowTypes() {
  JobRecord record;
  record.exit = Exit();
  PgParameters parameters;
  BindRow(parameters, record);
  return parameters.Types();
}

namespace {

/// "(?1, ?2), (?3, ?4)": `rows` rows of `columns` parameters, each with `more` at its end.
std::string RowsSql(std::size_t rows, std::size_t columns, const std::string& more) {
  std::string out;
  for (std::size_t row = 0; row < rows; ++row) {
    out += row == 0 ? "(" : ", (";
    for (std::size_t i = 1; i <= columns; ++i) out += (i == 1 ? "?" : ", ?") + std::to_string(row * columns + i);
    out += more + ")";
  }
  return out;
}

std::string Repeated(const std::string& text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// `rows`: how many rows the statements insert that insert many.
std::vector<PgStatement> WriterStatements(std::size_t rows) {
  const std::string row = RowTypes();
  const std::size_t columns = row.size();
  const std::string insert_jobs = "INSERT INTO jobs (" + RowColumns() + ", has_own_name) VALUES ";
  const std::string write_specs = "INSERT INTO specs (job, capture, spec) VALUES ";
  const std::string replace_spec = " ON CONFLICT (job) DO UPDATE SET capture = excluded.capture, spec = excluded.spec";
  const std::string insert_history = "INSERT INTO history (job, at, text) VALUES ";
  return {
      {"begin", "BEGIN", ""},
      {"commit", "COMMIT", ""},
      {"need_no_sync", "SET LOCAL synchronous_commit = off", ""},
      {"fence",
       MustChangeOne("UPDATE writer SET commits = ?2 WHERE epoch = ?1 AND commits = ?2 - 1 AND " + HasLease("?3")),
       "nnn"},
      {"check_epoch", "SELECT 1 / count(*) FROM writer WHERE epoch = ?1 AND " + HasLease("?2"), "nn"},
      // The column has_own_name after the parameters is 1 for a job that is not an array element. For an element it
      // depends on the row of the array.
      {"insert_job", insert_jobs + RowsSql(1, columns, ", 1"), row},
      {"insert_jobs", insert_jobs + RowsSql(rows, columns, ", 1"), Repeated(row, rows)},
      {"insert_element",
       "INSERT INTO jobs (" + RowColumns() + ", has_own_name) VALUES (" + RowParameters() + ", " + OwnNameInPostgres() +
           ")",
       row},
      {"update_job", "UPDATE jobs SET " + RowAssignments() + ", has_own_name = 1, changed = DEFAULT WHERE id = ?1",
       row},
      {"update_element",
       "UPDATE jobs SET " + RowAssignments() + ", has_own_name = " + OwnNameInPostgres() +
           ", changed = DEFAULT WHERE id = ?1",
       row},
      {"check_updated", "SELECT 1 / (count(*) = ?2)::int FROM jobs WHERE id = ANY(string_to_array(?1, ',')::bigint[])",
       "tn"},
      {"write_spec", write_specs + RowsSql(1, 3, "") + replace_spec, "nnt"},
      {"write_specs", write_specs + RowsSql(rows, 3, "") + replace_spec, Repeated("nnt", rows)},
      {"put_capture",
       "WITH found AS (SELECT id FROM captures WHERE digest = sha256(convert_to(?1, 'UTF8')) LIMIT 1), "
       "made AS (INSERT INTO captures (digest, body) SELECT sha256(convert_to(?1, 'UTF8')), ?1 "
       "WHERE NOT EXISTS (SELECT 1 FROM found) RETURNING id) "
       "SELECT id FROM found UNION ALL SELECT id FROM made",
       "t"},
      {"insert_history", insert_history + RowsSql(1, 3, ""), "nnt"},
      {"insert_histories", insert_history + RowsSql(rows, 3, ""), Repeated("nnt", rows)},
      {"insert_run",
       "INSERT INTO runs (job, " + RunColumns() + ") SELECT id, " + RunColumns() + " FROM (SELECT " + RowAliases() +
           ") AS run",
       row},
      {"write_setting",
       "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
       "tt"},
      {"delete_setting", "DELETE FROM settings WHERE key = ?1", "t"},
      {"set_meta", "UPDATE meta SET value = ?2 WHERE key = ?1", "tn"},
      {"add_to_meta", "UPDATE meta SET value = value + ?2 WHERE key = ?1", "tn"},
      {"prune_jobs",
       "WITH old AS MATERIALIZED (SELECT id FROM jobs WHERE state >= 6 AND ended > 0 AND ended < ?1 AND "
       "(array_count = 0 OR NOT EXISTS (SELECT 1 FROM jobs AS element WHERE element.array_id = jobs.id AND "
       "element.array_id > 0)) ORDER BY ended LIMIT ?2), "
       "a AS (DELETE FROM jobs WHERE id IN (SELECT id FROM old)), "
       "b AS (DELETE FROM specs WHERE job IN (SELECT id FROM old)), "
       "c AS (DELETE FROM history WHERE job IN (SELECT id FROM old)), "
       "d AS (DELETE FROM runs WHERE job IN (SELECT id FROM old)) SELECT count(*) FROM old",
       "nn"},
      {"prune_events", "DELETE FROM history WHERE job = 0 AND at < ?1", "n"},
      {"prune_captures",
       "WITH gone AS (DELETE FROM captures WHERE id IN (SELECT id FROM captures WHERE NOT EXISTS "
       "(SELECT 1 FROM specs WHERE specs.capture = captures.id AND specs.capture > 0) LIMIT ?1) RETURNING 1) "
       "SELECT count(*) FROM gone",
       "n"},
  };
}

bool HasCapture(const JobSpec& spec) {
  static const Capture kNone;
  return !(spec.capture == kNone);
}

}  // namespace

PostgresWriter::PostgresWriter(const PostgresOptions& options)
    : options_(options),
      application_("divvy on " + HostNameText().substr(0, kLongestHostName) + ", pid " + std::to_string(::getpid())),
      holder_(application_ + ", " + UniqueText()) {}

Status PostgresWriter::Open() { return Connect(); }

Status PostgresWriter::Connect() {
  connection_.reset();
  known_captures_.Clear();
  DIVVY_TRY(connection_, PgConnection::Open({options_.url, application_, kPgSettings, options_.patience}));
  Status done = TakeLock();
  if (done && !term_.is_open())
    done = options_.is_source ? RequirePostgresSchema(*connection_, PgMigrations())
                              : MigratePostgres(*connection_, PgMigrations());
  if (done) done = TakeCluster();
  if (done) done = TakeEpoch();
  if (done) done = PrepareAll();
  if (done) server_process_ = connection_->server_process();
  if (done) ++connects_;
  if (!done) connection_.reset();
  return done;
}

Status LockForWriting(PgConnection& connection, std::int64_t lease) {
  const auto end = std::chrono::steady_clock::now() + kLockTimeout;
  while (true) {
    DIVVY_TRY(const std::int64_t has_lock,
              connection.QueryInteger("SELECT pg_try_advisory_lock" + kLock + "::int::bigint"));
    if (has_lock != 0) break;
    // If this controller has the lease, the lock can only be held by a controller that no longer leads. Ends that one's
    // session: it may have been stopped in the middle of a commit.
    if (lease != 0) {
      DIVVY_CHECK(connection.QueryInteger(
          "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' AND granted AND "
          "classid = 1684633206 AND objid = 1 AND database = (SELECT oid FROM pg_database WHERE datname = "
          "current_database()) AND ?1 = (SELECT epoch FROM lease)",
          PgParameters::Of(lease)));
    }
    if (std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kBetweenLocks);
      continue;
    }
    std::string holder = "another session";
    DIVVY_CHECK(connection.QueryOnce(
        "SELECT application_name, coalesce(host(client_addr), 'its own machine'), pid::bigint "
        "FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND granted AND "
        "classid = 1684633206 AND objid = 1 AND datname = current_database()",
        {}, [&](const Columns& row) -> Status {
          holder = "\"" + std::string(row.Text(0)) + "\", connected from " + std::string(row.Text(1)) +
                   ", server process " + std::to_string(row.Integer(2));
          return {};
        }));
    return FailedPrecondition(connection.shown_url() + " is in use by another divvy (" + holder +
                              "): stop that one first with \"divvy down\"");
  }
  return {};
}

Status UnlockForWriting(PgConnection& connection) {
  return connection.QueryOnce("SELECT pg_advisory_unlock" + kLock, {}, {});
}

Status PostgresWriter::TakeLock() {
  const std::string encoding = connection_->Parameter("server_encoding");
  if (connection_->server_version() < kOldestServer || encoding != "UTF8") {
    return FailedPrecondition(connection_->shown_url() + " has PostgreSQL " + connection_->Parameter("server_version") +
                              " and encoding " + encoding +
                              "; divvy needs version 12 or later and a database with encoding UTF8");
  }
  // The session of this process's lost connection may still exist on the server and hold the lock.
  if (server_process_ != 0) {
    DIVVY_CHECK(
        connection_->QueryInteger("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                  "WHERE pid = ?1 AND application_name = ?2",
                                  PgParameters::Of(std::int64_t{server_process_}, application_)));
  }
  const Status locked = LockForWriting(*connection_, options_.lease);
  // While this process reconnects, the holder of the lock is usually its own old session, so a later try may succeed.
  // If it is another writer, the epoch shows that.
  if (!locked && locked.error().code == ErrorCode::kFailedPrecondition && term_.is_open())
    return LimitExceeded(locked.error().message);
  DIVVY_CHECK(locked);
  // A commit is durable when it returns. Other levels are the choice of the database's administrator.
  DIVVY_TRY(const std::int64_t is_unsafe,
            connection_->QueryInteger("SELECT (current_setting('synchronous_commit') = 'off')::int::bigint"));
  if (is_unsafe != 0) return connection_->Execute("SET synchronous_commit = on");
  return {};
}

Status PostgresWriter::TakeCluster() {
  DIVVY_TRY(const std::int64_t is_copy, connection_->QueryInteger("SELECT count(*) FROM meta WHERE key = 'copying'"));
  if (is_copy != 0 && !options_.is_copy) {
    return FailedPrecondition(
        connection_->shown_url() +
        " holds an unfinished copy: finish it with \"divvy store copy\", or use another database");
  }
  return CheckCluster(*connection_, options_);
}

Status PostgresWriter::TakeEpoch() {
  std::int64_t epoch = 0;
  std::int64_t commits = 0;
  // If the connection was lost during an earlier attempt, this writer may hold a later epoch than it knows.
  const std::string condition = !term_.is_open() ? "?2 = 0" : "(epoch = ?2 OR (epoch > ?2 AND holder = ?1))";
  DIVVY_CHECK(connection_->QueryOnce("UPDATE writer SET epoch = epoch + 1, holder = ?1 WHERE " + condition + " AND " +
                                         HasLease("?3") + " RETURNING epoch, commits",
                                     PgParameters::Of(holder_, term_.epoch(), options_.lease),
                                     [&](const Columns& row) -> Status {
                                       epoch = row.Integer(0);
                                       commits = row.Integer(1);
                                       return {};
                                     }));
  if (epoch == 0) {
    return FailedPrecondition("another divvy has written to " + connection_->shown_url() +
                              " since this one lost its connection: this one must not write any more");
  }
  return term_.OnTaken(epoch, commits, connection_->shown_url());
}

Status PostgresWriter::PrepareAll() {
  static const std::vector<PgStatement> statements = WriterStatements(kRowsInGroup);
  return connection_->Prepare(statements);
}

Result<bool> PostgresWriter::WasCommitted(std::int64_t number) {
  const auto end = std::chrono::steady_clock::now() + options_.outcome_patience;
  while (true) {
    Status done = Connect();
    if (done) return term_.Has(number);
    const bool may_pass =
        done.error().code == ErrorCode::kUnreachable || done.error().code == ErrorCode::kLimitExceeded;
    if (!may_pass) return done.error();
    if (is_stopping_ || std::chrono::steady_clock::now() >= end) {
      return Unreachable("the outcome of the last commit is unknown: " + done.error().message);
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

Status PostgresWriter::Write(const std::vector<Batch>& batches) {
  DIVVY_CHECK(CheckSpecs(batches));
  // Tries again if the connection was lost before the commit happened. Usually an idle connection had been lost before.
  for (int attempt = 0; attempt < 3; ++attempt) {
    // No statement was sent yet, so it is safe to replace a connection that the server has closed.
    if (connection_ != nullptr && connection_->NoticesEnd()) connection_.reset();
    if (connection_ == nullptr) {
      const Status done = Connect();
      if (!done && done.error().code == ErrorCode::kUnreachable)
        return LimitExceeded("cannot write, the database is away: nothing was saved: " + done.error().message);
      DIVVY_CHECK(done);
    }
    PgConnection::Finished finished = PutCaptures(batches);
    const std::int64_t number = term_.next_commit();
    if (finished.outcome == PgConnection::Outcome::kDone) {
      SendBegin();
      for (const Batch& batch : batches) SendBatch(batch);
      for (Group* group : {&jobs_, &specs_, &history_}) SendGroup(*group);
      SendCheck(batches);
      SendCounters(batches);
      finished = Finish();
    }
    captures_.clear();
    if (finished.outcome == PgConnection::Outcome::kDone) {
      term_.OnCommitted(number);
      return {};
    }
    if (finished.outcome == PgConnection::Outcome::kFailed) {
      const Error error = ErrorOf(finished);
      RollBack(finished);
      return error;
    }
    DIVVY_TRY(const bool is_committed, WasCommitted(number));
    if (is_committed) return {};
  }
  return LimitExceeded("lost the connection to the database three times in a row: nothing was saved; try again");
}

Status PostgresWriter::CheckSpecs(const std::vector<Batch>& batches) const {
  for (const Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      if (job.spec == nullptr && job.record.spec_of == job.record.id)
        return Internal("job " + ToString(job.record.id) + " has no specification");
    }
  }
  return {};
}

PgConnection::Finished PostgresWriter::PutCaptures(const std::vector<Batch>& batches) {
  captures_.clear();
  std::vector<std::pair<std::int64_t, const Capture*>> missing;
  const auto need = [&](const JobSpec& spec) {
    if (!HasCapture(spec)) return;
    const std::int64_t hash = HashOf(spec.capture);
    const auto [from, to] = captures_.equal_range(hash);
    for (auto known = from; known != to; ++known) {
      if (*known->second.first == spec.capture) return;
    }
    const auto id = known_captures_.Find(hash, spec.capture);
    captures_.emplace(hash, std::pair(&spec.capture, id.value_or(0)));
    if (!id) missing.emplace_back(hash, &spec.capture);
  };
  for (const Batch& batch : batches) {
    for (const Batch::NewJob& job : batch.inserts) {
      if (job.spec != nullptr) need(*job.spec);
    }
    for (const auto& [job, spec] : batch.spec_updates) need(*spec);
  }
  if (missing.empty()) return {PgConnection::Outcome::kDone, {}, {}, 0};
  sent_.clear();
  Send("begin");
  // This transaction need not be synced: the commit that follows makes its rows durable, too.
  Send("need_no_sync");
  parameters_.Bind(1, term_.epoch());
  parameters_.Bind(2, options_.lease);
  Send("check_epoch", Kind::kFence);
  const std::size_t first = sent_.size();
  for (const auto& [hash, capture] : missing) {
    parameters_.BindCopy(1, CaptureToJson(*capture));
    Send("put_capture");
  }
  return Finish([&](std::size_t number, const Columns& row) {
    if (number < first || number - first >= missing.size()) return;
    const auto& [hash, capture] = missing[number - first];
    const auto [from, to] = captures_.equal_range(hash);
    for (auto known = from; known != to; ++known) {
      if (known->second.first == capture) known->second.second = row.Integer(0);
    }
    known_captures_.Remember(hash, row.Integer(0), *capture);
  });
}

std::int64_t PostgresWriter::CaptureId(const Capture& capture) const {
  auto [known, end] = captures_.equal_range(HashOf(capture));
  while (known != end && *known->second.first != capture) ++known;
  DIVVY_ASSERT(known != end);  // PutCaptures has seen it.
  return known->second.second;
}

void PostgresWriter::Send(const char* statement, Kind kind) {
  connection_->Send(statement, parameters_);
  parameters_.Clear();
  sent_.push_back(kind);
}

PgParameters& PostgresWriter::AddRow(Group& group) {
  if (group.count == kRowsInGroup) SendGroup(group);
  PgParameters& row = group.rows[group.count++];
  row.Clear();
  return row;
}

void PostgresWriter::SendGroup(Group& group) {
  const std::span rows(group.rows.data(), group.count);
  if (group.count == kRowsInGroup) {
    connection_->Send(group.many, rows);
    sent_.push_back(group.kind);
  } else {
    for (const PgParameters& row : rows) {
      connection_->Send(group.one, row);
      sent_.push_back(group.kind);
    }
  }
  group.count = 0;
}

void PostgresWriter::SendBegin() {
  sent_.clear();
  Send("begin");
  parameters_.Bind(1, term_.epoch());
  parameters_.Bind(2, term_.next_commit());
  parameters_.Bind(3, options_.lease);
  Send("fence", Kind::kFence);
}

PgConnection::Finished PostgresWriter::Finish(const PgConnection::OnSentRow& on_row) {
  Send("commit");
  return connection_->Finish(on_row);
}

// Rows that are inserted together are sent before anything that depends on them.
void PostgresWriter::SendBatch(const Batch& batch) {
  for (const Batch::NewJob& job : batch.inserts) {
    if (job.record.array.is_set()) {
      SendGroup(jobs_);
      BindRow(parameters_, job.record);
      Send("insert_element", Kind::kInsert);
    } else {
      BindRow(AddRow(jobs_), job.record);
    }
    if (job.spec != nullptr) AddSpec(job.record.id, *job.spec);
  }
  if (!batch.updates.empty()) SendGroup(jobs_);
  for (const JobRecord& record : batch.updates) {
    BindRow(parameters_, record);
    Send(record.array.is_set() ? "update_element" : "update_job");
  }
  for (const auto& [job, spec] : batch.spec_updates) {
    SendGroup(specs_);  // One statement cannot write a row twice.
    AddSpec(job, *spec);
    SendGroup(specs_);
  }
  for (const Batch::HistoryLine& line : batch.history) {
    PgParameters& row = AddRow(history_);
    row.Bind(1, static_cast<std::int64_t>(line.job.value()));
    row.Bind(2, line.at.time_since_epoch().count());
    row.Bind(3, std::string_view(line.text));
  }
  for (const JobRecord& run : batch.past_runs) {
    BindRow(parameters_, run);
    Send("insert_run");
  }
  for (const auto& [key, value] : batch.settings) {
    parameters_.Bind(1, std::string_view(key));
    if (!value.empty()) parameters_.Bind(2, std::string_view(value));
    Send(value.empty() ? "delete_setting" : "write_setting");
  }
}

// An update of a job that does not exist changes no row, which is no error to PostgreSQL.
void PostgresWriter::SendCheck(const std::vector<Batch>& batches) {
  std::set<std::string> updated;
  for (const Batch& batch : batches) {
    for (const JobRecord& record : batch.updates) updated.insert(ToString(record.id));
  }
  if (updated.empty()) return;
  parameters_.BindCopy(1, Join(std::vector<std::string>(updated.begin(), updated.end()), ","));
  parameters_.Bind(2, static_cast<std::int64_t>(updated.size()));
  Send("check_updated", Kind::kUpdate);
}

void PostgresWriter::AddSpec(JobId job, const JobSpec& spec) {
  PgParameters& row = AddRow(specs_);
  row.Bind(1, static_cast<std::int64_t>(job.value()));
  row.Bind(2, HasCapture(spec) ? CaptureId(spec.capture) : 0);
  row.BindCopy(3, SpecToJson(spec, false));
}

void PostgresWriter::SendCounters(const std::vector<Batch>& batches) {
  std::optional<std::uint64_t> next_id;
  std::int64_t submitted = 0;
  for (const Batch& batch : batches) {
    if (batch.next_id) next_id = batch.next_id;
    for (const Batch::NewJob& job : batch.inserts) submitted += JobsIn(job.record);
  }
  const auto send = [this](const char* statement, std::string_view key, std::int64_t value) {
    parameters_.Bind(1, key);
    parameters_.Bind(2, value);
    Send(statement);
  };
  if (next_id) send("set_meta", "next_id", static_cast<std::int64_t>(*next_id));
  if (submitted != 0) send("add_to_meta", "jobs_total", submitted);
}

Error PostgresWriter::ErrorOf(const PgConnection::Finished& finished) const {
  const Kind kind = finished.failed < sent_.size() ? sent_[finished.failed] : Kind::kOther;
  if (finished.sql_state == kDivisionByZero && kind == Kind::kFence) {
    return FailedPrecondition("another divvy has taken over " + connection_->shown_url() +
                              ": this one must not write any more");
  }
  if (finished.sql_state == kDivisionByZero && kind == Kind::kUpdate)
    return Internal("a job that was updated is not in the store");
  if (finished.sql_state == kDuplicateKey && kind == Kind::kInsert)
    return Internal("a new job is already in the store: " + finished.error.message);
  return finished.error;
}

void PostgresWriter::RollBack(const PgConnection::Finished& finished) {
  known_captures_.Clear();
  // A server that was demoted to a standby stays read-only: the next attempt looks for the new primary.
  const bool is_read_only = finished.sql_state == "25006";
  if (is_read_only || !connection_->Execute("ROLLBACK")) connection_.reset();
}

Result<bool> PostgresWriter::PruneStep(Time finished_before) {
  const std::int64_t before = finished_before.time_since_epoch().count();
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (connection_ == nullptr) {
      const Status done = Connect();
      if (!done) return done.error();
    }
    std::int64_t jobs = 0;
    std::int64_t captures = 0;
    const std::int64_t number = term_.next_commit();
    SendBegin();
    parameters_.Bind(1, before);
    parameters_.Bind(2, kPgJobsPerPrune);
    Send("prune_jobs");
    PgConnection::Finished finished = Finish([&](std::size_t statement, const Columns& row) {
      if (statement == 2) jobs = row.Integer(0);
    });
    if (finished.outcome == PgConnection::Outcome::kDone) term_.OnCommitted(number);
    if (finished.outcome == PgConnection::Outcome::kDone && jobs == 0) {
      SendBegin();
      parameters_.Bind(1, before);
      Send("prune_events");
      parameters_.Bind(1, kPgCapturesPerPrune);
      Send("prune_captures");
      finished = Finish([&](std::size_t statement, const Columns& row) {
        if (statement == 3) captures = row.Integer(0);
      });
      known_captures_.Clear();
      if (finished.outcome == PgConnection::Outcome::kDone) term_.OnCommitted(number + 1);
    }
    if (finished.outcome == PgConnection::Outcome::kDone) return jobs > 0 || captures == kPgCapturesPerPrune;
    if (finished.outcome == PgConnection::Outcome::kFailed) {
      const Error error = ErrorOf(finished);
      RollBack(finished);
      return error;
    }
    // Pruning again does no harm, so the outcome does not matter. Connect reads the number of the last commit.
    connection_.reset();
  }
  return LimitExceeded("lost the connection to the database while pruning: try again");
}

}  // namespace divvy
