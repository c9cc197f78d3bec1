// The door of browsers: the page and its files, logging in, and who a request of the page is from.
//
// A browser is on this machine, over plain TCP on the loopback, or anywhere, over TLS. What is asked of it both ways:
// the name by which it calls us is one of ours, so that no other name can be bound to our address; a request of the
// page comes from the page (Origin, Sec-Fetch-Site) and brings, besides the cookie, a header with the page's own
// secret, which no other page can send, not even one of another port of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/api/routes.h"
#include "daemon/driver/core.h"
#include "daemon/http/http_server.h"
#include "daemon/requests/ui_sessions.h"
#include "wire/messages/ui_messages.h"

namespace divvy {

class UiDoor {
 public:
  struct Wishes {
    bool is_off = false;
    std::optional<HostPort> listen;  // Of this machine's loopback; nothing: any, when somebody first asks for a link.
    bool is_remote = false;          // Over TLS as well.
  };
  struct Ports {
    /// Opens the plain door; the port that it has then.
    std::function<Result<std::uint16_t>(const HostPort& address)> listen;
    /// Opens the plain door with the listener that the service manager kept over a restart; its port, 0: it kept none.
    std::function<std::uint16_t()> listen_again;
    std::string host;  // This machine's name.
  };
  UiDoor(Core& core, UiSessions& sessions, std::shared_ptr<Routes::Remote> remote, std::shared_ptr<Audit> audit,
         Wishes wishes, Ports ports);

  /// At the daemon's start: where divvy.toml says, or where browsers will look for us. Unless the port was held without
  /// a gap since they were made, the sessions over plain HTTP end.
  Status Open();

  /// Whether it is no request of the API, or one that may not be let through: then it is answered.
  bool Answers(const Peer& peer, const HttpRequest& request, Reply& reply);

  static bool IsFromPage(const HttpRequest& request) { return !request.header(kHeader).empty(); }
  Result<UiIdentity> IdentityOf(bool is_plain, const HttpRequest& request) const;
  /// A link that lets `identity` in once; `identity.is_plain` says by which door. Opens that where it can.
  Result<wire::UiLinkAnswer> MakeLink(UiIdentity identity);

  const std::string& host() const { return ports_.host; }

 private:
  static constexpr std::string_view kHeader = "divvy-page";

  /// Empty, or why this request is let no further.
  std::string WhyNot(const Peer& peer, const HttpRequest& request, bool is_file) const;
  bool IsOurName(std::string_view host, bool is_plain) const;
  std::string CookieName(bool is_plain) const;
  std::string_view CookieOf(bool is_plain, const HttpRequest& request) const;
  std::string CookieText(bool is_plain, const std::string& value, Duration lives) const;
  Result<UiIdentity> LetIn(const Peer& peer, const HttpRequest& request);
  void LogIn(const Peer& peer, const HttpRequest& request, Reply reply);
  void LogOut(const Peer& peer, const HttpRequest& request, Reply reply);
  Status OpenPlain();

  Core& core_;
  UiSessions& sessions_;
  std::shared_ptr<Routes::Remote> remote_;
  std::shared_ptr<Audit> audit_;
  Wishes wishes_;
  Ports ports_;
  std::uint16_t plain_port_ = 0;
};

}  // namespace divvy
