#include "base/host_port.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::size_t kLongestName = 253;

bool IsHost(std::string_view host, bool is_in_brackets) {
  if (host.empty() || host.size() > kLongestName) return false;
  return std::ranges::all_of(host, [&](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return is_letter || c == '.' || c == '-' || c == '_' || (is_in_brackets && (c == ':' || c == '%'));
  });
}

}  // namespace

Result<HostPort> ParseHostPort(std::string_view text, std::uint16_t default_port) {
  const auto wrong = [&] {
    return InvalidArgument("'" + std::string(text.substr(0, 80)) + "' is no address; host:port is one, as in " +
                           "gpu1.lab:7433, 10.0.0.7:7433 or [fd00::7]:7433");
  };
  const bool is_in_brackets = text.starts_with('[');
  std::string_view host = text, rest;
  if (is_in_brackets) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return wrong();
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (!IsHost(host, is_in_brackets)) return wrong();
  HostPort address{std::string(host), default_port};
  if (!rest.empty()) {
    if (rest.front() != ':' || rest.size() > 6) return wrong();
    const bool is_digits = std::ranges::all_of(rest.substr(1), [](char c) { return c >= '0' && c <= '9'; });
    const auto port = is_digits ? ParseInteger(rest.substr(1)) : std::nullopt;
    if (!port || *port < 1 || *port > 65535) return wrong();
    address.port = static_cast<std::uint16_t>(*port);
  }
  if (address.port == 0) return wrong();
  return address;
}

std::string ToString(const HostPort& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace divvy
