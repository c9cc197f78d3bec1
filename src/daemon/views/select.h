// Which jobs a client means: ids, elements, ranges, names, "@".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/driver/core.h"
#include "daemon/views/routes_labels.h"
#include "wire/messages/messages.h"

namespace divvy {

/// The ids of `select`, ascending and without repetition; kInvalidArgument or kNotFound names the word that is wrong.
/// Without words: the live jobs that pass the filters. With words: those that they name and that pass the filters which
/// are set, whoever's they are.
Result<std::vector<JobId>> SelectIds(Core& core, LabelBook& labels, const wire::JobSelector& select,
                                     const Caller& caller);

/// From the first to the last id of each word that is a range ("20-25"). SelectIds finds of them what is live.
std::vector<std::pair<JobId, JobId>> RangesOf(const std::vector<std::string>& words);

/// One job by one word: "17", "17_3", "@", "@~2", or the name of the caller's latest job of that name.
Result<JobId> SelectOne(Core& core, const std::string& word, const Caller& caller);

/// True if the record passes the selector's filters but those on labels (user, states, name, project, group, array).
bool Passes(const JobRecord& record, const wire::JobSelector& select, const Caller& caller);
/// True if anything but words selects.
bool HasFilter(const wire::JobSelector& select);

}  // namespace divvy
