// The labels of jobs (pool, account, QOS) for listings and filters. They are part of a job's spec, which listings do
// not read: so they are remembered from the submission on, and read once for what an earlier daemon was given.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "daemon/driver/core.h"
#include "daemon/views/views.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Used by the loop's thread, but for OfStored. Memory is bounded: what is forgotten is read again when it is asked
/// for.
class LabelBook {
 public:
  explicit LabelBook(Core& core) : core_(core) {}

  /// A submission that was accepted. Ids grow; this one is the greatest so far.
  void Learn(JobId id, const SpecLabels& labels);
  /// The specification under this id has changed, or is new (of an element that differs from its array).
  void Replace(JobId id, const SpecLabels& labels);
  /// Empty labels where the spec cannot be read.
  SpecLabels Of(const JobRecord& record);
  /// The same for a job that `store` has, from any thread.
  SpecLabels OfStored(const JobRecord& record, Store& store);
  /// The specs that would have to be read for the labels of all of these jobs.
  std::vector<JobId> UnknownAmong(const std::map<JobId, JobRecord>& jobs) const;
  /// Reads and remembers them; from any thread.
  void Read(const std::vector<JobId>& specs, Store& store);
  /// True if the job's labels pass the selector's; cheap where it asks for none.
  bool Passes(const JobRecord& record, const wire::JobSelector& select);
  static bool Passes(const JobRecord& record, const SpecLabels& labels, const wire::JobSelector& select);

 private:
  using Shared = std::shared_ptr<const SpecLabels>;
  /// `labels`, sharing the one given last where it is the same: most jobs in a row have the same.
  Shared Share(const SpecLabels& labels);
  std::optional<SpecLabels> Known(JobId spec_of) const;
  SpecLabels Remember(JobId spec_of, const SpecLabels& labels);

  Core& core_;
  mutable std::mutex mutex_;             // Of all below.
  std::optional<JobId> all_known_from_;  // Later submissions that are not in `learned_` have no labels.
  std::map<JobId, Shared> learned_;      // Only those that have some.
  std::map<JobId, Shared> read_;         // Of submissions before all_known_from_.
  Shared last_;
};

}  // namespace divvy
