// The first process of a job's part on one of its machines (platform/supervisor/supervisor_seat.h), with what such
// a job finds around it.
#pragma once

#include <string>
#include <vector>

#include "platform/records/gang_files.h"

namespace divvy {

/// `words` from argv[0] on; `steps` becomes the job's step process. Returns its exit code, where it has not become the
/// job's program.
int SeatMain(const std::vector<std::string>& words, const GangStepsMain& steps);

}  // namespace divvy
