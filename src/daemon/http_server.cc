// The sockets are watched by an epoll of our own, which is one descriptor to Asio: all connections that are ready are
// served in one turn, and everything that was answered in it is written at its end.
#include "daemon/http_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/http_server_connection.h"
#include "platform/tcp.h"
#include "platform/unix_socket.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr int kEventsPerTurn = 256;
constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kScratch = 64u << 10;
/// How often those from other machines are looked at for one who does not say what they want.
constexpr auto kSweepPause = std::chrono::seconds(2);
/// How long nobody is let in after the process ran out of descriptors; a connection that ends opens the door earlier.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

class UniqueFd {
 public:
  explicit UniqueFd(int fd = -1) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~UniqueFd() { Close(); }

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

Peer PeerOf(int fd) {
  Peer peer;
  const PeerCredentials credentials = CredentialsOf(fd);
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  peer.pid = credentials.pid;
  return peer;
}

/// What the connections of other machines are counted by.
std::vector<std::string> KeysOf(const Peer& peer) {
  if (peer.node.empty()) return {peer.address};
  return {"node " + peer.node, "user " + std::to_string(peer.uid)};
}

/// To one who is closed at once. Fits into a fresh socket's buffer; nobody would act on a failure.
void TellFull(int fd, const std::string& why) {
  std::string text;
  Serialise(ErrorResponse(503, "limit_exceeded", why + "; try again later"), {.keeps_alive = false}, text);
  [[maybe_unused]] const ssize_t sent = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

class HttpServer::Loop final : public HttpConnectionOwner, public std::enable_shared_from_this<Loop> {
 public:
  Loop(asio::io_context& loop, HttpServerOptions options, OnRequestCallback on_request, UniqueFd listener,
       UniqueFd epoll)
      : loop_(loop),
        options_(std::move(options)),
        on_request_(std::move(on_request)),
        listener_(std::move(listener)),
        epoll_(loop, epoll.release()),
        accept_timer_(loop),
        sweep_timer_(loop),
        scratch_(kScratch, '\0') {
    struct stat mine {};
    if (::lstat(options_.path.c_str(), &mine) == 0) {
      socket_device_ = mine.st_dev;
      socket_inode_ = mine.st_ino;
    }
  }

  void Start() {
    WatchFd(EPOLL_CTL_ADD, listener_.get(), EPOLLIN, nullptr);
    Arm();
  }
  void Adopt(Descriptor connection, Peer peer);
  Status ListenTls(const HostPort& address, TlsContext context);
  Status ListenPlain(const HostPort& address);
  std::uint16_t plain_port() const {
    return plain_listener_.get() < 0 ? std::uint16_t{0} : PortOf(plain_listener_.get());
  }
  std::uint16_t tls_port() const { return tls_listener_.get() < 0 ? std::uint16_t{0} : PortOf(tls_listener_.get()); }
  void StopAccepting();
  void Stop();

  std::size_t connections() const { return connections_.size(); }
  std::uint64_t times_out_of_fds() const { return times_out_of_fds_; }

  const HttpServerOptions& options() const override { return options_; }
  void OnRequest(const Peer& peer, HttpRequest&& request, Reply reply) override {
    on_request_(peer, std::move(request), std::move(reply));
  }
  void FlushLater(HttpConnection& connection) override;
  void Watch(HttpConnection& connection, bool reads, bool writes) override;
  void Remove(HttpConnection& connection) override;
  void OnTakenOver(HttpConnection& connection) override {
    if (connection.is_remote()) Uncount(connection);
    ++taken_connections_;
  }
  std::string& scratch() override { return scratch_; }

 private:
  void Arm();
  void Turn();
  void EndTurn();
  void Accept();
  bool AcceptLocal();
  bool AcceptTcp(int listener, bool is_plain);
  void Add(std::unique_ptr<HttpConnection> connection);
  void Uncount(const HttpConnection& connection);
  std::string WhyFull(const Peer& peer) const;
  std::size_t Of(const std::string& address) const;
  void Sweep();
  void PauseAccepting();
  void ResumeAccepting();
  void WatchFd(int operation, int fd, std::uint32_t events, void* owner) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = owner;
    ::epoll_ctl(epoll_.native_handle(), operation, fd, &event);
  }

  void WatchTcp(int operation, std::uint32_t events) {
    for (const UniqueFd* listener : {&tls_listener_, &plain_listener_}) {
      if (listener->get() >= 0) WatchFd(operation, listener->get(), events, nullptr);
    }
  }

  asio::io_context& loop_;
  HttpServerOptions options_;
  OnRequestCallback on_request_;
  UniqueFd listener_;
  asio::posix::stream_descriptor epoll_;
  asio::steady_timer accept_timer_;
  asio::steady_timer sweep_timer_;
  UniqueFd tls_listener_;
  UniqueFd plain_listener_;
  std::optional<TlsContext> tls_;
  std::size_t remote_connections_ = 0;  // Over TCP and speaking HTTP.
  std::size_t taken_connections_ = 0;   // Which speak something else by now.
  std::size_t node_connections_ = 0;    // From agents' machines.
  std::unordered_map<std::string, std::size_t>
      by_address_;  // Connections over TLS; of "node n1" and "user 1000" there.
  std::string scratch_;
  dev_t socket_device_ = 0;
  ino_t socket_inode_ = 0;

  std::unordered_map<HttpConnection*, std::unique_ptr<HttpConnection>> connections_;
  std::vector<HttpConnection*> due_;                        // To be flushed at the end of the turn.
  std::vector<std::unique_ptr<HttpConnection>> graveyard_;  // Over, but perhaps still named in due_.
  std::uint64_t last_connection_ = 0;
  std::uint64_t times_out_of_fds_ = 0;
  bool is_in_turn_ = false;
  bool is_flush_posted_ = false;
  bool is_accepting_paused_ = false;
  bool is_stopped_ = false;
};

void HttpServer::Loop::Arm() {
  epoll_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [weak = weak_from_this()](const boost::system::error_code& error) {
                      auto self = weak.lock();
                      if (self == nullptr || self->is_stopped_ || error) return;
                      self->Turn();
                      self->Arm();
                    });
}

void HttpServer::Loop::Turn() {
  is_in_turn_ = true;
  epoll_event events[kEventsPerTurn];
  int count = ::epoll_wait(epoll_.native_handle(), events, kEventsPerTurn, 0);
  bool has_arrivals = false;
  for (int i = 0; i < count; ++i) {
    auto* connection = static_cast<HttpConnection*>(events[i].data.ptr);
    if (connection == nullptr) {
      has_arrivals = true;
      continue;
    }
    if ((events[i].events & EPOLLIN) != 0) connection->OnReadable();
    if (!connection->is_over() && (events[i].events & EPOLLOUT) != 0) connection->OnWritable();
    if (!connection->is_over() && (events[i].events & (EPOLLHUP | EPOLLERR)) != 0) connection->OnHangUp();
  }
  if (has_arrivals) Accept();
  EndTurn();
}

void HttpServer::Loop::EndTurn() {
  is_in_turn_ = true;
  // A flush may find room for further requests, whose answers make the same connection due once more.
  for (std::size_t i = 0; i < due_.size(); ++i) {
    due_[i]->is_flush_due = false;
    due_[i]->Flush();
  }
  due_.clear();
  graveyard_.clear();
  is_in_turn_ = false;
}

void HttpServer::Loop::FlushLater(HttpConnection& connection) {
  if (connection.is_flush_due || connection.is_over()) return;
  connection.is_flush_due = true;
  due_.push_back(&connection);
  if (is_in_turn_ || is_flush_posted_) return;
  is_flush_posted_ = true;
  asio::post(loop_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (self == nullptr || self->is_stopped_) return;
    self->is_flush_posted_ = false;
    self->EndTurn();
  });
}

void HttpServer::Loop::Watch(HttpConnection& connection, bool reads, bool writes) {
  std::uint32_t events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u);
  WatchFd(EPOLL_CTL_MOD, connection.fd(), events, &connection);
}

void HttpServer::Loop::Remove(HttpConnection& connection) {
  // Closing alone would not do: a child between fork and exec may still hold a copy of the descriptor.
  WatchFd(EPOLL_CTL_DEL, connection.fd(), 0, nullptr);
  if (connection.is_taken()) --taken_connections_;
  else if (connection.is_remote()) Uncount(connection);
  if (auto node = connections_.extract(&connection)) graveyard_.push_back(std::move(node.mapped()));
  ResumeAccepting();
}

void HttpServer::Loop::Uncount(const HttpConnection& connection) {
  --(connection.is_on_node() ? node_connections_ : remote_connections_);
  for (const std::string& key : KeysOf(connection.peer())) {
    const auto of_key = by_address_.find(key);
    if (--of_key->second == 0) by_address_.erase(of_key);
  }
}

// Whoever came, at either door. A connection that could not be taken for want of descriptors closes both for a while.
void HttpServer::Loop::Accept() {
  for (int i = 0; i < kAcceptsPerTurn && AcceptLocal(); ++i) continue;
  for (int i = 0; i < kAcceptsPerTurn && tls_listener_.get() >= 0 && AcceptTcp(tls_listener_.get(), false); ++i)
    continue;
  for (int i = 0; i < kAcceptsPerTurn && plain_listener_.get() >= 0 && AcceptTcp(plain_listener_.get(), true); ++i)
    continue;
}

// True: there may be more.
bool HttpServer::Loop::AcceptLocal() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) PauseAccepting();
    return false;
  }
  const std::size_t present = connections_.size() - remote_connections_ - node_connections_ - taken_connections_;
  if (present >= options_.connections) {
    TellFull(fd.get(), "the daemon has " + std::to_string(present) + " connections, which is its limit");
    return true;
  }
  Peer peer = PeerOf(fd.get());
  peer.connection = ++last_connection_;
  Add(std::make_unique<HttpConnection>(*this, fd.release(), peer));
  return true;
}

std::size_t HttpServer::Loop::Of(const std::string& address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? 0 : found->second;
}

// One user's jobs leave room for others', and one machine's for the other machines.
std::string HttpServer::Loop::WhyFull(const Peer& peer) const {
  const auto keys = KeysOf(peer);
  const auto full = [](const std::string& who, std::size_t most) {
    return who + " " + std::to_string(most) + " connections to the controller already";
  };
  if (Of(keys[0]) >= options_.connections_of_a_node)
    return full("jobs on node " + peer.node + " have", options_.connections_of_a_node);
  if (Of(keys[1]) >= options_.connections_of_a_user)
    return full("your jobs on other machines have", options_.connections_of_a_user);
  if (node_connections_ >= options_.node_connections)
    return full("jobs on other machines have", options_.node_connections);
  return "";
}

void HttpServer::Loop::Adopt(Descriptor connection, Peer peer) {
  if (is_stopped_) return;
  ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  if (const std::string why = WhyFull(peer); !why.empty()) return TellFull(connection.get(), why);
  for (const std::string& key : KeysOf(peer)) ++by_address_[key];
  if (++node_connections_ + remote_connections_ == 1) Sweep();
  peer.connection = ++last_connection_;
  Add(std::make_unique<HttpConnection>(*this, connection.Release(), peer));
}

bool HttpServer::Loop::AcceptTcp(int listener, bool is_plain) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      PauseAccepting();
      return false;
    }
    return true;  // That one is gone again.
  }
  // Without a handshake there is nobody to tell; a client waits and tries again.
  if (remote_connections_ >= options_.remote_connections) return true;
  Peer peer;
  peer.address = PeerAddressOf(fd.get());
  peer.is_plain = is_plain;
  std::optional<TlsChannel> channel;
  if (!is_plain) {
    auto begun = tls_->Begin(fd.get());
    if (!begun) return true;
    channel = *std::move(begun);
  }
  if (peer.address.empty()) return true;
  std::size_t& of_address = by_address_[peer.address];
  if (of_address >= options_.connections_of_an_address) return true;
  ++of_address;
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  peer.connection = ++last_connection_;
  if (++remote_connections_ + node_connections_ == 1) Sweep();
  Add(std::make_unique<HttpConnection>(*this, fd.release(), peer, std::move(channel)));
  return true;
}

void HttpServer::Loop::Add(std::unique_ptr<HttpConnection> connection) {
  WatchFd(EPOLL_CTL_ADD, connection->fd(), EPOLLIN, connection.get());
  connections_.emplace(connection.get(), std::move(connection));
}

// Again and again while somebody is there from another machine.
void HttpServer::Loop::Sweep() {
  sweep_timer_.expires_after(std::min<std::chrono::milliseconds>(kSweepPause, options_.remote_request_time));
  sweep_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto self = weak.lock();
    if (self == nullptr || self->is_stopped_ || error) return;
    std::vector<HttpConnection*> remote;
    for (const auto& [connection, owned] : self->connections_) {
      if (connection->is_remote() && !connection->is_taken()) remote.push_back(connection);
    }
    const auto now = std::chrono::steady_clock::now();
    for (HttpConnection* connection : remote) connection->EndIfLate(now);
    self->EndTurn();
    if (self->remote_connections_ + self->node_connections_ > 0) self->Sweep();
  });
}

Status HttpServer::Loop::ListenTls(const HostPort& address, TlsContext context) {
  DIVVY_TRY(const int fd, ListenTcp(address.host, address.port));
  tls_listener_ = UniqueFd(fd);
  tls_.emplace(std::move(context));
  WatchFd(EPOLL_CTL_ADD, fd, EPOLLIN, nullptr);
  return {};
}

Status HttpServer::Loop::ListenPlain(const HostPort& address) {
  DIVVY_TRY(const int fd, ListenTcp(address.host, address.port));
  plain_listener_ = UniqueFd(fd);
  WatchFd(EPOLL_CTL_ADD, fd, EPOLLIN, nullptr);
  return {};
}

void HttpServer::Loop::PauseAccepting() {
  ++times_out_of_fds_;
  is_accepting_paused_ = true;
  WatchFd(EPOLL_CTL_MOD, listener_.get(), 0, nullptr);
  WatchTcp(EPOLL_CTL_MOD, 0);
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    if (auto self = weak.lock(); self != nullptr && !error) self->ResumeAccepting();
  });
}

void HttpServer::Loop::ResumeAccepting() {
  if (!is_accepting_paused_ || listener_.get() < 0) return;
  is_accepting_paused_ = false;
  accept_timer_.cancel();
  WatchFd(EPOLL_CTL_MOD, listener_.get(), EPOLLIN, nullptr);
  WatchTcp(EPOLL_CTL_MOD, EPOLLIN);
}

void HttpServer::Loop::StopAccepting() {
  if (listener_.get() < 0) return;
  accept_timer_.cancel();
  WatchFd(EPOLL_CTL_DEL, listener_.get(), 0, nullptr);
  WatchTcp(EPOLL_CTL_DEL, 0);
  tls_listener_.Close();
  plain_listener_.Close();
  struct stat found {};
  bool is_mine =
      ::lstat(options_.path.c_str(), &found) == 0 && found.st_dev == socket_device_ && found.st_ino == socket_inode_;
  if (is_mine) ::unlink(options_.path.c_str());
  listener_.Close();
}

void HttpServer::Loop::Stop() {
  is_stopped_ = true;
  sweep_timer_.cancel();
  StopAccepting();
  // What was answered in this turn still leaves, as far as it goes without waiting.
  EndTurn();
  is_in_turn_ = true;
  for (auto& [connection, owned] : connections_) connection->Detach();
  connections_.clear();
  due_.clear();
  graveyard_.clear();
  boost::system::error_code ignored;
  epoll_.close(ignored);
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(asio::io_context& loop, HttpServerOptions options,
                                                       OnRequestCallback on_request) {
  DIVVY_TRY(Descriptor listening, ListenUnix(options.path, options.mode));
  UniqueFd listener(listening.Release());
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (epoll.get() < 0) return Unreachable(std::string("opening an epoll: ") + std::strerror(errno));
  try {
    auto inner =
        std::make_shared<Loop>(loop, std::move(options), std::move(on_request), std::move(listener), std::move(epoll));
    inner->Start();
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(inner)));
  } catch (const std::exception& thrown) {
    return Internal(std::string("starting the HTTP server: ") + thrown.what());
  }
}

HttpServer::HttpServer(std::shared_ptr<Loop> loop) : loop_(std::move(loop)) {}
HttpServer::~HttpServer() { loop_->Stop(); }
Status HttpServer::ListenTls(const HostPort& address, TlsContext context) {
  return loop_->ListenTls(address, std::move(context));
}
Status HttpServer::ListenPlain(const HostPort& address) { return loop_->ListenPlain(address); }
std::uint16_t HttpServer::plain_port() const { return loop_->plain_port(); }
void HttpServer::Adopt(Descriptor connection, const Peer& peer) { loop_->Adopt(std::move(connection), peer); }
std::uint16_t HttpServer::tls_port() const { return loop_->tls_port(); }
void HttpServer::StopAccepting() { loop_->StopAccepting(); }
std::size_t HttpServer::connections() const { return loop_->connections(); }
std::uint64_t HttpServer::times_out_of_fds() const { return loop_->times_out_of_fds(); }

}  // namespace divvy
