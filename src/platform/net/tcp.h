// TCP sockets: one that listens, one that is connected.
#pragma once

#include <string>

#include "base/host_port.h"
#include "base/result.h"
#include "base/time.h"

namespace divvy {

/// A listening socket that does not block, on the first address that the host stands for; port 0: any free one. Names
/// are looked up, which may take as long as the network lets it.
Result<int> ListenTcp(const std::string& host, std::uint16_t port);
/// A connected socket that blocks. Every address that the host stands for is tried in turn, each for `patience`.
Result<int> DialTcp(const HostPort& address, Duration patience);
/// The port that a listening socket has; 0: it has none.
std::uint16_t PortOf(int fd);
/// Who is at the other end: "10.0.0.9", "fd00::7".
std::string PeerAddressOf(int fd);
/// By which address of its own this machine reaches `host`, an address, and so is reached by it; empty: not at all.
std::string AddressTowards(const std::string& host);

}  // namespace divvy
