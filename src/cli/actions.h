// What the commands that act on jobs share: which jobs, and what came of it.
#pragma once

#include <vector>

#include "base/result.h"
#include "dialect/options.h"
#include "wire/messages.h"

namespace divvy::cli {

/// --all, --user, --state ...; the closures write into `select`, which must outlive the table.
std::vector<dialect::Option> SelectTable(wire::JobSelector& select);

/// Fails where nothing says which jobs are meant.
Status CheckSelection(const wire::JobSelector& select, std::string_view verb);

/// Prints one line for each job; gives the exit code.
int ReportActions(const Result<wire::ActionAnswer>& answer);

}  // namespace divvy::cli
