#include "control/books/token_registry.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace divvy {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"viewer", "user", "admin", "node"};
constexpr std::size_t kLongestTokenLabel = 64;

std::string TokenKey(std::string_view id) { return std::string(kTokenPrefix) + std::string(id); }

// Format of a token in the store: one line per field, with the field's name and its value.
std::string FormatToken(const TokenRow& row) {
  std::string text = "hash " + row.hash + "\nuser " + row.user + "\nuid " + std::to_string(row.uid) + "\nrole " +
                     std::string(Name(row.role)) + "\nmade_by " + row.made_by + "\nmade_at " +
                     std::to_string(row.made_at.time_since_epoch().count()) + "\n";
  if (!row.label.empty()) text += "label " + row.label + "\n";
  if (row.uses_left > 0) text += "uses " + std::to_string(row.uses_left) + "\n";
  if (row.expires != kNever) text += "expires " + std::to_string(row.expires.time_since_epoch().count()) + "\n";
  return text;
}

std::optional<TokenRow> ParseToken(std::string_view id, std::string_view text) {
  TokenRow row;
  row.id = std::string(id);
  bool has_role = false;
  for (const std::string_view line : Split(text, '\n')) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, blank), value = line.substr(blank + 1);
    if (key == "hash") row.hash = std::string(value);
    if (key == "user") row.user = std::string(value);
    if (key == "label") row.label = std::string(value);
    if (key == "made_by") row.made_by = std::string(value);
    if (key == "role") {
      const auto role = ParseTokenRole(value);
      if (!role) return std::nullopt;
      row.role = *role;
      has_role = true;
    }
    if (key == "uid" || key == "made_at" || key == "expires" || key == "uses") {
      const auto number = ParseInteger(value);
      if (!number) return std::nullopt;
      if (key == "uid") {
        row.uid = *number;
        continue;
      }
      if (key == "uses") {
        row.uses_left = static_cast<int>(*number);
        continue;
      }
      (key == "expires" ? row.expires : row.made_at) = Time(Duration(*number));
    }
  }
  if (!has_role || row.hash.empty() || row.user.empty() || row.uid < 0) return std::nullopt;
  return row;
}

}  // namespace

std::string_view Name(TokenRole role) { return kRoles[static_cast<std::size_t>(role)]; }

Result<TokenRole> ParseTokenRole(std::string_view text) {
  const auto found = std::ranges::find(kRoles, text);
  if (found == kRoles.end()) {
    return InvalidArgument("'" + std::string(text.substr(0, 64)) +
                           "' is not a role: expected viewer, user, admin or node");
  }
  return static_cast<TokenRole>(found - kRoles.begin());
}

Result<TokenRegistry::Setting> TokenRegistry::Add(TokenRow row) {
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != '\x7f'; };
  if (row.label.size() > kLongestTokenLabel || !std::ranges::all_of(row.label, is_plain)) {
    return InvalidArgument("a token's label is one line of at most " + std::to_string(kLongestTokenLabel) +
                           " characters");
  }
  if (tokens_.size() >= kMostTokens) {
    return LimitExceeded("there are " + std::to_string(kMostTokens) +
                         " tokens, which is the limit; remove unused ones with divvy token remove");
  }
  const auto of_user = std::ranges::count_if(tokens_, [&](const auto& token) { return token.second.user == row.user; });
  if (static_cast<std::size_t>(of_user) >= kMostOfAUser) {
    return LimitExceeded(row.user + " has " + std::to_string(kMostOfAUser) +
                         " tokens, which is the limit; remove unused ones with divvy token remove");
  }
  if (tokens_.contains(row.id)) return Error{ErrorCode::kAlreadyExists, "there is a token " + row.id + " already"};
  Setting setting{TokenKey(row.id), FormatToken(row)};
  tokens_.emplace(row.id, std::move(row));
  return setting;
}

Result<TokenRegistry::Setting> TokenRegistry::Remove(std::string_view id) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end()) {
    return NotFound("there is no token " + std::string(id.substr(0, 64)) + "; divvy token list shows all tokens");
  }
  tokens_.erase(found);
  return Setting{TokenKey(id), ""};
}

Result<TokenRegistry::Setting> TokenRegistry::Spend(std::string_view id, Time now) {
  const auto found = tokens_.find(id);
  if (found == tokens_.end() || found->second.role != TokenRole::kNode || found->second.uses_left <= 0) {
    return PermissionDenied("token " + std::string(id.substr(0, 64)) +
                            " has admitted as many nodes as it may; divvy token create --node creates another");
  }
  if (--found->second.uses_left == 0) found->second.expires = std::min(found->second.expires, now);
  return Setting{TokenKey(id), FormatToken(found->second)};
}

std::vector<TokenRegistry::Setting> TokenRegistry::DropExpired(Time before) {
  std::vector<Setting> dropped;
  std::erase_if(tokens_, [&](const auto& token) {
    const bool is_past = token.second.has_expired(before);
    if (is_past) dropped.emplace_back(TokenKey(token.first), "");
    return is_past;
  });
  return dropped;
}

const TokenRow* TokenRegistry::Find(std::string_view id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

bool TokenRegistry::LoadSetting(std::string_view key, std::string_view text) {
  if (!key.starts_with(kTokenPrefix)) return false;
  const std::string_view id = key.substr(kTokenPrefix.size());
  if (auto row = ParseToken(id, text)) tokens_.insert_or_assign(row->id, *row);
  return true;
}

}  // namespace divvy
