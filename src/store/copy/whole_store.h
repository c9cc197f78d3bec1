// Reads and writes the tables of a store row by row, in SQLite or PostgreSQL. Used to copy and check a store while no
// daemon has it open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy {

struct Cell {
  enum class Kind { kNull, kNumber, kText };
  Kind kind = Kind::kNull;
  std::int64_t number = 0;
  std::string text;

  static Cell Of(std::int64_t number) { return {Kind::kNumber, number, {}}; }
  static Cell Of(std::string text) { return {Kind::kText, 0, std::move(text)}; }
  friend bool operator==(const Cell&, const Cell&) = default;
};
using CellRow = std::vector<Cell>;

/// A table that is copied. The first column is its key.
struct CopiedTable {
  std::string name;
  std::vector<std::string> columns;  // As SQL.
  std::string types;                 // 'n' or 't' for each column.
};
/// Returns all tables except `meta`, in the order in which they are copied.
std::span<const CopiedTable> CopiedTables();

class WholeStore {
 public:
  virtual ~WholeStore() = default;
  /// Returns at most `limit` rows, ascending by key, whose key is greater than `after`. A null cell as `after` begins
  /// with the first row.
  virtual Result<std::vector<CellRow>> Read(const CopiedTable& table, const Cell& after, std::int64_t limit) = 0;
  /// Inserts the rows in one transaction.
  virtual Status Write(const CopiedTable& table, const std::vector<CellRow>& rows) = 0;
  /// Runs one or more SQL statements that have no parameters and return no rows.
  virtual Status Execute(const std::string& sql) = 0;
  /// Runs a query and returns the first column of its first row; 0 if it has no row.
  virtual Result<std::int64_t> Number(const std::string& sql) = 0;
  /// Lets the database check its own files. Returns one line for each problem.
  virtual Result<std::vector<std::string>> Damage() = 0;
  /// Call this after the last Write. It makes everything that was written durable; each later Execute is durable when
  /// it returns.
  virtual Status Finish() = 0;
  /// The path, or the URL without its secrets.
  virtual const std::string& name() const = 0;
};

enum class WholeStoreUse {
  kRead,  // The store must exist; a missing file is kNotFound.
  kFill,  // The store is created if necessary, and may be an unfinished copy.
};

/// `where` is the path of an SQLite file or a URL of PostgreSQL. kFailedPrecondition if a daemon has it open.
Result<std::unique_ptr<WholeStore>> OpenWholeStore(const std::string& where, WholeStoreUse use);

}  // namespace divvy
