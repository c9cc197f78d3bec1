// What a command in the foreground does with its terminal: raw for as long as a job has it, and put back whatever
// happens; pumped where the job is on another machine.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/client/command.h"
#include "platform/supervisor/launch.h"
#include "wire/messages/messages_remote.h"

namespace divvy::cli {

/// In whose words the caller of a job in the foreground is spoken to.
struct Voice {
  std::string program = "divvy";
  std::string trouble = "divvy: ";           ///< Before what went wrong.
  std::string waits = "waits for its turn";  ///< A job that cannot start at once.
  bool asks_interrupts = false;  ///< The first Ctrl-C tells that the job runs, a second within a second is the job's.
  /// Output that would go to ours past us goes through us, so that the numbers in it are read (carried_metrics.h).
  bool carries_output = false;
  /// Says why it was not submitted, and why nothing more is known of it; gives the exit code.
  std::function<int(const Error&)> refuse = Fail;
  std::function<int(const Error&)> fail = Fail;
};
int RunForeground(JobSpec spec, const Voice& voice);

/// Says that the terminal of the job was left. The exit code for that.
int TellLeft(const std::string& id, const std::string& program = "divvy");
/// Says what becomes of the streams of a job whose machine's agent is away, or is back.
void TellPresence(const std::string& id, bool is_away, bool has_pty, const std::string& program = "divvy");

/// The caller's terminal while a job is to have it: raw as long as it has. One at a time.
class RawTerminal {
 public:
  enum class From {
    kNow,
    kStart,   ///< At the job's start, of which Begin() tells: until then Ctrl-C is a signal, and Ctrl-Z stops nobody.
    kJoined,  ///< Once it is joined, of which Begin() tells: until then it is as it was.
  };
  /// Does nothing when not wanted, or when stdin is no terminal.
  explicit RawTerminal(bool is_wanted, From from = From::kNow);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

  /// The job has begun. From any thread, also before there is one, and when there is none any more.
  static void Begin();
  /// As it was, until Begin().
  static void Pause();
  /// From another thread, for who ends the process or has no job's terminal any more: puts the terminal back as it was.
  static void Restore();
};

/// Our standard streams, and a relay for each: what we pump ourselves where the job is on another machine
/// (daemon/fleet/far_streams.h says how). For a job's terminal we pump here as well: its keeper gets sockets of ours
/// instead of our own input and output, so that it has lost us, and reads nothing of ours, as soon as we are gone. The
/// end of our input is typed then; where that is a terminal, it has gone, and we have left. Whoever uses one blocks or
/// ignores SIGPIPE where they write themselves.
class StreamRelays {
 public:
  struct Hooks {
    /// On a thread of its own, which may outlive all else: our input is wanted.
    std::function<void()> on_pumping;
    /// There or on the caller's: the job begins, here (it has our streams themselves) or elsewhere.
    std::function<void()> on_begun;
    /// The same, once: Ctrl-P Ctrl-Q was typed into the job's terminal, which is on this machine, or on one whose agent
    /// is away and does not hear it.
    std::function<void(bool is_here)> on_left;
    /// The same: the agent of the job's machine is away, and what is typed waits for it; or it is back.
    std::function<void(bool is_away)> on_away;
    /// Once, on any thread: they were lost on their way to the job.
    std::function<void()> on_lost;
    /// On the threads that print, after it was printed: what a job writes to its output, where it comes through us.
    std::function<void(std::string_view bytes)> on_output;
    bool has_terminal = false;
    /// A job on this machine gets a pipe of ours as its output instead of ours itself.
    bool carries_output = false;
  };
  explicit StreamRelays(Hooks hooks);
  StreamRelays() : StreamRelays(Hooks()) {}
  StreamRelays(const StreamRelays&) = delete;
  StreamRelays& operator=(const StreamRelays&) = delete;
  ~StreamRelays();

  /// Streams, then relays, to go with a request. Where sockets cannot be had, the streams alone.
  std::span<const int> descriptors() const { return {passed_.data(), passed_.size()}; }
  /// The daemon went away: what it had passed on is printed, and the next one gets relays of its own, which
  /// descriptors() then names in the same place.
  void Renew();
  /// The same for who has joined a terminal and joins it again: its keeper, wherever it is, has lost us.
  void RenewAll();
  /// What has come of the job, for the next daemon. Between Renew and the next word of a daemon.
  wire::RejoinRequest Had() const;
  bool has_left() const;  ///< As on_left tells.
  /// All that came has been printed. Once the job has ended, or the terminal was left.
  /// Waits for whoever has the other ends, so a connection that may have them goes first.
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
  /// For a terminal on this machine, of our input and our output: near ends, and those that are passed.
  std::array<Descriptor, 2> here_, passed_here_;
  std::thread here_printer_;
  Descriptor passed_output_;  // Of Hooks::carries_output: the pipe's end that the job gets,
  Descriptor carried_;        // the one that is read,
  Descriptor no_more_;        // and what says that the job has ended.
  std::thread carrier_;
  std::function<void(std::string_view bytes)> on_output_;
  std::shared_ptr<Input> input_;
  std::function<void()> on_lost_;
  /// Of output and error: so many bytes came from another machine.
  std::array<std::atomic<std::int64_t>, 2> came_{};
  std::atomic<bool> was_told_ = false;
  Descriptor word_;  // The near end of the first relay, once more.
};

}  // namespace divvy::cli
