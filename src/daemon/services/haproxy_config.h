// The configuration of the front, the HAProxy process for all services. It depends on the services' settings only. Each
// backend has a number of servers without an address, called slots. The runtime socket gives a slot the address of a
// replica, so that replicas come and go without a reload.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "wire/services/service_messages.h"

namespace divvy {

struct FrontPlace {
  std::string directory;    // Private folder for the socket and the files.
  std::string listen_host;  // An IPv4 address; "0.0.0.0" stands for all.
  std::int64_t most_connections = 1000;
  // The IPv6 address at which the front listens too, so that no other user can take requests there. Empty: none.
  std::string listen_host6;
};

/// A service as the front needs it.
struct FrontService {
  wire::ServiceSettings settings;
  std::int64_t slots = 0;   // At least SlotsOf(settings), and not below the highest slot in which a replica is.
  std::string certificate;  // The path of the certificate and key. Empty: no TLS.
  std::string tokens;       // The path of the file with the hashes of the service's tokens. Empty: it has no tokens.
  double canary_share = 0;  // Above 0: this share of the requests goes to a second backend, with as many slots.
  std::int64_t canary_revision = 0;  // A new canary changes the configuration, so HAProxy's counters start at 0 again.
  std::int64_t uid = 0;              // The service's owner. All services of a user share one limit on connections.
};

/// Returns how many slots a service needs: for as many replicas as it may have, and for the additional ones that run
/// for a while during an update or until they are drained.
std::int64_t SlotsOf(const wire::ServiceSettings& settings);
/// Returns the backend of a service, such as "s_chat". The server in its slot 3 is "s_chat/r3".
std::string BackendOf(std::string_view service);
/// Returns the backend of its canary, such as "c_chat".
std::string CanaryBackendOf(std::string_view service);
/// Returns the configuration. `services` must have passed CheckService, and `socket` is the runtime socket's path.
std::string HaproxyConfig(const FrontPlace& place, const std::string& socket,
                          const std::vector<FrontService>& services);
/// Returns the number of slots of each backend in a configuration.
std::map<std::string, std::int64_t> SlotsIn(std::string_view config);
/// Returns the script of the action that holds requests while a service has no ready replica.
std::string_view HoldScript();

/// The state of one server, as the runtime socket sets it.
struct ServerState {
  std::string address;  // "127.0.0.1"; an IP address.
  std::int64_t port = 0;
  std::string state = "maint";  // "ready", "drain", "maint". Empty: unknown.

  friend bool operator==(const ServerState&, const ServerState&) = default;
};
/// Returns the commands that bring a server from `before` to `now`, or an empty text if nothing differs.
std::string ServerCommands(const std::string& server, const ServerState& before, const ServerState& now);

/// Returns the first line of an answer to ServerCommands that reports a failure, or an empty text.
std::string ComplaintIn(std::string_view answer);

/// A line of "show stat". Fields that HAProxy leaves empty are 0.
struct StatLine {
  std::string proxy;
  std::string server;  // "FRONTEND", "BACKEND", "r3"
  std::int64_t in_flight = 0;
  std::int64_t queued = 0;
  std::int64_t requests = 0;
  std::int64_t errors = 0;  // Answers with a status from 500 on.
  std::int64_t queue_ms = 0;
  std::int64_t answer_ms = 0;
  std::string status;  // "UP", "DOWN", "MAINT", "DRAIN", "no check"
  std::int64_t failed_checks = 0;
};
/// Parses HAProxy's answer to "show stat". Returns an empty list for any other text. The cost is linear in the text.
std::vector<StatLine> ParseStat(std::string_view csv);

}  // namespace divvy
