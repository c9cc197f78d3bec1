// Descriptors that the service manager keeps while this process restarts (systemd's file descriptor store:
// FileDescriptorStoreMax= in the unit, sd_notify(3)). No other process can take a port that is kept this way.
#pragma once

#include <string>
#include <string_view>

#include "platform/os/unique_fd.h"

namespace divvy {

/// Gives the service manager a duplicate of `fd` under `name`, which replaces the descriptor kept under that name.
/// Returns false if no service manager listens ($NOTIFY_SOCKET). True does not mean that the descriptor is kept,
/// because the service manager does not answer.
bool KeepDescriptor(std::string_view name, int fd);

/// Lets the service manager close the descriptor that it keeps under `name`. While it keeps a listening socket, the
/// port stays in use, and connections to it wait. Returns false if no service manager listens.
bool DropKeptDescriptor(std::string_view name);

/// Returns the descriptor that the service manager kept under `name` for this start of the process ($LISTEN_FDS), or a
/// closed one if there is none. Only the first call for a name returns it.
Descriptor TakeKeptDescriptor(std::string_view name);

}  // namespace divvy
