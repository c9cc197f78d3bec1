#include "daemon/auth/accounts.h"

#include <pwd.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "platform/users/user_identity.h"

namespace divvy {

std::string UserName(std::int64_t uid) {
  const auto account = AccountNameOf(uid);
  return account ? account->name : "uid " + std::to_string(uid);
}

std::optional<User> FindAccount(std::string_view name) {
  char buffer[16384];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwnam_r(std::string(name).c_str(), &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr)
    return std::nullopt;
  return User{found->pw_uid, found->pw_gid, found->pw_name};
}

std::optional<User> FindUser(std::string_view name) {
  const std::optional<User> user = FindAccount(name);
  if (user && ::geteuid() != 0 && static_cast<std::int64_t>(::geteuid()) != static_cast<std::int64_t>(user->uid))
    return std::nullopt;
  return user;
}

std::optional<User> FindUserOf(bool is_machine_wide, std::string_view name) {
  return is_machine_wide ? FindAccount(name) : FindUser(name);
}

bool HasAccount(std::string_view name) { return FindAccount(name).has_value(); }

Error CannotRunAs(std::string_view name, std::string_view what) {
  return InvalidArgument("this daemon cannot run jobs as '" + std::string(name.substr(0, 64)) + "'; " +
                         std::string(what) +
                         " must be for a user of this machine, or for yourself on a private daemon");
}

FindUserByName KeptUsers(FindUserByName find, std::function<std::chrono::steady_clock::time_point()> now) {
  using SteadyClock = std::chrono::steady_clock;
  struct Known {
    std::mutex mutex;
    std::map<std::string, std::pair<std::optional<User>, SteadyClock::time_point>> users;
  };
  constexpr std::size_t kMost = 10'000;
  static constexpr std::chrono::seconds kKept{60};
  static constexpr std::chrono::seconds kKeptMissing{3};
  return [known = std::make_shared<Known>(), find = std::move(find),
          now = std::move(now)](const std::string& name) -> std::optional<User> {
    {
      const std::lock_guard lock(known->mutex);
      const auto at = known->users.find(name);
      if (at != known->users.end() && now() - at->second.second < (at->second.first ? kKept : kKeptMissing))
        return at->second.first;
    }
    const std::optional<User> user = find(name);
    const std::lock_guard lock(known->mutex);
    if (known->users.size() >= kMost) known->users.clear();
    known->users.insert_or_assign(name, std::pair(user, now()));
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
