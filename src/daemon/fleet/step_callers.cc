#include "daemon/fleet/step_callers.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/unix_socket.h"
#include "platform/records/step_wire.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kPiece = std::size_t{16} << 10;

bool IsLater(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR); }

}  // namespace

class StepCallers::Ticket {
 public:
  Ticket(std::shared_ptr<std::map<std::int64_t, std::size_t>> counts, std::int64_t uid)
      : counts_(std::move(counts)), uid_(uid) {
    ++(*counts_)[uid_];
  }
  ~Ticket() {
    if (--counts_->at(uid_) == 0) counts_->erase(uid_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  std::shared_ptr<std::map<std::int64_t, std::size_t>> counts_;
  std::int64_t uid_;
};

/// Kept alive by its stream's listener, until either end is closed.
class StepCallers::Caller : public std::enable_shared_from_this<Caller> {
 public:
  Caller(asio::io_context& loop, std::shared_ptr<Ticket> ticket, std::unique_ptr<ByteStream> stream, Descriptor socket)
      : ticket_(std::move(ticket)), stream_(std::move(stream)), socket_(loop) {
    ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
    socket_.assign(socket.Release());
  }

  void Begin() {
    ByteStream::Listener listener;
    listener.on_bytes = [self = shared_from_this()](std::string_view bytes) { self->OnBytes(bytes); };
    listener.on_drained = [self = shared_from_this()] { self->OnDrained(); };
    listener.on_closed = [self = shared_from_this()] { self->End(); };
    stream_->Listen(std::move(listener));
    ReadLater();
  }
  void Say(const std::string& why) {
    if (why.empty() || !last_words_.empty()) return;
    last_words_ =
        EncodeStepFrame(StepWord::kSay, 0, "divvy: error: " + why + "\n") + EncodeStepFrame(StepWord::kExit, 1, "");
  }
  void End() {
    // The stream's listener owns this object and goes with the stream.
    const auto self = shared_from_this();
    const auto stream = std::exchange(stream_, nullptr);
    Close();
    ticket_ = nullptr;
    if (stream) stream->Listen({[](std::string_view) {}, [] {}, [] {}});
  }

 private:
  // A process of the job may hold the other end.
  void Close() {
    if (socket_.is_open()) CloseAccepted(socket_.release());
  }
  void OnBytes(std::string_view bytes) {
    if (!socket_.is_open()) return;
    unwritten_.append(bytes);
    if (unwritten_.size() > kMostWaiting) return End();
    Write();
  }
  void Write() {
    while (!unwritten_.empty() && socket_.is_open()) {
      const ssize_t put =
          ::send(socket_.native_handle(), unwritten_.data(), unwritten_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put > 0) {
        unwritten_.erase(0, static_cast<std::size_t>(put));
      } else if (IsLater(put)) {
        if (std::exchange(is_writing_, true)) return;
        socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                           [self = shared_from_this()](const boost::system::error_code& error) {
                             self->is_writing_ = false;
                             if (!error) self->Write();
                           });
        return;
      } else {
        unwritten_.clear();  // The job's end is gone; Read will find that.
      }
    }
  }
  void ReadLater() {
    if (is_reading_ || !socket_.is_open() || stream_ == nullptr || stream_->unsent() >= kPiece) return;
    is_reading_ = true;
    socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](const boost::system::error_code& error) {
                         self->is_reading_ = false;
                         if (!error) self->Read();
                       });
  }
  void Read() {
    if (stream_ == nullptr) return;
    std::array<char, kPiece> buffer;
    const ssize_t got = ReceiveForeign(socket_.native_handle(), buffer.data(), buffer.size(), MSG_DONTWAIT).size;
    if (got > 0) stream_->Send({buffer.data(), static_cast<std::size_t>(got)});
    if (got > 0 || IsLater(got)) return ReadLater();
    Close();
    if (!last_words_.empty()) stream_->Send(last_words_);
    stream_->Finish();
  }
  void OnDrained() { ReadLater(); }

  std::shared_ptr<Ticket> ticket_;
  std::unique_ptr<ByteStream> stream_;
  asio::posix::stream_descriptor socket_;
  std::string unwritten_;
  std::string last_words_;
  bool is_reading_ = false;
  bool is_writing_ = false;
};

StepCallers::~StepCallers() {
  for (const auto& [caller, weak] : callers_) {
    if (const auto held = weak.lock()) held->End();
  }
}

Result<StepCallers::Admitted> StepCallers::Admit(std::int64_t uid) {
  std::erase_if(callers_, [](const auto& one) { return one.second.expired(); });
  const auto found = counts_->find(uid);
  if (found != counts_->end() && found->second >= kMostOfOne) {
    return LimitExceeded("you have " + std::to_string(kMostOfOne) +
                         " steps started from outside their jobs, which is as many as one may; wait for one to end");
  }
  if (callers_.size() >= kMost)
    return LimitExceeded(std::to_string(kMost) +
                         " steps were started from outside their jobs, which is as many as "
                         "there may be; wait for one to end");
  Admitted admitted;
  std::tie(admitted.near, admitted.far) = MakeSocketPair();
  if (!admitted.near.is_open()) return LimitExceeded("the daemon has no file descriptor left");
  admitted.ticket = std::make_shared<Ticket>(counts_, uid);
  return admitted;
}

std::shared_ptr<StepCallers::Caller> StepCallers::Join(std::shared_ptr<Ticket> ticket,
                                                       std::unique_ptr<ByteStream> stream, Descriptor near) {
  auto caller = std::make_shared<Caller>(loop_, std::move(ticket), std::move(stream), std::move(near));
  callers_[caller.get()] = caller;
  caller->Begin();
  return caller;
}

void StepCallers::Tell(const std::shared_ptr<Caller>& caller, const std::string& why) { caller->Say(why); }

}  // namespace divvy
