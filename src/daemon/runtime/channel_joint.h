// Joins a channel of a session with descriptors of this process: what can be read from one goes into the channel, what
// the channel brings is written to the other, at the pace of whoever reads it. Belongs to the loop's thread.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "platform/os/foreign_descriptor.h"
#include "platform/os/launch_descriptor.h"
#include "wire/http/channels.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class ChannelJoint : public std::enable_shared_from_this<ChannelJoint> {
 public:
  /// `from`: read until its end, which ends our direction of the channel. `into`: written, and closed at the end of
  /// theirs. Either may be none; the two may be of one socket. They are used without ever waiting for them, whatever
  /// others do with theirs.
  static std::shared_ptr<ChannelJoint> Make(boost::asio::io_context& loop, Descriptor from, Descriptor into);
  /// The same with what a user has passed.
  static std::shared_ptr<ChannelJoint> Make(boost::asio::io_context& loop, ForeignDescriptor from,
                                            ForeignDescriptor into);
  /// Both directions of one socket.
  static Result<std::shared_ptr<ChannelJoint>> OfSocket(boost::asio::io_context& loop, Descriptor socket);
  static Result<std::shared_ptr<ChannelJoint>> OfSocket(boost::asio::io_context& loop, ForeignDescriptor socket);
  ChannelJoint(boost::asio::io_context& loop, ForeignDescriptor from, ForeignDescriptor into, bool is_foreign);
  ~ChannelJoint();
  ChannelJoint(const ChannelJoint&) = delete;
  ChannelJoint& operator=(const ChannelJoint&) = delete;

  /// Once the channel is over. `why`: empty where both ends had ended it.
  void OnOver(std::function<void(const std::string& why)> on_over) { on_over_ = std::move(on_over); }
  /// Once it is over and has let go of both descriptors, too: what had come for `into` is written first.
  void OnDone(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  /// Nobody reads `into` any more: what still comes for it is dropped, instead of the channel being reset.
  void DropUnread() { drops_unread_ = true; }

  /// The end of the session, in the words `over`, does not end it: it holds on to its descriptors, and always to what
  /// the other end may not have got. `on_parted` hears of it each time.
  void OutliveSession(std::string over, std::function<void()> on_parted);
  /// Nobody comes back: it ends like any other.
  void GiveUp(std::string_view why);
  /// Goes on by another channel, from the byte `received` of all that was read; then with `first` of ours before all
  /// else. False: that byte is not kept any more.
  bool Rejoin(Channels& channels, std::uint64_t number, std::uint64_t received, std::string_view first = {});
  /// Bytes that the channels have brought for `into` so far.
  std::uint64_t brought() const { return brought_; }
  /// Where there is no `into`: hears what the channel brings.
  void OnBack(std::function<void(std::string_view)> on_back) { on_back_ = std::move(on_back); }

  /// Opens a channel for it.
  Status Open(Channels& channels, std::string_view purpose);
  /// Takes one that the other end has opened.
  void Accept(Channels& channels, std::uint64_t number, std::string_view first = {});
  /// Ends the channel for a reason of ours.
  void Reset(std::string_view why);
  /// The same, once all of `from` has been read; whoever has its other end has closed it, or is about to. For so long
  /// after the end of `from` that reason is waited for, where this is said before it.
  void Finish(std::string_view why);
  void Linger(std::chrono::milliseconds wait) { linger_ = wait; }

 private:
  using Stream = boost::asio::posix::stream_descriptor;
  Channels::Listener MakeListener();
  void Begin(Channels& channels, std::uint64_t number);
  void OnRoom();
  void Send(std::string_view bytes);
  void EndIfDone();
  void ReadLater();
  void OnEndOfInput();
  void Read();
  void Write();
  void OnBytes(std::string_view bytes);
  void OnClosed(const std::string& why);
  void Close(Stream& stream);

  Stream from_;
  Stream into_;
  bool is_foreign_ = false;
  bool into_is_socket_ = false;
  bool drops_unread_ = false;
  bool is_reading_ = false;  // The loop will call Read.
  bool is_writing_ = false;
  bool ends_when_written_ = false;
  bool is_over_ = false;          // The channel.
  bool has_read_all_ = false;     // Of `from`.
  Channels* channels_ = nullptr;  // Null before it has one and after that is over.
  std::uint64_t number_ = 0;
  std::string unwritten_;
  std::function<void(const std::string&)> on_over_;
  std::function<void()> on_done_;
  std::chrono::milliseconds linger_{0};
  std::optional<std::string> finish_;
  boost::asio::steady_timer timer_;

  std::string session_over_ = "the session is over";
  // Of one that outlives its session.
  std::function<void()> on_parted_;
  std::string unconfirmed_;  // Read, and not known to have come.
  std::size_t resent_ = 0;   // Of these, so many were sent on this channel.
  std::uint64_t read_ = 0;   // Of `from` in all.
  std::uint64_t brought_ = 0;
  std::function<void(std::string_view)> on_back_;
};

}  // namespace divvy
