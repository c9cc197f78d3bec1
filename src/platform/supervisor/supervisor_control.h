// Words between daemon and supervisors: commands to a supervisor's control socket, reports to the daemon's report
// socket. Both are single datagrams of key=value lines; both sides look at the sender's credentials, which the kernel
// gives: only root and the daemon's own user count. Credentials alone are not enough for a command: whoever makes a
// process of root's write to a socket of the user's choice has them. So a command also brings the job's secret, which
// is in the run record (0600). The report socket needs none: it is a file that only the daemon's user may connect to.
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
#include "platform/os/launch_descriptor.h"
#include "platform/supervisor/run_record.h"

namespace divvy {

struct WindowSize {
  int rows = 0;  // 0: leave as it is.
  int columns = 0;
};

// --- Reports -----------------------------------------------------------------------------------------------------

struct SupervisorReport {
  enum class Kind {
    kPrepared,  // A part of a gang waits for the word to go: record.port; 0: it is being made ready.
    kDelayed,   // It is not started yet, and record.delay says why; it can be stopped.
    kStarted,   // The program runs: record.process, record.started.
    kExited,    // All its processes are gone, or it could not be started: record.exit, record.ended.
    kDetached,  // Client `attachment` left the job's terminal; its descriptors are closed.
  };
  Kind kind = Kind::kStarted;
  RunRecord record;
  std::uint64_t attachment = 0;
};

/// RUN_DIRECTORY/reports, replacing one that an earlier daemon left. Non-blocking. The caller closes it.
Result<int> BindReportSocket(const std::string& run_directory);

/// The next report; nothing when there is none now. Those from strangers are dropped.
std::optional<SupervisorReport> ReceiveReport(int report_socket);

// --- Commands ----------------------------------------------------------------------------------------------------
// All are idempotent and need record.{job, attempt, control, secret} alone. kUnreachable: the supervisor is gone, so
// the job has ended or is an orphan; the record says which. kLimitExceeded: its mailbox is full; try again.

/// `signal` to all of the job's processes, SIGKILL to what is left after `grace`. A second one can only shorten.
Status SendStop(const RunRecord& record, int signal, Duration grace);

Status SendSignal(const RunRecord& record, int signal, SignalReach reach = SignalReach::kTree);

Status SendPause(const RunRecord& record);
Status SendContinue(const RunRecord& record);

/// Counts from the start as the first limit did; 0: none. A limit already passed ends the job.
Status SendTimeLimit(const RunRecord& record, Duration limit);

/// Joins `in` and `out` (copies of which are sent) to the job's terminal, until `in` says Ctrl-P Ctrl-Q or ends,
/// `out` breaks or the job ends; what it printed last (64 KiB) comes first. kDetached with `attachment` follows if the
/// job goes on. `out` should be a socket or a pipe: a slow client is then buffered and never holds up the job.
Status SendAttach(const RunRecord& record, std::uint64_t attachment, int in, int out, WindowSize window);
Status SendResize(const RunRecord& record, WindowSize window);

/// A prepared part of a gang goes: what StageGo (supervisor_seat.h) laid ready is said. Fine when it has gone.
Status SendGo(const RunRecord& record);

/// Starts what stands in the job for somebody outside who starts a step in it, or signals one
/// (platform/steps/step_inside.h), and speaks with them over `socket`, a copy of which is sent. Nothing of it is
/// reported: what is in the way is said there, or the other end is closed, where the job was left to a guard.
/// `stops_only`: they may signal steps, and start none.
Status SendStepCall(const RunRecord& record, int socket, bool stops_only);

/// Supervisors that a daemon of root's has left take commands from root alone: this sends them for a daemon that is
/// not, from now on. `send`: as SendCommandText.
using CommandRelay = std::function<Status(const RunRecord& record, std::string_view text, std::span<const int> fds)>;
void RelayRootCommands(CommandRelay send);
/// One command as it is; what the functions here put together.
Status SendCommandText(const RunRecord& record, std::string_view text, std::span<const int> fds);

/// Asks for the present state: kDelayed, kPrepared or kStarted comes again.
Status SendPing(const RunRecord& record);

// --- The supervisor's side -----------------------------------------------------------------------------------------

struct SupervisorCommand {
  std::string text;
  std::vector<ForeignDescriptor> descriptors;
};

/// 256 random bits as hexadecimal digits, for RunRecord::secret.
std::string DrawControlSecret();
/// Whether a command is meant for the job and attempt of `record`, and brings its secret. The time that it takes does
/// not depend on how much of the secret is right.
bool IsCommandFor(const RecordFields& command, const RunRecord& record);

/// A datagram socket on an address of the kernel's choice (abstract, so that nothing is left behind), and that address.
/// It takes nothing before AdmitCommands.
Result<std::pair<Descriptor, std::string>> OpenControlSocket();
/// From now on it takes what begins with this secret of DrawControlSecret and nothing else; empty: nothing. The kernel
/// drops all else while it is being sent, so that no stranger's descriptor gets here.
Status AdmitCommands(int control_socket, const std::string& secret);
/// Takes one datagram: a command from root or `uid`, or nothing when it was a stranger's or there was none. One only,
/// so that a stranger who floods the socket cannot keep a supervisor from its job.
std::optional<SupervisorCommand> ReceiveCommand(int control_socket, uid_t uid);
/// False when the daemon's mailbox is full, which happens only to those that do not wait. True otherwise, also when no
/// daemon listens: the next one reads the run record.
enum class WhenFull { kReturn, kWait };
bool SendReport(int control_socket, const std::string& address, std::string_view text, WhenFull when_full);

}  // namespace divvy
