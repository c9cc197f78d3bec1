// Whether a replica is ready: one request to its port, with a short limit.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>

namespace divvy {

/// Connects to `address` (an IP address) and, if `path` is not empty, requests it over HTTP. Calls back once, with true
/// if the port accepts the connection and the status is from 200 to 399.
void ProbeReplica(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
                  const std::string& path, std::function<void(bool)> done);

/// Returns true if no socket of this machine is bound to this TCP port. Cost: three system calls.
bool IsPortFree(std::uint16_t port);

/// Returns a free TCP port from the range that the kernel uses for outgoing connections, or 0 if none is free. Cost:
/// three system calls.
std::int64_t KernelPort();

/// Returns the uid of the process that gets connections to 127.0.0.1 at this TCP port of this machine; -1: there is
/// none, or the kernel was built without CONFIG_INET_DIAG. Cost: four system calls, however many sockets there are.
std::int64_t ListenerAtPort(std::uint16_t port);

}  // namespace divvy
