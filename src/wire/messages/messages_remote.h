// The messages of tokens: what lets a command line on another machine speak for a user here. See messages.h for the
// conventions.
#pragma once

#include <cstdint>
#include <string>

namespace divvy::wire {

struct TokenRequest {
  std::string user;                  // Empty: the caller.
  std::string role = "user";         // "viewer" | "user" | "admin" | "node" (lets a machine join as a node).
  std::string label;                 // To know it by.
  double lives_s = 30 * 24 * 3600.;  // 0: for ever.
  std::string at;                    // "host" or "host:port" that the line is to name; empty: as the daemon knows it.
  std::int64_t uses = 1;             // Of role "node": how many machines may join by it.
};
struct TokenAnswer {
  std::string id;
  std::string line;  // Shown once: its secret is nowhere else.
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
  std::int64_t uses_left = 0;  // Of role "node".
};
struct TokenName {
  std::string id;
};

/// A foreground job's caller comes back after a restart of the controller.
struct RejoinRequest {
  bool had_streams = false;  // On the other machine on which the job runs;
  std::int64_t output = 0;   // so many bytes of these have come.
  std::int64_t error = 0;
  bool has_left = false;  // Its terminal, which is on this machine, was left while there was no controller to hear it.
};

}  // namespace divvy::wire
