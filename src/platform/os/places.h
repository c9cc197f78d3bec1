// Where a daemon and its clients meet. Read from the environment once; both sides use the same rule.
#pragma once

#include <string>

namespace divvy {

struct Places {
  std::string state;  // Database, logs, runs.
  std::string socket;
  std::string config;     // divvy.toml, whether or not it exists.
  std::string logs;       // One file a job.
  std::string runs;       // Run records; the machine's are its launcher's.
  std::string emulation;  // Stand-in GPUs; the machine's are its launcher's.
  /// Public keys of launchers, as text, for everybody to read: of this machine's own, and of that on the machine of
  /// this machine's controller, which root has stored. Empty where there is no launcher.
  std::string launcher_key;
  std::string controllers_key;
  std::string home;  // DIVVY_HOME where that is what decided; else empty.
  /// Holds another text after every boot of the machine. A private daemon reads DIVVY_BOOT_ID_FILE's instead, so that
  /// a test can say that there was a reboot.
  std::string boot_id = "/proc/sys/kernel/random/boot_id";
  bool is_machine_wide = false;
};

/// DIVVY_HOME's daemon; else the machine's (/run/divvy, /var/lib/divvy) when we are root or the daemon's user, or its
/// socket or its launcher's is there; else the user's own: $XDG_RUNTIME_DIR/divvy and $XDG_STATE_HOME/divvy, with their
/// usual stand-ins.
Places FindPlaces();

}  // namespace divvy
