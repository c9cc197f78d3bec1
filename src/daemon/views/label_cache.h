// The labels of jobs (pool, account, QOS) for listings and filters. They are part of a job's specification, which
// listings do not read. So they are cached from the submission on, and read once for jobs from before the daemon's
// start.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/views/views.h"
#include "driver/controller_driver.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Used on the loop's thread, except OfStored and Read. Memory is bounded: evicted labels are read again when needed.
class LabelCache {
 public:
  explicit LabelCache(ControllerDriver& driver) : driver_(driver) {}

  /// Caches the labels of an accepted submission. `id` must be greater than all earlier ones.
  void Learn(JobId id, const SpecLabels& labels);
  /// Call when the specification of this job has changed, or when an array element has got a specification of its own.
  void Replace(JobId id, const SpecLabels& labels);
  /// Takes over what `before` has read from the same store. Any thread.
  void Inherit(const LabelCache& before);
  /// Returns empty labels if the specification cannot be read.
  SpecLabels Of(const JobRecord& record);
  /// Returns the labels of a job in `store`, in the same way. Any thread.
  SpecLabels OfStored(const JobRecord& record, Store& store);
  /// Returns the specifications that must be read to know the labels of all these jobs.
  std::vector<JobId> UnknownAmong(const std::map<JobId, JobRecord>& jobs) const;
  /// Reads the labels of these specifications and caches them. Any thread.
  void Read(const std::vector<JobId>& specs, Store& store);
  /// Returns true if the job's labels pass the selector's filters. Cheap if there are none.
  bool Passes(const JobRecord& record, const wire::JobSelector& select);
  static bool Passes(const JobRecord& record, const SpecLabels& labels, const wire::JobSelector& select);

 private:
  using Shared = std::shared_ptr<const SpecLabels>;
  /// Returns a shared copy; reuses the last one if equal, since successive jobs mostly have the same labels.
  Shared Share(const SpecLabels& labels);
  std::optional<SpecLabels> Known(JobId spec_of) const;
  SpecLabels Remember(JobId spec_of, const SpecLabels& labels);

  ControllerDriver& driver_;
  mutable std::mutex mutex_;             // Guards all members below.
  std::optional<JobId> all_known_from_;  // Submissions from this id on that are not in `learned_` have no labels.
  std::map<JobId, Shared> learned_;      // Only jobs that have labels.
  std::map<JobId, Shared> read_;         // For submissions before all_known_from_.
  Shared last_;
};

}  // namespace divvy
