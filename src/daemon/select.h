// Which jobs a client means: ids, elements, ranges, names, "@".
#pragma once

#include <string>
#include <vector>

#include "daemon/core.h"
#include "wire/messages.h"

namespace divvy {

/// The ids of `select`, ascending and without repetition; kInvalidArgument or kNotFound names the word that is wrong.
/// With `includes_final` (or for words that name one job) those that have ended count as well.
Result<std::vector<JobId>> SelectIds(Core& core, const wire::JobSelector& select, const Caller& caller);

/// One job by one word: "17", "17_3", "@", "@~2", or the name of the caller's latest job of that name.
Result<JobId> SelectOne(Core& core, const std::string& word, const Caller& caller);

/// True if the record passes the selector's filters (user, states, name, project, group).
bool Passes(const JobRecord& record, const wire::JobSelector& select, const Caller& caller);

}  // namespace divvy
