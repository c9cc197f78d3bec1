// A connection to a third party's server, over TCP or TLS, with one time limit for everything. TLS servers are verified
// by certificate authorities. Blocks; for a process of its own.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "platform/os/unique_fd.h"

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
/// The value of the header Host: "hooks.example.org:8443".
std::string HostHeader(const WebUrl& url);

/// True if the address is public: not loopback, private (RFC 1918, RFC 4193, RFC 6598), link-local, multicast, reserved
/// or "this network". IPv4 addresses inside IPv6 addresses (mapped, compatible, 6to4, NAT64) are checked as well, and
/// Teredo addresses are never public.
bool IsPublicAddress(const sockaddr& address);

/// Which server is accepted, and how this end identifies itself. Certificates and keys are texts in PEM.
struct WebTrust {
  bool may_go_inside = true;     // Non-public addresses are allowed.
  std::string ca_file;           // Authorities in addition to the system's; empty: none.
  std::string only_authorities;  // Trusts these and not the system's; empty: the system's.
  std::string server_name;       // The name in the server's certificate; empty: the host of the URL.
  std::string client_identity;   // This end's certificate, those of its issuers, and its key; empty: none.
};

class WebConnection {
 public:
  /// Connects and verifies the server. `time_limit` is for the whole exchange, except the name lookup. Errors:
  /// kPermissionDenied if the host has only non-public addresses and these are not allowed; kInvalidArgument if the
  /// certificate is not trusted, or `trust` cannot be read; otherwise kUnreachable and kTimedOut.
  static Result<WebConnection> Open(const WebUrl& url, const WebTrust& trust, Duration time_limit);
  WebConnection(WebConnection&&) noexcept;
  WebConnection& operator=(WebConnection&&) noexcept;
  ~WebConnection();

  /// Sends all of `text`. Write and Read fail with kUnreachable or kTimedOut.
  Status Write(std::string_view text);
  /// Reads bytes into `room` and returns their number; 0 at the end of the stream.
  Result<std::size_t> Read(std::span<char> room);

 private:
  struct Session;
  explicit WebConnection(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace divvy
