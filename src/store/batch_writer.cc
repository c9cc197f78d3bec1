#include "store/batch_writer.h"

#include <string_view>
#include <utility>

#include "store/row.h"
#include "wire/messages/spec_json.h"

namespace divvy {
namespace {

// Limits of one pruning step, so that it takes about 20 ms.
constexpr int kJobsPerPrune = 1'000;
constexpr int kCapturesPerPrune = 1'000;

// SQL that is true if an array element has another name than its array. Only such elements are in the index by name
// (jobs_named); otherwise the array is found by that name.
std::string HasOwnName() {
  const std::string array = RowParameter("array_id");
  return "CASE WHEN " + array + " = 0 THEN 1 ELSE " + RowParameter("name") +
         " IS NOT (SELECT name FROM jobs WHERE id = " + array + ") END";
}

}  // namespace

Result<std::unique_ptr<BatchWriter>> BatchWriter::Create(Connection& connection) {
  std::unique_ptr<BatchWriter> writer(new BatchWriter(connection));
  DIVVY_CHECK(writer->PrepareAll());
  return writer;
}

Status BatchWriter::PrepareAll() {
  const std::pair<Statement*, std::string> statements[] = {
      {&begin_, "BEGIN IMMEDIATE"},
      {&commit_, "COMMIT"},
      {&rollback_, "ROLLBACK"},
      {&insert_job_,
       "INSERT INTO jobs (" + RowColumns() + ", has_own_name) VALUES (" + RowParameters() + ", " + HasOwnName() + ")"},
      {&update_job_, "UPDATE jobs SET " + RowAssignments() + ", has_own_name = " + HasOwnName() + " WHERE id = ?1"},
      {&write_spec_,
       "INSERT INTO specs (job, capture, spec) VALUES (?1, ?2, ?3) "
       "ON CONFLICT (job) DO UPDATE SET capture = excluded.capture, spec = excluded.spec"},
      {&find_captures_, "SELECT id, body FROM captures WHERE hash = ?1"},
      {&insert_capture_, "INSERT INTO captures (hash, body) VALUES (?1, ?2) RETURNING id"},
      {&insert_history_, "INSERT INTO history (job, at, text) VALUES (?1, ?2, ?3)"},
      {&insert_run_, "INSERT INTO runs (job, " + RunColumns() + ") SELECT id, " + RunColumns() + " FROM (SELECT " +
                         RowAliases() + ")"},
      {&write_setting_,
       "INSERT INTO settings (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"},
      {&delete_setting_, "DELETE FROM settings WHERE key = ?1"},
      {&set_meta_, "UPDATE meta SET value = ?2 WHERE key = ?1"},
      {&add_to_meta_, "UPDATE meta SET value = value + ?2 WHERE key = ?1"},
      {&find_old_jobs_,
       "SELECT id FROM jobs WHERE state >= 6 AND ended > 0 AND ended < ?1 AND (array_count = 0 OR NOT EXISTS "
       "(SELECT 1 FROM jobs AS element WHERE element.array_id = jobs.id AND element.array_id > 0)) "
       "ORDER BY ended LIMIT ?2"},
      {&delete_job_, "DELETE FROM jobs WHERE id = ?1"},
      {&delete_spec_, "DELETE FROM specs WHERE job = ?1"},
      {&delete_history_, "DELETE FROM history WHERE job = ?1"},
      {&delete_runs_, "DELETE FROM runs WHERE job = ?1"},
      {&delete_old_events_, "DELETE FROM history WHERE job = 0 AND at < ?1"},
      {&delete_captures_,
       "DELETE FROM captures WHERE id IN (SELECT id FROM captures WHERE NOT EXISTS "
       "(SELECT 1 FROM specs WHERE specs.capture = captures.id AND specs.capture > 0) LIMIT ?1)"},
  };
  for (const auto& [statement, sql] : statements) {
    DIVVY_TRY(*statement, connection_.Prepare(sql));
  }
  return {};
}

Status BatchWriter::Write(const std::vector<Batch>& batches) {
  Status done = WriteAll(batches);
  if (!done) RollBack();
  return done;
}

Status BatchWriter::WriteAll(const std::vector<Batch>& batches) {
  DIVVY_CHECK(begin_.Run());
  for (const Batch& batch : batches) {
    DIVVY_CHECK(WriteRows(batch));
    DIVVY_CHECK(WriteSettings(batch));
  }
  DIVVY_CHECK(WriteCounters(batches));
  return commit_.Run();
}

Status BatchWriter::WriteRows(const Batch& batch) {
  for (const Batch::NewJob& job : batch.inserts) {
    BindRow(insert_job_, job.record);
    DIVVY_CHECK(insert_job_.Run());
    if (job.spec != nullptr) {
      DIVVY_CHECK(WriteSpec(job.record.id, *job.spec));
    } else if (job.record.spec_of == job.record.id) {
      return Internal("job " + ToString(job.record.id) + " has no specification");
    }
  }
  for (const JobRecord& record : batch.updates) {
    BindRow(update_job_, record);
    DIVVY_CHECK(update_job_.Run());
    if (connection_.rows_changed() != 1) return Internal("job " + ToString(record.id) + " is not in the store");
  }
  for (const auto& [job, spec] : batch.spec_updates) DIVVY_CHECK(WriteSpec(job, *spec));
  for (const Batch::HistoryLine& line : batch.history) {
    insert_history_.Bind(1, static_cast<std::int64_t>(line.job.value()));
    insert_history_.Bind(2, line.at.time_since_epoch().count());
    insert_history_.Bind(3, std::string_view(line.text));
    DIVVY_CHECK(insert_history_.Run());
  }
  for (const JobRecord& run : batch.past_runs) {
    BindRow(insert_run_, run);
    DIVVY_CHECK(insert_run_.Run());
  }
  return {};
}

Status BatchWriter::WriteSpec(JobId job, const JobSpec& spec) {
  DIVVY_TRY(const std::int64_t capture, CaptureId(spec.capture));
  const std::string text = SpecToJson(spec, false);
  write_spec_.Bind(1, static_cast<std::int64_t>(job.value()));
  write_spec_.Bind(2, capture);
  write_spec_.Bind(3, std::string_view(text));
  return write_spec_.Run();
}

Status BatchWriter::WriteSettings(const Batch& batch) {
  for (const auto& [key, value] : batch.settings) {
    Statement& statement = value.empty() ? delete_setting_ : write_setting_;
    statement.Bind(1, std::string_view(key));
    if (!value.empty()) statement.Bind(2, std::string_view(value));
    DIVVY_CHECK(statement.Run());
  }
  return {};
}

Status BatchWriter::WriteCounters(const std::vector<Batch>& batches) {
  std::optional<std::uint64_t> next_id;
  std::int64_t submitted = 0;
  for (const Batch& batch : batches) {
    if (batch.next_id) next_id = batch.next_id;
    for (const Batch::NewJob& job : batch.inserts) submitted += JobsIn(job.record);
  }
  if (next_id) {
    set_meta_.Bind(1, std::string_view("next_id"));
    set_meta_.Bind(2, static_cast<std::int64_t>(*next_id));
    DIVVY_CHECK(set_meta_.Run());
  }
  if (submitted == 0) return {};
  add_to_meta_.Bind(1, std::string_view("jobs_total"));
  add_to_meta_.Bind(2, submitted);
  return add_to_meta_.Run();
}

Result<std::int64_t> BatchWriter::CaptureId(const Capture& capture) {
  static const Capture kNone;
  if (capture == kNone) return 0;
  const std::int64_t hash = HashOf(capture);
  if (const auto known = known_captures_.Find(hash, capture)) return *known;
  const std::string body = CaptureToJson(capture);
  DIVVY_TRY(std::optional<std::int64_t> id, FindCapture(hash, body));
  if (!id) {
    insert_capture_.Bind(1, hash);
    insert_capture_.Bind(2, std::string_view(body));
    DIVVY_TRY(const bool has_row, insert_capture_.Next());
    DIVVY_ASSERT(has_row);  // RETURNING yields one row per inserted row.
    id = insert_capture_.Integer(0);
    DIVVY_CHECK(insert_capture_.Run());
  }
  known_captures_.Remember(hash, *id, capture);
  return *id;
}

Result<std::optional<std::int64_t>> BatchWriter::FindCapture(std::int64_t hash, const std::string& body) {
  find_captures_.Bind(1, hash);
  while (true) {
    DIVVY_TRY(const bool has_row, find_captures_.Next());
    if (!has_row) return std::nullopt;
    if (find_captures_.Text(1) != body) continue;
    const std::int64_t id = find_captures_.Integer(0);
    find_captures_.Reset();
    return id;
  }
}

Result<bool> BatchWriter::PruneStep(Time finished_before) {
  Result<bool> has_more = DeleteOldJobs(finished_before);
  if (!has_more) RollBack();
  return has_more;
}

Result<bool> BatchWriter::DeleteOldJobs(Time finished_before) {
  DIVVY_CHECK(begin_.Run());
  find_old_jobs_.Bind(1, finished_before.time_since_epoch().count());
  find_old_jobs_.Bind(2, kJobsPerPrune);
  std::vector<std::int64_t> jobs;
  while (true) {
    DIVVY_TRY(const bool has_row, find_old_jobs_.Next());
    if (!has_row) break;
    jobs.push_back(find_old_jobs_.Integer(0));
  }
  for (const std::int64_t job : jobs) DIVVY_CHECK(DeleteJob(job));
  // Even without old jobs in the next query, arrays may be left whose last element was removed in this step.
  bool has_more = !jobs.empty();
  if (jobs.empty()) {
    delete_old_events_.Bind(1, finished_before.time_since_epoch().count());
    DIVVY_CHECK(delete_old_events_.Run());
    delete_captures_.Bind(1, kCapturesPerPrune);
    DIVVY_CHECK(delete_captures_.Run());
    has_more = connection_.rows_changed() == kCapturesPerPrune;
    known_captures_.Clear();
  }
  DIVVY_CHECK(commit_.Run());
  return has_more;
}

Status BatchWriter::DeleteJob(std::int64_t job) {
  for (Statement* statement : {&delete_job_, &delete_spec_, &delete_history_, &delete_runs_}) {
    statement->Bind(1, job);
    DIVVY_CHECK(statement->Run());
  }
  return {};
}

void BatchWriter::RollBack() {
  // Captures that this transaction added are rolled back too.
  known_captures_.Clear();
  // After some write errors SQLite has already rolled the transaction back.
  if (connection_.is_in_transaction()) (void)rollback_.Run();
}

}  // namespace divvy
