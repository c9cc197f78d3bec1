// Blocking HTTP over the daemon's Unix socket, or over TLS to a daemon on another machine. For commands that live for
// milliseconds: plain system calls, one connection. One request at a time, unless the caller sends several before it
// receives.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "platform/net/tls.h"
#include "platform/os/unique_fd.h"
#include "wire/http/http.h"
#include "wire/http/token_line.h"

namespace divvy {

class HttpClient {
 public:
  /// Fails with kUnreachable (no process listens there) or kPermissionDenied, naming the socket.
  static Result<HttpClient> Connect(const std::string& path);
  /// Like Connect(path), for an agent's local socket. The agent forwards requests to the daemon on another machine.
  static Result<HttpClient> ConnectThroughAgent(const std::string& path);
  /// Connects to the controller that `line` names, as the user of the token. If it names several, connects to the one
  /// that leads. If no controller leads for some seconds, connects to a standby controller, which may still answer
  /// reads. Fails after half a minute with kUnreachable, or with kPermissionDenied if the peer is not that controller.
  static Result<HttpClient> Connect(const TokenLine& line);
  HttpClient(HttpClient&& other) noexcept
      : path_(std::move(other.path_)),
        authorization_(std::move(other.authorization_)),
        fd_(std::exchange(other.fd_, -1)),
        tls_(std::move(other.tls_)),
        is_through_agent_(other.is_through_agent_),
        is_gone_(other.is_gone_),
        reader_(std::move(other.reader_)) {}
  HttpClient& operator=(HttpClient&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(authorization_, other.authorization_);
    std::swap(fd_, other.fd_);
    std::swap(tls_, other.tls_);
    std::swap(is_through_agent_, other.is_through_agent_);
    std::swap(is_gone_, other.is_gone_);
    std::swap(reader_, other.reader_);
    return *this;
  }
  ~HttpClient();

  /// True if the daemon is on another machine: requests cannot carry file descriptors, and its files are not on this
  /// machine.
  bool is_remote() const { return tls_.has_value() || is_through_agent_; }
  /// True if the connection goes through an agent's local socket. The daemon is then on another machine, but identifies
  /// the caller by the local user name.
  bool is_through_agent() const { return is_through_agent_; }

  /// Sends a request and receives the response. `target` is path and query, already percent-encoded (PercentEncode).
  /// `fds` are sent with the request and stay open here. Returns the response whatever its status. Fails with
  /// kUnreachable if the daemon goes away before it responds.
  Result<HttpResponse> Call(std::string_view method, std::string_view target, std::string_view body = {},
                            std::span<const int> fds = {});

  Status Send(std::string_view method, std::string_view target, std::string_view body = {},
              std::span<const int> fds = {});
  /// Sends one or several serialised requests at once; for callers that pipeline.
  Status SendText(std::string_view text, std::span<const int> fds = {});
  Result<HttpResponse> Receive();

  /// Sends a request that switches the connection to `protocol` (HTTP Upgrade) and returns the connection's socket,
  /// which may be used until this process ends. If the server declines, fails with the message of its response. Over
  /// TLS, a separate thread with all signals blocked copies the bytes.
  static Result<Descriptor> Upgrade(HttpClient client, std::string_view method, std::string_view target,
                                    std::string_view protocol);

  /// GETs a stream of server-sent events and passes the data of each to `on_event` until that returns false or the
  /// stream ends. After an early stop the connection cannot be used again. A response with an error status fails with
  /// its message.
  Status Stream(std::string_view target, const std::function<bool(std::string_view event)>& on_event);

  /// Sets how long each send and receive may take; 0: no limit.
  void SetPatience(Duration patience) const;
  /// The descriptor to poll: it becomes readable when a response arrives or the daemon closes the connection.
  int fd() const { return fd_; }

 private:
  HttpClient(std::string path, int fd);
  static Result<HttpClient> ConnectTo(const TokenLine& line, const HostPort& at, Duration patience);
  Status ReadMore();
  Status SendTls(std::string_view text);
  /// Like recv(2), but reports errors as messages.
  Result<std::size_t> ReadSome(char* bytes, std::size_t size);
  Error Gone() const;

  std::string path_;  // The socket's path, or the controller's address.
  std::string authorization_;
  int fd_;
  std::optional<TlsChannel> tls_;
  bool is_through_agent_ = false;
  bool is_gone_ = false;
  HttpResponseReader reader_;
};

}  // namespace divvy
