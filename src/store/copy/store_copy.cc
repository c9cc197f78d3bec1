#include "store/copy/store_copy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "store/copy/whole_store.h"
#include "store/row.h"
#include "wire/messages/spec_json.h"

namespace divvy {
namespace {

constexpr std::int64_t kRowsPerStep = 4'000;
constexpr std::size_t kMostProblems = 100;

/// A hash over rows, in two halves that both depend on every byte. Detects accidental differences, not intended ones.
struct RowsHash {
  std::uint64_t a = 0xcbf29ce484222325;
  std::uint64_t b = 0x9E3779B97F4A7C15;

  void Add(std::string_view bytes) {
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      a = (a ^ byte) * 0x100000001b3;
      b = (std::rotl(b, 7) + byte) * 0xD6E8FEB86659FD93;
    }
  }
  void Add(const CellRow& row) {
    for (const Cell& cell : row) {
      const std::string head = std::to_string(static_cast<int>(cell.kind)) + ":" + std::to_string(cell.number) + ":" +
                               std::to_string(cell.text.size()) + ":";
      Add(head);
      Add(cell.text);
    }
  }
  friend bool operator==(const RowsHash&, const RowsHash&) = default;
};

/// A row as the columns of a result.
class CellColumns final : public Columns {
 public:
  explicit CellColumns(const CellRow& row) : row_(row) {}
  std::int64_t Integer(int column) const override { return At(column).number; }
  std::string_view Text(int column) const override { return At(column).text; }
  bool IsNull(int column) const override { return At(column).kind == Cell::Kind::kNull; }

 private:
  const Cell& At(int column) const { return row_[static_cast<std::size_t>(column)]; }
  const CellRow& row_;
};

Result<std::int64_t> CountOf(WholeStore& store, const std::string& table) {
  return store.Number("SELECT count(*) FROM " + table);
}

/// Calls `on_rows` with all rows after the key `after`, some thousand at once.
Status ForAllRows(WholeStore& store, const CopiedTable& table, Cell after,
                  const std::function<Status(const std::vector<CellRow>&)>& on_rows) {
  while (true) {
    DIVVY_TRY(const std::vector<CellRow> rows, store.Read(table, after, kRowsPerStep));
    if (rows.empty()) return {};
    DIVVY_CHECK(on_rows(rows));
    after = rows.back().front();
  }
}

/// The key of the table's last row; null if it is empty.
Result<Cell> LastKey(WholeStore& store, const CopiedTable& table) {
  if (table.types.front() == 't') return Cell();
  DIVVY_TRY(const std::int64_t rows, CountOf(store, table.name));
  if (rows == 0) return Cell();
  DIVVY_TRY(const std::int64_t last, store.Number("SELECT max(" + table.columns.front() + ") FROM " + table.name));
  return Cell::Of(last);
}

Status CopyTable(WholeStore& from, WholeStore& to, const CopiedTable& table, const OnCopyProgress& on_progress) {
  DIVVY_TRY(const std::int64_t all, CountOf(from, table.name));
  // A table with text keys is small, and is copied again.
  if (table.types.front() == 't') DIVVY_CHECK(to.Execute("DELETE FROM " + table.name));
  DIVVY_TRY(const Cell after, LastKey(to, table));
  DIVVY_TRY(std::int64_t copied, CountOf(to, table.name));
  return ForAllRows(from, table, after, [&](const std::vector<CellRow>& rows) -> Status {
    DIVVY_CHECK(to.Write(table, rows));
    copied += static_cast<std::int64_t>(rows.size());
    on_progress({false, table.name, copied, all});
    return {};
  });
}

Result<RowsHash> HashTable(WholeStore& store, const CopiedTable& table, std::int64_t& rows_seen,
                           const OnCopyProgress& on_progress) {
  DIVVY_TRY(const std::int64_t all, CountOf(store, table.name));
  RowsHash hash;
  DIVVY_CHECK(ForAllRows(store, table, Cell(), [&](const std::vector<CellRow>& rows) -> Status {
    for (const CellRow& row : rows) hash.Add(row);
    rows_seen += static_cast<std::int64_t>(rows.size());
    on_progress({true, table.name, rows_seen, all});
    return {};
  }));
  return hash;
}

Status BeginCopy(WholeStore& to) {
  DIVVY_TRY(const std::int64_t is_begun, to.Number("SELECT count(*) FROM meta WHERE key = 'copying'"));
  if (is_begun != 0) return {};
  for (const CopiedTable& table : CopiedTables()) {
    DIVVY_TRY(const std::int64_t rows, CountOf(to, table.name));
    if (rows > 0) {
      return FailedPrecondition(to.name() + " is not empty (" + table.name + ": " + std::to_string(rows) +
                                " rows) and was not changed: copy to an empty database or a new file");
    }
  }
  return to.Execute("INSERT INTO meta (key, value) VALUES ('copying', 1)");
}

Status EndCopy(WholeStore& from, WholeStore& to) {
  std::string sql = "BEGIN;";
  for (const std::string key : {"next_id", "jobs_total"}) {
    DIVVY_TRY(const std::int64_t value, from.Number("SELECT value FROM meta WHERE key = '" + key + "'"));
    sql += "UPDATE meta SET value = " + std::to_string(value) + " WHERE key = '" + key + "';";
  }
  // The key 'copying' marks an unfinished copy. If this process is interrupted before the key is removed, the next one
  // continues the copy.
  DIVVY_CHECK(to.Finish());
  return to.Execute(sql + "DELETE FROM meta WHERE key = 'copying'; COMMIT");
}

void CheckRow(const CopiedTable& table, const CellRow& row, std::vector<std::string>& problems) {
  if (problems.size() >= kMostProblems) return;
  if (table.name == "jobs") {
    if (const auto record = ReadRow(CellColumns(row)); !record) problems.push_back(record.error().message);
  } else if (table.name == "specs") {
    const auto spec = SpecFromJson(row[2].text);
    if (!spec)
      problems.push_back("the specification of job " + std::to_string(row[0].number) +
                         " cannot be read: " + spec.error().message);
  } else if (table.name == "captures") {
    const auto capture = CaptureFromJson(row[1].text);
    if (!capture)
      problems.push_back("the environment " + std::to_string(row[0].number) +
                         " cannot be read: " + capture.error().message);
  }
}

struct Misfit {
  std::string sql;  // Counts the rows that do not fit.
  std::string text;
};

const std::vector<Misfit>& Misfits() {
  static const std::vector<Misfit> all = {
      {"SELECT count(*) FROM jobs WHERE NOT EXISTS (SELECT 1 FROM specs WHERE specs.job = jobs.spec_of)",
       "jobs have no specification"},
      {"SELECT count(*) FROM specs WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = specs.job)",
       "specifications have no job"},
      {"SELECT count(*) FROM specs WHERE capture > 0 AND NOT EXISTS "
       "(SELECT 1 FROM captures WHERE captures.id = specs.capture)",
       "specifications have no environment"},
      {"SELECT count(*) FROM jobs AS element WHERE array_id > 0 AND NOT EXISTS "
       "(SELECT 1 FROM jobs WHERE jobs.id = element.array_id)",
       "array elements have no array"},
      {"SELECT count(*) FROM runs WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = runs.job)",
       "earlier runs have no job"},
  };
  return all;
}

}  // namespace

Result<std::vector<TableCount>> CopyStore(const std::string& from_where, const std::string& to_where,
                                          const OnCopyProgress& on_progress) {
  DIVVY_TRY(const std::unique_ptr<WholeStore> from, OpenWholeStore(from_where, WholeStoreUse::kRead));
  DIVVY_TRY(const std::unique_ptr<WholeStore> to, OpenWholeStore(to_where, WholeStoreUse::kFill));
  DIVVY_CHECK(BeginCopy(*to));
  for (const CopiedTable& table : CopiedTables()) DIVVY_CHECK(CopyTable(*from, *to, table, on_progress));
  std::vector<TableCount> counts;
  for (const CopiedTable& table : CopiedTables()) {
    std::int64_t rows = 0;
    std::int64_t copied = 0;
    DIVVY_TRY(const RowsHash wanted, HashTable(*from, table, rows, on_progress));
    DIVVY_TRY(const RowsHash got, HashTable(*to, table, copied, on_progress));
    if (rows != copied || wanted != got) {
      return CorruptData("the copy of table " + table.name + " differs from " + from->name() + " (" +
                         std::to_string(copied) + " and " + std::to_string(rows) + " rows): remove " + to->name() +
                         " and copy again");
    }
    counts.push_back({table.name, rows});
  }
  DIVVY_CHECK(EndCopy(*from, *to));
  return counts;
}

Result<CheckedStore> CheckStore(const std::string& where) {
  DIVVY_TRY(const std::unique_ptr<WholeStore> store, OpenWholeStore(where, WholeStoreUse::kRead));
  CheckedStore out;
  DIVVY_TRY(out.schema_version, store->Number("SELECT value FROM meta WHERE key = 'schema_version'"));
  DIVVY_TRY(out.problems, store->Damage());
  for (const CopiedTable& table : CopiedTables()) {
    std::int64_t rows = 0;
    DIVVY_CHECK(ForAllRows(*store, table, Cell(), [&](const std::vector<CellRow>& some) -> Status {
      for (const CellRow& row : some) CheckRow(table, row, out.problems);
      rows += static_cast<std::int64_t>(some.size());
      return {};
    }));
    out.tables.push_back({table.name, rows});
  }
  for (const Misfit& misfit : Misfits()) {
    DIVVY_TRY(const std::int64_t count, store->Number(misfit.sql));
    if (count > 0) out.problems.push_back(std::to_string(count) + " " + misfit.text);
  }
  return out;
}

}  // namespace divvy
