#include "platform/net/web_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "platform/net/openssl_objects.h"

namespace divvy {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
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

/// Fails once the deadline has passed. Called for each piece of data, so that a peer that never stops sending cannot
/// extend the time.
Status CheckTime(SteadyTime deadline) {
  if (std::chrono::steady_clock::now() < deadline) return {};
  return Error{ErrorCode::kTimedOut, "no answer in time"};
}

Status WaitFor(int fd, short events, SteadyTime deadline) {
  pollfd waited{fd, events, 0};
  for (;;) {
    DIVVY_CHECK(CheckTime(deadline));
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
Result<Descriptor> Dial(const WebUrl& url, bool may_go_inside, SteadyTime deadline) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &wanted, &found);
  if (failure != 0) return Unreachable(url.host + ": " + ::gai_strerror(failure));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Error last = Unreachable(url.host + " has no address");
  bool is_inside = false;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (!may_go_inside && !IsPublicAddress(*address->ai_addr)) {
      is_inside = true;
      continue;
    }
    auto fd = ConnectTo(*address, deadline);
    if (fd) return fd;
    last = Error{fd.error().code, url.host + ": " + fd.error().message};
    is_inside = false;
  }
  if (is_inside)
    return PermissionDenied(url.host +
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

/// Trusts every certificate in the text, and nothing else.
Status TrustOnly(SSL_CTX* context, const std::string& pem) {
  const OwnedBio bio = BioOf(pem);
  int count = 0;
  while (X509* authority = ::PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    if (::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), authority) == 1) ++count;
    ::X509_free(authority);
  }
  ::ERR_clear_error();
  if (count > 0) return {};
  return InvalidArgument("the trusted authorities hold no certificate in PEM");
}

/// Presents the certificate, followed by those of its issuers, and the key.
Status Present(SSL_CTX* context, const std::string& pem) {
  const OwnedBio key_text = BioOf(pem), text = BioOf(pem);
  const OwnedKey key(::PEM_read_bio_PrivateKey(key_text.get(), nullptr, NoPassphrase, nullptr));
  bool is_first = true;
  while (X509* one = ::PEM_read_bio_X509(text.get(), nullptr, NoPassphrase, nullptr)) {
    if (is_first) ::SSL_CTX_use_certificate(context, one);
    else ::SSL_CTX_add1_chain_cert(context, one);
    is_first = false;
    ::X509_free(one);
  }
  ::ERR_clear_error();
  if (key != nullptr && !is_first && ::SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
      ::SSL_CTX_check_private_key(context) == 1)
    return {};
  ::ERR_clear_error();
  if (key == nullptr && pem.find("ENCRYPTED") != std::string::npos)
    return InvalidArgument("the client's key is encrypted; store it without a password, readable by its user only");
  return InvalidArgument("the client certificate and its key cannot be read or do not belong together");
}

Result<OwnedContext> ContextOf(const WebTrust& trust) {
  OwnedContext context(::SSL_CTX_new(::TLS_client_method()));
  if (context == nullptr) return Internal("no TLS: " + TlsErrorText());
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  if (!trust.only_authorities.empty()) {
    DIVVY_CHECK(TrustOnly(context.get(), trust.only_authorities));
  } else {
    ::SSL_CTX_set_default_verify_paths(context.get());
    for (const char* file : kAuthorities) {
      if (::access(file, R_OK) == 0 && ::SSL_CTX_load_verify_locations(context.get(), file, nullptr) == 1) break;
    }
  }
  if (!trust.ca_file.empty() && ::SSL_CTX_load_verify_locations(context.get(), trust.ca_file.c_str(), nullptr) != 1)
    return InvalidArgument("cannot read certificates from " + trust.ca_file);
  if (!trust.client_identity.empty()) DIVVY_CHECK(Present(context.get(), trust.client_identity));
  ::ERR_clear_error();
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

}  // namespace

struct WebConnection::Session {
  Session(Descriptor socket, SteadyTime end) : fd(std::move(socket)), deadline(end) {}

  Status Secure(const WebUrl& url, const WebTrust& trust);
  Status WaitAfter(int result) {
    switch (::SSL_get_error(ssl.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return WaitFor(fd.get(), POLLIN, deadline);
      case SSL_ERROR_WANT_WRITE:
        return WaitFor(fd.get(), POLLOUT, deadline);
      default:
        return Unreachable("TLS: " + TlsErrorText());
    }
  }
  Status WaitAfterSocket(short events) const {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return WaitFor(fd.get(), events, deadline);
    return Unreachable(std::strerror(errno));
  }

  Descriptor fd;
  SteadyTime deadline;
  OwnedContext context;
  OwnedSsl ssl;  // Null: without TLS.
};

Status WebConnection::Session::Secure(const WebUrl& url, const WebTrust& trust) {
  DIVVY_TRY(context, ContextOf(trust));
  ssl.reset(::SSL_new(context.get()));
  if (ssl == nullptr) return Internal("no TLS: " + TlsErrorText());
  std::string name = trust.server_name.empty() ? url.host : trust.server_name;
  // OpenSSL would check only the part of the name before a NUL character.
  if (name.find('\0') != std::string::npos) return InvalidArgument("the name of the server has a NUL character");
  X509_VERIFY_PARAM* check = ::SSL_get0_param(ssl.get());
  if (::X509_VERIFY_PARAM_set1_ip_asc(check, name.c_str()) != 1) {
    ::ERR_clear_error();
    ::X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (::SSL_set1_host(ssl.get(), name.c_str()) != 1)
      return InvalidArgument(name + " is no name that a certificate can have");
    // The macro SSL_set_tlsext_host_name does the same, but with an old-style cast.
    ::SSL_ctrl(ssl.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
  }
  ::SSL_set_fd(ssl.get(), fd.get());
  for (;;) {
    const int done = ::SSL_connect(ssl.get());
    if (done == 1) return {};
    const Status waited = WaitAfter(done);
    if (waited) continue;
    const long verdict = ::SSL_get_verify_result(ssl.get());
    if (verdict != X509_V_OK)
      return InvalidArgument(url.host + " has no trusted certificate: " + ::X509_verify_cert_error_string(verdict));
    return waited;
  }
}

WebConnection::WebConnection(std::unique_ptr<Session> session) : session_(std::move(session)) {}
WebConnection::WebConnection(WebConnection&&) noexcept = default;
WebConnection& WebConnection::operator=(WebConnection&&) noexcept = default;
WebConnection::~WebConnection() = default;

Result<WebConnection> WebConnection::Open(const WebUrl& url, const WebTrust& trust, Duration time_limit) {
  const SteadyTime deadline =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<SteadyTime::duration>(time_limit);
  DIVVY_TRY(Descriptor fd, Dial(url, trust.may_go_inside, deadline));
  auto session = std::make_unique<Session>(std::move(fd), deadline);
  if (url.is_secure) DIVVY_CHECK(session->Secure(url, trust));
  return WebConnection(std::move(session));
}

Status WebConnection::Write(std::string_view text) {
  Session& it = *session_;
  while (!text.empty()) {
    DIVVY_CHECK(CheckTime(it.deadline));
    const auto put = it.ssl != nullptr ? ::SSL_write(it.ssl.get(), text.data(),
                                                     static_cast<int>(std::min<std::size_t>(text.size(), INT_MAX)))
                                       : ::send(it.fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (put > 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
      continue;
    }
    DIVVY_CHECK(it.ssl != nullptr ? it.WaitAfter(static_cast<int>(put)) : it.WaitAfterSocket(POLLOUT));
  }
  return {};
}

Result<std::size_t> WebConnection::Read(std::span<char> room) {
  Session& it = *session_;
  for (;;) {
    DIVVY_CHECK(CheckTime(it.deadline));
    const auto got = it.ssl != nullptr ? ::SSL_read(it.ssl.get(), room.data(), static_cast<int>(room.size()))
                                       : ::recv(it.fd.get(), room.data(), room.size(), 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (it.ssl == nullptr && got == 0) return std::size_t{0};
    if (it.ssl != nullptr && ::SSL_get_error(it.ssl.get(), static_cast<int>(got)) == SSL_ERROR_ZERO_RETURN)
      return std::size_t{0};
    DIVVY_CHECK(it.ssl != nullptr ? it.WaitAfter(static_cast<int>(got)) : it.WaitAfterSocket(POLLIN));
  }
}

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

std::string HostHeader(const WebUrl& url) {
  const bool is_usual = url.port == (url.is_secure ? "443" : "80");
  const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  return host + (is_usual ? "" : ":" + url.port);
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

}  // namespace divvy
