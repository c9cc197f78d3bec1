// Descriptors that the service manager keeps while this process is restarted (systemd's file descriptor store:
// FileDescriptorStoreMax= in the unit, sd_notify(3)). A port that is kept this way is never free for another process.
#pragma once

#include <string>
#include <string_view>

#include "platform/os/launch_descriptor.h"

namespace divvy {

/// Gives the service manager a duplicate of `fd` under `name`, in place of what it kept under that name. False where no
/// service manager listens ($NOTIFY_SOCKET); whether it keeps the descriptor is not answered.
bool KeepDescriptor(std::string_view name, int fd);

/// What the service manager kept under `name` for this start of the process ($LISTEN_FDS); closed where there is none.
/// Only the first call for a name has it.
Descriptor TakeKeptDescriptor(std::string_view name);

}  // namespace divvy
