#include "platform/net/web_post.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "platform/os/unique_fd.h"
#include "platform/users/signature.h"

namespace divvy {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
constexpr std::size_t kMostHead = 64 << 10;
/// The usual files with the system's trusted authorities; the first one that exists is used.
constexpr const char* kAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool IsPublic4(std::uint32_t address) {
  struct Net {
    std::uint32_t address;
    int bits;
  };
  constexpr Net kInside[] = {{0x00000000, 8},  {0x0A000000, 8},  {0x64400000, 10}, {0x7F000000, 8},  {0xA9FE0000, 16},
                             {0xAC100000, 12}, {0xC0000000, 24}, {0xC0000200, 24}, {0xC0A80000, 16}, {0xC6120000, 15},
                             {0xC6336400, 24}, {0xCB007100, 24}, {0xE0000000, 4},  {0xF0000000, 4}};
  return std::ranges::none_of(kInside, [&](const Net& net) {
    const std::uint32_t mask = ~std::uint32_t{0} << (32 - net.bits);
    return (address & mask) == net.address;
  });
}

std::uint32_t Word(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

bool IsPublic6(const in6_addr& address) {
  const std::uint8_t* b = address.s6_addr;
  const auto starts = [&](std::initializer_list<std::uint8_t> bytes) {
    return std::equal(bytes.begin(), bytes.end(), b);
  };
  if (starts({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})) return IsPublic4(Word(b + 12));
  if (starts({0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) return IsPublic4(Word(b + 12));
  if (starts({0x20, 0x02})) return IsPublic4(Word(b + 2));
  // Rejects Teredo and documentation addresses. All other allocated addresses begin with the bits 001.
  if (starts({0x20, 0x01, 0, 0}) || starts({0x20, 0x01, 0x0d, 0xb8})) return false;
  return (b[0] & 0xe0) == 0x20;
}

/// Returns the milliseconds until `deadline`, for poll(2).
int Left(SteadyTime deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3'600'000));
}

Status WaitFor(int fd, short events, SteadyTime deadline) {
  pollfd waited{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&waited, 1, Left(deadline));
    if (ready > 0) return {};
    if (ready == 0) return Error{ErrorCode::kTimedOut, "no answer in time"};
    if (errno != EINTR) return Unreachable(std::strerror(errno));
  }
}

Result<Descriptor> ConnectTo(const addrinfo& address, SteadyTime deadline) {
  Descriptor fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Unreachable(std::strerror(errno));
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return Unreachable(std::strerror(errno));
    DIVVY_CHECK(WaitFor(fd.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Unreachable(std::strerror(error));
  }
  return fd;
}

/// Connects to exactly the address that was checked, because a name may resolve to another one a moment later.
Result<Descriptor> Dial(const WebPost& post, SteadyTime deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(post.url.host.c_str(), post.url.port.c_str(), &wanted, &found);
  if (failure != 0) return Unreachable(post.url.host + ": " + ::gai_strerror(failure));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Error last = Unreachable(post.url.host + " has no address");
  bool is_inside = false;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (!post.may_go_inside && !IsPublicAddress(*address->ai_addr)) {
      is_inside = true;
      continue;
    }
    auto fd = ConnectTo(*address, deadline);
    if (fd) return fd;
    last = Error{fd.error().code, post.url.host + ": " + fd.error().message};
    is_inside = false;
  }
  if (is_inside)
    return PermissionDenied(post.url.host +
                            " is a private address; webhooks of users may only use public ones (user_webhooks and "
                            "webhook_hosts in [notify] of divvy.toml)");
  return last;
}

std::string TlsErrorText() {
  const unsigned long code = ::ERR_get_error();
  std::array<char, 256> text{};
  if (code == 0) return "the connection was cut";
  ::ERR_error_string_n(code, text.data(), text.size());
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : text.data();
}

/// The socket, with TLS over it if `context_` is set.
class Wire {
 public:
  Wire(int fd, SteadyTime deadline) : fd_(fd), deadline_(deadline) {}

  Status Secure(const WebPost& post) {
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    if (context_ == nullptr) return Internal("no TLS: " + TlsErrorText());
    ::SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_default_verify_paths(context_.get());
    for (const char* file : kAuthorities) {
      if (::access(file, R_OK) == 0 && ::SSL_CTX_load_verify_locations(context_.get(), file, nullptr) == 1) break;
    }
    if (!post.ca_file.empty() && ::SSL_CTX_load_verify_locations(context_.get(), post.ca_file.c_str(), nullptr) != 1)
      return InvalidArgument("cannot read certificates from " + post.ca_file);
    ::ERR_clear_error();
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    ssl_.reset(::SSL_new(context_.get()));
    X509_VERIFY_PARAM* check = ::SSL_get0_param(ssl_.get());
    if (::X509_VERIFY_PARAM_set1_ip_asc(check, post.url.host.c_str()) != 1) {
      ::ERR_clear_error();
      ::X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
      ::SSL_set1_host(ssl_.get(), post.url.host.c_str());
      // The macro SSL_set_tlsext_host_name does the same, but with an old-style cast.
      std::string name = post.url.host;
      ::SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
    }
    ::SSL_set_fd(ssl_.get(), fd_);
    for (;;) {
      const int done = ::SSL_connect(ssl_.get());
      if (done == 1) return {};
      const Status waited = WaitAfter(done);
      if (waited) continue;
      const long verdict = ::SSL_get_verify_result(ssl_.get());
      if (verdict != X509_V_OK)
        return InvalidArgument(post.url.host +
                               " has no trusted certificate: " + ::X509_verify_cert_error_string(verdict));
      return waited;
    }
  }

  Status Write(std::string_view text) {
    while (!text.empty()) {
      const auto put = ssl_ != nullptr ? ::SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size()))
                                       : ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (put > 0) {
        text.remove_prefix(static_cast<std::size_t>(put));
        continue;
      }
      DIVVY_CHECK(ssl_ != nullptr ? WaitAfter(static_cast<int>(put)) : WaitAfterSocket(POLLOUT));
    }
    return {};
  }

  /// Returns 0 at the end of the stream.
  Result<std::size_t> Read(std::span<char> room) {
    for (;;) {
      const auto got = ssl_ != nullptr ? ::SSL_read(ssl_.get(), room.data(), static_cast<int>(room.size()))
                                       : ::recv(fd_, room.data(), room.size(), 0);
      if (got > 0) return static_cast<std::size_t>(got);
      if (ssl_ == nullptr && got == 0) return std::size_t{0};
      if (ssl_ != nullptr && ::SSL_get_error(ssl_.get(), static_cast<int>(got)) == SSL_ERROR_ZERO_RETURN)
        return std::size_t{0};
      DIVVY_CHECK(ssl_ != nullptr ? WaitAfter(static_cast<int>(got)) : WaitAfterSocket(POLLIN));
    }
  }

 private:
  Status WaitAfter(int result) {
    switch (::SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return WaitFor(fd_, POLLIN, deadline_);
      case SSL_ERROR_WANT_WRITE:
        return WaitFor(fd_, POLLOUT, deadline_);
      default:
        return Unreachable("TLS: " + TlsErrorText());
    }
  }
  Status WaitAfterSocket(short events) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return WaitFor(fd_, events, deadline_);
    return Unreachable(std::strerror(errno));
  }

  int fd_;
  SteadyTime deadline_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{nullptr, ::SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, ::SSL_free};
};

std::string RequestText(const WebPost& post) {
  const WebUrl& url = post.url;
  const bool is_usual = url.port == (url.is_secure ? "443" : "80");
  const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  std::string text = "POST " + url.target + " HTTP/1.1\r\nHost: " + host + (is_usual ? "" : ":" + url.port) +
                     "\r\nConnection: close\r\nContent-Length: " + std::to_string(post.body.size()) + "\r\n";
  if (!url.credentials.empty()) text += "Authorization: Basic " + Base64(url.credentials) + "\r\n";
  for (const auto& [name, value] : post.headers) {
    text += name;
    text += ": " + value + "\r\n";
  }
  return text + "\r\n" + post.body;
}

/// Returns nullopt if `head` is not an HTTP response.
std::optional<WebAnswer> ReadHead(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  if (!line.starts_with("HTTP/1.") || line.size() < 12) return std::nullopt;
  const auto status = ParseInteger(line.substr(9, 3));
  if (!status) return std::nullopt;
  WebAnswer answer;
  answer.status = static_cast<int>(*status);
  for (const char c : line.substr(9, 80)) answer.status_line += c >= ' ' && c < 127 ? c : '?';
  for (std::string_view header : Split(head, '\n')) {
    const auto colon = header.find(':');
    if (colon == std::string_view::npos || !EqualsIgnoringCase(header.substr(0, colon), "retry-after")) continue;
    const auto seconds = ParseInteger(Trim(header.substr(colon + 1)));
    if (seconds && *seconds > 0 && *seconds <= 86'400) answer.retry_after = std::chrono::seconds(*seconds);
  }
  return answer;
}

}  // namespace

Result<WebUrl> ParseWebUrl(std::string_view text) {
  const Error wrong = InvalidArgument("expected a webhook URL such as https://hooks.example.org/divvy");
  WebUrl url;
  url.is_secure = text.starts_with("https://");
  if (!url.is_secure && !text.starts_with("http://")) return wrong;
  const bool is_odd =
      std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; });
  if (is_odd) return wrong;
  std::string_view rest = text.substr(url.is_secure ? 8 : 7);
  rest = rest.substr(0, rest.find('#'));
  const auto end = rest.find_first_of("/?");
  std::string_view host = rest.substr(0, end);
  url.target = end == std::string_view::npos ? "/" : std::string(rest.substr(end));
  if (url.target.front() == '?') url.target = "/" + url.target;
  if (const auto at = host.rfind('@'); at != std::string_view::npos) {
    url.credentials = host.substr(0, at);
    host = host.substr(at + 1);
  }
  url.port = url.is_secure ? "443" : "80";
  const bool has_brackets = host.starts_with('[');
  const auto after = has_brackets ? host.find(']') : host.find(':');
  if (has_brackets && after == std::string_view::npos) return wrong;
  const std::string_view behind =
      after == std::string_view::npos ? std::string_view() : host.substr(after + (has_brackets ? 1 : 0));
  url.host = has_brackets ? host.substr(1, after - 1) : host.substr(0, after);
  if (url.host.empty()) return wrong;
  if (!behind.empty()) {
    const auto port = behind.front() == ':' ? ParseInteger(behind.substr(1)) : std::nullopt;
    if (!port || *port < 1 || *port > 65535)
      return InvalidArgument("the port of a webhook URL must be from 1 to 65535");
    url.port = std::to_string(*port);
  }
  return url;
}

bool IsPublicAddress(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof four);
    return IsPublic4(ntohl(four.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 six{};
  std::memcpy(&six, &address, sizeof six);
  return IsPublic6(six.sin6_addr);
}

Result<WebAnswer> Post(const WebPost& post) {
  const SteadyTime deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<SteadyTime::duration>(post.time_limit);
  DIVVY_TRY(const Descriptor fd, Dial(post, deadline));
  Wire wire(fd.get(), deadline);
  if (post.url.is_secure) DIVVY_CHECK(wire.Secure(post));
  DIVVY_CHECK(wire.Write(RequestText(post)));
  std::string head;
  std::array<char, 4096> room{};
  while (head.find("\r\n\r\n") == std::string::npos && head.size() < kMostHead) {
    DIVVY_TRY(const std::size_t got, wire.Read(room));
    if (got == 0) break;
    head.append(room.data(), got);
  }
  const auto answer = ReadHead(head);
  if (!answer) return Unreachable(post.url.host + " did not send an HTTP response");
  return *answer;
}

}  // namespace divvy
