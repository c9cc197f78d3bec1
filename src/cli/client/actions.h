// Helpers for the commands that act on jobs: selecting the jobs, and reporting the results.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

class Api;

/// Options that select jobs: --all, --user, --state ... Their closures write into `select`, which must outlive the
/// table.
std::vector<dialect::Option> SelectTable(wire::JobSelector& select);

/// Fails with kInvalidArgument if `select` has neither ids nor any other condition. `verb` is the command ("cancel"),
/// for the message.
Status CheckSelection(const wire::JobSelector& select, std::string_view verb);

/// Expands `words` with the jobs that exist, ended ones included. A range of ids ("20-25") becomes the ids in it, with
/// an array as one id. Several elements of an array ("17_1-3", "17_[1,4]") become one word per element.
Result<std::vector<std::string>> EachJob(Api& api, const std::vector<std::string>& words);

/// Prints the result of an action (cancel, hold, ...), one line per job, or the error. Returns the exit code.
/// `is_quiet` omits the lines about success.
int ReportActions(const Result<wire::ActionAnswer>& answer, bool is_quiet = false);

/// Posts each body to `path`, one after the other, and prints the results. Returns the exit code of the last request
/// that failed, else 0.
int PostEach(const std::string& path, const std::vector<std::string>& bodies);

}  // namespace divvy::cli
