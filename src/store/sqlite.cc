#include "store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace divvy {
namespace {

// How long to wait for the lock of another program (a sqlite3 shell, a backup).
constexpr int kBusyTimeoutMilliseconds = 5'000;

bool SaysNoRoom(int error_number) { return error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG; }

std::string FolderOf(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Error NoRoom(const std::string& path, const std::string& cause) {
  return LimitExceeded("cannot write " + path + ", the disk is full (" + cause +
                       "): nothing was saved; free space under " + FolderOf(path) + " and try again");
}

Error Damaged(const std::string& path, const std::string& cause) {
  return CorruptData(
      path + " is damaged or not a divvy database (" + cause +
      "): it was not changed; restore it from a backup, or recover it with \"sqlite3 " + path +
      " .recover | sqlite3 NEW\", or move it away together with its -wal and -shm files to start empty: running jobs "
      "continue, and divvy adopt takes them over");
}

Error TranslateError(sqlite3* database, int code, const std::string& path) {
  const int primary = code & 0xff;
  const int error_number = database == nullptr ? 0 : sqlite3_system_errno(database);
  std::string cause = sqlite3_errstr(code);
  if (primary == SQLITE_FULL) return NoRoom(path, cause);
  if (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) {
    if (error_number != 0) cause += std::string(", ") + std::strerror(error_number);
    if (SaysNoRoom(error_number) || code == SQLITE_IOERR_WRITE) return NoRoom(path, cause);
  }
  switch (primary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Damaged(path, cause);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return LimitExceeded("cannot write " + path +
                           ", another program holds a lock on it: nothing was saved; end that program's "
                           "transaction (a sqlite3 shell?) and try again");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return PermissionDenied("cannot write " + path + " (" + cause +
                              "): make it and its folder writable by the daemon");
    case SQLITE_CANTOPEN:
      return FailedPrecondition("cannot open " + path + " (" + cause + "): check the folder and its permissions");
    case SQLITE_IOERR:
      return Internal("cannot use " + path + " (" + cause + "): check the disk, then start the daemon again");
    default:
      return Internal("cannot use " + path + " (" + cause + ": " +
                      (database == nullptr ? "no memory" : sqlite3_errmsg(database)) + ")");
  }
}

int Length(std::string_view text) { return static_cast<int>(text.size()); }

// SQLite binds a null pointer as NULL, which differs from an empty text.
const char* Start(std::string_view text) { return text.data() == nullptr ? "" : text.data(); }

}  // namespace

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(statement_, other.statement_);
  std::swap(bind_error_, other.bind_error_);
  return *this;
}

Statement::~Statement() { sqlite3_finalize(statement_); }

void Statement::Bind(int parameter, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_, parameter, value); code != SQLITE_OK) bind_error_ = code;
}

void Statement::Bind(int parameter, std::string_view text) {
  const int code = sqlite3_bind_text(statement_, parameter, Start(text), Length(text), SQLITE_STATIC);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::BindCopy(int parameter, std::string_view text) {
  // The macro SQLITE_TRANSIENT contains a cast that -Wold-style-cast rejects; this is its value.
  const auto transient = reinterpret_cast<sqlite3_destructor_type>(-1);  // NOLINT
  const int code = sqlite3_bind_text(statement_, parameter, Start(text), Length(text), transient);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::BindNull(int parameter) {
  if (const int code = sqlite3_bind_null(statement_, parameter); code != SQLITE_OK) bind_error_ = code;
}

Result<bool> Statement::Next() {
  int code = std::exchange(bind_error_, SQLITE_OK);
  if (code == SQLITE_OK) code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  sqlite3* const database = sqlite3_db_handle(statement_);
  if (code != SQLITE_DONE) {
    Error error = TranslateError(database, sqlite3_extended_errcode(database), *path_);
    Reset();
    return error;
  }
  Reset();
  return false;
}

Status Statement::Run() {
  DIVVY_TRY(const bool has_row, Next());
  if (has_row) Reset();
  return {};
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

std::int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_, column); }

std::string_view Statement::Text(int column) const {
  const void* const text = sqlite3_column_text(statement_, column);
  if (text == nullptr) return {};
  return {static_cast<const char*>(text), static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
}

bool Statement::IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

Connection::~Connection() { sqlite3_close_v2(database_); }

Status Connection::Open() {
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (const int code = sqlite3_open_v2(path_.c_str(), &database_, flags, nullptr); code != SQLITE_OK) {
    return TranslateError(database_, code, path_);
  }
  sqlite3_busy_timeout(database_, kBusyTimeoutMilliseconds);
  return {};
}

Status Connection::Execute(const char* sql) {
  if (const int code = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr); code != SQLITE_OK) {
    return TranslateError(database_, sqlite3_extended_errcode(database_), path_);
  }
  return {};
}

Result<Statement> Connection::Prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(database_, sql.data(), Length(sql), SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return TranslateError(database_, code, path_);
  return Statement(&path_, statement);
}

Result<std::int64_t> Connection::QueryInteger(std::string_view sql) {
  DIVVY_TRY(Statement query, Prepare(sql));
  DIVVY_TRY(const bool has_row, query.Next());
  return has_row ? query.Integer(0) : 0;
}

bool Connection::is_in_transaction() const { return sqlite3_get_autocommit(database_) == 0; }

int Connection::rows_changed() const { return sqlite3_changes(database_); }

}  // namespace divvy
