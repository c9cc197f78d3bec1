#include "daemon/accounts.h"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace divvy {

std::string UserName(std::int64_t uid) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(uid), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return found->pw_name;
  return "uid " + std::to_string(uid);
}

std::optional<User> FindUser(std::string_view name) {
  char buffer[16384];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(std::string(name).c_str(), &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr)
    return std::nullopt;
  if (::geteuid() != 0 && ::geteuid() != found->pw_uid) return std::nullopt;
  return User{found->pw_uid, found->pw_gid, found->pw_name};
}

std::function<std::optional<User>(const std::string& name)> KeptUsers() {
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::mutex mutex;
    std::map<std::string, std::pair<std::optional<User>, Clock::time_point>> users;
  };
  constexpr std::size_t kMost = 10'000;
  return [known = std::make_shared<Known>()](const std::string& name) {
    const std::lock_guard lock(known->mutex);
    const Clock::time_point now = Clock::now();
    const auto at = known->users.find(name);
    // Who is not known may be made at any moment.
    if (at != known->users.end() && at->second.first && now - at->second.second < std::chrono::minutes(1))
      return at->second.first;
    if (known->users.size() >= kMost) known->users.clear();
    const std::optional<User> user = FindUser(name);
    known->users.insert_or_assign(name, std::pair(user, now));
    return user;
  };
}

std::vector<std::string> LoginEnvironment(const User& user) {
  std::vector<std::string> pairs = {"USER=" + user.name, "LOGNAME=" + user.name, "PATH=/usr/local/bin:/usr/bin:/bin"};
  char buffer[16384];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(static_cast<uid_t>(user.uid), &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr) {
    pairs.push_back(std::string("HOME=") + found->pw_dir);
    pairs.push_back(std::string("SHELL=") + found->pw_shell);
  }
  return pairs;
}

}  // namespace divvy
