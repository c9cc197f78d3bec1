#include "daemon/api/call/ui_auth.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/host_port.h"
#include "base/text.h"
#include "daemon/requests/ui_files.h"
#include "daemon/views/views.h"
#include "wire/http/token_line.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

constexpr std::uint16_t kUsualPort = 8642;
constexpr std::string_view kLoopback = "127.0.0.1";
constexpr int kForbidden = 403;
constexpr int kUnauthorized = 401;
constexpr int kNotModified = 304;

/// Allows only our own scripts, no external resources, and no embedding in frames.
const HttpHeaders& PageHeaders() {
  static const HttpHeaders headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Permissions-Policy", "camera=(), microphone=(), geolocation=()"}};
  return headers;
}

/// "gpu1.lab:7433" -> "gpu1.lab", "[::1]:80" -> "::1". Empty for anything else.
std::string NameIn(std::string_view host) {
  constexpr std::uint16_t kAnyPort = 80;
  const auto address = ParseHostPort(host, kAnyPort);
  if (!address || host.starts_with('[') != (address->host.find(':') != std::string::npos)) return "";
  return ToLower(address->host);
}

/// Returns true for an IP address, which an attacker's DNS name cannot stand for.
bool IsAddress(std::string_view name) {
  return name.find(':') != std::string_view::npos ||
         (!name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos);
}

void AnswerError(Reply& reply, int status, const Error& error) {
  HttpResponse response;
  response.status = status;
  response.headers = PageHeaders();
  response.body = wire::Encode(ErrorViewOf(error));
  response.ends_connection = true;
  reply.Answer(response);
}

void AnswerFile(Reply& reply, const UiFile& file, const HttpRequest& request) {
  HttpResponse response;
  response.content_type = std::string(file.content_type);
  response.headers = PageHeaders();
  response.headers.emplace_back("ETag", file.etag);
  // Browsers revalidate it each time, and get it again only if it differs: a newer daemon has a newer page.
  response.headers.emplace_back("Cache-Control", "no-cache");
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (request.header("if-none-match") == file.etag) {
    response.status = kNotModified;
  } else if (!file.packed.empty() && request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.body = file.packed;
  } else {
    response.body = std::string(file.bytes);
  }
  reply.Answer(response);
}

}  // namespace

UiAuth::UiAuth(ControllerDriver& driver, UiSessions& sessions, std::shared_ptr<RemoteAccess> remote,
               std::shared_ptr<Audit> audit, Wishes wishes, Ports ports)
    : driver_(driver),
      sessions_(sessions),
      remote_(std::move(remote)),
      audit_(std::move(audit)),
      wishes_(std::move(wishes)),
      ports_(std::move(ports)) {}

Status UiAuth::Open() {
  plain_port_ = wishes_.is_off ? std::uint16_t{0} : ports_.listen_again();
  if (plain_port_ != 0) return {};
  for (auto& setting : sessions_.EndPlain()) driver_.controller().KeepSetting(setting.first, std::move(setting.second));
  driver_.Touch();
  if (wishes_.is_off) return {};
  if (wishes_.listen) {
    DIVVY_TRY(plain_port_, ports_.listen(*wishes_.listen));
    return {};
  }
  // If another process has taken that port, divvy ui uses another one.
  if (sessions_.last_port() != 0) static_cast<void>(OpenPlain());
  return {};
}

Status UiAuth::OpenPlain() {
  if (plain_port_ != 0) return {};
  const std::uint16_t wanted = sessions_.last_port() != 0 ? sessions_.last_port() : kUsualPort;
  Result<std::uint16_t> port = ports_.listen({std::string(kLoopback), wanted});
  if (!port) port = ports_.listen({std::string(kLoopback), 0});
  if (!port) return port.error();
  plain_port_ = *port;
  auto setting = sessions_.KeepPort(plain_port_);
  driver_.controller().KeepSetting(setting.first, std::move(setting.second));
  driver_.Touch();
  return {};
}

bool UiAuth::IsOurName(std::string_view host, bool is_plain) const {
  const std::string name = NameIn(host);
  if (name.empty()) return false;
  if (name == "localhost" || name == kLoopback || name == "::1") return true;
  if (is_plain) return wishes_.listen && EqualsIgnoringCase(name, wishes_.listen->host);
  return IsAddress(name) || EqualsIgnoringCase(name, remote_->address.host) || EqualsIgnoringCase(name, ports_.host);
}

std::string UiAuth::WhyNot(const Peer& peer, const HttpRequest& request, bool is_file) const {
  const std::string_view host = request.header("host");
  if (!IsOurName(host, peer.is_plain)) {
    return "this daemon's page is not at '" + std::string(host.substr(0, 100)) + "'; divvy ui prints its address" +
           (peer.is_plain ? "" : ", and name in [controller] of divvy.toml changes it");
  }
  const std::string_view origin = request.header("origin");
  const std::string own = (peer.is_plain ? "http://" : "https://") + std::string(host);
  if (!origin.empty() && !EqualsIgnoringCase(origin, own)) return "this request comes from another page";
  const std::string_view site = request.header("sec-fetch-site");
  const bool is_foreign = !site.empty() && site != "same-origin" && site != "none";
  if (!is_file && is_foreign) return "this request comes from another page";
  return "";
}

bool UiAuth::Answers(const Peer& peer, HttpRequest& request, Reply& reply) {
  if (!peer.is_remote() || !peer.node.empty()) return false;
  const bool is_shown = !wishes_.is_off && (peer.is_plain || wishes_.is_remote);
  const UiFile* file =
      is_shown && (request.method == "GET" || request.method == "HEAD") ? FindUiFile(request.path) : nullptr;
  const bool is_login = is_shown && request.method == "POST" && request.path == "/ui/login";
  const bool is_logout = is_shown && request.method == "POST" && request.path == "/ui/logout";
  const bool is_pages = IsFromPage(request);
  if (!peer.is_plain && file == nullptr && !is_login && !is_logout && !is_pages) return false;
  if (is_pages && !is_shown) {
    AnswerError(reply, kForbidden, PermissionDenied("this daemon does not serve the web page here"));
    return true;
  }
  if (const std::string why = WhyNot(peer, request, file != nullptr); !why.empty()) {
    AnswerError(reply, kForbidden, PermissionDenied(why));
    return true;
  }
  if (file != nullptr) {
    AnswerFile(reply, *file, request);
    return true;
  }
  if (is_pages && is_login) OnceItCanBeStored(peer, request, reply, &UiAuth::LogIn);
  else if (is_pages && is_logout) OnceItCanBeStored(peer, request, reply, &UiAuth::LogOut);
  else if (request.header("authorization").empty() && !is_pages)
    AnswerError(reply, kUnauthorized, PermissionDenied("you are not logged in; divvy ui prints a link"));
  else return false;
  return true;
}

std::string UiAuth::CookieName(bool is_plain) const {
  // Cookies do not depend on the port, so daemons on one machine distinguish theirs by the port number in the name.
  // With the __Host- prefix, browsers accept the cookie only from this very host.
  return is_plain ? "divvy-" + std::to_string(plain_port_) : "__Host-divvy-" + std::to_string(remote_->address.port);
}

std::string_view UiAuth::CookieOf(bool is_plain, const HttpRequest& request) const {
  const std::string name = CookieName(is_plain);
  for (const std::string_view piece : Split(request.header("cookie"), ';')) {
    const std::string_view one = Trim(piece);
    if (one.starts_with(name) && one.substr(name.size()).starts_with('=')) return one.substr(name.size() + 1);
  }
  return "";
}

std::string UiAuth::CookieText(bool is_plain, const std::string& value, Duration lives) const {
  return CookieName(is_plain) + "=" + value + "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(lives).count()) + (is_plain ? "" : "; Secure");
}

Result<UiIdentity> UiAuth::IdentityOf(bool is_plain, const HttpRequest& request) const {
  return sessions_.Find(CookieOf(is_plain, request), request.header(kHeader), is_plain, driver_.Latest());
}

Result<UiIdentity> UiAuth::LetIn(const Peer& peer, const HttpRequest& request) {
  DIVVY_TRY(const wire::UiLogin login, wire::Decode<wire::UiLogin>(request.body));
  if (!login.link.empty()) return sessions_.UseLink(login.link, peer.is_plain, driver_.Latest());
  const std::string_view text = Trim(login.token);
  const auto line = ParseTokenLine(text);
  const std::string bearer = "Bearer " + (line ? BearerOf(*line) : std::string(text));
  DIVVY_TRY(const Bearer parsed, ParseBearer(bearer));
  DIVVY_TRY(const Caller caller, remote_->callers.Identify(bearer, Touches::kNothing, driver_.Latest()));
  return UiIdentity{caller.user.uid, caller.user.gid, caller.user.name, parsed.id, peer.is_plain};
}

void UiAuth::AnswerOnceStored(Reply reply, HttpResponse response) {
  driver_.AfterCommit(
      [reply = std::move(reply), response = std::move(response)](const Status& stored) mutable {
        if (!stored) return AnswerError(reply, HttpStatusOf(stored.error().code), stored.error());
        reply.Answer(response);
      },
      ControllerDriver::IfNotStored::kReport);
}

// A login link must not be used up, and no session begin or end, before that can be stored.
void UiAuth::OnceItCanBeStored(const Peer& peer, HttpRequest& request, const Reply& reply,
                               void (UiAuth::*task)(const Peer& peer, const HttpRequest& request, Reply reply)) {
  driver_.WhenStoreAnswers([this, peer, kept = std::make_shared<HttpRequest>(std::move(request)), reply = Reply(reply),
                            task](const Status& answers) mutable {
    if (!reply.is_open()) return;
    if (!answers) return AnswerError(reply, HttpStatusOf(answers.error().code), answers.error());
    (this->*task)(peer, *kept, reply);
  });
}

void UiAuth::LogIn(const Peer& peer, const HttpRequest& request, Reply reply) {
  const auto identity = LetIn(peer, request);
  auto made = identity ? sessions_.Begin(*identity, driver_.Latest()) : identity.error();
  const int status = !identity ? kUnauthorized : made ? 200 : HttpStatusOf(made.error().code);
  if (audit_) {
    audit_->Write({driver_.Now(), identity ? identity->user : "", identity ? identity->uid : -1, peer.address,
                   request.method, request.path, "", status,
                   made ? std::string_view() : std::string_view(made.error().message)});
  }
  if (!made) return AnswerError(reply, status, made.error());
  for (auto& setting : made->settings) driver_.controller().KeepSetting(setting.first, std::move(setting.second));
  HttpResponse response;
  response.headers = PageHeaders();
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("Set-Cookie", CookieText(peer.is_plain, made->cookie, UiSessions::kSessionLives));
  response.body = wire::Encode(wire::UiLoginAnswer{made->page, identity->user, ToSeconds(made->expires)});
  AnswerOnceStored(std::move(reply), std::move(response));
}

void UiAuth::LogOut(const Peer& peer, const HttpRequest& request, Reply reply) {
  if (auto setting = sessions_.End(CookieOf(peer.is_plain, request), request.header(kHeader)))
    driver_.controller().KeepSetting(setting->first, std::move(setting->second));
  HttpResponse response;
  response.headers = PageHeaders();
  response.headers.emplace_back("Set-Cookie", CookieText(peer.is_plain, "", Duration(0)));
  response.body = "{}";
  AnswerOnceStored(std::move(reply), std::move(response));
}

Result<wire::UiLinkAnswer> UiAuth::MakeLink(UiIdentity identity) {
  if (wishes_.is_off) return FailedPrecondition("the page is off: listen = \"off\" in [ui] of divvy.toml");
  wire::UiLinkAnswer answer;
  std::string where;
  if (identity.is_plain) {
    DIVVY_CHECK(OpenPlain());
    where = "http://" + ToString(HostPort{wishes_.listen ? wishes_.listen->host : std::string(kLoopback), plain_port_});
  } else if (!wishes_.is_remote || remote_->address.port == 0) {
    return FailedPrecondition(
        "this daemon serves its web page to its own machine only; remote = true in [ui] of divvy.toml, where it "
        "listens for "
        "other machines ([controller] listen), serves it over TLS. Without: ssh -L 8642:127.0.0.1:8642 to that "
        "machine, and divvy ui there");
  } else {
    where = "https://" + ToString(remote_->address);
    answer.fingerprint = remote_->fingerprint;
  }
  DIVVY_TRY(const std::string secret, sessions_.MakeLink(std::move(identity), driver_.Latest()));
  // After '#': browsers do not send it to servers, so it never appears in request logs.
  answer.url = where + "/#login=" + secret;
  answer.lifetime_s = ToSeconds(UiSessions::kLinkLives);
  answer.message = "good for one login, within 5 minutes";
  return answer;
}

}  // namespace divvy
