// Sends one HTTP request to a third party's server: a POST over HTTP or HTTPS with a time limit, optionally only to
// public addresses. Blocks; for a process of its own.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

struct WebUrl {
  bool is_secure = false;
  std::string host;  // Without brackets.
  std::string port;
  std::string target;       // Path and query; at least "/".
  std::string credentials;  // "user:password"; empty if there are none.
};
/// Parses "https://[user:password@]host[:port][/path][?query]". A fragment after '#' is ignored.
Result<WebUrl> ParseWebUrl(std::string_view text);

/// True if the address is public: not loopback, private (RFC 1918, RFC 4193, RFC 6598), link-local, multicast, reserved
/// or "this network". IPv4 addresses inside IPv6 addresses (mapped, compatible, 6to4, NAT64) are checked as well, and
/// Teredo addresses are never public.
bool IsPublicAddress(const sockaddr& address);

struct WebPost {
  WebUrl url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool may_go_inside = true;                       // Non-public addresses are allowed.
  std::string ca_file;                             // Authorities in addition to the system's; empty: none.
  Duration time_limit = std::chrono::seconds(30);  // For the whole exchange, except the name lookup.
};
struct WebAnswer {
  int status = 0;
  std::string status_line;  // "204 No Content"
  Duration retry_after{0};  // 0 if the server did not send it.
};
/// Any HTTP status counts as an answer. Does not follow redirections, because they could lead to any address. Errors:
/// kPermissionDenied if the host has only non-public addresses and these are not allowed; kInvalidArgument if the
/// certificate is not trusted; otherwise kUnreachable and kTimedOut.
Result<WebAnswer> Post(const WebPost& post);

}  // namespace divvy
