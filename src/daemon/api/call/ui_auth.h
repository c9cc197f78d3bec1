// Serves browsers: the page and its files, login, and authentication of the page's requests.
//
// A browser connects from this machine, over plain TCP on the loopback interface, or from anywhere over TLS. Both are
// checked in the same way. The Host header must be one of our names, so that no other name can be bound to our address.
// A request of the page must come from the page (Origin, Sec-Fetch-Site). Besides the cookie it must carry a header
// with the page's own secret, which no other page can send, not even one on another port of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/host_port.h"
#include "base/result.h"
#include "daemon/api/call/api_ports.h"
#include "daemon/http/http_server.h"
#include "daemon/requests/ui_sessions.h"
#include "driver/controller_driver.h"
#include "wire/messages/ui_messages.h"

namespace divvy {

class UiAuth {
 public:
  struct Wishes {
    bool is_off = false;
    // A loopback address. Unset: any port, opened when the first login link is requested.
    std::optional<HostPort> listen;
    bool is_remote = false;  // Also over TLS.
  };
  struct Ports {
    /// Opens the plain TCP listener; returns its port.
    std::function<Result<std::uint16_t>(const HostPort& address)> listen;
    /// Opens the plain TCP listener that the service manager kept over a restart; returns its port, or 0 if none was
    /// kept.
    std::function<std::uint16_t()> listen_again;
    std::string host;  // This machine's host name.
  };
  UiAuth(ControllerDriver& driver, UiSessions& sessions, std::shared_ptr<RemoteAccess> remote,
         std::shared_ptr<Audit> audit, Wishes wishes, Ports ports);

  /// Call at the daemon's start. Listens where divvy.toml says, or at the port of the last start, which browsers have
  /// bookmarked. Ends the sessions over plain HTTP, unless the service manager kept the port since they were started,
  /// so that no other process can have received their secrets.
  Status Open();

  /// Handles page files, login and logout, and refuses requests that fail the checks. Returns true if it has taken the
  /// request over, false if the API must handle it.
  bool Answers(const Peer& peer, HttpRequest& request, Reply& reply);

  static bool IsFromPage(const HttpRequest& request) { return !request.header(kHeader).empty(); }
  Result<UiIdentity> IdentityOf(bool is_plain, const HttpRequest& request) const;
  /// Returns a link that logs in as `identity`, once. `identity.is_plain` selects the transport. Opens the plain TCP
  /// listener if needed and possible.
  Result<wire::UiLinkAnswer> MakeLink(UiIdentity identity);

  const std::string& host() const { return ports_.host; }

 private:
  static constexpr std::string_view kHeader = "divvy-page";

  /// Returns the reason why this request is refused, or an empty string.
  std::string WhyNot(const Peer& peer, const HttpRequest& request, bool is_file) const;
  bool IsOurName(std::string_view host, bool is_plain) const;
  std::string CookieName(bool is_plain) const;
  std::string_view CookieOf(bool is_plain, const HttpRequest& request) const;
  std::string CookieText(bool is_plain, const std::string& value, Duration lives) const;
  Result<UiIdentity> LetIn(const Peer& peer, const HttpRequest& request);
  void AnswerOnceStored(Reply reply, HttpResponse response);
  /// Calls `task` once a session can be stored; answers with an error if that takes too long.
  void OnceItCanBeStored(const Peer& peer, HttpRequest& request, const Reply& reply,
                         void (UiAuth::*task)(const Peer& peer, const HttpRequest& request, Reply reply));
  void LogIn(const Peer& peer, const HttpRequest& request, Reply reply);
  void LogOut(const Peer& peer, const HttpRequest& request, Reply reply);
  Status OpenPlain();

  ControllerDriver& driver_;
  UiSessions& sessions_;
  std::shared_ptr<RemoteAccess> remote_;
  std::shared_ptr<Audit> audit_;
  Wishes wishes_;
  Ports ports_;
  std::uint16_t plain_port_ = 0;
};

}  // namespace divvy
