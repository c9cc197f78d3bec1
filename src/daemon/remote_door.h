// The door to other machines: where it is, and who users that come through it are on this machine.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/http_server.h"
#include "daemon/routes.h"
#include "model/job.h"
#include "platform/tls.h"

namespace divvy {

struct DoorNames {
  std::string chosen;  // How others reach it: "gpu1.lab" or "gpu1.lab:7433"; may be empty.
  std::string host;    // This machine's own name.
};
/// Lets `server` listen at `listen` as who `identity` is, and says in `remote` how others reach it.
Status OpenRemoteDoor(HttpServer& server, const HostPort& listen, const DoorNames& names, const TlsIdentity& identity,
                      Routes::Remote& remote);

/// A user of this machine, and only one that jobs can run as: for a daemon of one's own that is oneself.
std::optional<User> FindUser(std::string_view name);
/// What a login of theirs has in its environment: HOME, USER, LOGNAME, SHELL and PATH.
std::vector<std::string> LoginEnvironment(const User& user);

}  // namespace divvy
