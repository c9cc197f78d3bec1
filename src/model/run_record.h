// A started job: the content of its run record, which its supervisor writes (platform/supervisor/run_record.h), and of
// its supervisor's reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// The file from which a supervisor learns until when jobs may run, if an agent sets that (platform/os/lease_file.h).
struct LeasePlace {
  std::string file;     // Absolute path; empty: no limit, as under a daemon without agent.
  std::string boot_id;  // Id of this boot, one word. A note written in another boot is void.

  bool is_set() const { return !file.empty(); }
  friend bool operator==(const LeasePlace&, const LeasePlace&) = default;
};

struct RunRecord {
  JobId job;
  std::uint32_t attempt = 0;  // Number of this launch of the job.
  ProcessIdentity supervisor;
  ProcessIdentity guard;        // Takes over if the supervisor is killed; pid 0: none.
  ProcessIdentity process;      // The job's first process; pid 0 until it exists.
  std::string control;          // The supervisor's control socket, an abstract address such as "@0001f".
  std::int64_t commander = -1;  // The user who may send commands besides root; -1: only the supervisor's own user.
  std::string secret;     // Every command must contain it: 64 hexadecimal digits. Empty: record of an older release.
  std::int64_t uid = -1;  // The job's user.
  std::int64_t gid = -1;  // The user's group; -1: record of an older release.
  std::string script;     // File in the run directory that holds the job's script; empty: none.
  std::string cgroup;     // Its cgroup's directories, separated by blanks; empty: none.
  std::string own_tmp;    // The folder that the job sees as /tmp; empty: /tmp itself.
  LeasePlace lease;       // Applies to the guard as well.
  std::string about;      // Describes the job (LaunchRequest::about); may be empty.
  // Wall time just before the program was executed; for a gang, when it got the signal to start.
  Time started = kNoTime;
  bool is_part = false;    // A node allocation of a gang: its process waits until all nodes are ready.
  std::uint16_t port = 0;  // Set when a node allocation is ready: the TCP port on which it listens for the other nodes.
  bool has_gone = false;   // The node allocation got the signal to start.
  std::optional<Exit> exit;
  Time ended = kNoTime;              // When the last of its processes had gone. Set only with `exit`.
  bool was_cut_off = false;          // The node's lease stopped it. Set only with `exit`.
  std::int64_t refused_devices = 0;  // How often it was denied a device, if that is counted. Set only with `exit`.
  std::string delay;                 // Why its start is delayed. Set only in reports, before there is a process.
  bool is_supervisor_alive = false;  // Derived from the lock by ScanRunDirectory; never written.

  /// True for a node's part of a gang that waits for the signal to start: its process exists, but has not run any code
  /// of the user.
  bool awaits_go() const { return is_part && !has_gone && !exit; }
  bool has_started() const { return process.pid != 0 && !awaits_go(); }

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

enum class RunState {
  kWatched,       // Its supervisor, or the guard that takes over, is alive and will report.
  kEnded,         // `exit` says how it ended.
  kOrphaned,      // Supervisor and guard were killed, but the job's process runs: AdoptedProcess waits for it.
  kVanished,      // All three are gone, and how the job ended is unknown.
  kNeverStarted,  // The supervisor was killed before it started anything.
};

}  // namespace divvy
