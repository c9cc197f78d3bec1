// The changes that a step of the controller stores: rows, and the history lines that explain them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/job_record.h"

namespace divvy {

/// The changes of one step, in the order in which they happened. See docs/store.md for the tables.
struct Batch {
  struct NewJob {
    JobRecord record;
    std::shared_ptr<const JobSpec> spec;  // Null: the spec of `record.spec_of` (array elements share the spec of their
                                          // array).
  };
  std::vector<NewJob> inserts;
  std::vector<JobRecord> updates;  // Whole records; the specs stay unchanged.
  std::vector<std::pair<JobId, std::shared_ptr<const JobSpec>>> spec_updates;
  struct HistoryLine {
    JobId job;  // Not set: the line is about nodes and their GPUs.
    Time at;
    std::string text;
  };
  std::vector<HistoryLine> history;
  /// The ended runs of jobs that run again: each record is as it would be if the job had ended with that run.
  std::vector<JobRecord> past_runs;
  std::vector<std::pair<std::string, std::string>> settings;  // Key -> JSON text; "" removes it.
  std::optional<std::uint64_t> next_id;                       // The id counter after this batch.

  bool empty() const {
    return inserts.empty() && updates.empty() && spec_updates.empty() && history.empty() && past_runs.empty() &&
           settings.empty() && !next_id;
  }
};

}  // namespace divvy
