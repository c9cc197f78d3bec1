// The run record: one small file per started job, RUN_DIRECTORY/ID, written by the job's supervisor, read by the daemon
// after a restart. It says who watches the job, which process it is and, once it is over, how it ended. The supervisor
// holds a lock on it for as long as it lives. The format is described in docs/run-record.md.
//
// Invariant: a record names the job's process before any of the job's code has run, and holds an exit before the
// supervisor leaves; so whatever is killed when, the record and /proc together say what is true.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "platform/os/record_text.h"

namespace divvy {

/// Until when the jobs of a machine may run, where its agent says so (platform/os/lease_file.h).
struct LeasePlace {
  std::string file;     // Absolute; empty: for as long as they like, as under a daemon.
  std::string boot_id;  // Of this boot: one word. What another one wrote there is void.

  bool is_set() const { return !file.empty(); }
  friend bool operator==(const LeasePlace&, const LeasePlace&) = default;
};

struct RunRecord {
  JobId job;
  std::uint32_t attempt = 0;  // Which launch of the job this is.
  ProcessIdentity supervisor;
  ProcessIdentity guard;        // Takes over when the supervisor is killed; pid 0: none.
  ProcessIdentity process;      // The job's first process; pid 0 until it exists.
  std::string control;          // Where the supervisor listens: an abstract socket address, "@0001f".
  std::int64_t commander = -1;  // Who may send commands besides root; -1: only the user that the supervisor is.
  std::string secret;           // What every command must bring: 64 hexadecimal digits; empty: an older release's.
  std::int64_t uid = -1;        // Whose job it is.
  std::int64_t gid = -1;        // Of that user; -1: of an older release's record, which has none.
  std::string script;           // File in the run directory that holds its script; empty: none.
  std::string cgroup;           // Its cgroup's directories, with blanks between; empty: none.
  std::string own_tmp;          // What stands in for /tmp in its eyes; empty: /tmp itself.
  LeasePlace lease;             // Also for the guard.
  std::string about;            // Describes the job (LaunchRequest::about); may be empty.
  Time started = kNoTime;       // Wall time just before the job's program was executed; of a gang: when it went.
  bool is_part = false;         // Of a job on several machines: its process waits until all of them are ready.
  std::uint16_t port = 0;       // Such a part is ready, and hears the others there (TCP).
  bool has_gone = false;        // Such a part has been told to go.
  std::optional<Exit> exit;
  Time ended = kNoTime;              // When the last of its processes had gone. Only with `exit`.
  bool was_cut_off = false;          // It was stopped by its machine's lease. Only with `exit`.
  std::int64_t refused_devices = 0;  // How often it was refused a device, where that is counted. Only with `exit`.
  std::string delay;                 // Why its start is delayed. Only in reports, before there is a process.
  bool is_supervisor_alive = false;  // As the lock says; filled by ScanRunDirectory, never written.

  /// Nothing of the user's runs yet, though there is a process.
  bool awaits_go() const { return is_part && !has_gone && !exit; }
  bool has_started() const { return process.pid != 0 && !awaits_go(); }

  friend bool operator==(const RunRecord&, const RunRecord&) = default;
};

enum class RunState {
  kWatched,       // Its supervisor lives, or the guard that takes over from it, and will report.
  kEnded,         // `exit` says how.
  kOrphaned,      // Supervisor and guard were killed, the job's process goes on: AdoptedProcess waits for it.
  kVanished,      // All three are gone, and nobody saw how it ended.
  kNeverStarted,  // The supervisor was killed before it had started anything.
};
/// Looks at /proc where the record does not decide it.
RunState StateOf(const RunRecord& record);

/// Every record in `run_directory`, ascending by job. A file that is no record is left out; an empty one (its
/// supervisor was killed at once) is a record of that job with nothing known. Requires: no launcher of an earlier
/// daemon is alive there (ProcessLauncher::Start has seen to that), else a job that it starts right now is missed.
Result<std::vector<RunRecord>> ScanRunDirectory(const std::string& run_directory);

/// One record; kNotFound when there is none.
Result<RunRecord> ReadRunRecord(const std::string& run_directory, JobId job);

/// Where an elastic job reads which GPUs it may use: one line as CUDA_VISIBLE_DEVICES has it, replaced as a whole.
std::string GpusFile(const std::string& run_directory, JobId job);
/// Nothing where there is none, or none that can be read.
std::optional<GpuSet> ReadGpusFile(const std::string& run_directory, JobId job);
Status WriteGpusFile(const std::string& run_directory, JobId job, GpuSet gpus);

/// Removes the file and what belongs to it (script, cgroup, list of GPUs), and sets aside the job's own /tmp, for
/// RemoveOldTmps() to remove. To be called when the end of the job is durable elsewhere. Fine when already gone.
void RemoveRunRecord(const std::string& run_directory, const RunRecord& record);

/// The parts in which a record is written: who watches, which process, how it ended.
void AddWatch(const RunRecord& record, RecordWriter& out);
void AddProcess(const RunRecord& record, RecordWriter& out);
void AddExit(const RunRecord& record, RecordWriter& out);
RunRecord ReadRecordFields(const RecordFields& fields);

}  // namespace divvy
