// A JobRecord as a row of the table jobs. One list of columns is used for creating, writing and reading, in every
// database. The parameters in the SQL are written "?1"; PostgreSQL's are "$1" (postgres_connection.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job_record.h"
#include "store/values.h"

namespace divvy {

/// "id, spec_of, state, ...": the columns in the order of BindRow and ReadRow.
const std::string& RowColumns();
/// "?1, ?2, ...": one parameter for each column of RowColumns().
const std::string& RowParameters();
/// "?1 AS id, ?2 AS spec_of, ...": the parameters as a row that can be selected from.
const std::string& RowAliases();
/// "spec_of = ?2, state = ?3, ...": everything but the id, which is ?1.
const std::string& RowAssignments();
/// "?7": the parameter of one column.
std::string RowParameter(std::string_view column);

/// The columns of the table `runs` after "job". In these columns an ended run may differ from the job's current row.
const std::string& RunColumns();
/// "jobs.id, ..., runs.started, ...", in the order of RowColumns. ReadRow then returns the job as it was in that run.
const std::string& ColumnsOfRuns();

/// Sets all parameters of the statement to the fields of the record. Texts are not copied, so `record` must live until
/// the statement has run.
void BindRow(Parameters& statement, const JobRecord& record);
/// Makes a job record from a row with RowColumns(). If a value is invalid, fails with kCorruptData and names the job
/// and the column.
Result<JobRecord> ReadRow(const Columns& row);

/// How many jobs a new record adds to `jobs_total`. An array counts all its elements, so an element adds none.
inline std::int64_t JobsIn(const JobRecord& record) {
  if (record.array.is_set()) return 0;
  return record.array_count > 0 ? record.array_count : 1;
}

// Lists as one text each, for the columns `dependencies`, `array_waiting` and `array_indices`.

/// "after_ok:12,after:14_3+60000000000,singleton": kind, job, element, delay in nanoseconds, and "=satisfied" or
/// "=impossible" once that is decided.
std::string DependenciesToText(const std::vector<Dependency>& dependencies);
std::optional<std::vector<Dependency>> DependenciesFromText(std::string_view text);
/// "0-99,104-120:4": IndexRanges::ToString, with equal steps folded so that a stepped array stays short.
std::string RangesToText(const IndexRanges& ranges);

}  // namespace divvy
