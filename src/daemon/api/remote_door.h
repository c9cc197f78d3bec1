// The door to other machines: where it is, and how they reach it.
#pragma once

#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/api/routes.h"
#include "daemon/http/http_server.h"
#include "platform/net/tls.h"

namespace divvy {

struct DoorNames {
  std::string chosen;  // How others reach it: "gpu1.lab" or "gpu1.lab:7433"; may be empty.
  std::string host;    // This machine's own name.
};
/// Lets `server` listen at `listen` as who `identity` is, and says in `remote` how others reach it.
Status OpenRemoteDoor(HttpServer& server, const HostPort& listen, const DoorNames& names, const TlsIdentity& identity,
                      Routes::Remote& remote);

}  // namespace divvy
