// What /etc/security/limits.conf and limits.d/*.conf say about a user's resource limits on this machine, as a login
// through PAM would give them (limits.conf(5)); divvy opens no PAM session.
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

/// In setrlimit's units; -1: unlimited. Nothing: no rule says.
struct LimitPair {
  std::optional<std::int64_t> soft;
  std::optional<std::int64_t> hard;
  bool operator==(const LimitPair&) const = default;
};
/// By item: "nofile", "memlock".
using LimitTable = std::map<std::string, LimitPair>;

/// One line that can be understood; others are passed over, as PAM does.
struct LimitRule {
  std::string domain;  // "ada", "@group", "*", "1000:2000", "@100:".
  std::string type;    // "soft", "hard", "-".
  std::string item;
  std::int64_t value = 0;
};
std::vector<LimitRule> ParseLimitRules(std::string_view text);

/// A rule that names the user or a range of uids goes before one that names a group of theirs or a range of gids, and
/// that before "*"; among equals the last one counts. Root is bound by rules that name root alone.
LimitTable LimitsOf(const std::vector<LimitRule>& rules, const User& user,
                    const std::function<bool(const std::string& group)>& is_in_group);

/// The submitter's soft limits under the rules here: "NAME" is the soft one, "NAME.hard" the hard one where a rule
/// says; what the submitter brought under such a name is dropped. A soft limit of a rule counts where they brought
/// none.
std::map<std::string, std::int64_t> UnderRules(std::map<std::string, std::int64_t> limits, const LimitTable& rules);

/// One limit as setrlimit(2) takes it.
struct SystemLimit {
  int resource = 0;
  rlim_t soft = 0;
  std::optional<rlim_t> hard;  // Absent: the hard limit stays as it is.
};
/// Those of UnderRules() that the system knows.
std::vector<SystemLimit> SystemLimitsOf(const std::map<std::string, std::int64_t>& limits);
/// Sets them for this process; one that it may not set leaves the hard limit as it is. Allocates nothing.
void SetSystemLimits(std::span<const SystemLimit> limits);

/// Reads the files, and keeps what they say about a user for half a minute. An account without a name has the rules of
/// its number and groups. The hard limits of locked memory and open files that no rule names are those of process 1, as
/// a login has them: a daemon's own are raised by its unit, and are not for jobs. Cost: the first time, two files and a
/// question to the name service, which may take as long as a network answers.
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
