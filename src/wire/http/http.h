// HTTP/1.1 messages to and from bytes. No sockets here: the daemon's server (daemon/http/http_server.h) and the command
// line's client (cli/client/http_client.h) transfer the bytes. Readers accept bytes in pieces of any size, pipelined
// messages and chunked bodies, within limits. A message that they cannot accept becomes one status with one message,
// and the connection is then unusable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy {

struct HttpLimits {
  std::size_t header_bytes = 64u << 10;  // Request line and headers together.
  std::size_t body_bytes = 32u << 20;
};

/// File descriptors that came with a request, in the order in which they were sent. They are closed unless taken.
class PassedFds {
 public:
  using Close = void (*)(int fd);
  PassedFds() = default;
  explicit PassedFds(Close close) : close_(close) {}
  PassedFds(PassedFds&& other) noexcept : fds_(std::exchange(other.fds_, {})), close_(other.close_) {}
  PassedFds& operator=(PassedFds&& other) noexcept {
    fds_.swap(other.fds_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~PassedFds();

  void Add(int fd) { fds_.push_back(fd); }
  std::size_t size() const { return fds_.size(); }
  bool empty() const { return fds_.empty(); }
  const std::vector<int>& peek() const { return fds_; }
  /// Returns the descriptors. The caller then owns them and must close them.
  std::vector<int> Take() { return std::exchange(fds_, {}); }

 private:
  std::vector<int> fds_;
  Close close_ = nullptr;  // Null: close(2).
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;
/// Returns the value of the first header with this name, which must be in lower case. Returns "" if there is none.
std::string_view FindHeader(const HttpHeaders& headers, std::string_view name);

struct HttpRequest {
  std::string method;                                     // As sent: "GET".
  std::string path;                                       // Percent-decoded, from the first '/' to the '?'.
  std::map<std::string, std::string, std::less<>> query;  // Percent-decoded. The last value of a name wins.
  HttpHeaders headers;                                    // Names in lower case.
  std::string body;
  bool keeps_alive = true;
  bool is_http_1_0 = false;  // The client does not understand chunked answers.
  PassedFds fds;

  std::string_view header(std::string_view name) const { return FindHeader(headers, name); }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  HttpHeaders headers;  // In addition to Content-Type, Content-Length and Connection.
  bool ends_connection = false;

  std::string_view header(std::string_view name) const { return FindHeader(headers, name); }
};

/// Why a message was refused: 400, 413, 431, 501 or 505 for a request; one line.
struct HttpError {
  int status = 400;
  std::string message;
};

/// Reads the requests of one connection, or the answers on it.
template <typename Message>
class HttpMessageReader {
 public:
  explicit HttpMessageReader(const HttpLimits& limits = {});
  HttpMessageReader(HttpMessageReader&&) noexcept;
  HttpMessageReader& operator=(HttpMessageReader&&) noexcept;
  ~HttpMessageReader();

  /// Adds bytes that were received on the connection. Next parses them.
  void Feed(std::string_view bytes);
  /// Returns the next complete message, or std::nullopt if more bytes are needed or after an error. Bytes after the
  /// message stay buffered, so a busy caller can call this later.
  std::optional<Message> Next();
  /// Call this when the peer has closed the connection. Completes an answer whose body ends with the connection.
  void FinishInput();

  const std::optional<HttpError>& error() const { return error_; }
  /// fed() is the number of bytes that were passed to Feed; consumed() is the number of these that belong to messages
  /// which Next has returned.
  std::uint64_t fed() const { return fed_; }
  std::uint64_t consumed() const { return consumed_; }
  /// Returns true between two messages: no byte of the next message was received.
  bool is_idle() const;
  /// Returns true if the header of the message is complete and asks for a "100 Continue" before the body. Returns this
  /// only once per message.
  bool TakeExpectsContinue();

  /// Returns the message whose header is complete and whose body is still arriving; null if there is none. For bodies
  /// without an end; TakePartialBody returns their pieces as they arrive.
  const Message* Partial() const;
  std::string TakePartialBody();

 private:
  class Parser;

  bool Advance();

  HttpLimits limits_;
  std::unique_ptr<Parser> parser_;  // For the current message; null between messages.
  std::string buffer_;
  std::size_t used_ = 0;         // Used bytes of buffer_.
  bool waits_for_more_ = false;  // The unused rest of buffer_ is the beginning of a chunk.
  bool is_finished_ = false;
  std::uint64_t fed_ = 0;
  std::uint64_t consumed_ = 0;
  std::optional<HttpError> error_;
};

using HttpReader = HttpMessageReader<HttpRequest>;
using HttpResponseReader = HttpMessageReader<HttpResponse>;

struct SerialiseOptions {
  bool keeps_alive = true;
  bool is_head = false;     // An answer to HEAD: everything except the body.
  bool is_chunked = false;  // The body follows in chunks; `body` is the first, if any.
};
void Serialise(const HttpResponse& response, const SerialiseOptions& options, std::string& out);
std::string Serialise(const HttpResponse& response);
/// Appends one chunk of a chunked body to `out`. An empty chunk ends the body.
void SerialiseChunk(std::string_view chunk, std::string& out);

/// Appends a client's request to `out`. `target`: path and query, already encoded. `body`: application/json.
/// `authorization`: the value of that header; empty: none.
void SerialiseRequest(std::string_view method, std::string_view target, std::string_view body, std::string& out,
                      std::string_view authorization = {});

/// Encodes everything except letters, digits and -._~ as %XX, for one path segment or query value.
std::string PercentEncode(std::string_view text);
/// Replaces each %XX by the character that it encodes. Returns std::nullopt if a '%' is not followed by two hexadecimal
/// digits. `plus_is_space`: a '+' becomes a blank, as in queries.
std::optional<std::string> PercentDecode(std::string_view text, bool plus_is_space);

/// Returns the phrase that follows a status in an answer: "Not Found" for 404.
std::string_view ReasonPhrase(int status);

}  // namespace divvy
