// The records of all live jobs, and the ids given out. A job leaves the table when it ends.
//
// An array has one record; its elements get records of their own, with the ids after the array's, when they start or
// differ from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job_record.h"

namespace divvy {

/// Function that returns the final record of a job that is no longer live, from the store; nullopt if there never was
/// such a job.
using FindOutcome = std::function<std::optional<JobRecord>(JobId)>;

class JobTable {
 public:
  using Records = std::map<JobId, JobRecord>;
  struct Ids {
    std::uint64_t next = 1;
    std::uint64_t jobs_total = 0;  // Jobs ever submitted, arrays counted by element.
  };

  /// The records of all live jobs, by id. The classes in control/jobs add, change and remove them.
  const Records& live() const { return live_; }
  Records& live() { return live_; }
  /// Returns the job's record; null if the job is not live.
  const JobRecord* Find(JobId id) const;
  /// Returns the array that has the job `id` as an element without a record of its own; null if there is none.
  const JobRecord* ArrayOf(JobId id) const;
  /// Returns a new record for the array element with this number (from 0), which is not in the table yet.
  JobRecord NewElement(const JobRecord& array, std::uint32_t ordinal) const;
  /// Returns the ids of the array's elements that have records of their own, ascending.
  std::vector<JobId> ElementsOf(const JobRecord& array) const;
  /// Sets the function that names array elements (see Controller::SetElementNames).
  void SetElementNames(std::function<std::string(const JobRecord& element)> name_of) { name_of_ = std::move(name_of); }

  const Ids& ids() const { return ids_; }
  void SetIds(const Ids& ids) { ids_ = ids; }
  void CountJobs(std::int64_t added) { ids_.jobs_total += static_cast<std::uint64_t>(added); }
  /// Returns the id of a job with this many elements; 0: a single job.
  JobId TakeIds(std::uint64_t elements);
  /// Ensures that no id below this is assigned any more. Returns whether that changed the next id.
  bool ReserveIds(std::uint64_t next_id);

 private:
  Records live_;
  Ids ids_;
  std::function<std::string(const JobRecord& element)> name_of_;
};

}  // namespace divvy
