// Whether a replica is ready: one request to its port, with a short limit.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <istream>
#include <map>
#include <string>

namespace divvy {

/// Connects to `address` (an IP address) and, if `path` is not empty, requests it over HTTP. Calls back once, with true
/// if the port accepts the connection and the status is from 200 to 399.
void ProbeReplica(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
                  const std::string& path, std::function<void(bool)> done);

/// Whether no socket of this machine has this TCP port. Cost: three system calls.
bool IsPortFree(std::uint16_t port);

/// Describes who gets connections to 127.0.0.1 at each TCP port of this machine.
struct PortListener {
  int nearness = 0;       // The kernel prefers a socket at 127.0.0.1 to one at 0.0.0.0, and that to one at [::].
  std::int64_t uid = -1;  // -1: processes of several users.
};
using PortListeners = std::map<std::uint16_t, PortListener>;

/// Adds the listeners in a text like /proc/net/tcp or tcp6, which begins with them: reads up to the first connection.
void AddListeners(std::istream& table, PortListeners& listeners);
/// Cost: reads both tables.
PortListeners ReadListeners();
/// Returns false also if nobody listens.
bool IsListenerOf(const PortListeners& listeners, std::int64_t uid, std::uint16_t port);

}  // namespace divvy
