// The messages of tokens, which let a command line on another machine act for a user here, and of the controllers of a
// cluster. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace divvy::wire {

struct TokenRequest {
  std::string user;                     // Empty: the caller.
  std::string role = "user";            // "viewer" | "user" | "admin" | "node" (lets a machine join as a node).
  std::string label;                    // A name for people.
  double lifetime_s = 30 * 24 * 3600.;  // Lifetime. 0: it never expires.
  std::string at;         // "host" or "host:port" of the controller in the printed line. Empty: the daemon's
                          // own address.
  std::int64_t uses = 1;  // For role "node": how many nodes may join with it.
};
struct TokenAnswer {
  std::string id;
  std::string line;  // Shown only once: the secret is stored nowhere else.
  std::string message;
};
struct TokenView {
  std::string id;
  std::string user;
  std::string role;
  std::string label;
  std::string made_by;
  double made_at = 0;
  double expires = 0;  // 0: never.
  bool has_expired = false;
  std::int64_t uses_left = 0;  // For role "node".
};
struct TokenName {
  std::string id;
};

/// GET /leader: which controller leads. Status 503 if it is not the one that answers.
struct LeaderView {
  bool leads = false;                    // The controller that answers leads.
  std::string name;                      // The leader's. Empty: none leads at the moment.
  std::string address;                   // "gpu1.lab:7433". Empty: it does not listen for other machines.
  std::int64_t epoch = 0;                // 0: the store has no lease.
  std::vector<std::string> controllers;  // The addresses of all controllers.
};
struct ControllerView {
  std::string name;
  std::string address;
  std::string version;
  std::string role;        // "leader" | "standby" | "silent" (does not report).
  std::int64_t epoch = 0;  // The leader's; 0 for others.
  double since = 0;        // When the leader took the lease, by the database's clock.
  double lag_s = 0;        // Time since its last report to the database, by the database's clock.
  double ahead_s = 0;      // By how much its clock is ahead of the database's.
};

/// Reconnects the caller of a foreground job after a restart of the controller.
struct RejoinRequest {
  bool had_streams = false;  // The caller had streams to a job on another node.
  std::int64_t output = 0;   // Bytes of standard output that it received.
  std::int64_t error = 0;
  bool has_left = false;  // The caller left its terminal, on this machine, while the controller was down.
};

}  // namespace divvy::wire
