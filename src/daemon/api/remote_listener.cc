#include "daemon/api/remote_listener.h"

#include <utility>

namespace divvy {

Status ListenRemotely(HttpServer& server, const HostPort& listen, const ServerNames& names, const TlsIdentity& identity,
                      RemoteAccess& remote) {
  DIVVY_TRY(TlsContext context, TlsContext::Server(identity));
  DIVVY_CHECK(server.ListenTls(listen, std::move(context)));
  // The any-address is no address to connect to, so other machines use the host name.
  const bool is_any = listen.host == "0.0.0.0" || listen.host == "::";
  remote.address = {is_any ? names.host : listen.host, listen.port};
  if (!names.chosen.empty()) {
    DIVVY_TRY(remote.address, ParseHostPort(names.chosen, listen.port));
  }
  remote.fingerprint = identity.fingerprint;
  return {};
}

}  // namespace divvy
