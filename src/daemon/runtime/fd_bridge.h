// Connects a channel (a byte stream within the session of an agent and its controller) with two file descriptors of
// this process. Bytes read from one descriptor are sent on the channel; bytes from the channel are written to the other
// descriptor, at the pace of its reader. Used on the loop's thread only.
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
#include "platform/os/unique_fd.h"
#include "wire/http/channels.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class FdBridge : public std::enable_shared_from_this<FdBridge> {
 public:
  /// Reads `from` until its end and then ends the sending direction of the channel. Writes what the channel delivers to
  /// `into`, and closes it when the peer ends its direction. Either may be absent; both may refer to one socket. No
  /// read or write on them blocks, even if other processes switch the same open files to blocking mode.
  static std::shared_ptr<FdBridge> Make(boost::asio::io_context& loop, Descriptor from, Descriptor into);
  /// The same, for descriptors that a user has passed to this process.
  static std::shared_ptr<FdBridge> Make(boost::asio::io_context& loop, ForeignDescriptor from, ForeignDescriptor into);
  /// Connects both directions of one socket.
  static Result<std::shared_ptr<FdBridge>> OfSocket(boost::asio::io_context& loop, Descriptor socket);
  static Result<std::shared_ptr<FdBridge>> OfSocket(boost::asio::io_context& loop, ForeignDescriptor socket);
  FdBridge(boost::asio::io_context& loop, ForeignDescriptor from, ForeignDescriptor into, bool is_foreign);
  ~FdBridge();
  FdBridge(const FdBridge&) = delete;
  FdBridge& operator=(const FdBridge&) = delete;

  /// Sets the callback for the end of the channel. `why` is empty if both ends closed it normally.
  void OnOver(std::function<void(const std::string& why)> on_over) { on_over_ = std::move(on_over); }
  /// Sets the callback that runs after the end of the channel, once all pending output was written to `into` and both
  /// descriptors are closed.
  void OnDone(std::function<void()> on_done) { on_done_ = std::move(on_done); }
  /// Makes the bridge discard the channel's bytes when `into` has no reader any more. Without this call, it resets the
  /// channel in that case.
  void DropUnread() { drops_unread_ = true; }

  /// Makes the bridge outlive its session. When the channel ends with the reason `over`, which means that the session
  /// ended, the bridge keeps its descriptors until Rejoin or GiveUp. From now on it keeps all bytes that the peer may
  /// not have received. `on_parted` is called each time the session ends.
  void OutliveSession(std::string over, std::function<void()> on_parted);
  /// Ends a bridge that has outlived its session, with the reason `why`, because no new session will take it over.
  void GiveUp(std::string_view why);
  /// Continues on another channel: sends `first`, and then the bytes that were read from `from`, starting at offset
  /// `received`. Returns false if the byte at that offset is no longer kept.
  bool Rejoin(Channels& channels, std::uint64_t number, std::uint64_t received, std::string_view first = {});
  /// The number of bytes that all channels together have delivered so far.
  std::uint64_t brought() const { return brought_; }
  /// Sets a callback that receives the channel's bytes, for a bridge without `into`.
  void OnBack(std::function<void(std::string_view)> on_back) { on_back_ = std::move(on_back); }

  /// Opens a new channel for the bridge.
  Status Open(Channels& channels, std::string_view purpose);
  /// Accepts a channel that the peer has opened.
  void Accept(Channels& channels, std::uint64_t number, std::string_view first = {});
  /// Resets the channel with the reason `why`.
  void Reset(std::string_view why);
  /// Resets the channel with the reason `why` once all of `from` has been read. The process at the other end of `from`
  /// must have closed it, or be about to. If Linger is called before the end of `from`, the bridge waits up to `wait`
  /// after that end for a call to Finish.
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
  bool is_reading_ = false;  // True while a call to Read is scheduled on the loop.
  bool is_writing_ = false;
  bool ends_when_written_ = false;
  bool is_over_ = false;          // The channel is over.
  bool has_read_all_ = false;     // All of `from` has been read.
  Channels* channels_ = nullptr;  // Null before the channel is open and after it is over.
  std::uint64_t number_ = 0;
  std::string unwritten_;
  std::function<void(const std::string&)> on_over_;
  std::function<void()> on_done_;
  std::chrono::milliseconds linger_{0};
  std::optional<std::string> finish_;
  boost::asio::steady_timer timer_;

  std::string session_over_ = "the session is over";
  // Used only after OutliveSession:
  std::function<void()> on_parted_;
  std::string unconfirmed_;  // Bytes that were read from `from` and are not confirmed by the peer.
  std::size_t resent_ = 0;   // How many of the unconfirmed bytes were sent on the present channel.
  std::uint64_t read_ = 0;   // The number of bytes read from `from` so far.
  std::uint64_t brought_ = 0;
  std::function<void(std::string_view)> on_back_;
};

}  // namespace divvy
