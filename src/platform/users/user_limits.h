// The resource limits that /etc/security/limits.conf and limits.d/*.conf give a user on this machine, as a login
// through PAM would apply them (limits.conf(5)). divvy opens no PAM session.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job.h"

namespace divvy {

/// The soft and the hard limit of one item, in setrlimit's units; -1 is unlimited. Unset if no rule applies.
struct LimitPair {
  std::optional<std::int64_t> soft;
  std::optional<std::int64_t> hard;
  bool operator==(const LimitPair&) const = default;
};
/// Limits by item, such as "nofile" or "memlock".
using LimitTable = std::map<std::string, LimitPair>;

/// One valid line of limits.conf. Invalid lines are skipped, as PAM does.
struct LimitRule {
  std::string domain;  // "ada", "@group", "*", "1000:2000", "@100:".
  std::string type;    // "soft", "hard", "-".
  std::string item;
  std::int64_t value = 0;
};
std::vector<LimitRule> ParseLimitRules(std::string_view text);

/// Returns the limits that the rules give `user`. A rule for the user or a range of uids beats one for a group or a
/// range of gids, which beats "*". Among equal rules the last one wins. Only rules that name root apply to root.
LimitTable LimitsOf(const std::vector<LimitRule>& rules, const User& user,
                    const std::function<bool(const std::string& group)>& is_in_group);

/// Applies the rules to the soft limits that the submitter brought. In the result "NAME" is the soft limit, and
/// "NAME.hard" the hard limit if a rule sets one. "NAME.hard" entries of the submitter are dropped. A rule's soft limit
/// applies only if the submitter brought none.
std::map<std::string, std::int64_t> UnderRules(std::map<std::string, std::int64_t> limits, const LimitTable& rules);

/// One limit in the form that setrlimit(2) takes.
struct SystemLimit {
  int resource = 0;
  rlim_t soft = 0;
  std::optional<rlim_t> hard;  // Optional. If unset, the hard limit is not changed.
};
/// Converts limits of UnderRules() for SetSystemLimits(). Leaves out the ones that setrlimit(2) does not know.
std::vector<SystemLimit> SystemLimitsOf(const std::map<std::string, std::int64_t>& limits);
/// Sets the limits for this process. If it may not set a hard limit, that one stays unchanged. Allocates nothing.
void SetSystemLimits(std::span<const SystemLimit> limits);

/// Reads the files and caches a user's limits for half a minute. An account without a name gets the rules for its uid
/// and groups. If no rule sets the hard limit of locked memory or open files, process 1's limit applies, as at a login:
/// the daemon's own limits are raised by its unit and are not meant for jobs. Cost at the first call: reads the files
/// and queries the name service, which may take as long as a network lookup.
class UserLimits {
 public:
  UserLimits() = default;
  UserLimits(std::string file, std::string folder) : file_(std::move(file)), folder_(std::move(folder)) {}
  const LimitTable& Of(std::int64_t uid, std::int64_t gid, Time now);

 private:
  struct Entry {
    LimitTable table;
    Time read_at = kNoTime;
  };
  std::string file_ = "/etc/security/limits.conf";
  std::string folder_ = "/etc/security/limits.d";
  std::map<std::int64_t, Entry> entries_;  // By uid.
};

}  // namespace divvy
