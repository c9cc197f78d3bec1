#include "platform/steps/gang_link.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "platform/supervisor/supervisor_watch.h"

namespace divvy {
namespace {

// Maximum read in one call, so that other connections are served too.
constexpr std::size_t kTurnMost = std::size_t{1} << 20;

void Prepare(int fd) {
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

Result<std::unique_ptr<GangLink>> GangLink::Dial(const AllocationAddress& address, const TlsContext& context) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (failed != 0) return Unreachable("there is no host " + address.host + ": " + ::gai_strerror(failed));
  std::unique_ptr<GangLink> link(new GangLink(context));
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const auto* bytes = reinterpret_cast<const char*>(one->ai_addr);
    link->addresses_.insert(link->addresses_.begin(), {{bytes, bytes + one->ai_addrlen}, one->ai_family});
  }
  ::freeaddrinfo(found);
  link->is_dialler_ = true;
  link->greeted_by_ = MonotonicNow() + kGreetingMost;
  link->TryNextAddress("it has no address");
  return link;
}

Result<std::unique_ptr<GangLink>> GangLink::Accept(Descriptor socket, const TlsContext& context) {
  std::unique_ptr<GangLink> link(new GangLink(context));
  DIVVY_TRY(TlsChannel channel, context.Begin(socket.get()));
  Prepare(socket.get());
  link->socket_ = std::move(socket);
  link->channel_ = std::move(channel);
  link->greeted_by_ = MonotonicNow() + kGreetingMost;
  return link;
}

void GangLink::TryNextAddress(std::string why) {
  while (!addresses_.empty()) {
    const Address address = std::move(addresses_.back());
    addresses_.pop_back();
    socket_.Reset(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_.is_open()) {
      why = std::strerror(errno);
      continue;
    }
    Prepare(socket_.get());
    // This side sends little and the peer always reads it. So if sent data is not acknowledged for this time, the peer
    // is gone.
    const auto timeout =
        static_cast<unsigned>(std::chrono::duration_cast<std::chrono::milliseconds>(kSilenceMost).count());
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    state_ = State::kConnecting;
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(address.bytes.data()),
                  static_cast<socklen_t>(address.bytes.size())) == 0 ||
        errno == EINPROGRESS) {
      return;
    }
    why = std::strerror(errno);
  }
  Lose(std::move(why));
}

void GangLink::FinishConnecting() {
  pollfd one = {socket_.get(), POLLOUT, 0};
  if (::poll(&one, 1, 0) <= 0) return;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return TryNextAddress(std::strerror(error));
  auto channel = context_->Begin(socket_.get());
  if (!channel) return Lose(channel.error().message);
  channel_ = *std::move(channel);
  state_ = State::kGreeting;
}

short GangLink::events() const {
  switch (state_) {
    case State::kConnecting:
      return POLLOUT;
    case State::kGreeting:
      return needs_write_ ? POLLOUT : POLLIN;
    case State::kOpen:
      return static_cast<short>((is_reading_ ? POLLIN : 0) | (unsent() > 0 ? POLLOUT : 0));
    case State::kLost:
      break;
  }
  return 0;
}

Duration GangLink::due() const {
  if (is_lost()) return MonotonicNow();
  if (!is_open()) return greeted_by_;
  return is_dialler_ ? ping_at_ : heard_at_ + kSilenceMost;
}

void GangLink::Progress() {
  has_more_ = false;
  if (state_ == State::kConnecting) FinishConnecting();
  if (state_ == State::kGreeting) Greet();
  if (!is_lost() && !is_open() && MonotonicNow() >= greeted_by_) Lose("it does not answer");
  if (!is_open()) return;
  const Duration now = MonotonicNow();
  if (is_dialler_ && now >= ping_at_) {
    ping_at_ = now + kPingEvery;
    Send(GangWord::kPing);
  }
  Flush();
  if (is_open() && is_reading_) Receive();
  if (is_open() && !is_dialler_ && now >= heard_at_ + kSilenceMost) Lose("it sent nothing for a minute");
}

void GangLink::Greet() {
  const auto outcome = channel_->Read({});
  needs_write_ = outcome.io == TlsChannel::Io::kNeedsWrite;
  if (outcome.io == TlsChannel::Io::kNeedsRead || needs_write_) return;
  if (outcome.io != TlsChannel::Io::kDone) return Lose("it does not know the job's key: " + channel_->error());
  state_ = State::kOpen;
  heard_at_ = MonotonicNow();
  ping_at_ = heard_at_ + kPingEvery;
}

void GangLink::Flush() {
  while (unsent() > 0) {
    const auto outcome = channel_->Write(std::string_view(unsent_).substr(sent_));
    if (outcome.io == TlsChannel::Io::kNeedsWrite || outcome.io == TlsChannel::Io::kNeedsRead) break;
    if (outcome.io != TlsChannel::Io::kDone) return Lose(channel_->error());
    sent_ += outcome.bytes;
  }
  if (sent_ == unsent_.size() || sent_ > std::size_t{1} << 20) {
    unsent_.erase(0, sent_);
    sent_ = 0;
  }
}

void GangLink::Receive() {
  std::array<char, 16'384> room;
  for (std::size_t got = 0; !is_ending_;) {
    if (got >= kTurnMost) {
      has_more_ = true;
      return;
    }
    const auto outcome = channel_->Read(room);
    if (outcome.io == TlsChannel::Io::kNeedsRead || outcome.io == TlsChannel::Io::kNeedsWrite) return;
    if (outcome.io != TlsChannel::Io::kDone) {
      is_ending_ = true;
      why_ = outcome.io == TlsChannel::Io::kEnded ? "it has closed the connection" : channel_->error();
      break;
    }
    got += outcome.bytes;
    heard_at_ = MonotonicNow();
    reader_.Feed({room.data(), outcome.bytes});
  }
  // The connection is lost, but Next() still returns the complete frames that have arrived.
  has_more_ = false;
  if (reader_.size() == 0) Lose(why_);
}

std::optional<GangFrame> GangLink::Next() {
  if (is_lost()) return std::nullopt;
  auto frame = reader_.Next();
  if (!frame && reader_.is_bad()) Lose("it sent an unknown message");
  else if (!frame && is_ending_) Lose(why_);
  return frame;
}

void GangLink::Send(GangWord word, int value, std::string_view body) {
  if (is_lost()) return;
  unsent_ += EncodeGangFrame(word, value, body);
  if (is_open()) Flush();
}

void GangLink::Lose(std::string why) {
  state_ = State::kLost;
  why_ = std::move(why);
  unsent_.clear();
  sent_ = 0;
  if (channel_) channel_->Close();
  channel_.reset();
  socket_.Reset();
}

}  // namespace divvy
