// Byte streams between an agent and its controller, many over one session: what a job's terminal, pipes and requests
// travel by. Their pieces are messages of the session's link (wire/http/link.h), so a cut of the connection neither
// loses nor doubles a byte. A state machine without I/O; one at each end, alive for one session.
//
// Each direction of a channel has its own credit: a sender sends at most kWindow bytes that the receiver has not said
// to be done with. So a reader that stalls stalls its own channel alone, and what a session keeps is bounded: in bytes
// by the windows, in messages by the link, whose other end may be away for a while; then all wait.
//
//   mark (1 byte, kMark) | what (1 byte) | number (8 bytes) | the rest
//   'o' open: the purpose    'd' data    'c' credit: bytes (8 bytes)    'e' end of this direction    'r' reset: why
//
// Numbers are the opener's: even ones the controller's, odd ones the agent's, ascending.
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
  /// No JSON begins with it.
  static constexpr char kMark = '\x01';
  static constexpr std::size_t kWindow = std::size_t{64} << 10;
  static constexpr std::size_t kMost = 512;
  static constexpr std::size_t kPurposeBytes = 4096;
  static bool IsOne(std::string_view message) { return !message.empty() && message.front() == kMark; }

  enum class Side : std::uint8_t { kController = 0, kAgent = 1 };

  /// Called from OnMessage, Wake and Clear alone. Each may be null, and each may end the channel.
  struct Listener {
    /// At most kWindow bytes between two calls of Consumed.
    std::function<void(std::string_view bytes)> on_bytes;
    /// More may be sent again.
    std::function<void()> on_room;
    /// The other end sends no more.
    std::function<void()> on_end;
    /// It is over; nothing is called after it. `why`: what the other end says, or that the session is over.
    std::function<void(const std::string& why)> on_closed;
  };
  /// The other end has opened one: Accept it or Reset it before this returns.
  using OnOpen = std::function<void(std::uint64_t number, std::string_view purpose)>;

  /// `has_room`: the link takes bytes of streams just now. Null: always.
  Channels(Side side, std::function<void(std::string message)> send, OnOpen on_open,
           std::function<bool()> has_room = {})
      : side_(side),
        send_(std::move(send)),
        on_open_(std::move(on_open)),
        has_room_(std::move(has_room)),
        next_(side == Side::kAgent ? 1 : 2) {}
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  /// kLimitExceeded: there are too many.
  Result<std::uint64_t> Open(std::string_view purpose, Listener listener);
  void Accept(std::uint64_t number, Listener listener);
  bool Has(std::uint64_t number) const { return channels_.contains(number); }
  /// So many bytes may be sent now; 0 where there is no such channel, it was ended, or the link has no room. May shrink
  /// by what others send.
  std::size_t room(std::uint64_t number);
  /// Of what was sent on it, how much the other end is not known to be done with: the last so many bytes.
  std::size_t Unconfirmed(std::uint64_t number) const;
  /// At most room(); what is more is not sent. All calls do nothing where there is no such channel any more.
  void Send(std::uint64_t number, std::string_view bytes);
  /// Of what on_bytes brought, so many bytes are done with.
  void Consumed(std::uint64_t number, std::size_t bytes);
  /// Nothing more will be sent. A channel that both ends have ended is forgotten.
  void End(std::uint64_t number);
  /// Forgets it, and tells the other end `why`.
  void Reset(std::uint64_t number, std::string_view why);

  /// A message of the link for which IsOne. kInvalidArgument: what cannot come; then the connection is to be closed.
  Status OnMessage(std::string_view message);
  /// The link may have room again: whoever found none hears of it.
  void Wake();
  /// The session is over.
  void Clear(const std::string& why);
  std::size_t size() const { return channels_.size(); }

 private:
  struct Channel {
    std::shared_ptr<const Listener> listener;
    std::size_t room = kWindow;  // Ours to send.
    std::size_t unread = 0;      // Came, and is not done with.
    std::size_t owed = 0;        // Done with, and not told yet.
    bool has_ended = false;      // We.
    bool is_ended = false;       // They.
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
  bool was_full_ = false;  // Somebody found no room in the link.
  std::uint64_t next_;
  std::uint64_t last_theirs_ = 0;
  std::map<std::uint64_t, Channel> channels_;
};

}  // namespace divvy
