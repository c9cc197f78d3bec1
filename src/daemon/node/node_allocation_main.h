// The first process of a job's node allocation (platform/supervisor/node_allocation_start.h), with the environment that
// such a job finds.
#pragma once

#include <string>
#include <vector>

#include "platform/records/gang_files.h"

namespace divvy {

/// `words` start with argv[0]; `steps` runs the job's step process. Returns its exit code, unless the process has
/// become the job's program.
int NodeAllocationMain(const std::vector<std::string>& words, const GangStepsMain& steps);

}  // namespace divvy
