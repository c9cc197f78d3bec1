#include "platform/steps/step_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "platform/os/process_title.h"
#include "platform/steps/step_process.h"
#include "platform/supervisor/supervisor_watch.h"

namespace divvy {
namespace {

constexpr std::size_t kClientsMost = 4096;

}  // namespace

int StepServer::Run() {
  const StepListFile::Outcome locked = list_.Lock();
  if (locked == StepListFile::Outcome::kFailed) return 1;
  if (locked == StepListFile::Outcome::kTaken) {
    if (options_.on_listening) options_.on_listening(0);
    return 0;
  }
  next_ = list_.TakeOver();
  if (!Listen()) {
    if (options_.on_failure) options_.on_failure(failure_.empty() ? "it cannot listen" : failure_);
    return 1;
  }
  if (options_.on_listening) options_.on_listening(machines_port());
  // Prepares TLS now, because there is time for it until the other nodes are ready.
  if (spreads()) static_cast<void>(Secured(server_end_));
  ::prctl(PR_SET_NAME, kStepProcess);
  idle_since_ = MonotonicNow();
  while (!IsDone() && !IsOrphaned()) Turn();
  return 0;
}

bool StepServer::Listen() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  // A shell's background command ignores SIGINT, and the first caller may be one. Tasks start with no ignored signals.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  signals_.Reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
  // Raises this process's limit on descriptors, because each waiting caller needs four. A task gets its caller's own
  // limits.
  rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  return signals_.is_open() && ListenHere() && ListenForMachines();
}

bool StepServer::ListenHere() {
  const std::string path = StepSocketOf(options_.file);
  const auto address = MakeStepAddress(path);
  listener_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!address || !listener_.is_open()) return false;
  ::unlink(path.c_str());
  const mode_t mask = ::umask(0177);
  const int bound = ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(address->storage.data()),
                           static_cast<socklen_t>(address->size));
  ::umask(mask);
  return bound == 0 && ::listen(listener_.get(), 1024) == 0;
}

/// Clients that connected before the socket was removed are still served.
bool StepServer::IsDone() {
  const bool is_idle = steps_.empty() && clients_.empty();
  if (!is_idle) idle_since_ = MonotonicNow();
  const bool is_enough = !spreads() && MonotonicNow() - idle_since_ >= options_.idle_most;
  if (!is_idle || (!leaves_ && !is_enough)) return false;
  if (!listener_.is_open()) return true;
  ::unlink(StepSocketOf(options_.file).c_str());
  Accept();
  listener_.Reset();
  CloseFinished();
  return clients_.empty();
}

int StepServer::TimeoutOf(Duration due) const {
  if (due == kNeverDue) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - MonotonicNow()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

void StepServer::Turn() {
  const int accepting = is_full_ || clients_.size() >= kClientsMost ? -1 : listener_.get();
  polled_.assign({{signals_.get(), POLLIN, 0}, {accepting, POLLIN, 0}});
  for (const auto& [fd, client] : clients_) {
    const short events = client.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
    polled_.push_back({fd, events, 0});
  }
  Duration due = steps_.empty() && !spreads() ? idle_since_ + options_.idle_most : kNeverDue;
  for (const auto& [number, step] : steps_) due = std::min({due, step.kill_at, step.wait_at, step.limit_at});
  const std::size_t clients_end = polled_.size();
  for (const auto& [number, step] : steps_) {
    if (!step.awaited) continue;
    polled_.push_back({step.awaited->watch.fd(), POLLIN, 0});
    due = std::min({due, step.awaited->until, MonotonicNow() + kDirectoryLookPause});
  }
  if (spreads()) {
    AddMachinePolls();
    due = std::min({due, MachinesDue(), MonotonicNow() + options_.look_every});
  }
  const int ready = ::poll(polled_.data(), polled_.size(), TimeoutOf(due));
  if (ready > 0) {
    if (polled_[0].revents != 0) ReadSignals();
    for (std::size_t i = 2; i < clients_end; ++i) {
      if (polled_[i].revents != 0) OnClient(polled_[i].fd, polled_[i].revents);
    }
    if (polled_[1].revents != 0) Accept();
  }
  if (spreads()) OnMachinePolls();
  OnTimers();
  CloseFinished();
}

void StepServer::ReadSignals() {
  signalfd_siginfo info = {};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    // The signal went to the whole job, so the tasks have received it as well. This process leaves when no step is
    // left. If the job is on several nodes, the other nodes need this process until SIGTERM arrives.
    if (signal == SIGTERM || (signal != SIGCHLD && !spreads())) leaves_ = true;
  }
  Reap();
}

void StepServer::Accept() {
  while (clients_.size() < kClientsMost) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // Without a free descriptor the next caller waits until another one has gone.
    if (!socket.is_open()) is_full_ = (errno == EMFILE || errno == ENFILE) && !clients_.empty();
    if (!socket.is_open()) return;
    ucred peer = {};
    socklen_t size = sizeof peer;
    const bool is_known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (!is_known || peer.uid != ::geteuid()) continue;
    const int fd = socket.get();
    clients_[fd].socket = std::move(socket);
    OnClient(fd, POLLIN);  // Its call has most likely arrived already.
  }
}

void StepServer::OnClient(int fd, short events) {
  const auto at = clients_.find(fd);
  if (at == clients_.end()) return;
  Client& client = at->second;
  if ((events & POLLOUT) != 0) Flush(client);
  if ((events & ~POLLOUT) != 0) {
    const auto outcome = client.reader.Fill(fd);
    while (!client.is_over) {
      auto frame = client.reader.Next();
      if (!frame) break;
      OnFrame(client, *std::move(frame));
    }
    if (outcome == StepFrameReader::Outcome::kClosed && !client.is_over) {
      if (client.step) OnAbandoned(*client.step);
      client.is_over = true;
      client.unsent.clear();
    }
  }
  if (client.is_over && client.unsent.empty()) finished_.push_back(fd);
}

/// Clients are closed after all events of an iteration, so that their descriptor numbers are not reused meanwhile.
void StepServer::CloseFinished() {
  if (!finished_.empty()) is_full_ = false;
  for (const int fd : std::exchange(finished_, {})) clients_.erase(fd);
}

void StepServer::OnFrame(Client& client, StepFrame frame) {
  if (frame.word == StepWord::kCall) {
    if (!client.step) OnCall(client, std::move(frame));
    return;
  }
  if (frame.word == StepWord::kStop) return OnStop(client, frame);
  if (frame.word == StepWord::kLimit) return OnLimit(client, frame);
  if (!client.step) return;
  const auto at = steps_.find(*client.step);
  if (at == steps_.end()) return;
  RunningStep& step = at->second;
  if (frame.word == StepWord::kSignal) {
    if (step.is_waiting()) return GiveUp(step, 128 + frame.value);
    step.SignalAll(frame.value);
  } else if (frame.word == StepWord::kInterrupt) {
    OnInterrupt(client, step, frame.value);
  } else if (frame.word == StepWord::kInput && step.parts != nullptr && step.plan.spread->input_rank) {
    step.parts->Input(*step.plan.spread->input_rank, frame.body);
  }
}

void StepServer::OnCall(Client& client, StepFrame frame) {
  auto call = DecodeStepCall(std::move(frame));
  if (!call) return End(client, "divvy: the step request is incomplete\n", 1);
  auto plan = options_.planner(*call);
  if (!plan) return End(client, plan.error().message + "\n", 1);
  if (const std::string why = CannotEver(*plan); !why.empty()) return End(client, why, 1);
  const StepNumber number = next_++;
  client.step = number;
  RunningStep& step = Enter(number, *std::move(call), *std::move(plan));
  step.client = client.socket.get();
  if (step.plan.spread) {
    BeginAsking(step);
  } else {
    step.call.bytes = {};
    resources_.Ask(number, step.plan.need);
    GrantNext();
  }
  const auto waiting = steps_.find(number);
  if (waiting == steps_.end() || !waiting->second.is_waiting()) return;
  if (resources_.IsWaiting(number)) return OnBusy(waiting->second);
  list_.Write(waiting->second.line);
}

void StepServer::Send(Client& client, StepWord word, int value, std::string_view body) {
  client.unsent += EncodeStepFrame(word, value, body);
  Flush(client);
}

void StepServer::Say(Client& client, const std::string& text) {
  if (!text.empty()) Send(client, StepWord::kSay, 0, text);
}

void StepServer::End(Client& client, const std::string& text, int code) {
  if (!text.empty()) client.unsent += EncodeStepFrame(StepWord::kSay, 0, text);
  client.unsent += EncodeStepFrame(StepWord::kExit, code, "");
  client.is_over = true;
  Flush(client);
}

void StepServer::Flush(Client& client) {
  while (!client.unsent.empty()) {
    const ssize_t sent =
        ::send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) return;
    // If sending fails, the client has gone: the unsent data is dropped, and the next poll reports the end.
    client.unsent.erase(0, sent < 0 ? std::string::npos : static_cast<std::size_t>(sent));
  }
  if (client.is_over) finished_.push_back(client.socket.get());
}

StepServer::Client* StepServer::ClientOf(const RunningStep& step) {
  const auto client = clients_.find(step.client);
  return client == clients_.end() ? nullptr : &client->second;
}

int RunStepServer(StepServerOptions options) { return StepServer(std::move(options)).Run(); }

}  // namespace divvy
