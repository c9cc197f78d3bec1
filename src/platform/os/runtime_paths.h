// The paths through which a daemon and its clients find each other. Both sides compute them with the same rule, once,
// from the environment.
#pragma once

#include <string>

namespace divvy {

struct RuntimePaths {
  std::string state;  // Holds the database, logs and runs.
  std::string socket;
  std::string config;     // Path of divvy.toml, whether or not it exists.
  std::string logs;       // One file per job.
  std::string runs;       // Run records. In a machine-wide installation the launcher owns this folder.
  std::string emulation;  // Stand-in GPUs. In a machine-wide installation the launcher owns this folder.
  /// Files with public keys of launchers, as text that all users can read: the key of this machine's launcher, and the
  /// key of the launcher on the controller's machine, which root stored here. Empty if there is no launcher.
  std::string launcher_key;
  std::string controllers_key;
  std::string home;  // DIVVY_HOME if it decided the paths; else empty.
  /// A file whose content changes at every boot of the machine. A private daemon reads the file named by
  /// DIVVY_BOOT_ID_FILE instead, so that a test can simulate a reboot.
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
  bool is_machine_wide = false;
};

/// Returns the paths of DIVVY_HOME if that is set. Otherwise returns the machine-wide ones (/run/divvy, /var/lib/divvy)
/// if we are root or the daemon's user, or if the machine-wide daemon's or launcher's socket exists. Otherwise returns
/// the user's own: $XDG_RUNTIME_DIR/divvy and $XDG_STATE_HOME/divvy, with their usual fallbacks.
RuntimePaths FindPlaces();

}  // namespace divvy
