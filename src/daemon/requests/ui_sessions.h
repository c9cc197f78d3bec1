// Logins of the web page: one-time login links, and the sessions that they start. A session is identified by the hash
// of two secrets: the cookie's, which scripts cannot read, and the page's, which no other page has. Sessions are kept
// across restarts; those over plain HTTP only if the port was never free in between. Links are not kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace divvy {

inline constexpr std::string_view kUiSessionPrefix = "ui.session.";

/// The identity of a browser: a user of this machine, or a token, which has its own rights.
struct UiIdentity {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::string user;
  std::string token;      // The token's id. Empty: the user, with the same rights as on the command line.
  bool is_plain = false;  // True: valid over plain HTTP on this machine's loopback interface. False: valid over TLS.

  friend bool operator==(const UiIdentity&, const UiIdentity&) = default;
};

class UiSessions {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr Duration kLinkLives = std::chrono::minutes(5);
  static constexpr Duration kSessionLives = std::chrono::hours(24 * 7);
  /// Limits per user and in total; the oldest entry is removed to make room.
  static constexpr std::size_t kMostLinksOfAUser = 20;
  static constexpr std::size_t kMostSessionsOfAUser = 50;
  static constexpr std::size_t kMostSessions = 5'000;

  struct Made {
    std::string cookie;  // "ID.SECRET"
    std::string page;
    Time expires = kNever;
    std::vector<Setting> settings;
  };

  /// Returns the secret of a link that logs in as `identity`, once.
  Result<std::string> MakeLink(UiIdentity identity, Time now);
  /// Returns the identity of the link and invalidates it. Fails with kPermissionDenied if the link is unknown, used or
  /// expired, or belongs to the other transport (plain or TLS).
  Result<UiIdentity> UseLink(std::string_view secret, bool is_plain, Time now);

  Result<Made> Begin(UiIdentity identity, Time now);
  /// Fails with kPermissionDenied if the session is unknown or expired, or belongs to the other transport.
  Result<UiIdentity> Find(std::string_view cookie, std::string_view page, bool is_plain, Time now) const;
  /// Ends a session (logout). Returns the row to remove; nullopt if there is no such session.
  std::optional<Setting> End(std::string_view cookie, std::string_view page);
  /// The port that local browsers have in their bookmarks; 0: none yet.
  std::uint16_t last_port() const { return last_port_; }
  Setting KeepPort(std::uint16_t port);
  /// Ends all sessions over plain HTTP, because another process may have listened on the page's port meanwhile and
  /// received their secrets.
  std::vector<Setting> EndPlain();

  /// Loads a row of the store. Returns true if the key belongs to this class. An unreadable row is skipped.
  bool LoadSetting(std::string_view key, std::string_view text);

 private:
  struct Link {
    UiIdentity identity;
    Time expires = kNoTime;
  };
  struct Session {
    UiIdentity identity;
    std::string hash;
    Time made_at = kNoTime;
    Time expires = kNoTime;
  };
  static std::string Format(const Session& session);
  static std::optional<Session> Parse(std::string_view text);
  const Session* Known(std::string_view cookie, std::string_view page) const;
  void DropSession(const std::string& id, std::vector<Setting>& settings);

  std::uint16_t last_port_ = 0;
  std::map<std::string, Link> links_;                     // By the hash of the secret.
  std::map<std::string, Session, std::less<>> sessions_;  // By id.
};

}  // namespace divvy
