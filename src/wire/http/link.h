// Delivers messages exactly once and in order over connections that may break. A state machine without I/O or clock.
// Each end has one. It lives for one session, which is as long as both processes run.
//
// Each direction numbers its messages from 1. Messages that the other end has not acknowledged are kept, and sent again
// over the next connection. A new connection starts with both ends exchanging the last number that they received. A
// number that was received before is dropped. A gap means that the connection is not part of this session, and ends it.
// So a message is lost only when one of the two processes ends; then a new session begins (new Link, from 1).
//
// Memory is bounded: Send fails with kLimitExceeded beyond the limits, and Output stops at its byte limit.
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
  std::size_t messages = 65'536;                 // Unacknowledged messages.
  std::size_t bytes = std::size_t{64} << 20;     // Total size of the unacknowledged messages.
  std::size_t message_bytes = kFrameBytes - 64;  // Size of one message.
};

class Link {
 public:
  explicit Link(LinkLimits limits = {}) : limits_(limits) {}

  /// Sends a message, and keeps it until the other end has acknowledged it. kLimitExceeded: too many messages are not
  /// acknowledged yet, or this message is too long. Then the message is not kept.
  Status Send(std::string message);
  bool has_room() const { return kept_.size() < limits_.messages && kept_bytes_ < limits_.bytes; }
  /// Returns true if less than half of the limits is used. Messages that can wait are sent only then, so that they
  /// leave room for urgent ones.
  bool has_room_to_spare() const { return kept_.size() < limits_.messages / 2 && kept_bytes_ < limits_.bytes / 2; }
  /// Number of messages that the other end has not acknowledged, whether they were sent or not.
  std::size_t unacknowledged() const { return kept_.size(); }
  std::uint64_t last_sent() const { return first_kept_ + kept_.size() - 1; }
  std::uint64_t acknowledged() const { return first_kept_ - 1; }

  /// The number of the last received message, with which a new connection begins.
  std::uint64_t received() const { return received_; }
  /// Call this when a connection was established and the other end has reported that it received `peer_received`
  /// messages. kFailedPrecondition: the other end belongs to another session, since it needs messages that are no
  /// longer kept, or has received messages that were never sent.
  Status Attach(std::uint64_t peer_received);
  void Detach() { is_attached_ = false; }
  bool is_attached() const { return is_attached_; }

  /// Appends frames to send, while `out` is shorter than `most_bytes`. Call it again when `out` was sent. Does nothing
  /// while detached.
  void Output(std::string& out, std::size_t most_bytes);
  bool has_output() const { return is_attached_ && (next_to_send_ < last_sent() + 1 || told_ != received_); }

  /// Handles a received frame of kMessage or kAck. Returns the message if it is new. Fails with kInvalidArgument if the
  /// frame is invalid in this session; the caller must then close the connection.
  Result<std::optional<std::string>> OnFrame(Frame frame);

 private:
  Status Acknowledge(std::uint64_t number);

  LinkLimits limits_;
  std::deque<std::string> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_kept_ = 1;    // The number of kept_.front(), or of the next message if none is kept.
  std::uint64_t next_to_send_ = 1;  // On the current connection.
  std::uint64_t received_ = 0;
  std::uint64_t told_ = 0;  // The part of received_ that was acknowledged on this connection.
  bool is_attached_ = false;
};

}  // namespace divvy
