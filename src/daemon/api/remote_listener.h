// Opens the daemon to other machines over TLS.
#pragma once

#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/api/call/api_ports.h"
#include "daemon/http/http_server.h"
#include "platform/net/tls.h"

namespace divvy {

struct ServerNames {
  std::string chosen;  // Optional. The address that other machines use: "gpu1.lab" or "gpu1.lab:7433".
  std::string host;    // This machine's host name.
};
/// Makes `server` listen at `listen` with the certificate of `identity`. Stores in `remote` the address that other
/// machines use.
Status ListenRemotely(HttpServer& server, const HostPort& listen, const ServerNames& names, const TlsIdentity& identity,
                      RemoteAccess& remote);

}  // namespace divvy
