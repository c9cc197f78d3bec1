// Messages that come exactly once and in order over connections that do not last. A state machine without I/O or clock;
// one at each end, alive for one session: as long as both processes are.
//
// Each direction numbers its messages from 1. What the other end has not acknowledged is kept, and sent again over the
// next connection, whose ends first tell each other the last number that they received. A number that came before is
// dropped; one that skips is no connection of this session and ends it. So a message is lost only with one of the two
// processes, and then a new session begins (new Link, from 1).
//
// Bounded: what is not acknowledged is kLimitExceeded beyond the limits, and Output takes no more than it is asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/http/frame.h"

namespace divvy {

struct LinkLimits {
  std::size_t messages = 65'536;                 // Unacknowledged.
  std::size_t bytes = std::size_t{64} << 20;     // Of those together.
  std::size_t message_bytes = kFrameBytes - 64;  // Of one.
};

class Link {
 public:
  explicit Link(LinkLimits limits = {}) : limits_(limits) {}

  /// Keeps it until it is acknowledged. kLimitExceeded: too much is kept already (or the message is too long), and this
  /// one is not.
  Status Send(std::string message);
  bool has_room() const { return kept_.size() < limits_.messages && kept_bytes_ < limits_.bytes; }
  /// The same with half of what is kept left over: for what can wait, so that it leaves room for what cannot.
  bool has_room_to_spare() const { return kept_.size() < limits_.messages / 2 && kept_bytes_ < limits_.bytes / 2; }
  /// Sent or not, what the other end has not said to have.
  std::size_t unacknowledged() const { return kept_.size(); }
  std::uint64_t last_sent() const { return first_kept_ + kept_.size() - 1; }
  std::uint64_t acknowledged() const { return first_kept_ - 1; }

  /// The number of the last message that came: what a new connection begins with.
  std::uint64_t received() const { return received_; }
  /// A connection is there, whose other end has received so many. kFailedPrecondition: not of this session, since it
  /// misses what is no longer kept or has what was never sent.
  Status Attach(std::uint64_t peer_received);
  void Detach() { is_attached_ = false; }
  bool is_attached() const { return is_attached_; }

  /// Appends frames that are to be sent, as long as `out` is shorter than `most_bytes`. To be called again when `out`
  /// has left. Nothing while detached.
  void Output(std::string& out, std::size_t most_bytes);
  bool has_output() const { return is_attached_ && (next_to_send_ < last_sent() + 1 || told_ != received_); }

  /// A frame of kMessage or kAck that came. The message that it brings, if it is new. Fails with kInvalidArgument on
  /// what cannot come in this session; then the connection is to be closed.
  Result<std::optional<std::string>> OnFrame(Frame frame);

 private:
  Status Acknowledge(std::uint64_t number);

  LinkLimits limits_;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_kept_ = 1;    // The number of kept_.front(), or of the next message.
  std::uint64_t next_to_send_ = 1;  // On this connection.
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;  // Of received_, what the other end was told on this connection.
  bool is_attached_ = false;
};

}  // namespace divvy
