// The launcher of a served machine: the only process there that is root and takes words from one that is not.
//
//   daemon (user divvy) --(launches)--> launcher --fork--> one for this daemon --fork--> guard, supervisor --> the job
//                       --(errands)---> launcher
//
// Only processes of the daemon's user may connect. What they may have done, and by which right, is in root_errand.h and
// user_right.h; docs/security.md has the page about what the launcher believes.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/root_errand.h"

namespace divvy {

/// Where a served machine's launcher is and keeps what is its own.
struct LauncherPlaces {
  std::string launches = "/run/divvy-launcher/launches";  // Stream: frames of launch_message.h.
  std::string errands = "/run/divvy-launcher/errands";    // Messages of root_errand.h.
  std::string key = "/var/lib/divvy-launcher/right.key";
  std::string public_key;  // Of that key, as KeyText, for everybody to read; empty: it is not written.
};

struct LauncherServiceOptions {
  LauncherPlaces places;
  ErrandSetup errands;                              // The run directory is made (2711, of root and the daemon's group).
  std::function<void(ErrandSetup& setup)> refresh;  // Reads root's settings again, for each daemon that connects.
  SeatEntry seat;
  bool leaves_when_idle = false;  // Ends some seconds after the last daemon has gone.
};

/// Listens; the process is root, has one thread and no descriptors but 0, 1 and 2. kAlreadyExists where another
/// launcher serves there.
class LauncherService {
 public:
  static Result<std::unique_ptr<LauncherService>> Open(LauncherServiceOptions options);
  /// Returns when it is told to end (SIGTERM), or leaves because it is idle. Launchers that serve a daemon go on.
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
  Descriptor launches_;
  Descriptor errands_;
  Descriptor reports_;
  std::vector<Descriptor> asking_;
  std::set<std::int64_t> launchers_;  // Those for a daemon, by pid.
};

}  // namespace divvy
