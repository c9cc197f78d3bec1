#include "platform/net/tls_carry.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr std::size_t kTlsPiece = std::size_t{16} << 10;

/// Relays in both directions until either end closes. Each direction buffers one piece.
void Carry(const Descriptor& connection, TlsChannel& channel, const Descriptor& near) {
  for (const int fd : {connection.get(), near.get()}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  std::string out, in;  // To the peer, and from it.
  std::array<char, kTlsPiece> buffer;
  using Io = TlsChannel::Io;
  bool is_over = false;
  while (!is_over || !in.empty()) {
    short tls_events = 0;
    bool is_idle = true;
    if (in.empty() && !is_over) {
      const TlsChannel::Outcome got = channel.Read(buffer);
      if (got.io == Io::kDone) in.assign(buffer.data(), got.bytes), is_idle = false;
      else if (got.io == Io::kNeedsRead) tls_events |= POLLIN;
      else if (got.io == Io::kNeedsWrite) tls_events |= POLLOUT;
      else is_over = true;
    }
    if (!in.empty()) {
      const ssize_t put = ::send(near.get(), in.data(), in.size(), MSG_NOSIGNAL);
      if (put > 0) in.erase(0, static_cast<std::size_t>(put)), is_idle = false;
      else if (put < 0 && errno != EAGAIN && errno != EINTR) break;
    }
    if (out.empty() && !is_over) {
      const ssize_t got = ::recv(near.get(), buffer.data(), buffer.size(), 0);
      if (got > 0) out.assign(buffer.data(), static_cast<std::size_t>(got)), is_idle = false;
      else if (got == 0) break;
    }
    if (!out.empty() && !is_over) {
      const TlsChannel::Outcome put = channel.Write(out);
      if (put.io == Io::kDone) out.erase(0, put.bytes), is_idle = false;
      else if (put.io == Io::kNeedsRead) tls_events |= POLLIN;
      else if (put.io == Io::kNeedsWrite) tls_events |= POLLOUT;
      else is_over = true;
    }
    if (!is_idle) continue;
    const auto near_events = static_cast<short>((in.empty() ? 0 : POLLOUT) | (out.empty() && !is_over ? POLLIN : 0));
    std::array<pollfd, 2> polled = {{{is_over ? -1 : connection.get(), tls_events, 0}, {near.get(), near_events, 0}}};
    ::poll(polled.data(), polled.size(), -1);
  }
  ::shutdown(near.get(), SHUT_RDWR);
}

}  // namespace

Result<Descriptor> CarryTls(Descriptor connection, TlsChannel channel) {
  auto [near, far] = MakeSocketPair();
  if (!near.is_open()) return LimitExceeded("this process has no file descriptor left");
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Ends {
    Descriptor connection;
    TlsChannel channel;
    Descriptor near;
  };
  // The channel is destroyed before its connection, because it sends its close message over it.
  std::thread([ends = std::make_shared<Ends>(std::move(connection), std::move(channel), std::move(near))] {
    Carry(ends->connection, ends->channel, ends->near);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return std::move(far);
}

}  // namespace divvy
