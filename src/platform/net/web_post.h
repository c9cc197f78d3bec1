// One HTTP request to somebody else's server: a POST over HTTP or HTTPS, within a time, to no address that the caller
// does not want. Blocking, for a process of its own.
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
  std::string target;       // Path and query; "/" at least.
  std::string credentials;  // "user:password"; empty: none.
};
/// "https://[user:password@]host[:port][/path][?query]"; what stands behind '#' is left out.
Result<WebUrl> ParseWebUrl(std::string_view text);

/// Reached from anywhere: not loopback, private (RFC 1918, RFC 4193, RFC 6598), link-local, multicast, reserved or
/// "this network", neither as such nor within IPv6 (mapped, compatible, 6to4, Teredo, NAT64).
bool IsPublicAddress(const sockaddr& address);

struct WebPost {
  WebUrl url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  bool may_go_inside = true;                       // To addresses that are not public.
  std::string ca_file;                             // Authorities besides the system's; empty: none.
  Duration time_limit = std::chrono::seconds(30);  // Of all of it, but for asking for the address.
};
struct WebAnswer {
  int status = 0;
  std::string status_line;  // "204 No Content"
  Duration retry_after{0};  // 0: it said nothing.
};
/// Any status is an answer; redirections are not followed: they could lead anywhere. kPermissionDenied where the host
/// has none but addresses inside; kInvalidArgument where the certificate is not to be trusted; kUnreachable and
/// kTimedOut else.
Result<WebAnswer> Post(const WebPost& post);

}  // namespace divvy
