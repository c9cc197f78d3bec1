// "host:port", where somebody listens: a name, 10.0.0.7 or [fd00::7], and the number of a TCP port.
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

/// `default_port` stands where none is given; 0: one must be. Errors say what a good one looks like.
Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t default_port = 0);
/// What ParseHostPort reads back.
std::string ToString(const HostPort& address);

}  // namespace divvy
