// Messages between daemon and supervisors: commands to a supervisor's control socket, and reports to the daemon's
// report socket. Both are single datagrams of key=value lines. Both sides check the sender's credentials, which the
// kernel provides: only root and the daemon's own user are accepted. Credentials alone are not enough for a command,
// because a user may trick a root process into writing to a socket that the user chose. So a command must also contain
// the job's secret from the run record (0600). The report socket needs none: it is a file to which only the daemon's
// user may connect.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/pty.h"
#include "platform/os/unique_fd.h"
#include "platform/supervisor/run_record.h"

namespace divvy {

// --- Reports -----------------------------------------------------------------------------------------------------

struct SupervisorReport {
  enum class Kind {
    kPrepared,  // A gang's node allocation waits for SendGo: record.port; 0: it is still being prepared.
    kDelayed,   // It is not started yet, and record.delay says why; it can be stopped.
    kStarted,   // The program runs: record.process, record.started.
    kExited,    // All its processes are gone, or it could not be started: record.exit, record.ended.
    kDetached,  // Client `attachment` left the job's terminal; its descriptors are closed.
  };
  Kind kind = Kind::kStarted;
  RunRecord record;
  std::uint64_t attachment = 0;
};

/// Creates RUN_DIRECTORY/reports, replacing a socket left by an earlier daemon. Non-blocking. The caller closes it.
Result<int> BindReportSocket(const std::string& run_directory);

/// Returns the next report, or nullopt if there is none now. Drops reports from other users.
std::optional<SupervisorReport> ReceiveReport(int report_socket);

// --- Commands ----------------------------------------------------------------------------------------------------
// All commands are idempotent and use only record.{job, attempt, control, secret}. kUnreachable: the supervisor is
// gone, so the job has ended or is orphaned; the record says which. kLimitExceeded: its socket's queue is full; try
// again.

/// Sends `signal` to all of the job's processes, and SIGKILL after `grace` to those still alive. A second call can only
/// shorten the grace.
Status SendStop(const RunRecord& record, int signal, Duration grace);

Status SendSignal(const RunRecord& record, int signal, SignalReach reach = SignalReach::kTree);

Status SendPause(const RunRecord& record);
Status SendContinue(const RunRecord& record);

/// Changes the job's time limit, which counts from the same start as the first limit; 0: no limit. A limit that has
/// already passed ends the job.
Status SendTimeLimit(const RunRecord& record, Duration limit);

/// Attaches copies of `in` and `out` to the job's terminal until `in` delivers Ctrl-P Ctrl-Q or ends, `out` fails, or
/// the job ends. Starts with the latest output (64 KiB). kDetached with `attachment` follows if the job continues.
/// `out` should be a socket or a pipe: then a slow client is buffered and never blocks the job.
Status SendAttach(const RunRecord& record, std::uint64_t attachment, int in, int out, WindowSize window);
Status SendResize(const RunRecord& record, WindowSize window);

/// Starts a prepared node allocation of a gang: publishes what StageGo (platform/records/gang_files.h) prepared.
/// Succeeds if it has already started.
Status SendGo(const RunRecord& record);

/// Starts a process in the job for an outside caller who starts or signals a step in it (platform/steps/step_inside.h).
/// The process talks to the caller over a copy of `socket`. Nothing is reported to us: errors go to the caller over
/// `socket`; if the job was left to a guard, the socket may just be closed. `stops_only`: the caller may signal steps
/// but start none.
Status SendStepCall(const RunRecord& record, int socket, bool stops_only);

/// Sends a command to a supervisor that accepts commands only from root, for a daemon that is not root. It has the
/// parameters and errors of SendCommandText.
using CommandRelay = std::function<Status(const RunRecord& record, std::string_view text, std::span<const int> fds)>;
/// From now on, commands to supervisors that were started under a root daemon, and that accept commands only from root,
/// are sent by `send`.
void RelayRootCommands(CommandRelay send);
/// Sends one command text unchanged; the functions above compose such texts.
Status SendCommandText(const RunRecord& record, std::string_view text, std::span<const int> fds);

/// Requests that the supervisor reports the job's present state again: kDelayed, kPrepared or kStarted.
Status SendPing(const RunRecord& record);

// --- The supervisor's side -----------------------------------------------------------------------------------------

struct SupervisorCommand {
  std::string text;
  std::vector<ForeignDescriptor> descriptors;
};

/// Returns 256 random bits as hexadecimal digits, for RunRecord::secret.
std::string DrawControlSecret();
/// True if a command is for the job and attempt of `record` and contains its secret. The time that it takes does not
/// depend on how much of the secret is correct.
bool IsCommandFor(const RecordFields& command, const RunRecord& record);

/// Opens a datagram socket on an address chosen by the kernel (abstract, so that no file is left behind), and returns
/// both. It accepts nothing before AdmitCommands.
Result<std::pair<Descriptor, std::string>> OpenControlSocket();
/// From now on the socket accepts only datagrams that begin with this secret of DrawControlSecret; empty: none. The
/// kernel drops all others while they are being sent, so that no descriptor of another user gets here.
Status AdmitCommands(int control_socket, const std::string& secret);
/// Receives one datagram. Returns a command from root or `uid`; nullopt if there was none or another user sent it.
/// Receives only one, so that a user who floods the socket cannot keep a supervisor from its job.
std::optional<SupervisorCommand> ReceiveCommand(int control_socket, uid_t uid);
/// Whether a sender waits while the queue of the daemon's socket is full.
enum class WhenFull { kReturn, kWait };
/// Sends one report to the daemon. Returns false if the daemon's queue is full, which is possible only with kReturn.
/// Returns true otherwise, even if no daemon listens: the next daemon reads the run record.
bool SendReport(int control_socket, const std::string& address, std::string_view text, WhenFull when_full);

/// A supervisor's reports, kept until the daemon's socket accepts them.
class SupervisorReports {
 public:
  /// Reports `record`, and sends from the socket `control`. Both must outlive this object.
  SupervisorReports(const RunRecord& record, const Descriptor& control) : record_(record), control_(control) {}

  /// Reports the record as it is now: "started", "exited" and so on. `attachment`: of a viewer that has detached.
  void Report(std::string_view kind, std::uint64_t attachment = 0);
  /// Reports how far the job's start has come.
  void ReportState();
  /// Sends as many reports as the socket accepts; with WhenFull::kWait, all of them.
  void Flush(WhenFull when_full);
  bool is_empty() const { return unsent_.empty(); }

 private:
  const RunRecord& record_;
  const Descriptor& control_;
  std::vector<std::string> unsent_;
};

}  // namespace divvy
