// Finds out which user sent a request, and with which rights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "daemon/api/call/api_ports.h"
#include "daemon/http/http_server.h"
#include "driver/controller_driver.h"

namespace divvy {

/// Used on the loop's thread only. Names and groups of users are cached for half a minute.
class CallerIdentifier {
 public:
  CallerIdentifier(ControllerDriver& driver, Admins& admins, const ApiPorts& ports)
      : driver_(driver), admins_(admins), ports_(ports) {}

  /// Fails with kPermissionDenied and a remedy if the caller is unknown, or has no right to requests of this kind.
  Result<Caller> Identify(const Peer& peer, const HttpRequest& request, Touches touches);
  /// Returns those groups of the user that are members of teams.
  std::vector<std::string> GroupsOf(const User& user);

 private:
  /// Authenticates a caller on an agent's node: a user who has a job there, without administrator rights.
  Result<Caller> CallerOnNode(const Peer& peer);
  /// Authenticates a logged-in browser.
  Result<Caller> CallerAtPage(const Peer& peer, const HttpRequest& request, Touches touches);
  Caller LocalCaller(User user);
  const std::string& NameOf(std::int64_t uid);

  struct Groups {
    std::vector<std::string> asked;  // The groups that teams named at that time.
    std::vector<std::string> of;     // Those among them that the user is in.
    Time at = kNoTime;
  };
  struct KeptName {
    std::string name;
    Time until = kNoTime;  // The name is looked up again after this time.
  };

  ControllerDriver& driver_;
  Admins& admins_;
  const ApiPorts& ports_;
  std::map<std::int64_t, Groups> groups_;   // By uid.
  std::map<std::int64_t, KeptName> names_;  // By uid.
};

}  // namespace divvy
