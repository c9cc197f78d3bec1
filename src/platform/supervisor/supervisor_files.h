// The files that a supervisor makes for its job: the run record, the script, the log.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/os/launch_descriptor.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/supervisor.h"
#include "platform/users/open_as.h"

namespace divvy {

/// Makes and locks the run record of request.job in the working directory. The record makes a launch happen at most
/// once, however often it is asked for: it is made exclusively, and the launcher must still be alive when it is
/// there, so that a later launcher's repetition, or a later daemon's scan, finds it. The result is closed when the job
/// is not ours to run: it runs already or did, or the launcher has gone.
Result<Descriptor> ClaimRunRecord(const LaunchRequest& request, const SupervisorSetup& setup);

/// A file that the job's start opens with the user's rights.
struct OpenedFile {
  std::string path;       // Absolute, as it is looked up here.
  std::string_view role;  // "output".
};
/// Those whose directories other processes can make and we can see: none that is in a /tmp of the job's own.
std::vector<OpenedFile> FilesToOpen(const LaunchRequest& request);

/// request.script as a file in the working directory that `owner` may read; returns its name.
Result<std::string> WriteScript(const LaunchRequest& request, const FileOwner& owner);

/// request.output: divvy's own log, given to `owner`, or any file, opened with the owner's rights.
Result<Descriptor> OpenLog(const LaunchRequest& request, const FileOwner& owner, const SupervisorSetup& setup);

}  // namespace divvy
