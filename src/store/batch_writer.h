// Writes the controller's changes (batches) to an SQLite database, all of them in one transaction or none. Nothing else
// writes to that database.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "store/capture_cache.h"
#include "store/sqlite.h"

namespace divvy {

class BatchWriter {
 public:
  /// `connection` must outlive the writer and have the newest schema.
  static Result<std::unique_ptr<BatchWriter>> Create(Connection& connection);

  /// Writes all batches in one transaction. See Store::Commit.
  Status Write(const std::vector<Batch>& batches);
  /// Removes old jobs, at most 1,000. Returns true while there is more to do. See Store::PruneStep.
  Result<bool> PruneStep(Time finished_before);

 private:
  explicit BatchWriter(Connection& connection) : connection_(connection) {}

  Status PrepareAll();
  Status WriteAll(const std::vector<Batch>& batches);
  Status WriteRows(const Batch& batch);
  Status WriteSpec(JobId job, const JobSpec& spec);
  Status WriteSettings(const Batch& batch);
  Status WriteCounters(const std::vector<Batch>& batches);
  /// Returns the id of the row of table `captures` (environments of submissions) with this content. Inserts the row if
  /// it is missing. Returns 0 for an empty capture.
  Result<std::int64_t> CaptureId(const Capture& capture);
  Result<std::optional<std::int64_t>> FindCapture(std::int64_t hash, const std::string& body);
  Result<bool> DeleteOldJobs(Time finished_before);
  Status DeleteJob(std::int64_t job);
  void RollBack();

  Connection& connection_;
  Statement begin_, commit_, rollback_;
  Statement insert_job_, update_job_, write_spec_;
  Statement find_captures_, insert_capture_;
  Statement insert_history_, insert_run_, write_setting_, delete_setting_;
  Statement set_meta_, add_to_meta_;
  Statement find_old_jobs_, delete_job_, delete_spec_, delete_history_, delete_runs_, delete_old_events_;
  Statement delete_captures_;

  CaptureCache known_captures_;
};

}  // namespace divvy
