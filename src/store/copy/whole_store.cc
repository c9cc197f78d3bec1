#include "store/copy/whole_store.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "store/capture_cache.h"
#include "store/file_lock.h"
#include "store/postgres/postgres_url.h"
#include "store/postgres/postgres_writer.h"
#include "store/row.h"
#include "store/schema.h"
#include "store/sqlite.h"
#include "wire/messages/spec_json.h"

namespace divvy {
namespace {

std::vector<std::string> ListOf(const std::string& columns) {
  std::vector<std::string> out;
  for (const std::string_view column : Split(columns, ',')) out.emplace_back(Trim(column));
  return out;
}

std::vector<CopiedTable> MakeTables() {
  std::vector<CopiedTable> tables = {
      {"captures", {"id", "body"}, "nt"},
      {"specs", {"job", "capture", "spec"}, "nnt"},
      {"history", {"rowid", "job", "at", "text"}, "nnnt"},
      {"settings", {"key", "value"}, "tt"},
      {"jobs", ListOf(RowColumns() + ", has_own_name"), RowTypes() + "n"},
  };
  CopiedTable runs = {"runs", ListOf("rowid, job, " + RunColumns()), "nn"};
  const std::vector<std::string>& all = tables.back().columns;
  for (std::size_t i = 2; i < runs.columns.size(); ++i) {
    const auto at = std::find(all.begin(), all.end(), runs.columns[i]) - all.begin();
    runs.types += tables.back().types[static_cast<std::size_t>(at)];
  }
  tables.push_back(std::move(runs));
  return tables;
}

CellRow RowOf(const Columns& row, const CopiedTable& table) {
  CellRow out;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const int column = static_cast<int>(i);
    if (row.IsNull(column)) out.emplace_back();
    else if (table.types[i] == 'n') out.push_back(Cell::Of(row.Integer(column)));
    else out.push_back(Cell::Of(std::string(row.Text(column))));
  }
  return out;
}

/// `row` must live until the statement has run.
void BindCells(Parameters& parameters, const CellRow& row) {
  int parameter = 0;
  for (const Cell& cell : row) {
    ++parameter;
    if (cell.kind == Cell::Kind::kNull) parameters.BindNull(parameter);
    else if (cell.kind == Cell::Kind::kNumber) parameters.Bind(parameter, cell.number);
    else parameters.Bind(parameter, std::string_view(cell.text));
  }
}

std::string SelectSql(const CopiedTable& table, bool has_after) {
  const std::string& key = table.columns.front();
  return "SELECT " + Join(table.columns, ", ") + " FROM " + table.name +
         (has_after ? " WHERE " + key + " > ?2" : std::string()) + " ORDER BY " + key + " LIMIT ?1";
}

/// `more`: a further column, and the SQL of its value.
std::string InsertSql(const CopiedTable& table, const std::pair<std::string, std::string>& more) {
  std::string parameters;
  for (std::size_t i = 1; i <= table.columns.size(); ++i) parameters += (i == 1 ? "?" : ", ?") + std::to_string(i);
  return "INSERT INTO " + table.name + " (" + Join(table.columns, ", ") +
         (more.first.empty() ? "" : ", " + more.first) + ") VALUES (" + parameters +
         (more.first.empty() ? "" : ", " + more.second) + ")";
}

class WholeSqlite : public WholeStore {
 public:
  WholeSqlite(FileLock lock, const std::string& path) : lock_(std::move(lock)), connection_(path) {}

  Status Open(bool is_target) {
    DIVVY_CHECK(connection_.Open());
    DIVVY_CHECK(MigrateSchema(connection_, Migrations()));
    DIVVY_CHECK(
        connection_.Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; "
                            "PRAGMA journal_size_limit = 67108864"));
    DIVVY_TRY(const std::int64_t is_copy, Number("SELECT count(*) FROM meta WHERE key = 'copying'"));
    if (is_copy == 0 || is_target) return {};
    return FailedPrecondition(name() + " holds an unfinished copy: finish it first");
  }

  Result<std::vector<CellRow>> Read(const CopiedTable& table, const Cell& after, std::int64_t limit) override {
    const bool has_after = after.kind != Cell::Kind::kNull;
    DIVVY_TRY(Statement statement, connection_.Prepare(SelectSql(table, has_after)));
    const CellRow values = has_after ? CellRow{Cell::Of(limit), after} : CellRow{Cell::Of(limit)};
    BindCells(statement, values);
    std::vector<CellRow> rows;
    while (true) {
      DIVVY_TRY(const bool has_row, statement.Next());
      if (!has_row) return rows;
      rows.push_back(RowOf(statement, table));
    }
  }

  Status Write(const CopiedTable& table, const std::vector<CellRow>& rows) override {
    Status done = WriteAll(table, rows);
    if (!done && connection_.is_in_transaction()) (void)connection_.Execute("ROLLBACK");
    return done;
  }

  Status Execute(const std::string& sql) override { return connection_.Execute(sql.c_str()); }
  Result<std::int64_t> Number(const std::string& sql) override { return connection_.QueryInteger(sql); }
  Result<std::vector<std::string>> Damage() override {
    DIVVY_TRY(Statement check, connection_.Prepare("PRAGMA integrity_check(20)"));
    std::vector<std::string> out;
    while (true) {
      DIVVY_TRY(const bool has_row, check.Next());
      if (!has_row) return out;
      if (check.Text(0) != "ok") out.emplace_back(check.Text(0));
    }
  }
  Status Finish() override { return connection_.Execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = FULL"); }
  const std::string& name() const override { return connection_.path(); }

 private:
  Status WriteAll(const CopiedTable& table, const std::vector<CellRow>& rows) {
    const bool has_hash = table.name == "captures";
    const int hash = static_cast<int>(table.columns.size()) + 1;
    DIVVY_TRY(Statement insert,
              connection_.Prepare(InsertSql(table, {has_hash ? "hash" : "", "?" + std::to_string(hash)})));
    DIVVY_CHECK(connection_.Execute("BEGIN IMMEDIATE"));
    for (const CellRow& row : rows) {
      BindCells(insert, row);
      if (has_hash) {
        DIVVY_TRY(const Capture capture, CaptureFromJson(row[1].text));
        insert.Bind(hash, HashOf(capture));
      }
      DIVVY_CHECK(insert.Run());
    }
    return connection_.Execute("COMMIT");
  }

  FileLock lock_;
  Connection connection_;
};

class WholePostgres : public WholeStore {
 public:
  explicit WholePostgres(const PostgresOptions& options) : writer_(options) {}

  Status Open() {
    DIVVY_CHECK(writer_.Open());
    name_ = writer_.connection()->shown_url();
    return {};
  }

  Result<std::vector<CellRow>> Read(const CopiedTable& table, const Cell& after, std::int64_t limit) override {
    const bool has_after = after.kind != Cell::Kind::kNull;
    PgParameters parameters;
    const CellRow values = has_after ? CellRow{Cell::Of(limit), after} : CellRow{Cell::Of(limit)};
    BindCells(parameters, values);
    std::vector<CellRow> rows;
    DIVVY_CHECK(connection().QueryOnce(Own(SelectSql(table, has_after)), parameters, [&](const Columns& row) -> Status {
      rows.push_back(RowOf(row, table));
      return {};
    }));
    return rows;
  }

  Status Write(const CopiedTable& table, const std::vector<CellRow>& rows) override {
    const std::pair<std::string, std::string> digest = {"digest", "sha256(convert_to(?2, 'UTF8'))"};
    const std::string statement = "copy_" + table.name;
    if (prepared_ != statement) {
      DIVVY_CHECK(connection().Prepare(
          {{statement, Own(InsertSql(table, table.name == "captures" ? digest : decltype(digest)())), table.types}}));
      prepared_ = statement;
    }
    connection().Send("begin", PgParameters());
    for (const CellRow& row : rows) {
      PgParameters parameters;
      BindCells(parameters, row);
      connection().Send(statement, parameters);
    }
    connection().Send("commit", PgParameters());
    const PgConnection::Finished finished = connection().Finish();
    if (finished.outcome == PgConnection::Outcome::kDone) return {};
    if (finished.outcome == PgConnection::Outcome::kFailed) (void)connection().Execute("ROLLBACK");
    return finished.error;
  }

  Status Execute(const std::string& sql) override { return connection().Execute(sql); }
  Result<std::int64_t> Number(const std::string& sql) override { return connection().QueryInteger(Own(sql)); }
  Result<std::vector<std::string>> Damage() override {
    std::vector<std::string> out;
    for (const std::string setting : {"fsync", "full_page_writes"}) {
      DIVVY_TRY(const std::int64_t is_off, Number("SELECT (current_setting('" + setting + "') = 'off')::int::bigint"));
      if (is_off != 0) out.push_back("the server has " + setting + " = off: a power cut may damage the database");
    }
    return out;
  }
  Status Finish() override {
    for (const std::string table : {"captures", "history", "runs"}) {
      DIVVY_CHECK(connection().Execute("SELECT setval(pg_get_serial_sequence('divvy." + table +
                                       "', 'id'), coalesce(max(id), 0) + 1, false) FROM " + table));
    }
    return connection().Execute("ANALYZE");
  }
  const std::string& name() const override { return name_; }

 private:
  PgConnection& connection() { return *writer_.connection(); }
  /// Replaces "rowid", SQLite's implicit column, by the name of the column that PostgreSQL has instead.
  static std::string Own(std::string sql) {
    for (std::size_t at = sql.find("rowid"); at != std::string::npos; at = sql.find("rowid", at))
      sql.replace(at, 5, "id");
    return sql;
  }

  PostgresWriter writer_;
  std::string name_;
  std::string prepared_;
};

}  // namespace

std::span<const CopiedTable> CopiedTables() {
  static const std::vector<CopiedTable> tables = MakeTables();
  return tables;
}

Result<std::unique_ptr<WholeStore>> OpenWholeStore(const std::string& where, WholeStoreUse use) {
  const bool is_target = use == WholeStoreUse::kFill;
  if (IsPostgresUrl(where)) {
    PostgresOptions options;
    options.url = where;
    options.is_copy = is_target;
    options.is_source = !is_target;
    // A batch of a copy, or a query over a whole table, takes longer than a commit.
    options.patience = std::chrono::minutes(10);
    auto store = std::make_unique<WholePostgres>(options);
    DIVVY_CHECK(store->Open());
    return store;
  }
  if (where.find("://") != std::string::npos)
    return InvalidArgument("'" + WithoutPassword(where) + "' is neither a path nor a postgresql:// URL");
  if (!is_target && ::access(where.c_str(), F_OK) != 0) return NotFound("there is no file " + where);
  DIVVY_TRY(FileLock lock, FileLock::Acquire(where + "-lock", where));
  // Only the owner may read it, because it contains the environments of jobs.
  const int descriptor = ::open(where.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor >= 0) ::close(descriptor);
  auto store = std::make_unique<WholeSqlite>(std::move(lock), where);
  DIVVY_CHECK(store->Open(is_target));
  return store;
}

}  // namespace divvy
