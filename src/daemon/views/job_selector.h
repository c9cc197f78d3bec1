// Resolves a client's job selection: ids, elements, ranges, names, "@".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/views/label_cache.h"
#include "driver/controller_driver.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Returns the selected ids in ascending order without duplicates. Fails with kInvalidArgument or kNotFound, naming the
/// wrong word. Without words: the live jobs that pass the filters. With words: the jobs that they name and that pass
/// the filters which are set, whoever owns them.
Result<std::vector<JobId>> SelectIds(ControllerDriver& driver, LabelCache& labels, const wire::JobSelector& select,
                                     const Caller& caller);

/// Returns the first and last id of each word that is a range ("20-25"). SelectIds returns only the live jobs of a
/// range.
std::vector<std::pair<JobId, JobId>> RangesOf(const std::vector<std::string>& words);

/// Resolves one word to one job: "17", "17_3", "@", "@~2", or the name of the caller's latest job with that name.
Result<JobId> SelectOne(ControllerDriver& driver, const std::string& word, const Caller& caller);

/// Returns true if the record passes the selector's filters except those on labels (user, states, name, project, group,
/// array).
bool Passes(const JobRecord& record, const wire::JobSelector& select, const Caller& caller);
/// Returns true if the selector has anything but words.
bool HasFilter(const wire::JobSelector& select);

}  // namespace divvy
