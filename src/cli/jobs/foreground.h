// Handles the terminal of a foreground command: raw while a job uses it, and always restored afterwards. Copies the
// job's input and output if the job runs on another node.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/time.h"
#include "cli/client/command.h"
#include "platform/supervisor/launch.h"
#include "wire/messages/messages_remote.h"

namespace divvy::cli {

/// The wording of messages to the caller of a foreground job.
struct Voice {
  std::string program = "divvy";
  std::string trouble = "divvy: ";  ///< Prefix of error messages.
  std::string waits = "is queued";  ///< Describes a job that cannot start at once.
  std::string pending;  ///< Begins a line with the id that comes before that description. Empty: no such line.
  std::string revoked;  ///< Precedes the id in the line about a job that was cancelled while it waited. Optional.
  bool asks_interrupts = false;  ///< The first Ctrl-C only reports that the job runs; a second one within a second goes
                                 ///< to the job.
  bool quits_on_interrupt = false;  ///< The first Ctrl-C goes to the job, which is killed if that does not end it soon.
  std::string aborted;              ///< Printed when the job was cancelled after its begin. Optional.
  /// The job's output passes through this process even if the job could write to this process's standard output
  /// directly. Only then can this process read the metrics in the output (carried_metrics.h).
  bool carries_output = false;
  /// Called once, on any thread, when the job has begun. `was_queued`: it had to wait before.
  std::function<void(const std::string& id, bool was_queued)> on_begun;
  /// Called when a job that had begun has ended. Optional.
  std::function<void(const std::string& id)> on_ended;
  /// How long the job may wait before it is cancelled and refused; nullopt: indefinitely.
  std::optional<Duration> most_wait;
  /// `refuse` reports why the job was not submitted, `fail` why its result is not known. Both return the exit code.
  std::function<int(const Error&)> refuse = Fail;
  std::function<int(const Error&)> fail = Fail;
};
int RunForeground(JobSpec spec, const Voice& voice);

/// Prints to standard error that the caller left the job's terminal and that the job keeps running. Returns the exit
/// code, 0.
int TellLeft(const std::string& id, const std::string& program = "divvy");
/// Prints to standard error that the agent of the job's node is disconnected (`is_away`) and what this means for the
/// job's input and output, or that the agent is connected again.
void TellPresence(const std::string& id, bool is_away, bool has_pty, const std::string& program = "divvy");

/// The caller's terminal for a job: raw while the job uses it. Only one may exist at a time.
class RawTerminal {
 public:
  enum class From {
    kNow,
    kStart,   ///< Raw when Begin() reports the job's start. Until then Ctrl-C is a signal and Ctrl-Z is disabled.
    kJoined,  ///< Raw when Begin() reports that the caller has joined the job's terminal. Until then unchanged.
  };
  /// Does nothing if not wanted, or if stdin is not a terminal.
  explicit RawTerminal(bool is_wanted, From from = From::kNow);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

  /// Switches the terminal to raw mode, for From::kStart and From::kJoined. Call when the job has begun, or was joined.
  /// Works from any thread, also before a RawTerminal exists and after it is destroyed.
  static void Begin();
  /// Restores the old mode until Begin().
  static void Pause();
  /// Restores the old mode for good. For other threads, when they end the process or the job's terminal is lost.
  static void Restore();
};

/// This process's standard streams, plus a relay (a socket pair) for each. If the job runs on another node, this
/// process copies the streams through the relays (see daemon/fleet/remote_streams.h).
/// A job's terminal on this machine is copied too: the job's supervisor gets sockets instead of this process's own
/// input and output. So the supervisor notices at once when this process has ended, and never reads its input after
/// that. If the input ends and is not a terminal, this process sends the end-of-file character to the job's terminal.
/// If the input is a terminal and ends, the caller counts as having left.
/// Callers that write to the streams themselves must block or ignore SIGPIPE.
class StreamRelays {
 public:
  struct Hooks {
    /// Called when the job's node requests this process's input. Runs on a thread that may outlive this object.
    std::function<void()> on_pumping;
    /// Called when the job begins, on this machine or on another node. Runs on the same thread as on_pumping, or on the
    /// caller's.
    std::function<void()> on_begun;
    /// Called once, on the thread of on_pumping, when Ctrl-P Ctrl-Q is typed into the job's terminal. The terminal is
    /// on this machine, or on a node whose agent is disconnected and cannot report it.
    std::function<void(bool is_here)> on_left;
    /// Called on the thread of on_pumping when the agent of the job's node disconnects (typed input then waits for it),
    /// and when the agent is connected again.
    std::function<void(bool is_away)> on_away;
    /// Called once, on any thread, when the streams were lost on their way to the job.
    std::function<void()> on_lost;
    /// Called with each piece of the job's output that passes through this process, after it was printed. Runs on the
    /// threads that print.
    std::function<void(std::string_view bytes)> on_output;
    bool has_terminal = false;
    /// A job on this machine writes to a pipe, which this process copies, instead of this process's standard output.
    bool carries_output = false;
  };
  explicit StreamRelays(Hooks hooks);
  StreamRelays() : StreamRelays(Hooks()) {}
  StreamRelays(const StreamRelays&) = delete;
  StreamRelays& operator=(const StreamRelays&) = delete;
  ~StreamRelays();

  /// The file descriptors to send with a request: the three standard streams, then the relays. Without relays if no
  /// sockets could be created.
  std::span<const int> descriptors() const { return {passed_.data(), passed_.size()}; }
  /// Call when the connection to the daemon was lost. Prints the output that the old daemon had forwarded, and creates
  /// new relays for the next daemon. descriptors() then returns the new relays at the same positions.
  void Renew();
  /// Like Renew, but also creates new sockets for the job's terminal. For a viewer that joins the terminal again after
  /// the old supervisor or agent has closed its ends of the sockets.
  void RenewAll();
  /// Returns how many bytes have arrived from the job, for the request that joins the job again at the next daemon.
  /// Call after Renew and before that daemon responds.
  wire::RejoinRequest Had() const;
  bool has_left() const;  ///< True once the terminal was left, as on_left reports.
  /// Prints all output that has arrived. Call when the job has ended or the caller has left the terminal. Blocks until
  /// the other ends of the sockets are closed, so first close each connection that may hold them.
  void Finish();

 private:
  struct Input;
  void Begin();
  void CloseRelays();
  void BeginHere();
  void BeginCarrying();
  void EndCarrying();
  void LeaveHere();
  void TellLost();
  std::vector<int> passed_;
  bool has_terminal_ = false;
  std::vector<std::thread> printers_;
  /// For a job's terminal on this machine: this process's ends of the sockets for input and output, and the ends that
  /// are sent to the daemon.
  std::array<Descriptor, 2> here_, passed_here_;
  std::thread here_printer_;
  Descriptor passed_output_;  // With Hooks::carries_output: the write end of the pipe, which the job gets.
  Descriptor carried_;        // The read end of that pipe.
  Descriptor no_more_;        // Signals that the job has ended.
  std::thread carrier_;
  std::function<void(std::string_view bytes)> on_output_;
  std::shared_ptr<Input> input_;
  std::function<void()> on_lost_;
  /// Bytes of output and of errors that came from another node.
  std::array<std::atomic<std::int64_t>, 2> came_{};
  std::atomic<bool> was_told_ = false;
  Descriptor word_;  // A duplicate of this process's end of the first relay.
};

}  // namespace divvy::cli
