// What the commands that act on jobs share: which jobs, and what came of it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

class Api;

/// --all, --user, --state ...; the closures write into `select`, which must outlive the table.
std::vector<dialect::Option> SelectTable(wire::JobSelector& select);

/// Fails where nothing says which jobs are meant.
Status CheckSelection(const wire::JobSelector& select, std::string_view verb);

/// The words with the jobs that there are, ended ones too, in place of each range of ids ("20-25"; an array is one) and
/// with the elements in place of several of an array ("17_1-3", "17_[1,4]").
Result<std::vector<std::string>> EachJob(Api& api, const std::vector<std::string>& words);

/// Prints one line for each job; gives the exit code.
int ReportActions(const Result<wire::ActionAnswer>& answer, bool is_quiet = false);

/// Posts each of these to `path`, one after the other, and prints what came of it; gives the exit code of the last that
/// failed, else 0.
int PostEach(const std::string& path, const std::vector<std::string>& bodies);

}  // namespace divvy::cli
