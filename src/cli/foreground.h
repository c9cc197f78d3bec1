// What a command in the foreground does with its terminal: raw for as long as a job has it, and put back whatever
// happens; pumped where the job is on another machine.
#pragma once

#include <termios.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "platform/launch.h"
#include "wire/messages_remote.h"

namespace divvy::cli {

/// Says that the terminal of the job was left. The exit code for that.
int TellLeft(const std::string& id);

class RawTerminal {
 public:
  /// Does nothing when not wanted, or when stdin is no terminal.
  explicit RawTerminal(bool is_wanted);
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

  /// For who ends the process from another thread: puts the terminal back as it was, if one is raw.
  static void Restore();

 private:
  termios before_{};
  bool is_raw_ = false;
};

/// Our standard streams, and a relay for each: what we pump ourselves where the job is on another machine
/// (daemon/far_streams.h says how). Whoever uses one blocks or ignores SIGPIPE where they write themselves.
class StreamRelays {
 public:
  /// `on_pumping`: called on a thread of its own when our input is wanted. May be empty.
  /// `on_lost`: called once, on any thread, when they were lost on their way to the job. May be empty.
  explicit StreamRelays(std::function<void()> on_pumping = {}, std::function<void()> on_lost = {});
  StreamRelays(const StreamRelays&) = delete;
  StreamRelays& operator=(const StreamRelays&) = delete;
  ~StreamRelays();

  /// Streams, then relays, to go with a request. Where sockets cannot be had, the streams alone.
  std::span<const int> descriptors() const { return {passed_.data(), passed_.size()}; }
  /// The daemon went away: what it had passed on is printed, and the next one gets relays of its own, which
  /// descriptors() then names in the same place.
  void Renew();
  /// What has come of the job, for the next daemon. Between Renew and the next word of a daemon.
  wire::RejoinRequest Had() const;
  /// All that came has been printed. Once the job has ended, or the terminal was left.
  /// Waits for whoever has the other ends, so a connection that may have them goes first.
  void Finish();

 private:
  struct Input;
  void Begin();
  void TellLost();
  std::vector<int> passed_;
  std::vector<std::thread> printers_;
  std::shared_ptr<Input> input_;
  std::function<void()> on_lost_;
  /// Of output and error: so many bytes came from another machine.
  std::array<std::atomic<std::int64_t>, 2> came_{};
  std::atomic<bool> was_told_ = false;
  Descriptor word_;  // The near end of the first relay, once more.
};

}  // namespace divvy::cli
