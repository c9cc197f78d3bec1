#include "daemon/runtime/fd_bridge.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <utility>

namespace divvy {
namespace {

namespace asio = boost::asio;

/// The limit on one read, so that other streams get their turn.
constexpr std::size_t kPiece = std::size_t{16} << 10;

bool IsSocket(int fd) {
  struct stat status {};
  return fd >= 0 && ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode);
}

bool IsLater(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

FdBridge::FdBridge(asio::io_context& loop, ForeignDescriptor from, ForeignDescriptor into, bool is_foreign)
    : from_(loop), into_(loop), is_foreign_(is_foreign), into_is_socket_(IsSocket(into.get())), timer_(loop) {
  boost::system::error_code refused;  // Set if epoll refuses the descriptor: a regular file, for example, is no stream.
  for (auto [stream, fd] : {std::pair(&from_, &from), std::pair(&into_, &into)}) {
    if (!fd->is_open()) continue;
    ::fcntl(fd->get(), F_SETFL, ::fcntl(fd->get(), F_GETFL) | O_NONBLOCK);
    stream->assign(fd->get(), refused);
    if (!refused) static_cast<void>(fd->Release());
  }
}

FdBridge::~FdBridge() {
  Close(from_);
  Close(into_);
}

std::shared_ptr<FdBridge> FdBridge::Make(asio::io_context& loop, Descriptor from, Descriptor into) {
  return std::make_shared<FdBridge>(loop, ForeignDescriptor(from.Release()), ForeignDescriptor(into.Release()), false);
}

std::shared_ptr<FdBridge> FdBridge::Make(asio::io_context& loop, ForeignDescriptor from, ForeignDescriptor into) {
  return std::make_shared<FdBridge>(loop, std::move(from), std::move(into), true);
}

Result<std::shared_ptr<FdBridge>> FdBridge::OfSocket(asio::io_context& loop, Descriptor socket) {
  DIVVY_TRY(auto bridge, OfSocket(loop, ForeignDescriptor(socket.Release())));
  bridge->is_foreign_ = false;
  return bridge;
}

Result<std::shared_ptr<FdBridge>> FdBridge::OfSocket(asio::io_context& loop, ForeignDescriptor socket) {
  ForeignDescriptor other(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 3));
  if (!other.is_open()) return LimitExceeded("this process has no file descriptor left");
  auto bridge = Make(loop, std::move(socket), std::move(other));
  // A peer that no longer reads may have sent data before. The data must still be read, up to the end of the stream.
  bridge->DropUnread();
  return bridge;
}

void FdBridge::Close(Stream& stream) {
  if (!stream.is_open()) return;
  const int fd = stream.release();
  if (is_foreign_) CloseForeign(fd);
  else ::close(fd);
}

Channels::Listener FdBridge::MakeListener() {
  Channels::Listener listener;
  listener.on_bytes = [self = shared_from_this()](std::string_view bytes) { self->OnBytes(bytes); };
  listener.on_room = [self = shared_from_this()] { self->OnRoom(); };
  listener.on_end = [self = shared_from_this()] {
    self->ends_when_written_ = true;
    self->Write();
  };
  listener.on_closed = [self = shared_from_this()](const std::string& why) { self->OnClosed(why); };
  return listener;
}

Status FdBridge::Open(Channels& channels, std::string_view purpose) {
  DIVVY_TRY(const std::uint64_t number, channels.Open(purpose, MakeListener()));
  Begin(channels, number);
  return {};
}

void FdBridge::Accept(Channels& channels, std::uint64_t number, std::string_view first) {
  channels.Accept(number, MakeListener());
  channels.Send(number, first);
  Begin(channels, number);
}

void FdBridge::Begin(Channels& channels, std::uint64_t number) {
  // Opening the channel exceeded the session's limits and ended the session.
  if (!channels.Has(number)) return OnClosed(session_over_);
  channels_ = &channels;
  number_ = number;
  if (!from_.is_open()) has_read_all_ = true;
  OnRoom();
}

void FdBridge::OutliveSession(std::string over, std::function<void()> on_parted) {
  session_over_ = std::move(over);
  on_parted_ = std::move(on_parted);
}

void FdBridge::GiveUp(std::string_view why) {
  on_parted_ = nullptr;
  unconfirmed_.clear();
  Reset(why);
}

bool FdBridge::Rejoin(Channels& channels, std::uint64_t number, std::uint64_t received, std::string_view first) {
  const std::uint64_t kept_from = read_ - unconfirmed_.size();
  if (received < kept_from || received > read_) return false;
  unconfirmed_.erase(0, static_cast<std::size_t>(received - kept_from));
  resent_ = 0;
  Accept(channels, number, first);
  return true;
}

void FdBridge::Reset(std::string_view why) {
  Channels* channels = std::exchange(channels_, nullptr);
  if (channels != nullptr) channels->Reset(number_, why);
  unwritten_.clear();
  OnClosed(std::string(why));
}

// ---- From the descriptor `from` into the channel, to the peer -------------------------------------------------------

void FdBridge::OnRoom() {
  if (channels_ == nullptr) return;
  if (on_parted_) {
    // Bytes from an earlier channel that have not been resent on this one are not confirmed by it.
    const std::size_t open = channels_->Unconfirmed(number_) + (unconfirmed_.size() - resent_);
    if (const std::size_t confirmed = unconfirmed_.size() - std::min(open, unconfirmed_.size()); confirmed > 0) {
      unconfirmed_.erase(0, confirmed);
      resent_ -= std::min(confirmed, resent_);
    }
    while (resent_ < unconfirmed_.size()) {
      const std::size_t most = std::min(channels_->room(number_), unconfirmed_.size() - resent_);
      if (most == 0) return;
      channels_->Send(number_, std::string_view(unconfirmed_).substr(resent_, most));
      resent_ += most;
    }
  }
  if (has_read_all_) return EndIfDone();
  ReadLater();
}

// A bridge that outlives its session ends only when all bytes are confirmed.
void FdBridge::EndIfDone() {
  if (channels_ != nullptr && unconfirmed_.empty()) channels_->End(number_);
}

void FdBridge::Send(std::string_view bytes) {
  read_ += bytes.size();
  if (on_parted_) {
    unconfirmed_.append(bytes);
    resent_ = unconfirmed_.size();
  }
  channels_->Send(number_, bytes);
}

void FdBridge::ReadLater() {
  if (is_reading_ || !from_.is_open() || channels_ == nullptr || channels_->room(number_) == 0) return;
  is_reading_ = true;
  from_.async_wait(Stream::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->is_reading_ = false;
    if (!error && self->channels_ != nullptr) self->Read();
  });
}

void FdBridge::Read() {
  std::array<char, kPiece> buffer;
  const std::size_t most = std::min(buffer.size(), channels_->room(number_));
  if (most == 0) return;  // Other channels have used the room meanwhile; on_room follows.
  const int fd = from_.native_handle();
  const ssize_t got = ReceiveForeign(fd, buffer.data(), most, MSG_DONTWAIT).size;
  if (got > 0) {
    Send({buffer.data(), static_cast<std::size_t>(got)});
    return ReadLater();
  }
  if (got < 0 && IsLater(errno)) return ReadLater();
  OnEndOfInput();
}

void FdBridge::OnEndOfInput() {
  Close(from_);
  has_read_all_ = true;
  if (finish_) return Reset(*finish_);
  if (linger_.count() == 0) return EndIfDone();
  timer_.expires_after(linger_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->EndIfDone();
  });
}

void FdBridge::Finish(std::string_view why) {
  if (channels_ == nullptr) return;
  if (!from_.is_open()) return Reset(why);
  finish_ = std::string(why);
}

// ---- Out of the channel ---------------------------------------------------------------------------------------------

void FdBridge::OnBytes(std::string_view bytes) {
  brought_ += bytes.size();
  if (!into_.is_open()) {
    if (on_back_) on_back_(bytes);
    if (channels_ != nullptr) channels_->Consumed(number_, bytes.size());
    return;
  }
  unwritten_.append(bytes);
  Write();
}

void FdBridge::Write() {
  while (!unwritten_.empty() && into_.is_open()) {
    const int fd = into_.native_handle();
    const ssize_t put = into_is_socket_ ? ::send(fd, unwritten_.data(), unwritten_.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                        : ::write(fd, unwritten_.data(), unwritten_.size());
    if (put > 0) {
      unwritten_.erase(0, static_cast<std::size_t>(put));
      if (channels_ != nullptr) channels_->Consumed(number_, static_cast<std::size_t>(put));
    } else if (put < 0 && IsLater(errno)) {
      if (std::exchange(is_writing_, true)) return;
      into_.async_wait(Stream::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
        self->is_writing_ = false;
        if (!error) self->Write();
      });
      return;
    } else {
      const std::size_t dropped = std::exchange(unwritten_, "").size();
      Close(into_);
      if (!drops_unread_) return Reset("its reader is gone");
      if (channels_ != nullptr) channels_->Consumed(number_, dropped);
    }
  }
  if (!ends_when_written_) return;
  if (into_.is_open() && into_is_socket_) ::shutdown(into_.native_handle(), SHUT_WR);
  Close(into_);
  if (!is_over_) return;
  if (const auto on_done = std::exchange(on_done_, nullptr)) on_done();
}

// Received bytes are still written, since the peer sent them before the end.
void FdBridge::OnClosed(const std::string& why) {
  channels_ = nullptr;
  if (on_parted_ && why == session_over_) return on_parted_();
  Close(from_);
  ends_when_written_ = is_over_ = true;
  Write();
  if (const auto on_over = std::exchange(on_over_, nullptr)) on_over(why);
}

}  // namespace divvy
