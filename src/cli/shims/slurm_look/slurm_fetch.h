// The jobs of a listing as Slurm has them: an array is its elements, and one line for those that have not begun.
#pragma once

#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// The jobs that `select` names, in every state where it names ids: who lists them leaves out what it does not want.
/// Of several ids, those that there are; kNotFound only for a single one.
Result<std::vector<wire::JobView>> FetchJobs(Api& api, const wire::JobSelector& select);

/// True for the record of an array as a whole, not of one of its elements.
bool IsWholeArray(const wire::JobView& job);

}  // namespace divvy::cli::slurm
