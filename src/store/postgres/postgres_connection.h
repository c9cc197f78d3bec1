// The part of libpq that the store needs: connections and prepared statements that close themselves, waiting with a
// deadline, transactions in one round trip, and errors that name the database and a remedy. A connection may be used by
// one thread at a time.
//
// All columns are BIGINT or TEXT, and travel in binary form. PostgreSQL accepts only valid UTF-8 without NUL in a TEXT,
// but a job's name or environment may contain any bytes. EscapeText keeps such bytes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "store/postgres/postgres_library.h"
#include "store/values.h"

namespace divvy {

/// Returns `text` in a form that PostgreSQL accepts. Each byte that is no valid UTF-8, each NUL, and each character
/// from U+10FE00 to U+10FEFF is written as characters of that (private) range, one for each byte.
std::string EscapeText(std::string_view text);
/// Reverses EscapeText: returns the original text.
std::string UnescapeText(std::string_view text);
/// Returns true if EscapeText would not change `text`. That is so for nearly all texts.
bool IsPlainText(std::string_view text);

/// The values of a statement's parameters.
class PgParameters final : public Parameters {
 public:
  PgParameters() = default;
  /// Makes parameters from numbers and texts, in order. Texts are copied.
  template <typename... Values>
  static PgParameters Of(const Values&... values) {
    PgParameters out;
    int parameter = 0;
    (out.BindOne(++parameter, values), ...);
    return out;
  }

  void Bind(int parameter, std::int64_t value) override;
  void Bind(int parameter, std::string_view text) override;
  void BindCopy(int parameter, std::string_view text) override;
  void BindNull(int parameter) override;
  void Clear();

  /// Returns one letter per parameter, for PgStatement::types: 'n' for a number, 't' for a text.
  std::string Types() const;
  int count() const { return static_cast<int>(values_.size()); }

 private:
  friend class PgConnection;
  enum class Kind { kNull, kNumber, kText };
  struct Value {
    Kind kind = Kind::kNull;
    std::array<char, 8> number{};
    std::string_view text;
  };
  Value& At(int parameter);
  void BindOne(int parameter, std::int64_t value) { Bind(parameter, value); }
  void BindOne(int parameter, std::string_view text) { BindCopy(parameter, text); }

  std::vector<Value> values_;
  std::deque<std::string> copies_;
};

/// A statement that each new connection prepares.
struct PgStatement {
  std::string name;
  std::string sql;    // Parameters are written "?1", as in row.h.
  std::string types;  // One letter for each parameter: 'n' for a number, 't' for a text.
};

class PgConnection {
 public:
  struct Options {
    std::string url;
    std::string application;  // Shown in pg_stat_activity, to name who holds the database.
    std::string settings;     // SQL that is run first.
    /// How long one operation may take. After this time the connection counts as lost.
    Duration patience = std::chrono::seconds(30);
    /// How long connecting may take for each host, unless the URL says otherwise. At least 2.
    const char* connect_seconds = "5";
  };

  /// Connects. Takes at most as long as the URL's connect_timeout for each host.
  /// kUnreachable if the server cannot be reached or refuses; a later try may succeed. kFailedPrecondition if libpq is
  /// missing.
  static Result<std::unique_ptr<PgConnection>> Open(const Options& options);
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;
  ~PgConnection();

  Status Prepare(const std::vector<PgStatement>& statements);
  /// Runs one or more SQL statements without parameters. Rows that they return are ignored.
  Status Execute(const std::string& sql);
  using OnRow = std::function<Status(const Columns&)>;
  /// Runs a prepared statement. An error of `on_row` is returned after the remaining rows were skipped.
  Status Query(const std::string& statement, const PgParameters& parameters, const OnRow& on_row);
  /// Prepares, runs and forgets a statement.
  Status QueryOnce(const std::string& sql, const PgParameters& parameters, const OnRow& on_row);
  /// Runs a query and returns the first column of its first row; 0 if it has no row.
  Result<std::int64_t> QueryInteger(const std::string& sql, const PgParameters& parameters = {});

  // A transaction in one round trip: Send any number of statements, then Finish. The texts of parameters must live
  // until Send returns.
  void Send(const std::string& statement, const PgParameters& parameters) { Send(statement, {&parameters, 1}); }
  /// Sends one statement for several rows. Its parameters are the values of all rows, one row after the other.
  void Send(const std::string& statement, std::span<const PgParameters> rows);
  /// Number of statements that were sent since the last Finish.
  std::size_t sent() const { return sent_; }
  enum class Outcome { kDone, kFailed, kUnknown };
  struct Finished {
    Outcome outcome = Outcome::kUnknown;
    Error error;             // Unless kDone.
    std::string sql_state;   // With kFailed.
    std::size_t failed = 0;  // With kFailed: the number of the statement, from 0.
  };
  /// Receives a row that one of the sent statements returned, and the number of that statement, from 0.
  using OnSentRow = std::function<void(std::size_t, const Columns&)>;
  /// Waits for the results of the sent statements. kFailed: the server reported an error before the last statement
  /// (COMMIT) was done; the transaction was rolled back. kUnknown: the connection was lost; the transaction may have
  /// been committed.
  Finished Finish(const OnSentRow& on_row = {});

  /// Returns true if the connection was lost; it cannot be used any more.
  bool is_lost() const;
  /// Returns true if the server has closed the connection while no statement was running. Does not wait.
  bool NoticesEnd();
  int server_process() const { return pq_.backendPID(connection_); }
  int server_version() const { return pq_.serverVersion(connection_); }
  std::string Parameter(const char* name) const;
  /// The URL without its secrets.
  const std::string& shown_url() const { return shown_url_; }

 private:
  PgConnection(const LibPq& pq, const Options& options);
  /// Waits until a result has arrived and everything is sent. False: the connection is lost.
  bool Wait();
  struct Clear {
    const LibPq* pq;
    void operator()(pg_result* result) const { pq->clear(result); }
  };
  using ResultPointer = std::unique_ptr<pg_result, Clear>;
  /// Returns the next result, or null after the last result of a statement. Sets is_lost_ if the connection is lost.
  ResultPointer Next();
  Status ReadAll(const OnRow& on_row);
  Error Lost() const;
  Error ErrorOf(const pg_result* result) const;
  bool SendPrepared(const std::string& statement, std::span<const PgParameters> rows);

  const LibPq& pq_;
  std::string url_;
  std::string shown_url_;
  Duration timeout_;
  pg_conn* connection_ = nullptr;
  bool is_lost_ = false;
  std::string why_lost_;
  std::size_t sent_ = 0;
  // Reused for each statement.
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::vector<int> formats_;
};

/// Returns the error of the store for this SQLSTATE, an error code of PostgreSQL. kLimitExceeded: nothing was written,
/// and a later try may succeed.
Error ErrorOfSqlState(std::string_view sql_state, const std::string& message, const std::string& shown_url);

}  // namespace divvy
