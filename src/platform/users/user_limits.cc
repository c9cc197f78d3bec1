#include "platform/users/user_limits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "platform/users/user_identity.h"

namespace divvy {
namespace {

constexpr Duration kKept = std::chrono::seconds(30);

/// The items that setrlimit knows, and the size of one of their units in the file.
constexpr std::array<std::pair<std::string_view, std::int64_t>, 9> kItems = {{{"nofile", 1},
                                                                              {"nproc", 1},
                                                                              {"memlock", 1024},
                                                                              {"stack", 1024},
                                                                              {"core", 1024},
                                                                              {"fsize", 1024},
                                                                              {"as", 1024},
                                                                              {"cpu", 60},
                                                                              {"data", 1024}}};

constexpr std::array<std::pair<std::string_view, int>, 16> kSystemLimits = {{
    {"as", RLIMIT_AS},
    {"core", RLIMIT_CORE},
    {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},
    {"fsize", RLIMIT_FSIZE},
    {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK},
    {"msgqueue", RLIMIT_MSGQUEUE},
    {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},
    {"nproc", RLIMIT_NPROC},
    {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},
    {"rttime", RLIMIT_RTTIME},
    {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
}};

rlim_t ValueOf(std::int64_t value) { return value < 0 ? RLIM_INFINITY : static_cast<rlim_t>(value); }

std::optional<std::int64_t> ValueOf(std::string_view text, std::int64_t unit) {
  if (text == "unlimited" || text == "infinity" || text == "-1") return -1;
  const auto number = ParseInteger(text);
  if (!number || *number < 0 || *number > INT64_MAX / unit) return std::nullopt;
  return *number * unit;
}

/// Matches a number with "1000:2000", "1000:", ":2000" or ":1000" (a lone bound).
bool IsInRange(std::string_view range, std::int64_t number) {
  const auto colon = range.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view low = range.substr(0, colon), high = range.substr(colon + 1);
  const auto from = ParseInteger(low), to = ParseInteger(high);
  if (low.empty()) return to && number == *to;
  if (!from || number < *from) return false;
  return high.empty() || (to && number <= *to);
}

enum class Closeness { kNone, kEverybody, kGroup, kUser };

Closeness HowClose(const std::string& domain, const User& user,
                   const std::function<bool(const std::string& group)>& is_in_group) {
  if (domain == user.name) return Closeness::kUser;
  if (user.uid == 0) return Closeness::kNone;
  if (domain == "*") return Closeness::kEverybody;
  if (IsInRange(domain, user.uid)) return Closeness::kUser;
  if (!domain.starts_with('@')) return Closeness::kNone;
  const std::string group = domain.substr(1);
  if (group.find(':') != std::string::npos) return IsInRange(group, user.gid) ? Closeness::kGroup : Closeness::kNone;
  return is_in_group(group) ? Closeness::kGroup : Closeness::kNone;
}

// The limits of process 1 are read as text, because reading another process's limits with prlimit requires root.
void AddLimitsOfLogins(LimitTable& table) {
  std::ifstream limits("/proc/1/limits");
  for (std::string line; std::getline(limits, line);) {
    for (const auto& [item, title] :
         {std::pair("memlock", "Max locked memory"), std::pair("nofile", "Max open files")}) {
      if (!line.starts_with(title) || table[item].hard) continue;
      const auto words = SplitWords(std::string_view(line).substr(std::strlen(title)));
      if (words.size() < 2) continue;
      const auto hard = ParseInteger(words[1]);
      if (hard || words[1] == "unlimited") table[item].hard = hard.value_or(-1);
    }
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<LimitRule> ParseLimitRules(std::string_view text) {
  std::vector<LimitRule> rules;
  for (std::string_view line : Split(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const auto words = SplitWords(line);
    if (words.size() != 4) continue;
    if (words[1] != "soft" && words[1] != "hard" && words[1] != "-") continue;
    const auto item = std::ranges::find(kItems, words[2], &std::pair<std::string_view, std::int64_t>::first);
    if (item == kItems.end()) continue;
    const auto value = ValueOf(words[3], item->second);
    if (value) rules.push_back({std::string(words[0]), std::string(words[1]), std::string(words[2]), *value});
  }
  return rules;
}

LimitTable LimitsOf(const std::vector<LimitRule>& rules, const User& user,
                    const std::function<bool(const std::string& group)>& is_in_group) {
  LimitTable table;
  std::map<std::string, std::pair<Closeness, Closeness>> closest;  // Precedence of the soft and the hard limit.
  std::map<std::string, Closeness> known;
  for (const LimitRule& rule : rules) {
    auto at = known.find(rule.domain);
    if (at == known.end()) at = known.emplace(rule.domain, HowClose(rule.domain, user, is_in_group)).first;
    if (at->second == Closeness::kNone) continue;
    auto& [soft, hard] = closest[rule.item];
    LimitPair& pair = table[rule.item];
    if (rule.type != "hard" && at->second >= soft) soft = at->second, pair.soft = rule.value;
    if (rule.type != "soft" && at->second >= hard) hard = at->second, pair.hard = rule.value;
  }
  return table;
}

std::map<std::string, std::int64_t> UnderRules(std::map<std::string, std::int64_t> limits, const LimitTable& rules) {
  // Hard limits are set with root's rights, so the submitter may not choose them.
  std::erase_if(limits, [](const auto& limit) { return limit.first.ends_with(".hard"); });
  for (const auto& [item, pair] : rules) {
    if (pair.soft) limits.try_emplace(item, *pair.soft);
    if (!pair.hard) continue;
    limits[item + ".hard"] = *pair.hard;
    const auto soft = limits.try_emplace(item, *pair.hard).first;
    const bool is_above = soft->second < 0 || soft->second > *pair.hard;
    if (*pair.hard >= 0 && is_above) soft->second = *pair.hard;
  }
  return limits;
}

std::vector<SystemLimit> SystemLimitsOf(const std::map<std::string, std::int64_t>& limits) {
  std::vector<SystemLimit> out;
  for (const auto& [name, value] : limits) {
    const auto known = std::ranges::find(kSystemLimits, name, &std::pair<std::string_view, int>::first);
    if (known == kSystemLimits.end()) continue;
    SystemLimit limit{known->second, ValueOf(value), std::nullopt};
    if (const auto hard = limits.find(name + ".hard"); hard != limits.end()) limit.hard = ValueOf(hard->second);
    out.push_back(limit);
  }
  return out;
}

void SetSystemLimits(std::span<const SystemLimit> limits) {
  for (const SystemLimit& limit : limits) {
    const auto resource = static_cast<__rlimit_resource>(limit.resource);
    rlimit value = {};
    ::getrlimit(resource, &value);
    // setrlimit refuses the whole call if a value exceeds the system's maximum or what we may raise.
    const rlimit ruled = {std::min(limit.soft, limit.hard.value_or(0)), limit.hard.value_or(0)};
    if (limit.hard && ::setrlimit(resource, &ruled) == 0) continue;
    value.rlim_cur = std::min(limit.soft, value.rlim_max);
    ::setrlimit(resource, &value);
  }
}

const LimitTable& UserLimits::Of(std::int64_t uid, std::int64_t gid, Time now) {
  Entry& entry = entries_[uid];
  if (entry.read_at != kNoTime && now - entry.read_at < kKept) return entry.table;
  const auto account = AccountNameOf(uid);
  const User user{uid, gid, account ? account->name : ""};
  std::vector<std::string> paths;
  std::error_code none;
  // If reading the folder fails midway, the entries so far are used; a range-for would throw.
  for (std::filesystem::directory_iterator at(folder_, none), end; !none && at != end; at.increment(none)) {
    if (at->path().extension() == ".conf") paths.push_back(at->path().string());
  }
  std::ranges::sort(paths);
  std::string text = ReadAll(file_);
  for (const std::string& path : paths) text += "\n" + ReadAll(path);
  entry.table = LimitsOf(ParseLimitRules(text), user, [&user](const std::string& group) {
    return IsInGroup(static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid), group);
  });
  if (user.uid != 0) AddLimitsOfLogins(entry.table);
  entry.read_at = now;
  return entry.table;
}

}  // namespace divvy
