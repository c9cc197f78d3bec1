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

/// `text`, with each byte that is no valid UTF-8, each NUL, and each character from U+10FE00 to U+10FEFF written as
/// characters of that (private) range, one for each byte.
std::string EscapeText(std::string_view text);
/// The text that EscapeText was called with.
std::string UnescapeText(std::string_view text);
/// True for nearly all texts: EscapeText would not change it.
bool IsPlainText(std::string_view text);

/// The values of a statement's parameters.
class PgParameters final : public Parameters {
 public:
  PgParameters() = default;
  /// For a few numbers and texts, in order. Texts are copied.
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

  /// The types of the values, for PgStatement::types.
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
    /// How long one operation may take. Then the connection counts as lost.
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
  /// One or more statements without parameters; rows are dropped.
  Status Execute(const std::string& sql);
  using OnRow = std::function<Status(const Columns&)>;
  /// Runs a prepared statement. An error of `on_row` is returned after the remaining rows were skipped.
  Status Query(const std::string& statement, const PgParameters& parameters, const OnRow& on_row);
  /// Prepares, runs and forgets a statement.
  Status QueryOnce(const std::string& sql, const PgParameters& parameters, const OnRow& on_row);
  /// The first column of the first row; 0 when there is no row.
  Result<std::int64_t> QueryInteger(const std::string& sql, const PgParameters& parameters = {});

  // A transaction in one round trip: Send any number of statements, then Finish. The texts of parameters must live
  // until Send returns.
  void Send(const std::string& statement, const PgParameters& parameters) { Send(statement, {&parameters, 1}); }
  /// The statement's parameters are those of all rows, one after the other.
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
  /// `on_row` gets the number of the statement, from 0. kFailed: the server reported an error before the last
  /// statement (COMMIT) was done; the transaction was rolled back. kUnknown: the connection was lost; the transaction
  /// may have been committed.
  using OnSentRow = std::function<void(std::size_t, const Columns&)>;
  Finished Finish(const OnSentRow& on_row = {});

  /// Nothing can be done any more with this connection.
  bool is_lost() const;
  /// Finds out whether the server has closed the connection while nothing was under way. Does not wait.
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
  /// The next result, or null at the end of the results of one statement. Sets is_lost().
  struct Clear {
    const LibPq* pq;
    void operator()(pg_result* result) const { pq->clear(result); }
  };
  using ResultPointer = std::unique_ptr<pg_result, Clear>;
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

/// The store's error for an SQLSTATE. kLimitExceeded: nothing was written, and a later try may succeed.
Error ErrorOfSqlState(std::string_view sql_state, const std::string& message, const std::string& shown_url);

}  // namespace divvy
