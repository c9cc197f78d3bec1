// Handles the terminal of a foreground command: raw while a job uses it, and always restored afterwards. Copies the
// streams if the job runs on another node.
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
  /// Output passes through this process even if the job could write to ours, so that metrics in it are read
  /// (carried_metrics.h).
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

/// Reports that the caller left the job's terminal. Returns the exit code for that.
int TellLeft(const std::string& id, const std::string& program = "divvy");
/// Reports that the agent of the job's node is disconnected, and what happens to the job's streams, or that it is back.
void TellPresence(const std::string& id, bool is_away, bool has_pty, const std::string& program = "divvy");

/// The caller's terminal for a job: raw while the job uses it. Only one may exist at a time.
class RawTerminal {
 public:
  enum class From {
    kNow,
    kStart,   ///< Raw when Begin() reports the job's start. Until then Ctrl-C is a signal and Ctrl-Z is disabled.
    kJoined,  ///< Raw when Begin() reports that the job is joined. Until then unchanged.
  };
  /// Does nothing if not wanted, or if stdin is not a terminal.
  explicit RawTerminal(bool is_wanted, From from = From::kNow);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

  /// Call when the job has begun. Works from any thread, also before a RawTerminal exists and after it is gone.
  static void Begin();
  /// Restores the old mode until Begin().
  static void Pause();
  /// Restores the old mode for good. For other threads, when they end the process or the job's terminal is lost.
  static void Restore();
};

/// Our standard streams, plus a relay for each. If the job runs on another node, we copy the streams through the relays
/// ourselves (see daemon/fleet/remote_streams.h). A job's terminal on this machine is copied too: its supervisor gets
/// sockets instead of our own input and output. So it notices at once when we are gone, and it never reads our input
/// after that. If our input ends and is not a terminal, we type the end-of-file character; the end of a terminal means
/// that the caller has left. Callers that write to the streams themselves must block or ignore SIGPIPE.
class StreamRelays {
 public:
  struct Hooks {
    /// Called when our input is requested. Runs on a thread that may outlive everything else.
    std::function<void()> on_pumping;
    /// Called on that thread or the caller's when the job begins, here (with our streams themselves) or on another
    /// node.
    std::function<void()> on_begun;
    /// Called once, on that thread, when Ctrl-P Ctrl-Q is typed into the job's terminal. The terminal is on this
    /// machine, or on a node whose agent is disconnected and cannot report it.
    std::function<void(bool is_here)> on_left;
    /// Called on that thread when the agent of the job's node disconnects (typed input then waits for it), and when it
    /// is back.
    std::function<void(bool is_away)> on_away;
    /// Called once, on any thread, when the streams were lost on their way to the job.
    std::function<void()> on_lost;
    /// Called on the printing threads, after printing, with the output of the job that passes through us.
    std::function<void(std::string_view bytes)> on_output;
    bool has_terminal = false;
    /// A job on this machine gets a pipe of ours as its output instead of our own output.
    bool carries_output = false;
  };
  explicit StreamRelays(Hooks hooks);
  StreamRelays() : StreamRelays(Hooks()) {}
  StreamRelays(const StreamRelays&) = delete;
  StreamRelays& operator=(const StreamRelays&) = delete;
  ~StreamRelays();

  /// The streams, then the relays, to send with a request. Only the streams if no sockets could be created.
  std::span<const int> descriptors() const { return {passed_.data(), passed_.size()}; }
  /// Call when the daemon went away. Prints what the old daemon had forwarded and makes new relays for the next one.
  /// descriptors() then returns these at the same positions.
  void Renew();
  /// Like Renew, also for the terminal's sockets. For a viewer that joins the terminal again, because the old
  /// supervisor or agent has closed its ends.
  void RenewAll();
  /// Reports what has arrived from the job, for the next daemon. Call after Renew and before the next daemon responds.
  wire::RejoinRequest Had() const;
  bool has_left() const;  ///< True once the terminal was left, as on_left reports.
  /// Prints everything that has arrived. Call when the job has ended or the terminal was left. Blocks until the other
  /// ends are closed, so first close any connection that may hold them.
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
  /// For a terminal on this machine: our ends of its input and output, and the ends that are sent.
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
  Descriptor word_;  // A duplicate of our end of the first relay.
};

}  // namespace divvy::cli
