// The files that a supervisor creates for its job: the run record, the script and the log.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/supervisor_setup.h"
#include "platform/users/open_as_user.h"

namespace divvy {

/// Creates and locks the run record of request.job in the working directory. The record makes a launch happen at most
/// once, however often it is requested. It is created exclusively, and the launcher must still be alive afterwards, so
/// that a later launcher's repetition or a later daemon's scan finds it. The result is closed if this supervisor must
/// not run the job: the job already runs or has run, or the launcher has gone.
Result<Descriptor> ClaimRunRecord(const LaunchRequest& request, const SupervisorSetup& setup);

/// A file that is opened with the user's rights when the job starts.
struct OpenedFile {
  std::string path;       // Absolute path, as seen outside the job.
  std::string_view role;  // Such as "output".
};
/// Returns the files for which the supervisor can wait until their directory exists. Files in the job's private /tmp
/// are left out, because their directories are not visible outside the job.
std::vector<OpenedFile> FilesToOpen(const LaunchRequest& request);

/// Writes request.script to a file in the working directory that `owner` may read; returns its name.
Result<std::string> WriteScript(const LaunchRequest& request, const FileOwner& owner);

/// Opens request.output: divvy's own log, which is given to `owner`, or any file, opened with the owner's rights.
Result<Descriptor> OpenLog(const LaunchRequest& request, const FileOwner& owner, const SupervisorSetup& setup);

}  // namespace divvy
