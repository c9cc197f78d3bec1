// A JobRecord as a row of the table jobs: one list of columns serves creating, writing and reading alike.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job_record.h"
#include "store/sqlite.h"

namespace divvy {

/// "id, spec_of, state, ...": the columns in the order in which BindRow and ReadRow take them.
const std::string& RowColumns();
/// "?1, ?2, ...".
const std::string& RowParameters();
/// "?1 AS id, ?2 AS spec_of, ...".
const std::string& RowAliases();
/// "spec_of = ?2, state = ?3, ...": everything but the id, which is ?1.
const std::string& RowAssignments();
/// "?7": the parameter of one column.
std::string RowParameter(std::string_view column);

/// The table runs: of one that is over, the columns in which it may differ from the job as it is now; after "job".
const std::string& RunColumns();
/// "jobs.id, ..., runs.started, ...": RowColumns' order, for ReadRow: the job as it was with that run.
const std::string& ColumnsOfRuns();

/// Texts of `record` are not copied: it must live until the statement has run.
void BindRow(Statement& statement, const JobRecord& record);
/// Fails with kCorruptData that names the job and the column.
Result<JobRecord> ReadRow(const Statement& statement);

/// How many jobs a new record adds to "ever submitted": an array counts for its elements, so they do not count again.
inline std::int64_t JobsIn(const JobRecord& record) {
  if (record.array.is_set()) return 0;
  return record.array_count > 0 ? record.array_count : 1;
}

// Lists as one text each; the columns `dependencies`, `array_waiting` and `array_indices`.

/// "after_ok:12,after:14_3+60000000000,singleton": kind, job, element, delay in nanoseconds.
std::string DependenciesToText(const std::vector<Dependency>& dependencies);
std::optional<std::vector<Dependency>> DependenciesFromText(std::string_view text);
/// "0-99,104-120:4": as IndexRanges::ToString, with equal steps folded so that a stepped array stays short.
std::string RangesToText(const IndexRanges& ranges);

}  // namespace divvy
