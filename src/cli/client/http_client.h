// Blocking HTTP over the daemon's Unix socket, or over TLS to a daemon on another machine, for commands that live some
// milliseconds: plain system calls, one connection, one request at a time unless the caller sends several before it
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
#include "platform/os/launch_descriptor.h"
#include "wire/http/http.h"
#include "wire/http/token_line.h"

namespace divvy {

class HttpClient {
 public:
  /// Fails with kUnreachable (nobody serves there) or kPermissionDenied, naming the socket.
  static Result<HttpClient> Connect(const std::string& path);
  /// The same for a socket behind which the daemon is on another machine.
  static Result<HttpClient> ConnectDoor(const std::string& path);
  /// To the controller that `line` names, as whom it is for. Fails with kUnreachable, or kPermissionDenied where
  /// somebody else answers there.
  static Result<HttpClient> Connect(const TokenLine& line);
  HttpClient(HttpClient&& other) noexcept
      : path_(std::move(other.path_)),
        authorization_(std::move(other.authorization_)),
        fd_(std::exchange(other.fd_, -1)),
        tls_(std::move(other.tls_)),
        is_door_(other.is_door_),
        is_gone_(other.is_gone_),
        reader_(std::move(other.reader_)) {}
  HttpClient& operator=(HttpClient&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(authorization_, other.authorization_);
    std::swap(fd_, other.fd_);
    std::swap(tls_, other.tls_);
    std::swap(is_door_, other.is_door_);
    std::swap(is_gone_, other.is_gone_);
    std::swap(reader_, other.reader_);
    return *this;
  }
  ~HttpClient();

  /// The daemon is on another machine: file descriptors cannot go with a request, and none of its files are here.
  bool is_remote() const { return tls_.has_value() || is_door_; }
  /// And yet the caller is known to it as who they are here.
  bool is_door() const { return is_door_; }

  /// Send, then Receive. `target` is path and query with percent-encoding done (UrlEncode). `fds` go with the request
  /// and stay open here. Any status is an answer; fails with kUnreachable when the daemon goes before it gave one.
  Result<HttpResponse> Call(std::string_view method, std::string_view target, std::string_view body = {},
                            std::span<const int> fds = {});

  Status Send(std::string_view method, std::string_view target, std::string_view body = {},
              std::span<const int> fds = {});
  /// Requests made already, one or several in one piece; for those that pipeline.
  Status SendText(std::string_view text, std::span<const int> fds = {});
  Result<HttpResponse> Receive();

  /// Instead of Call: the connection speaks `protocol` from then on, for as long as the process lives, by the socket
  /// that this returns. An answer that does not agree fails with the message in it. Over TLS a thread of its own, which
  /// takes no signals, carries the bytes.
  static Result<Descriptor> Upgrade(HttpClient client, std::string_view method, std::string_view target,
                                    std::string_view protocol);

  /// GETs a stream of server-sent events and gives the data of each to `on_event` until that returns false or the
  /// stream ends. The connection is of no use afterwards when it was left early. An answer with an error status fails
  /// with the message in it.
  Status Stream(std::string_view target, const std::function<bool(std::string_view event)>& on_event);

  /// Readable when an answer, or the daemon's end, has come: for callers that wait for other things as well.
  int fd() const { return fd_; }

 private:
  HttpClient(std::string path, int fd);
  Status ReadMore();
  Status SendTls(std::string_view text);
  /// As recv(2), but for errors that come in words.
  Result<std::size_t> ReadSome(char* bytes, std::size_t size);
  Error Gone() const;

  std::string path_;  // Or the address.
  std::string authorization_;
  int fd_;
  std::optional<TlsChannel> tls_;
  bool is_door_ = false;
  bool is_gone_ = false;
  HttpResponseReader reader_;
};

/// One path segment or query value of a target.
inline std::string UrlEncode(std::string_view text) { return PercentEncode(text); }

}  // namespace divvy
