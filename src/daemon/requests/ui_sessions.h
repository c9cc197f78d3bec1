// Who is logged in at the page: links that let in once, and the sessions that they became. A session is known by the
// hash of two secrets: the cookie's, which no script can read, and the page's, which no other page has. Sessions are
// kept over restarts, those over plain HTTP only where the port was never free; links are not.
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

/// For whom a browser acts: a user of this machine, or a token, which has rights of its own.
struct UiIdentity {
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  std::string user;
  std::string token;      // Its id; empty: the user, with all that they may on the command line.
  bool is_plain = false;  // Lets in on this machine's loopback; else over TLS.

  friend bool operator==(const UiIdentity&, const UiIdentity&) = default;
};

class UiSessions {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  static constexpr Duration kLinkLives = std::chrono::minutes(5);
  static constexpr Duration kSessionLives = std::chrono::hours(24 * 7);
  /// Of one user, and in all; the oldest goes when one more comes.
  static constexpr std::size_t kMostLinksOfAUser = 20;
  static constexpr std::size_t kMostSessionsOfAUser = 50;
  static constexpr std::size_t kMostSessions = 5'000;

  struct Made {
    std::string cookie;  // "ID.SECRET"
    std::string page;
    Time expires = kNever;
    std::vector<Setting> settings;
  };

  /// The secret of a link that lets `identity` in, once.
  Result<std::string> MakeLink(UiIdentity identity, Time now);
  /// Whom it lets in; it is used up. kPermissionDenied where it never was one, was used, has expired, or came by the
  /// other door.
  Result<UiIdentity> UseLink(std::string_view secret, bool is_plain, Time now);

  Result<Made> Begin(UiIdentity identity, Time now);
  /// kPermissionDenied where there is no such session, it has expired, or came by the other door.
  Result<UiIdentity> Find(std::string_view cookie, std::string_view page, bool is_plain, Time now) const;
  /// Nothing where there is none.
  std::optional<Setting> End(std::string_view cookie, std::string_view page);
  /// Where browsers on this machine have us by their bookmarks; 0: nowhere yet.
  std::uint16_t last_port() const { return last_port_; }
  Setting KeepPort(std::uint16_t port);
  /// Ends the sessions over plain HTTP: whoever listened at the page's port meanwhile may have been told their secrets.
  std::vector<Setting> EndPlain();

  /// True if the key is one of ours. A row that cannot be read is left out.
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
  std::map<std::string, Link> links_;                     // By the hash of their secrets.
  std::map<std::string, Session, std::less<>> sessions_;  // By id.
};

}  // namespace divvy
