#include "daemon/notify/courier.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <utility>

#include "base/result.h"
#include "model/notify.h"
#include "platform/os/spawn.h"
#include "platform/os/unix_socket.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
constexpr std::size_t kMostAnswer = 64 << 10;
/// The time after the process's own limit in which it can still report the result.
constexpr std::chrono::seconds kGrace{15};
constexpr std::chrono::milliseconds kLook{20};

/// Starts the process with `end` as its standard input and output, and without the daemon's environment.
Result<StartedProgram> StartWith(const std::vector<std::string>& command, int end) {
  Spawn spawn(Spawn::Apart::kSession);
  spawn.Give(0, end).Give(1, end).OpenNull(2).CloseRest();
  const auto pid = spawn.Start(command.front(), command, {});
  if (!pid) return Internal("cannot start a delivery process: " + pid.error().message);
  return StartedProgram{*pid, {}};
}

}  // namespace

struct Courier::Errand {
  explicit Errand(asio::io_context& loop) : socket(loop), limit(loop), reaped(loop) {}

  asio::local::stream_protocol::socket socket;
  asio::steady_timer limit;
  asio::steady_timer reaped;
  pid_t pid = 0;
  Descriptor process;  // The pidfd of a process that the launcher has started; closed for our own child.
  std::string order;
  std::string answer;
  Done done;
  bool was_killed = false;
};

Courier::Courier(asio::io_context& loop, std::vector<std::string> command, StartAs start_as)
    : loop_(loop), command_(std::move(command)), start_as_(std::move(start_as)) {}

Courier::~Courier() { *is_alive_ = false; }

void Courier::Send(const wire::DeliveryOrder& order, Done done) {
  auto [ours, theirs] = MakeSocketPair();
  const bool is_mail = order.channel == Name(NotifyChannel::kMail);
  const bool is_for_launcher = start_as_ && (is_mail || !order.run_as.empty());
  auto started = !ours.is_open()   ? Result<StartedProgram>(Internal("no descriptor is left"))
                 : is_for_launcher ? start_as_(order, theirs.get())
                                   : StartWith(command_, theirs.get());
  if (!started) {
    asio::post(loop_, [done = std::move(done), text = started.error().message] { done({false, true, 0, text}); });
    return;
  }
  theirs.Reset();
  auto errand = std::make_shared<Errand>(loop_);
  errand->socket.assign(asio::local::stream_protocol(), ours.Release());
  errand->pid = static_cast<pid_t>(started->pid);
  errand->process = std::move(started->pidfd);
  errand->order = wire::Encode(order);
  errand->done = std::move(done);
  const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(order.time_limit_s * 1000)) + kGrace;
  errand->limit.expires_after(limit);
  errand->limit.async_wait([this, errand, alive = is_alive_](const boost::system::error_code& error) {
    if (error || errand->pid == 0 || !*alive) return;
    errand->was_killed = true;
    // A process of another user cannot be killed from here. It has its own time limit, so we stop waiting.
    if (errand->process.is_open()) Finish(errand);
    else ::kill(errand->pid, SIGKILL);
  });
  asio::async_write(errand->socket, asio::buffer(errand->order),
                    [errand](const boost::system::error_code&, std::size_t) {
                      boost::system::error_code ignored;
                      errand->socket.shutdown(asio::local::stream_protocol::socket::shutdown_send, ignored);
                    });
  asio::async_read(errand->socket, asio::dynamic_buffer(errand->answer, kMostAnswer),
                   [this, errand, alive = is_alive_](const boost::system::error_code&, std::size_t) {
                     if (*alive) Finish(errand);
                   });
}

// The process has closed its output, or has ended.
void Courier::Finish(const std::shared_ptr<Errand>& errand) {
  int status = 0;
  if (!errand->process.is_open() && ::waitpid(errand->pid, &status, WNOHANG) == 0) {
    errand->reaped.expires_after(kLook);
    errand->reaped.async_wait([this, errand, alive = is_alive_](const boost::system::error_code& error) {
      if (!error && *alive) Finish(errand);
    });
    return;
  }
  if (std::exchange(errand->pid, 0) == 0) return;
  errand->limit.cancel();
  auto result = wire::Decode<wire::DeliveryResult>(errand->answer);
  if (!result)
    result = wire::DeliveryResult{
        false, true, 0, errand->was_killed ? "it took too long and was killed" : "the delivery process has died"};
  errand->done(*result);
}

}  // namespace divvy
