// The sockets are watched by a separate epoll instance, which is one descriptor to Asio. All ready connections are
// served in one loop iteration, and all their answers are written at its end.
#include "daemon/http/http_server.h"

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
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/http/http_server_connection.h"
#include "platform/net/tcp.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr int kEventsPerTurn = 256;
constexpr int kAcceptsPerTurn = 64;
constexpr std::size_t kScratch = 64u << 10;
/// How often TCP connections are checked for clients that are too slow.
constexpr auto kSweepPause = std::chrono::seconds(2);
/// How long no connection is accepted after the process ran out of descriptors; a connection that ends makes this
/// shorter.
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

/// A limit on connections: at most `most` connections with the same key.
struct Share {
  std::string key;
  std::size_t most = 0;
  std::string owners = {};  // Starts the message to a client that is refused: "you have".
};

/// Returns true for root and the daemon's own user on this machine.
bool IsPrivileged(const Peer& peer) {
  return !peer.is_remote() && peer.node.empty() && (peer.uid == 0 || peer.uid == ::geteuid());
}

/// The limits that apply to a connection of this client: of its user, node or address, and last of all clients on the
/// same listener.
std::vector<Share> SharesOf(const Peer& peer, const HttpServerOptions& options) {
  const std::string user = std::to_string(peer.uid);
  if (!peer.node.empty()) {
    return {{"node user " + user, options.connections_of_a_user, "your jobs on other machines have"},
            {"node " + peer.node, options.connections_of_a_node, "jobs on node " + peer.node + " have"},
            {"nodes", options.node_connections, "jobs on other machines have"}};
  }
  if (peer.is_remote()) {
    const bool is_loopback = peer.address.starts_with("127.") || peer.address == "::1";
    std::vector<Share> shares = {{"plain", options.plain_connections}};
    if (!peer.is_plain) {
      shares = {
          {"address " + (is_loopback ? std::string("127.0.0.1") : peer.address), options.connections_of_an_address},
          {"tls", options.remote_connections}};
    }
    return shares;
  }
  constexpr std::string_view kLocal = "socket";
  if (IsPrivileged(peer)) return {{std::string(kLocal), options.connections, "the users of this machine have"}};
  const std::size_t most = options.connections - std::min(options.connections, options.reserved_connections);
  return {{"user " + user, std::min(most, options.connections_of_a_local_user), "you have"},
          {std::string(kLocal), most, "the users of this machine have"}};
}

/// Sends an error to a client that is closed at once. It fits into a fresh socket's buffer; a failure is ignored.
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
  void ListenPlain(Descriptor listener);
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
  // A connection of the Unix socket is still counted, since its user could take over many.
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
  void AddLocal(Descriptor connection, Peer peer);
  bool AcceptTcp(int listener, bool is_plain);
  void Add(Descriptor fd, Peer peer, std::optional<TlsChannel> tls = std::nullopt);
  void Uncount(const HttpConnection& connection);
  using Connections = std::map<std::uint64_t, HttpConnection*>;  // By connection number, oldest first.
  static HttpConnection* IdleOf(const Connections& connections);
  std::string MakeRoom(const Peer& peer);
  HeldBytes HeldBy(const Peer& peer);
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
  std::size_t taken_connections_ = 0;                      // Connections that have switched to another protocol.
  std::unordered_map<std::string, Connections> by_share_;  // By the key of a Share.
  /// Bytes of requests, by the key of the client's first Share. Owned by the counted requests.
  std::unordered_map<std::string, std::weak_ptr<std::size_t>> held_by_;
  HeldBytes::Sum held_by_all_ = std::make_shared<std::size_t>(0);
  std::string scratch_;
  dev_t socket_device_ = 0;
  ino_t socket_inode_ = 0;

  std::unordered_map<HttpConnection*, std::unique_ptr<HttpConnection>> connections_;
  std::vector<HttpConnection*> due_;                        // To be flushed at the end of the loop iteration.
  std::vector<std::unique_ptr<HttpConnection>> graveyard_;  // Connections that are over, but may still be in due_.
  std::uint64_t last_connection_ = 0;
  std::uint64_t times_out_of_fds_ = 0;
  bool is_in_turn_ = false;
  bool is_flush_posted_ = false;
  bool is_sweeping_ = false;
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
  // A flush may make room for further requests, whose answers make the same connection due again.
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
  // Closing alone is not enough: a child between fork and exec may still hold a copy of the descriptor.
  WatchFd(EPOLL_CTL_DEL, connection.fd(), 0, nullptr);
  if (connection.is_taken()) --taken_connections_;
  if (!connection.is_taken() || !connection.is_remote()) Uncount(connection);
  if (auto node = connections_.extract(&connection)) graveyard_.push_back(std::move(node.mapped()));
  ResumeAccepting();
}

void HttpServer::Loop::Uncount(const HttpConnection& connection) {
  for (const Share& share : SharesOf(connection.peer(), options_)) {
    const auto of_share = by_share_.find(share.key);
    of_share->second.erase(connection.peer().connection);
    if (of_share->second.empty()) by_share_.erase(of_share);
  }
}

// Accepts connections on all listeners. If descriptors run out, all listeners pause for a while.
void HttpServer::Loop::Accept() {
  for (int i = 0; i < kAcceptsPerTurn && AcceptLocal(); ++i) continue;
  for (int i = 0; i < kAcceptsPerTurn && tls_listener_.get() >= 0 && AcceptTcp(tls_listener_.get(), false); ++i)
    continue;
  for (int i = 0; i < kAcceptsPerTurn && plain_listener_.get() >= 0 && AcceptTcp(plain_listener_.get(), true); ++i)
    continue;
}

// Returns true if there may be more.
bool HttpServer::Loop::AcceptLocal() {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == EINTR || errno == ECONNABORTED) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) PauseAccepting();
    return false;
  }
  Peer peer = PeerOf(fd.get());
  if (const std::string why = MakeRoom(peer); why.empty()) {
    AddLocal(Descriptor(fd.release()), std::move(peer));
  } else {
    TellFull(fd.get(), why);
    CloseAccepted(fd.release());
  }
  return true;
}

void HttpServer::Loop::AddLocal(Descriptor connection, Peer peer) {
  if (options_.on_local) options_.on_local(connection.get(), peer);
  Add(std::move(connection), std::move(peer));
}

// Returns the oldest connection that waits for no answer; prefers one that has never sent a request.
HttpConnection* HttpServer::Loop::IdleOf(const Connections& connections) {
  HttpConnection* idle = nullptr;
  for (const auto& [number, connection] : connections) {
    if (!connection->is_idle()) continue;
    if (connection->is_silent()) return connection;
    if (idle == nullptr) idle = connection;
  }
  return idle;
}

// Returns the message for the limit that one more connection would exceed, or "". Over TCP the oldest connection that
// waits for no answer is closed instead: a browser reconnects by itself, and a client that holds silent connections
// cannot keep others out.
std::string HttpServer::Loop::MakeRoom(const Peer& peer) {
  for (const Share& share : SharesOf(peer, options_)) {
    const auto of_share = by_share_.find(share.key);
    if (of_share == by_share_.end() ? share.most > 0 : of_share->second.size() < share.most) continue;
    HttpConnection* idle = peer.is_remote() && of_share != by_share_.end() ? IdleOf(of_share->second) : nullptr;
    if (idle == nullptr)
      return share.owners + " " + std::to_string(share.most) + " connections to the controller already";
    idle->End();
  }
  return "";
}

HeldBytes HttpServer::Loop::HeldBy(const Peer& peer) {
  if (IsPrivileged(peer)) return {};
  std::weak_ptr<std::size_t>& known = held_by_[SharesOf(peer, options_).front().key];
  HeldBytes::Sum sum = known.lock();
  if (!sum) known = sum = std::make_shared<std::size_t>(0);
  return {std::move(sum), held_by_all_};
}

void HttpServer::Loop::Adopt(Descriptor connection, Peer peer) {
  if (is_stopped_) return;
  ::fcntl(connection.get(), F_SETFL, ::fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
  if (const std::string why = MakeRoom(peer); !why.empty()) return TellFull(connection.get(), why);
  Add(std::move(connection), std::move(peer));
}

bool HttpServer::Loop::AcceptTcp(int listener, bool is_plain) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.get() < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      PauseAccepting();
      return false;
    }
    return true;  // The connection is already gone again.
  }
  Peer peer;
  peer.address = PeerAddressOf(fd.get());
  peer.is_plain = is_plain;
  // Before the handshake no error can be sent; the client waits and tries again.
  if (peer.address.empty() || !MakeRoom(peer).empty()) return true;
  std::optional<TlsChannel> channel;
  if (!is_plain) {
    auto begun = tls_->Begin(fd.get());
    if (!begun) return true;
    channel = *std::move(begun);
  }
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  Add(Descriptor(fd.release()), std::move(peer), std::move(channel));
  return true;
}

void HttpServer::Loop::Add(Descriptor fd, Peer peer, std::optional<TlsChannel> tls) {
  peer.connection = ++last_connection_;
  auto connection = std::make_unique<HttpConnection>(*this, fd.Release(), peer, HeldBy(peer), std::move(tls));
  WatchFd(EPOLL_CTL_ADD, connection->fd(), EPOLLIN, connection.get());
  for (const Share& share : SharesOf(peer, options_)) by_share_[share.key].emplace(peer.connection, connection.get());
  connections_.emplace(connection.get(), std::move(connection));
  if (!is_sweeping_) Sweep();
}

// Repeated while any connection speaks HTTP.
void HttpServer::Loop::Sweep() {
  is_sweeping_ = connections_.size() > taken_connections_;
  if (!is_sweeping_) return;
  sweep_timer_.expires_after(std::min<std::chrono::milliseconds>(kSweepPause, options_.request_time));
  sweep_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    auto self = weak.lock();
    if (self == nullptr || self->is_stopped_ || error) return;
    std::vector<HttpConnection*> present;
    for (const auto& [connection, owned] : self->connections_) {
      if (!connection->is_taken()) present.push_back(connection);
    }
    const auto now = std::chrono::steady_clock::now();
    for (HttpConnection* connection : present) connection->EndIfLate(now);
    self->EndTurn();
    std::erase_if(self->held_by_, [](const auto& client) { return client.second.expired(); });
    self->Sweep();
  });
}

Status HttpServer::Loop::ListenTls(const HostPort& address, TlsContext context) {
  DIVVY_TRY(const int fd, ListenTcp(address.host, address.port));
  tls_listener_ = UniqueFd(fd);
  tls_.emplace(std::move(context));
  WatchFd(EPOLL_CTL_ADD, fd, EPOLLIN, nullptr);
  return {};
}

void HttpServer::Loop::ListenPlain(Descriptor listener) {
  plain_listener_ = UniqueFd(listener.Release());
  WatchFd(EPOLL_CTL_ADD, plain_listener_.get(), EPOLLIN, nullptr);
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
  // Answers of this loop iteration are still sent, as far as possible without waiting.
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
void HttpServer::ListenPlain(Descriptor listener) { loop_->ListenPlain(std::move(listener)); }
std::uint16_t HttpServer::plain_port() const { return loop_->plain_port(); }
void HttpServer::Adopt(Descriptor connection, const Peer& peer) { loop_->Adopt(std::move(connection), peer); }
std::uint16_t HttpServer::tls_port() const { return loop_->tls_port(); }
void HttpServer::StopAccepting() { loop_->StopAccepting(); }
std::size_t HttpServer::connections() const { return loop_->connections(); }
std::uint64_t HttpServer::times_out_of_fds() const { return loop_->times_out_of_fds(); }

}  // namespace divvy
