#include "daemon/remote_door.h"

#include <pwd.h>
#include <unistd.h>

#include <utility>

namespace divvy {

Status OpenRemoteDoor(HttpServer& server, const HostPort& listen, const DoorNames& names, const TlsIdentity& identity,
                      Routes::Remote& remote) {
  DIVVY_TRY(TlsContext context, TlsContext::Server(identity));
  DIVVY_CHECK(server.ListenTls(listen, std::move(context)));
  // Everybody's address is nobody's: others come by a name.
  const bool is_any = listen.host == "0.0.0.0" || listen.host == "::";
  remote.address = {is_any ? names.host : listen.host, listen.port};
  if (!names.chosen.empty()) {
    DIVVY_TRY(remote.address, ParseHostPort(names.chosen, listen.port));
  }
  remote.fingerprint = identity.fingerprint;
  return {};
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
