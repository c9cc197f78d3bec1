#include "platform/os/pty.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace divvy {
namespace {

constexpr std::size_t kRecent = 65536;
// A client that has not read this many bytes of output is considered gone.
constexpr std::size_t kMaxUnread = std::size_t{4} << 20;
constexpr std::size_t kMaxInput = 65536;
constexpr char kDetachPrefix = 0x10;  // Ctrl-P
constexpr char kDetach = 0x11;        // Ctrl-Q

bool IsReadyFor(int fd, short events) {
  pollfd polled = {.fd = fd, .events = events, .revents = 0};
  return ::poll(&polled, 1, 0) > 0 && (polled.revents & events) != 0;
}

}  // namespace

Result<Pty> Pty::Open(uid_t owner, WindowSize window, Descriptor log) {
  const auto failed = [] { return Internal(std::string("cannot open a terminal: ") + std::strerror(errno)); };
  Pty pty;
  pty.log_ = std::move(log);
  pty.master_.Reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  char path[64] = {};
  if (!pty.master_.is_open() || ::unlockpt(pty.master_.get()) != 0 ||
      ::ptsname_r(pty.master_.get(), path, sizeof path) != 0) {
    return failed();
  }
  pty.slave_path_ = path;
  if (owner != static_cast<uid_t>(-1) && ::chown(path, owner, static_cast<gid_t>(-1)) != 0) return failed();
  // A new terminal has no size, and full-screen programs fail without one.
  pty.Resize({.rows = window.rows > 0 ? window.rows : 24, .columns = window.columns > 0 ? window.columns : 80});
  return pty;
}

void Pty::Resize(WindowSize window) {
  if (window.rows <= 0 || window.columns <= 0) return;
  winsize size = {};
  size.ws_row = static_cast<unsigned short>(window.rows);
  size.ws_col = static_cast<unsigned short>(window.columns);
  ::ioctl(master_.get(), TIOCSWINSZ, &size);
}

void Pty::Attach(std::uint64_t attachment, ForeignDescriptor in, ForeignDescriptor out) {
  Client client;
  client.attachment = attachment;
  client.in = std::move(in);
  client.out = std::move(out);
  client.unread = recent_.size() > kRecent ? recent_.substr(recent_.size() - kRecent) : recent_;
  WriteTo(client);
  clients_.push_back(std::move(client));
  DropGone();
}

void Pty::Watch(std::vector<pollfd>& polled) const {
  const short master_events = static_cast<short>(POLLIN | (input_.empty() ? 0 : POLLOUT));
  polled.push_back({.fd = is_over_ ? -1 : master_.get(), .events = master_events, .revents = 0});
  for (const Client& client : clients_) {
    const bool reads = client.in.is_open() && input_.size() < kMaxInput;
    polled.push_back({.fd = reads ? client.in.get() : -1, .events = POLLIN, .revents = 0});
    const short out_events = client.unread.empty() ? short{0} : short{POLLOUT};
    polled.push_back({.fd = client.out.get(), .events = out_events, .revents = 0});
  }
}

void Pty::OnPolled(const std::vector<pollfd>& polled) {
  if ((polled[0].revents & POLLOUT) != 0) WriteInput();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const pollfd& in = polled[1 + 2 * i];
    const pollfd& out = polled[2 + 2 * i];
    if ((out.revents & POLLOUT) != 0) WriteTo(clients_[i]);
    if (in.revents != 0) ReadInput(clients_[i]);
    if ((out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) clients_[i].is_gone = true;
  }
  if ((polled[0].revents & (POLLIN | POLLHUP)) != 0) ReadOutput();
  DropGone();
  // A program changes the terminal's mode before it shows its prompt, so the mode is checked when output arrives.
  if ((polled[0].revents & POLLIN) != 0) TypeEndAgain();
}

// Returns true if there was something to read.
bool Pty::ReadOutput() {
  char block[16384];
  const ssize_t size = ::read(master_.get(), block, sizeof block);
  if (size <= 0) {
    is_over_ = size == 0 || errno == EIO;
    return false;
  }
  const std::string_view output(block, static_cast<std::size_t>(size));
  for (std::string_view rest = output; log_.is_open() && !rest.empty();) {
    const ssize_t written = ::write(log_.get(), rest.data(), rest.size());
    if (written <= 0) break;  // On a full disk, output is missing from the log but the job continues.
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  recent_.append(output);
  if (recent_.size() > 2 * kRecent) recent_.erase(0, recent_.size() - kRecent);
  for (Client& client : clients_) {
    client.unread.append(output);
    WriteTo(client);
    if (client.unread.size() > kMaxUnread) client.is_gone = true;
  }
  return true;
}

void Pty::ReadInput(Client& client) {
  char block[4096];
  const ssize_t size = ReceiveForeign(client.in.get(), block, sizeof block, 0).size;
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size <= 0) {
    client.in.Reset();
    client.is_silent = size == 0 && client.typed_end;
    client.is_gone = !client.is_silent;
    return;
  }
  for (const char byte : std::string_view(block, static_cast<std::size_t>(size))) {
    if (client.saw_prefix && byte == kDetach) {
      client.is_gone = client.has_left = true;
      break;
    }
    // A Ctrl-P is held back until the next byte. If that is not Ctrl-Q, both go to the program.
    if (client.saw_prefix) input_.push_back(kDetachPrefix);
    client.saw_prefix = byte == kDetachPrefix;
    if (!client.saw_prefix) input_.push_back(byte);
    client.typed_end = byte == kEndOfFile;
  }
  if (client.typed_end) was_canonical_ = IsCanonical();
  WriteInput();
}

bool Pty::IsCanonical() const {
  termios mode = {};
  return ::tcgetattr(master_.get(), &mode) != 0 || (mode.c_lflag & ICANON) != 0;
}

void Pty::TypeEndAgain() {
  if (std::ranges::none_of(clients_, &Client::is_silent) || IsCanonical() == was_canonical_) return;
  was_canonical_ = !was_canonical_;
  input_.push_back(kEndOfFile);
  WriteInput();
}

void Pty::WriteInput() {
  while (!input_.empty()) {
    const ssize_t size = ::write(master_.get(), input_.data(), input_.size());
    if (size <= 0) return;
    input_.erase(0, static_cast<std::size_t>(size));
  }
}

// The client shares the descriptor's flags with other processes, so it is not made non-blocking. A socket is written
// with MSG_DONTWAIT. Anything else is written in small pieces after poll() has reported room.
void Pty::WriteTo(Client& client) {
  constexpr std::size_t kPiece = 512;  // Writable pipes take PIPE_BUF (4096), terminals 512.
  while (!client.unread.empty() && !client.is_gone) {
    ssize_t size = ::send(client.out.get(), client.unread.data(), client.unread.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno == ENOTSOCK) {
      if (!IsReadyFor(client.out.get(), POLLOUT)) return;
      size = ::write(client.out.get(), client.unread.data(), std::min(client.unread.size(), kPiece));
    }
    if (size < 0) {
      client.is_gone = errno != EAGAIN && errno != EINTR;
      return;
    }
    client.unread.erase(0, static_cast<std::size_t>(size));
  }
}

void Pty::DropGone() {
  for (const Client& client : clients_) {
    if (client.has_left || (client.is_gone && client.attachment != 0)) detached_.push_back(client.attachment);
  }
  std::erase_if(clients_, [](const Client& client) { return client.is_gone; });
}

void Pty::Finish() {
  while (ReadOutput()) {
  }
  for (int rounds = 0; rounds < 100; ++rounds) {
    std::erase_if(clients_, [](const Client& client) { return client.unread.empty() || client.is_gone; });
    if (clients_.empty()) break;
    std::vector<pollfd> polled;
    for (const Client& client : clients_) polled.push_back({.fd = client.out.get(), .events = POLLOUT, .revents = 0});
    ::poll(polled.data(), polled.size(), 10);
    for (Client& client : clients_) WriteTo(client);
  }
  clients_.clear();
  master_.Reset();
  log_.Reset();
}

}  // namespace divvy
