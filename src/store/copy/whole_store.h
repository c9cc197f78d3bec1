// A store as its tables, row by row, in either database: for copying and checking it while no daemon has it open.
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
/// All tables but meta, in the order in which they are copied.
std::span<const CopiedTable> CopiedTables();

class WholeStore {
 public:
  virtual ~WholeStore() = default;
  /// Rows with a key after `after` (null: from the first), ascending by key; at most `limit`.
  virtual Result<std::vector<CellRow>> Read(const CopiedTable& table, const Cell& after, std::int64_t limit) = 0;
  /// Inserts the rows in one transaction.
  virtual Status Write(const CopiedTable& table, const std::vector<CellRow>& rows) = 0;
  /// One or more statements without parameters and rows.
  virtual Status Execute(const std::string& sql) = 0;
  /// The first column of the first row; 0 when there is no row.
  virtual Result<std::int64_t> Number(const std::string& sql) = 0;
  /// Finds damage of the database itself; one line each.
  virtual Result<std::vector<std::string>> Damage() = 0;
  /// After the last Write. Makes everything durable, and each later Execute, too.
  virtual Status Finish() = 0;
  /// The path, or the URL without its secrets.
  virtual const std::string& name() const = 0;
};

enum class WholeStoreUse {
  kRead,  // It must exist; a missing file is kNotFound.
  kFill,  // It is created if necessary, and may be an unfinished copy.
};

/// `where` is the path of an SQLite file or a URL of PostgreSQL. kFailedPrecondition if a daemon has it open.
Result<std::unique_ptr<WholeStore>> OpenWholeStore(const std::string& where, WholeStoreUse use);

}  // namespace divvy
