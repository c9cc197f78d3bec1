#include "daemon/shares/keeper_client.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <fstream>
#include <utility>

#include "platform/os/spawn.h"
#include "wire/messages/share_codec.h"

namespace divvy {

namespace asio = boost::asio;

struct KeeperClient::Connection {
  explicit Connection(asio::io_context& loop) : socket(loop) {}

  asio::local::stream_protocol::socket socket;
  std::string read;
  std::string writing;  // Being written.
  std::string next;
};

namespace {

std::string LastLine(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) last = std::move(line);
  return last;
}

}  // namespace

KeeperClient::KeeperClient(asio::io_context& loop, Options options) : loop_(loop), options_(std::move(options)) {}

KeeperClient::~KeeperClient() { *is_alive_ = false; }

bool KeeperClient::is_connected() const { return connection_ != nullptr; }

void KeeperClient::Open() {
  if (std::exchange(is_open_, true)) return;
  // Posted, because the caller may not expect a callback before Open returns.
  asio::post(loop_, [this, alive = is_alive_] {
    if (*alive) Try();
  });
}

void KeeperClient::Try() {
  if (connection_ != nullptr) return;
  Reap();
  auto connection = std::make_unique<Connection>(loop_);
  boost::system::error_code error;
  // A Unix socket connects at once or not at all.
  connection->socket.connect(options_.directory + "/" + std::string(wire::kKeeperSocket), error);
  if (!error) return OnConnected(std::move(connection));
  const auto now = std::chrono::steady_clock::now();
  if (now - started_at_ >= kStartsEvery) {
    started_at_ = now;
    StartOne();
  }
  TryLater();
}

void KeeperClient::TryLater() {
  auto timer = std::make_shared<asio::steady_timer>(loop_, kTriesEvery);
  timer->async_wait([this, timer, alive = is_alive_](const boost::system::error_code& error) {
    if (!error && *alive) Try();
  });
}

// In its own session, so that signals from the daemon's terminal, or to the daemon's process group, do not reach it.
void KeeperClient::StartOne() {
  if (options_.start) {
    const auto pid = options_.start();
    options_.note(pid ? "event=keeper_started pid=" + std::to_string(*pid)
                      : "event=keeper_not_started what=\"" + pid.error().message + "\"");
    if (!pid) trouble_ = pid.error().message;
    return;
  }
  if (options_.command.empty()) return;
  Spawn spawn(Spawn::Apart::kSession);
  spawn.OpenNull(0).OpenNull(1).Open(2, options_.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  spawn.CloseRest();  // The keeper outlives this process and must not inherit its locks.
  const auto pid = spawn.Start(options_.command.front(), options_.command);
  if (!pid) {
    options_.note("event=keeper_not_started what=\"" + pid.error().message + "\"");
    return;
  }
  child_ = *pid;
  options_.note("event=keeper_started pid=" + std::to_string(*pid));
}

// A keeper that this process has started is its child, so this process must wait for its end. The keeper can outlive
// this process.
void KeeperClient::Reap() {
  int status = 0;
  if (child_ == 0 || ::waitpid(static_cast<pid_t>(child_), &status, WNOHANG) == 0) return;
  child_ = 0;
  if (status == 0) return;
  trouble_ = LastLine(options_.log);
  if (trouble_.empty())
    trouble_ = WIFSIGNALED(status) ? "it was ended by signal " + std::to_string(WTERMSIG(status))
                                   : "it ended with exit code " + std::to_string(WEXITSTATUS(status));
  options_.note("event=keeper_failed what=\"" + trouble_ + "\"");
}

void KeeperClient::OnConnected(std::unique_ptr<Connection> connection) {
  connection_ = std::move(connection);
  trouble_.clear();
  Read();
  listener_->OnKeeper();
}

void KeeperClient::Read() {
  Connection* now = connection_.get();
  asio::async_read_until(now->socket, asio::dynamic_buffer(now->read, wire::kKeeperLineBytes), '\n',
                         [this, now, alive = is_alive_](const boost::system::error_code& error, std::size_t bytes) {
                           if (!*alive || connection_.get() != now) return;
                           if (error) return OnLost(error.message());
                           const std::string line = now->read.substr(0, bytes - 1);
                           now->read.erase(0, bytes);
                           OnLine(line);
                           if (*alive && connection_.get() == now) Read();
                         });
}

void KeeperClient::OnLine(std::string_view line) {
  auto said = wire::DecodeShare<wire::KeeperLine>(line);
  if (!said) return OnLost("it sent an invalid message: " + said.error().message);
  if (said->answer) {
    const auto asked = asked_.extract(said->answer->id);
    if (asked.empty()) return;
    if (said->answer->error.empty()) asked.mapped()(*std::move(said->answer));
    else asked.mapped()(FailedPrecondition(said->answer->error));
  }
  if (said->requeue) listener_->OnRequeue(*said->requeue);
  if (said->state) listener_->OnKept(*said->state);
}

void KeeperClient::Ask(wire::KeeperRequest request, Answered answered) {
  if (connection_ == nullptr) return answered(Unreachable("the keeper of the shared GPUs is being started"));
  request.id = next_id_++;
  asked_.emplace(request.id, std::move(answered));
  connection_->next += wire::EncodeShare(request) + "\n";
  Flush();
}

void KeeperClient::Flush() {
  Connection* now = connection_.get();
  if (!now->writing.empty() || now->next.empty()) return;
  now->writing = std::exchange(now->next, {});
  asio::async_write(now->socket, asio::buffer(now->writing),
                    [this, now, alive = is_alive_](const boost::system::error_code& error, std::size_t) {
                      if (!*alive || connection_.get() != now) return;
                      if (error) return OnLost(error.message());
                      now->writing.clear();
                      Flush();
                    });
}

void KeeperClient::OnLost(const std::string& why) {
  options_.note("event=keeper_lost what=\"" + why + "\"");
  // Pending handlers still hold its address, and must find that it is no longer the present connection.
  std::shared_ptr<Connection> gone = std::move(connection_);
  boost::system::error_code ignored;
  gone->socket.close(ignored);
  asio::post(loop_, [gone] {});
  for (auto& [id, answered] : std::exchange(asked_, {}))
    answered(Unreachable("the keeper of the shared GPUs has gone"));
  Try();
}

}  // namespace divvy
