// The small part of SQLite's C interface that the store needs: connections and statements that close themselves, and
// errors that name the file and a remedy. A connection and its statements may be used by one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/values.h"

struct sqlite3;
struct sqlite3_stmt;

namespace divvy {

/// A prepared statement, with its parameters and the current row of its result.
class Statement final : public Parameters, public Columns {
 public:
  Statement() = default;
  Statement(const std::string* path, sqlite3_stmt* statement) : path_(path), statement_(statement) {}
  Statement(Statement&& other) noexcept { *this = std::move(other); }
  Statement& operator=(Statement&& other) noexcept;
  ~Statement() override;

  void Bind(int parameter, std::int64_t value) override;
  /// Does not copy the text, which must live until Run, or the last call of Next, has returned.
  void Bind(int parameter, std::string_view text) override;
  void BindCopy(int parameter, std::string_view text) override;
  void BindNull(int parameter) override;

  /// Moves to the next row of the result. Returns false if there is none. After false or an error, new parameters can
  /// be bound.
  Result<bool> Next();
  /// Runs a statement that returns no rows.
  Status Run();
  /// Ends a query before its last row, and clears the bound values.
  void Reset();

  std::int64_t Integer(int column) const override;
  std::string_view Text(int column) const override;  // Valid until the next call on this statement.
  bool IsNull(int column) const override;

 private:
  const std::string* path_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
  int bind_error_ = 0;
};

/// One open connection. Not movable: its statements refer to it.
class Connection {
 public:
  explicit Connection(std::string path) : path_(std::move(path)) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  /// Opens the database file, which must exist (it may be empty).
  Status Open();
  /// Runs one or more SQL statements. Rows that they return are ignored.
  Status Execute(const char* sql);
  Result<Statement> Prepare(std::string_view sql);
  /// Runs a query and returns the first column of its first row; 0 if it has no row.
  Result<std::int64_t> QueryInteger(std::string_view sql);

  bool is_in_transaction() const;
  int rows_changed() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  sqlite3* database_ = nullptr;
};

}  // namespace divvy
