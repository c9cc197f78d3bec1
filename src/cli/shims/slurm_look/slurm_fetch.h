// The jobs of a listing as Slurm shows them: an array is its elements, with one line for those that have not begun.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// Returns the jobs that `select` describes. If `select` names ids, jobs in every state are returned, and the caller
/// must filter them by state. Ids that do not exist are skipped; kNotFound if there is only one id.
Result<std::vector<wire::JobView>> FetchJobs(Api& api, const wire::JobSelector& select);

/// True for the record of an array as a whole; false for one of its elements.
bool IsWholeArray(const wire::JobView& job);

}  // namespace divvy::cli::slurm
