#include "daemon/requests/ui_sessions.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "platform/net/tls.h"

namespace divvy {
namespace {

constexpr std::string_view kPortKey = "ui.port";
constexpr std::size_t kSessionIdBytes = 8;
constexpr std::size_t kSecretBytes = 32;
constexpr std::string_view kRemedy = "; divvy ui, on a command line, prints a link";

std::string KeyOf(std::string_view id) { return std::string(kUiSessionPrefix) + std::string(id); }

std::string HashOf(std::string_view secret, std::string_view page) {
  return Sha256Hex(std::string(secret) + "." + std::string(page));
}

/// Returns true if both belong to the same user, by whatever login.
bool IsOfOne(const UiIdentity& a, const UiIdentity& b) { return a.uid == b.uid; }

}  // namespace

Result<std::string> UiSessions::MakeLink(UiIdentity identity, Time now) {
  std::erase_if(links_, [&](const auto& link) { return link.second.expires <= now; });
  const auto is_own = [&](const auto& link) { return IsOfOne(link.second.identity, identity); };
  while (static_cast<std::size_t>(std::ranges::count_if(links_, is_own)) >= kMostLinksOfAUser) {
    auto oldest = links_.end();
    for (auto link = links_.begin(); link != links_.end(); ++link) {
      if (is_own(*link) && (oldest == links_.end() || link->second.expires < oldest->second.expires)) oldest = link;
    }
    links_.erase(oldest);
  }
  DIVVY_TRY(std::string secret, RandomHex(kSecretBytes));
  links_[Sha256Hex(secret)] = {std::move(identity), now + kLinkLives};
  return secret;
}

Result<UiIdentity> UiSessions::UseLink(std::string_view secret, bool is_plain, Time now) {
  // Looked up by hash, so the timing of the lookup reveals nothing useful.
  const auto found = links_.find(Sha256Hex(secret));
  if (found == links_.end() || found->second.identity.is_plain != is_plain)
    return PermissionDenied("this login link is invalid or was already used" + std::string(kRemedy));
  const Link link = found->second;
  links_.erase(found);
  if (link.expires <= now) return PermissionDenied("this link has expired" + std::string(kRemedy));
  return link.identity;
}

Result<UiSessions::Made> UiSessions::Begin(UiIdentity identity, Time now) {
  Made made;
  std::vector<std::string> past;
  for (const auto& [id, session] : sessions_) {
    if (session.expires <= now) past.push_back(id);
  }
  for (const std::string& id : past) DropSession(id, made.settings);
  const auto drop_oldest = [&](const auto& counts, std::size_t most) {
    const auto is_counted = [&](const auto& session) { return counts(session.second.identity); };
    while (static_cast<std::size_t>(std::ranges::count_if(sessions_, is_counted)) >= most) {
      const Session* oldest = nullptr;
      std::string oldest_id;
      for (const auto& [id, session] : sessions_) {
        if (!counts(session.identity) || (oldest != nullptr && session.made_at >= oldest->made_at)) continue;
        oldest = &session;
        oldest_id = id;
      }
      DropSession(oldest_id, made.settings);
    }
  };
  drop_oldest([&](const UiIdentity& other) { return IsOfOne(other, identity); }, kMostSessionsOfAUser);
  drop_oldest([](const UiIdentity&) { return true; }, kMostSessions);
  DIVVY_TRY(const std::string id, RandomHex(kSessionIdBytes));
  DIVVY_TRY(const std::string secret, RandomHex(kSecretBytes));
  DIVVY_TRY(made.page, RandomHex(kSecretBytes));
  made.cookie = id + "." + secret;
  made.expires = now + kSessionLives;
  const Session session{std::move(identity), HashOf(secret, made.page), now, made.expires};
  made.settings.emplace_back(KeyOf(id), Format(session));
  sessions_[id] = session;
  return made;
}

void UiSessions::DropSession(const std::string& id, std::vector<Setting>& settings) {
  sessions_.erase(id);
  settings.emplace_back(KeyOf(id), "");
}

const UiSessions::Session* UiSessions::Known(std::string_view cookie, std::string_view page) const {
  const std::size_t dot = cookie.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto found = sessions_.find(cookie.substr(0, dot));
  if (found == sessions_.end()) return nullptr;
  return IsSameSecret(found->second.hash, HashOf(cookie.substr(dot + 1), page)) ? &found->second : nullptr;
}

Result<UiIdentity> UiSessions::Find(std::string_view cookie, std::string_view page, bool is_plain, Time now) const {
  const Session* session = Known(cookie, page);
  if (session == nullptr || session->identity.is_plain != is_plain)
    return PermissionDenied("you are not logged in at this page" + std::string(kRemedy));
  if (session->expires <= now) return PermissionDenied("your login to this page has expired" + std::string(kRemedy));
  return session->identity;
}

std::optional<UiSessions::Setting> UiSessions::End(std::string_view cookie, std::string_view page) {
  if (Known(cookie, page) == nullptr) return std::nullopt;
  const std::string id(cookie.substr(0, cookie.find('.')));
  sessions_.erase(id);
  return Setting{KeyOf(id), ""};
}

std::vector<UiSessions::Setting> UiSessions::EndPlain() {
  std::vector<Setting> settings;
  std::erase_if(sessions_, [&](const auto& one) {
    if (one.second.identity.is_plain) settings.emplace_back(KeyOf(one.first), "");
    return one.second.identity.is_plain;
  });
  return settings;
}

UiSessions::Setting UiSessions::KeepPort(std::uint16_t port) {
  last_port_ = port;
  return {std::string(kPortKey), std::to_string(port)};
}

bool UiSessions::LoadSetting(std::string_view key, std::string_view text) {
  if (key == kPortKey) {
    const auto port = ParseInteger(text);
    if (port && *port > 0 && *port <= std::numeric_limits<std::uint16_t>::max())
      last_port_ = static_cast<std::uint16_t>(*port);
    return true;
  }
  if (!key.starts_with(kUiSessionPrefix)) return false;
  if (auto session = Parse(text)) sessions_[std::string(key.substr(kUiSessionPrefix.size()))] = *std::move(session);
  return true;
}

// One line per field: a key and its value.
std::string UiSessions::Format(const Session& session) {
  const auto number = [](Time time) { return std::to_string(time.time_since_epoch().count()); };
  const UiIdentity& identity = session.identity;
  return "hash " + session.hash + "\nuid " + std::to_string(identity.uid) + "\ngid " + std::to_string(identity.gid) +
         "\nuser " + identity.user + "\ntoken " + identity.token + "\nplain " + (identity.is_plain ? "1" : "0") +
         "\nmade_at " + number(session.made_at) + "\nexpires " + number(session.expires) + "\n";
}

std::optional<UiSessions::Session> UiSessions::Parse(std::string_view text) {
  Session session;
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    const auto number = ParseInteger(value);
    if (key == "hash") session.hash = std::string(value);
    if (key == "user") session.identity.user = std::string(value);
    if (key == "token") session.identity.token = std::string(value);
    if (key == "plain") session.identity.is_plain = value == "1";
    if (key == "uid") session.identity.uid = number.value_or(-1);
    if (key == "gid") session.identity.gid = number.value_or(-1);
    if (key == "made_at" && number) session.made_at = Time(Duration(*number));
    if (key == "expires" && number) session.expires = Time(Duration(*number));
  }
  if (session.hash.empty() || session.identity.uid < 0) return std::nullopt;
  return session;
}

}  // namespace divvy
