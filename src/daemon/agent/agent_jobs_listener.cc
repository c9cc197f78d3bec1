#include "daemon/agent/agent_jobs_listener.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/http/http_reply.h"
#include "daemon/runtime/fd_bridge.h"
#include "platform/os/unix_socket.h"
#include "wire/messages/agent_codec.h"
#include "wire/messages/agent_messages.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
using Stream = asio::posix::stream_descriptor;

constexpr int kAcceptsPerTurn = 64;
constexpr auto kRefusedWithin = std::chrono::seconds(2);
/// How long no connection is accepted after the process ran out of descriptors.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// A client that gets an error as soon as it has sent a request.
struct Refused {
  Refused(asio::io_context& loop, int fd, std::shared_ptr<std::size_t> count)
      : stream(loop, fd), timer(loop), all(std::move(count)) {
    ++*all;
  }
  Refused(const Refused&) = delete;
  Refused& operator=(const Refused&) = delete;
  ~Refused() {
    --*all;
    CloseAccepted(stream.release());
  }
  Stream stream;
  asio::steady_timer timer;
  std::shared_ptr<std::size_t> all;
};

}  // namespace

Result<std::unique_ptr<AgentJobsListener>> AgentJobsListener::Open(asio::io_context& loop, const std::string& path,
                                                                   unsigned mode, Ports ports) {
  DIVVY_TRY(Descriptor listener, ListenUnix(path, mode));
  auto opened = std::make_unique<AgentJobsListener>(loop, std::move(listener), std::move(ports));
  opened->AcceptLater();
  return opened;
}

AgentJobsListener::AgentJobsListener(asio::io_context& loop, Descriptor listener, Ports ports)
    : loop_(loop),
      listener_(loop, listener.Release()),
      ports_(std::move(ports)),
      self_(std::make_shared<AgentJobsListener*>(this)) {}

AgentJobsListener::~AgentJobsListener() {
  CutAll();
  *self_ = nullptr;
}

void AgentJobsListener::AcceptLater() {
  listener_.async_wait(Stream::wait_read, [self = self_](const boost::system::error_code& error) {
    if (!error && *self != nullptr) (*self)->Accept();
  });
}

void AgentJobsListener::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    Descriptor connection(::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.is_open()) {
      Admit(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    auto timer = std::make_shared<asio::steady_timer>(loop_, kAcceptPause);
    return timer->async_wait([self = self_, timer](const boost::system::error_code&) {
      if (*self != nullptr) (*self)->AcceptLater();
    });
  }
  AcceptLater();
}

void AgentJobsListener::Admit(Descriptor connection) {
  const std::int64_t uid = CredentialsOf(connection.get()).uid;
  const std::string user = ports_.user_name(uid);
  if (user.empty()) {
    return Refuse(std::move(connection), 403, "permission_denied",
                  "on this node only jobs can reach the controller, and you have no job here; divvy login with a token "
                  "of yours gives access from anywhere");
  }
  Channels* channels = ports_.channels();
  if (channels == nullptr) {
    return Refuse(std::move(connection), 503, "unreachable",
                  "the controller is unreachable; jobs here continue, try again later");
  }
  const auto of_user = of_users_.find(uid);
  const bool is_one_too_many = of_user != of_users_.end() && of_user->second >= kMostOfOne;
  if (is_one_too_many || connections_.size() >= kMost) {
    return Refuse(std::move(connection), 503, "limit_exceeded",
                  "jobs here have " + std::to_string(is_one_too_many ? kMostOfOne : kMost) +
                      " connections to the controller already; try again later");
  }
  wire::ChannelPurpose purpose;
  purpose.kind = "door";
  purpose.user = user;
  auto bridge = FdBridge::OfSocket(loop_, ForeignDescriptor(connection.Release()));
  if (!bridge) return;
  const std::uint64_t id = next_++;
  connections_.emplace(id, Connection{uid, *bridge});
  ++of_users_[uid];
  // Counted until the descriptors are closed: a client that does not read its answer still has a connection.
  (*bridge)->OnDone([self = self_, id] {
    if (*self == nullptr) return;
    const auto over = (*self)->connections_.extract(id);
    if (!over) return;
    const auto count = (*self)->of_users_.find(over.mapped().uid);
    if (--count->second == 0) (*self)->of_users_.erase(count);
  });
  const Status opened = (*bridge)->Open(*channels, wire::EncodeAgent(purpose));
  if (!opened) (*bridge)->Reset(opened.error().message);
}

void AgentJobsListener::CutAll() {
  for (auto& [id, connection] : std::map(connections_)) connection.bridge->Reset("its connection is gone");
}

void AgentJobsListener::Refuse(Descriptor connection, int status, const std::string& code, const std::string& why) {
  if (*refused_ >= kMostRefused) return CloseAccepted(connection.Release());
  const auto refused = std::make_shared<Refused>(loop_, connection.Release(), refused_);
  std::string answer;
  Serialise(ErrorResponse(status, code, why), {.keeps_alive = false}, answer);
  refused->timer.expires_after(kRefusedWithin);
  refused->timer.async_wait([refused](const boost::system::error_code& error) {
    if (!error) refused->stream.cancel();
  });
  refused->stream.async_wait(Stream::wait_read, [refused, answer](const boost::system::error_code&) {
    refused->timer.cancel();
    const int fd = refused->stream.native_handle();
    char asked[4096];
    while (ReceiveForeign(fd, asked, sizeof asked, MSG_DONTWAIT).size > 0) {
    }
    // The answer fits into the buffer of a new socket, so this does not block; a failure is ignored.
    static_cast<void>(!::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  });
}

}  // namespace divvy
