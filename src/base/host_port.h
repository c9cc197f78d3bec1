// "host:port", the address of a TCP listener. The host is a name, 10.0.0.7 or [fd00::7].
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

struct HostPort {
  std::string host;  // Without brackets.
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

/// Parses "host:port". If `text` has no port, the result has `default_port`; if that is 0, it is an error. Error
/// messages show what a valid address looks like.
Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t default_port = 0);
/// Returns "host:port", with brackets around an IPv6 address, so that ParseHostPort can read it.
std::string ToString(const HostPort& address);

}  // namespace divvy
