#include "daemon/accounts.h"

#include <pwd.h>
#include <unistd.h>

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
