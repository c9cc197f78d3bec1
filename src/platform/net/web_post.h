// Sends one HTTP request to a third party's server: a POST over HTTP or HTTPS with a time limit, optionally only to
// public addresses. Blocks; for a process of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "platform/net/web_connection.h"

namespace divvy {

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
/// Sends the request and returns the answer, whatever its HTTP status is. Does not follow redirections, because they
/// could lead to any address. Errors: kPermissionDenied if the host has only non-public addresses and these are not
/// allowed; kInvalidArgument if the certificate is not trusted; otherwise kUnreachable and kTimedOut.
Result<WebAnswer> Post(const WebPost& post);

}  // namespace divvy
