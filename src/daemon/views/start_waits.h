// What a job that was told to start waits for on its machines: others that leave GPUs which it is to have whole.
#pragma once

#include <string>

#include "control/books/record_parts.h"
#include "daemon/shares/share_board.h"
#include "daemon/views/views.h"

namespace divvy {

/// As the keepers of its machines say it: sentences, the first with a space before it; who is in the way is named once,
/// by the name that people know. Empty: nothing is known to be. Requires: it is to start.
std::string StartWaitsText(const JobRecord& record, const ShareBoard& shares, const FindOutcome& find);

}  // namespace divvy
