// Finds the jobs that a client has selected by ids, array elements, ranges, names, or "@" (the user's latest job).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/views/label_cache.h"
#include "driver/controller_driver.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Returns the ids of the selected jobs in ascending order without duplicates. Without words in `select`, these are the
/// live jobs that pass its filters. With words, they are the jobs that the words name, of all users, as far as they
/// pass the filters that are set. Fails with kInvalidArgument or kNotFound, naming the wrong word.
Result<std::vector<JobId>> SelectIds(ControllerDriver& driver, LabelCache& labels, const wire::JobSelector& select,
                                     const Caller& caller);

/// Returns the first and last id of each word that is a range ("20-25"), for callers that also want the ended jobs of a
/// range; SelectIds returns only its live jobs.
std::vector<std::pair<JobId, JobId>> RangesOf(const std::vector<std::string>& words);

/// Resolves one word to one job: "17", "17_3", "@", "@~2", or the name of the caller's latest job with that name.
Result<JobId> SelectOne(ControllerDriver& driver, const std::string& word, const Caller& caller);

/// Returns true if the record passes the selector's filters except those on labels (user, states, name, project, group,
/// array).
bool Passes(const JobRecord& record, const wire::JobSelector& select, const Caller& caller);
/// Returns true if the selector has any filter (user, state, label and so on), not only words.
bool HasFilter(const wire::JobSelector& select);

}  // namespace divvy
