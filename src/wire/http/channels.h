// Byte streams between an agent and its controller, multiplexed over one session. They carry a job's terminal, pipes
// and requests. Their frames are messages of the session's link (wire/http/link.h), so a broken connection neither
// loses nor duplicates bytes. A state machine without I/O. Each end has one, which lives for one session.
//
// Each direction of a channel has its own credit: a sender sends at most kWindow bytes that the receiver has not
// confirmed as consumed. So a stalled reader stalls only its own channel. The memory of a session is bounded: in bytes
// by the windows, and in messages by the link. While the other end is disconnected for some time, all channels wait.
//
//   mark (1 byte, kMark) | what (1 byte) | number (8 bytes) | the rest
//   'o' open: the purpose    'd' data    'c' credit: bytes (8 bytes)    'e' end of this direction    'r' reset: why
//
// The opener chooses the numbers, ascending: the controller even ones, the agent odd ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy {

class Channels {
 public:
  /// The first byte of every frame of a channel. JSON messages never start with it.
  static constexpr char kMark = '\x01';
  static constexpr std::size_t kWindow = std::size_t{64} << 10;
  static constexpr std::size_t kMost = 512;
  static constexpr std::size_t kPurposeBytes = 4096;
  static bool IsOne(std::string_view message) { return !message.empty() && message.front() == kMark; }

  enum class Side : std::uint8_t { kController = 0, kAgent = 1 };

  /// Called only from OnMessage, Wake and Clear. Each callback may be null, and each may end the channel.
  struct Listener {
    /// Receives bytes from the other end: at most kWindow between two calls of Consumed.
    std::function<void(std::string_view bytes)> on_bytes;
    /// Called when bytes can be sent again, after room() was 0.
    std::function<void()> on_room;
    /// Called when the other end has ended its direction: no more bytes will arrive.
    std::function<void()> on_end;
    /// Called when the channel is over; no other callback follows. `why`: the reason that the other end gave, or that
    /// the session is over.
    std::function<void(const std::string& why)> on_closed;
  };
  /// Called when the other end has opened a channel. The callback must call Accept or Reset for this channel before it
  /// returns.
  using OnOpen = std::function<void(std::uint64_t number, std::string_view purpose)>;

  /// `send` sends a message over the session's link. `has_room` returns whether the link accepts bytes of channels now;
  /// null: it always does.
  Channels(Side side, std::function<void(std::string message)> send, OnOpen on_open,
           std::function<bool()> has_room = {})
      : side_(side),
        send_(std::move(send)),
        on_open_(std::move(on_open)),
        has_room_(std::move(has_room)),
        next_(side == Side::kAgent ? 1 : 2) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// Opens a channel (one byte stream in each direction) to the other end of the session, and returns its number. The
  /// other end's OnOpen gets `purpose`. Fails with kLimitExceeded if kMost channels are open, and with kInvalidArgument
  /// if `purpose` is longer than kPurposeBytes.
  Result<std::uint64_t> Open(std::string_view purpose, Listener listener);
  void Accept(std::uint64_t number, Listener listener);
  bool Has(std::uint64_t number) const { return channels_.contains(number); }
  /// How many bytes may be sent now. 0 if there is no such channel, if End was called for it, or if the link has no
  /// room. Bytes that are sent on other channels may reduce this number.
  std::size_t room(std::uint64_t number);
  /// Number of bytes sent on the channel, the most recent ones, that the other end has not confirmed as consumed.
  std::size_t Unconfirmed(std::uint64_t number) const;
  /// Sends at most room() bytes and drops the rest. This and the calls below do nothing if the channel no longer
  /// exists.
  void Send(std::uint64_t number, std::string_view bytes);
  /// Call this when the receiver has consumed so many of the bytes that it got by on_bytes. The other end may then send
  /// more.
  void Consumed(std::uint64_t number, std::size_t bytes);
  /// Ends the sending direction. A channel that both ends have ended is removed.
  void End(std::uint64_t number);
  /// Removes the channel, and sends `why` to the other end.
  void Reset(std::uint64_t number, std::string_view why);

  /// Handles a link message for which IsOne is true. kInvalidArgument: the message is invalid, so the caller must close
  /// the connection.
  Status OnMessage(std::string_view message);
  /// Call this when the link may have room again. If a channel found none before, calls on_room of the channels.
  void Wake();
  /// Call this when the session is over. Closes all channels with the reason `why`.
  void Clear(const std::string& why);
  std::size_t size() const { return channels_.size(); }

 private:
  struct Channel {
    std::shared_ptr<const Listener> listener;
    std::size_t room = kWindow;  // Bytes that we may send.
    std::size_t unread = 0;      // Bytes received and not consumed yet.
    std::size_t owed = 0;        // Bytes consumed and not confirmed yet.
    bool has_ended = false;      // We have ended our direction.
    bool is_ended = false;       // The other end has ended its direction.
  };
  bool IsOurs(std::uint64_t number) const { return (number & 1) == static_cast<std::uint64_t>(side_); }
  void Say(char what, std::uint64_t number, std::string_view rest = {});
  Status OnOpened(std::uint64_t number, std::string_view purpose);
  Status OnData(std::uint64_t number, Channel& channel, std::string_view bytes);
  Status OnCredit(Channel& channel, std::string_view rest);
  void OnEnded(std::uint64_t number, Channel& channel);
  void ForgetIfOver(std::uint64_t number);

  Side side_;
  std::function<void(std::string message)> send_;
  OnOpen on_open_;
  std::function<bool()> has_room_;
  bool was_full_ = false;  // A channel found no room in the link.
  std::uint64_t next_;
  std::uint64_t last_theirs_ = 0;
  std::map<std::uint64_t, Channel> channels_;
};

}  // namespace divvy
