// Listening and connected TCP sockets.
#pragma once

#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// Returns a non-blocking listening socket on the first address of the host. Port 0 chooses any free port. Resolves
/// names, which may take as long as the network does.
Result<int> ListenTcp(const std::string& host, std::uint16_t port);
/// Returns a connected, blocking socket. Tries every address of the host in turn, each for at most `timeout`.
Result<int> DialTcp(const HostPort& address, Duration timeout);
/// Returns the port of a listening socket, or 0 if it has none.
std::uint16_t PortOf(int fd);
/// Returns the address of the other end: "10.0.0.9", "fd00::7".
std::string PeerAddressOf(int fd);
/// Returns the local address from which this machine reaches `host` (an IP address), and so can be reached from there.
/// Empty if there is no route.
std::string AddressTowards(const std::string& host);

}  // namespace divvy
