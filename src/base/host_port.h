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

/// `default_port` is used if `text` has no port. 0: a port is required. Errors show what a valid address looks like.
Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t default_port = 0);
/// The text that ParseHostPort reads back.
std::string ToString(const HostPort& address);

}  // namespace divvy
