// Whether a replica is ready: one request to its port, with a short limit.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace divvy {

/// Connects to `address` (an IP address) and, if `path` is not empty, requests it over HTTP. Calls back once, with true
/// if the port accepts the connection and the status is from 200 to 399.
void ProbeReplica(boost::asio::io_context& loop, const std::string& address, std::uint16_t port,
                  const std::string& path, std::function<void(bool)> done);

/// Returns false if a process of another user listens at this TCP port of this machine. Cost: reads /proc/net/tcp.
bool IsListenerOf(std::int64_t uid, std::uint16_t port);
/// The same, from the text of /proc/net/tcp or tcp6; nothing if the text has no listener at the port.
std::optional<bool> IsListenerOf(std::string_view table, std::int64_t uid, std::uint16_t port);

}  // namespace divvy
