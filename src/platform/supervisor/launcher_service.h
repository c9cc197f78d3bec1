// The launcher service: the only process on its machine that runs as root and accepts requests from a process that does
// not.
//
//   daemon (user divvy) --(launches)--> service --fork--> launcher of this daemon --fork--> guard, supervisor --> the
//   job
//                       --(errands)---> service
//
// Only processes of the daemon's user may connect. root_errand.h and user_right.h say what they may request, and with
// which right. docs/security.md describes what the launcher trusts.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/supervisor/launch_request.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

/// Paths of the launcher service's sockets and keys.
struct LauncherPaths {
  std::string launches = "/run/divvy-launcher/launches";  // Stream socket: frames of launch_message.h.
  std::string errands = "/run/divvy-launcher/errands";    // Message socket: messages of root_errand.h.
  std::string key = "/var/lib/divvy-launcher/right.key";
  std::string public_key;  // File for the public key, as KeyText, readable by all users; empty: not written.
};

struct LauncherServiceOptions {
  LauncherPaths places;
  ErrandSetup errands;  // The run directory is created with mode 2751 and belongs to root and the daemon's group.
  // Reads root's settings again; called for each daemon that connects.
  std::function<void(ErrandSetup& setup)> refresh;
  AllocationEntry allocation_main;
  bool leaves_when_idle = false;  // Exits some seconds after the last daemon has disconnected.
};

/// Listens for daemons. Requires: the process is root and has one thread and no descriptors except 0, 1 and 2.
/// kAlreadyExists: another launcher service listens there.
class LauncherService {
 public:
  static Result<std::unique_ptr<LauncherService>> Open(LauncherServiceOptions options);
  /// Serves daemons until SIGTERM arrives, or until the service has been idle for some time. Launchers that serve a
  /// daemon keep running.
  void Run();

 private:
  explicit LauncherService(LauncherServiceOptions options, RightIssuer issuer)
      : options_(std::move(options)), issuer_(std::move(issuer)) {}
  void Refresh();
  void AcceptLaunches();
  void AcceptErrands();
  bool IsDaemon(int connection) const;

  LauncherServiceOptions options_;
  RightIssuer issuer_;
  RightChecker checker_;
  RunningReads reads_;
  Descriptor launches_;
  Descriptor errands_;
  Descriptor reports_;
  std::vector<Descriptor> asking_;
  std::set<std::int64_t> launchers_;  // Pids of the children that each serve one daemon.
};

}  // namespace divvy
