// What a step of the controller wants kept: rows, with the lines of history that explain them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/job_record.h"

namespace divvy {

/// A change of one step, in the order in which it happened. See docs/store.md for the tables.
struct Batch {
  struct NewJob {
    JobRecord record;
    std::shared_ptr<const JobSpec> spec;  // Null: `record.spec_of`'s (elements of an array share their array's).
  };
  std::vector<NewJob> inserts;
  std::vector<JobRecord> updates;  // The whole record; the spec is not touched.
  std::vector<std::pair<JobId, std::shared_ptr<const JobSpec>>> spec_updates;
  struct HistoryLine {
    JobId job;  // Not set: of the machines and their GPUs.
    Time at;
    std::string text;
  };
  std::vector<HistoryLine> history;
  /// Of jobs that run again, the run that is over: as the job would be, had it ended with it.
  std::vector<JobRecord> past_runs;
  std::vector<std::pair<std::string, std::string>> settings;  // Key -> JSON text; "" removes it.
  std::optional<std::uint64_t> next_id;                       // The id counter after this batch.

  bool empty() const {
    return inserts.empty() && updates.empty() && spec_updates.empty() && history.empty() && past_runs.empty() &&
           settings.empty() && !next_id;
  }
};

}  // namespace divvy
