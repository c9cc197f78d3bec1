#include "cli/client/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "platform/net/tcp.h"
#include "wire/json/json.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_remote.h"

namespace divvy {
namespace {

constexpr std::size_t kMostFds = 6;  // The most that the daemon accepts with one request.
constexpr std::size_t kReadSize = 64u << 10;
/// Timeout for each address of a controller on another machine.
constexpr Duration kTimeout = std::chrono::seconds(10);
/// With several controllers, one that hangs must not delay the search for the leader.
constexpr Duration kSearchTimeout = std::chrono::seconds(2);
constexpr Duration kSearchAtMost = std::chrono::seconds(30);
/// After this time without a leader, connect to a standby controller, which may answer reads and refuses all other
/// requests.
constexpr Duration kSearchForLeader = std::chrono::seconds(6);
/// Like kSearchForLeader, if the last search found no leader.
constexpr Duration kSearchAgain = std::chrono::seconds(1);
constexpr Duration kSearchPause = std::chrono::milliseconds(100);
/// The daemon limits the size of requests, but its listings may be as long as its queue.
constexpr HttpLimits kAnswerLimits{.header_bytes = 64u << 10, .body_bytes = std::size_t{4} << 30};

Error ConnectError(const std::string& path, int error) {
  std::string message = "cannot connect to " + path + ": ";
  switch (error) {
    case ENOENT:
      return Unreachable(message + "no such socket");
    case ECONNREFUSED:
      return Unreachable(message + "no daemon listens there any more");
    case EACCES:
    case EPERM:
      return PermissionDenied(message + "permission denied");
    default:
      return Unreachable(message + std::strerror(error));
  }
}

/// Assembles the lines of an event stream into events.
class EventLines {
 public:
  /// Calls `on_event` for each complete event. Returns false when `on_event` asked to stop.
  bool Take(std::string_view bytes, const std::function<bool(std::string_view)>& on_event) {
    text_.append(bytes);
    std::size_t begin = 0;
    for (std::size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', begin)) {
      std::string_view line(text_.data() + begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      begin = end + 1;
      if (!TakeLine(line, on_event)) return false;
    }
    text_.erase(0, begin);
    return true;
  }

 private:
  bool TakeLine(std::string_view line, const std::function<bool(std::string_view)>& on_event) {
    if (line.empty()) {
      bool goes_on = !has_data_ || on_event(data_);
      data_.clear();
      has_data_ = false;
      return goes_on;
    }
    if (!line.starts_with("data:")) return true;
    line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
    if (has_data_) data_.push_back('\n');
    data_.append(line);
    has_data_ = true;
    return true;
  }

  std::string text_;
  std::string data_;
  bool has_data_ = false;
};

}  // namespace

HttpClient::HttpClient(std::string path, int fd) : path_(std::move(path)), fd_(fd), reader_(kAnswerLimits) {}

HttpClient::~HttpClient() {
  if (fd_ >= 0) ::close(fd_);
}

Result<HttpClient> HttpClient::Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Unreachable("the socket path " + path + " is longer than the " +
                       std::to_string(sizeof address.sun_path - 1) + " bytes that are allowed");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Unreachable(std::string("opening a socket: ") + std::strerror(errno));
  HttpClient client(path, fd);
  int failed = 0;
  do {
    failed = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (failed != 0 && errno == EINTR);
  if (failed != 0) return ConnectError(path, errno);
  return client;
}

Result<HttpClient> HttpClient::ConnectThroughAgent(const std::string& path) {
  DIVVY_TRY(HttpClient client, Connect(path));
  client.is_through_agent_ = true;
  return client;
}

void HttpClient::SetPatience(Duration patience) const {
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(patience).count();
  const timeval timeout{whole / 1'000'000, whole % 1'000'000};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

// Trusts only a controller with the certificate in the token line to say which controller leads.
Result<HttpClient> HttpClient::Connect(const TokenLine& line) {
  if (line.others.empty()) return ConnectTo(line, line.controller, kTimeout);
  std::vector<HostPort> addresses = {line.controller};
  addresses.insert(addresses.end(), line.others.begin(), line.others.end());
  // How many searches have failed since the leader was found last. Each of them takes the next standby controller.
  static std::atomic<std::size_t> searches_in_vain = 0;
  const auto began = std::chrono::steady_clock::now();
  while (true) {
    std::vector<HttpClient> others;
    Error error = Unreachable("no controller leads at the moment");
    std::size_t strangers = 0;  // Addresses that belong to other programs by now.
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      auto client = ConnectTo(line, addresses[i], kSearchTimeout);
      if (!client && client.error().code == ErrorCode::kPermissionDenied) ++strangers;
      Result<HttpResponse> response = client ? client->Call("GET", "/leader") : Result<HttpResponse>(client.error());
      if (!response) {
        error = response.error();
        continue;
      }
      const auto leader = wire::Decode<wire::LeaderView>(response->body);
      // A controller that lists no other controllers is the only one, so it leads.
      if (!leader || leader->leads) {
        searches_in_vain = 0;
        client->SetPatience(Duration(0));
        return client;
      }
      others.push_back(*std::move(client));
      // Its address may be new.
      const auto at = ParseHostPort(leader->address);
      if (at && std::ranges::find(addresses, *at) == addresses.end()) addresses.push_back(*at);
    }
    const auto searched = std::chrono::steady_clock::now() - began;
    if (!others.empty() && searched >= (searches_in_vain == 0 ? kSearchForLeader : kSearchAgain)) {
      HttpClient& other = others[searches_in_vain++ % others.size()];
      other.SetPatience(Duration(0));
      return std::move(other);
    }
    if (strangers == addresses.size() || searched >= kSearchAtMost) return error;
    std::this_thread::sleep_for(kSearchPause);
  }
}

Result<HttpClient> HttpClient::ConnectTo(const TokenLine& line, const HostPort& at, Duration patience) {
  DIVVY_TRY(const TlsContext context, TlsContext::Client(line.fingerprint));
  DIVVY_TRY(const int fd, DialTcp(at, patience));
  HttpClient client(ToString(at), fd);
  if (!line.others.empty()) {
    client.SetPatience(patience);
    // TCP keep-alive detects a machine that has crashed and so cannot close the connection.
    const int yes = 1, idle_s = 5, interval_s = 2, count = 3;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  }
  DIVVY_TRY(client.tls_, context.Begin(fd));
  client.authorization_ = "Bearer " + BearerOf(line);
  // Do the handshake now, so that connection errors are reported as such.
  if (client.tls_->Write({}).io != TlsChannel::Io::kDone) {
    const std::string why = "cannot talk to " + client.path_ + ": " + client.tls_->error();
    return client.tls_->is_stranger() ? PermissionDenied(why) : Unreachable(why);
  }
  return client;
}

Status HttpClient::SendTls(std::string_view text) {
  while (!text.empty()) {
    const TlsChannel::Outcome put = tls_->Write(text);
    if (put.io != TlsChannel::Io::kDone) {
      return Unreachable("sending to the daemon at " + path_ + ": " + tls_->error());
    }
    text.remove_prefix(put.bytes);
  }
  return {};
}

Error HttpClient::Gone() const {
  return Unreachable("the daemon at " + path_ + " closed the connection before it answered");
}

Status HttpClient::SendText(std::string_view text, std::span<const int> fds) {
  if (tls_ && fds.empty()) return SendTls(text);
  if (is_remote() && !fds.empty()) {
    return FailedPrecondition("the daemon at " + path_ +
                              " is on another machine, which cannot use this terminal's input and " +
                              "output; use divvy submit, then divvy logs -f");
  }
  if (fds.size() > kMostFds)
    return InvalidArgument("more than " + std::to_string(kMostFds) + " file descriptors for one request");
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
  bool is_first = true;
  while (!text.empty()) {
    iovec piece{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (is_first && !fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size_bytes());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size_bytes());
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    // A daemon that rejects a request may have responded before it closed; Receive reports that.
    if (n < 0 && errno == EPIPE) return {};
    if (n < 0) return Unreachable("sending to the daemon at " + path_ + ": " + std::strerror(errno));
    is_first = false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status HttpClient::Send(std::string_view method, std::string_view target, std::string_view body,
                        std::span<const int> fds) {
  std::string text;
  SerialiseRequest(method, target, body, text, authorization_);
  return SendText(text, fds);
}

Status HttpClient::ReadMore() {
  if (is_gone_) return Gone();
  if (reader_.error())
    return CorruptData("the server at " + path_ + " is not a divvy daemon: " + reader_.error()->message);
  // The kernel fills this buffer, so clearing it would be a waste.
  std::unique_ptr<char[]> bytes(new char[kReadSize]);
  DIVVY_TRY(const std::size_t got, ReadSome(bytes.get(), kReadSize));
  if (got > 0) {
    reader_.Feed({bytes.get(), got});
    return {};
  }
  is_gone_ = true;
  reader_.FinishInput();  // The bytes so far may still be a complete response.
  return {};
}

Result<std::size_t> HttpClient::ReadSome(char* bytes, std::size_t size) {
  if (tls_) {
    const TlsChannel::Outcome got = tls_->Read({bytes, size});
    if (got.io == TlsChannel::Io::kDone) return got.bytes;
    if (got.io == TlsChannel::Io::kEnded) return std::size_t{0};
    return Unreachable("reading from the daemon at " + path_ + ": " + tls_->error());
  }
  while (true) {
    const ssize_t n = ::recv(fd_, bytes, size, 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == ECONNRESET) return std::size_t{0};
    if (errno != EINTR) return Unreachable("reading from the daemon at " + path_ + ": " + std::strerror(errno));
  }
}

Result<HttpResponse> HttpClient::Receive() {
  while (true) {
    if (std::optional<HttpResponse> response = reader_.Next()) {
      if (response->status >= 200) return *std::move(response);
      continue;  // 100 Continue and similar responses precede the real one.
    }
    DIVVY_CHECK(ReadMore());
  }
}

Result<HttpResponse> HttpClient::Call(std::string_view method, std::string_view target, std::string_view body,
                                      std::span<const int> fds) {
  DIVVY_CHECK(Send(method, target, body, fds));
  return Receive();
}

Status HttpClient::Stream(std::string_view target, const std::function<bool(std::string_view event)>& on_event) {
  DIVVY_CHECK(Send("GET", target));
  EventLines lines;
  while (true) {
    std::optional<HttpResponse> whole = reader_.Next();
    const HttpResponse* head = whole ? &*whole : reader_.Partial();
    if (head != nullptr && head->status >= 300) {
      if (!whole) {
        DIVVY_TRY(whole, Receive());
      }
      auto document = JsonDocument::Parse(whole->body);
      auto message = document ? document->root()["message"].AsString() : std::nullopt;
      return FailedPrecondition(message ? std::string(*message) : "HTTP status " + std::to_string(whole->status));
    }
    if (head != nullptr && !lines.Take(whole ? whole->body : reader_.TakePartialBody(), on_event)) return {};
    if (whole) return {};
    DIVVY_CHECK(ReadMore());
  }
}

}  // namespace divvy
