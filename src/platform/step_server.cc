#include "platform/step_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/text.h"
#include "platform/step_list_file.h"
#include "platform/step_running.h"
#include "platform/supervisor_watch.h"

namespace divvy {
namespace {

constexpr Duration kKillWait = std::chrono::seconds(30);  // Slurm's KillWait.
constexpr Duration kAbandonedGrace = std::chrono::seconds(5);
constexpr std::size_t kClientsMost = 4096;

/// One caller. It has one step at most.
struct Client {
  Descriptor socket;
  StepFrameReader reader;
  std::string unsent;
  std::optional<StepNumber> step;
  bool is_over = false;  // To be closed when `unsent` is empty.
};

class StepServer {
 public:
  explicit StepServer(StepServerOptions options)
      : options_(std::move(options)), book_(options_.gpus, options_.cores), list_(options_.file) {}

  int Run() {
    const StepListFile::Outcome locked = list_.Lock();
    if (locked == StepListFile::Outcome::kFailed) return 1;
    if (locked == StepListFile::Outcome::kTaken) {
      if (options_.on_listening) options_.on_listening();
      return 0;
    }
    next_ = list_.TakeOver();
    if (!Listen()) return 1;
    if (options_.on_listening) options_.on_listening();
    ::prctl(PR_SET_NAME, "divvy-steps");
    idle_since_ = MonotonicNow();
    while (!IsDone()) Turn();
    return 0;
  }

 private:
  bool Listen() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    // A shell's background command ignores SIGINT, and the first one's caller is as good as any other: tasks begin with
    // nothing ignored.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
    signals_.Reset(::signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK));
    // Each caller that waits holds four descriptors; a task has its caller's own limits.
    rlimit files = {};
    if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
      files.rlim_cur = files.rlim_max;
      ::setrlimit(RLIMIT_NOFILE, &files);
    }
    const std::string path = StepSocketOf(options_.file);
    const auto address = MakeStepAddress(path);
    listener_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!address || !listener_.is_open() || !signals_.is_open()) return false;
    ::unlink(path.c_str());
    const mode_t mask = ::umask(0177);
    const int bound = ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(address->storage.data()),
                             static_cast<socklen_t>(address->size));
    ::umask(mask);
    return bound == 0 && ::listen(listener_.get(), 1024) == 0;
  }

  /// Who has connected before the socket went away is still served.
  bool IsDone() {
    const bool is_idle = steps_.empty() && clients_.empty();
    if (!is_idle) idle_since_ = MonotonicNow();
    if (!is_idle || (!leaves_ && MonotonicNow() - idle_since_ < options_.idle_most)) return false;
    if (!listener_.is_open()) return true;
    ::unlink(StepSocketOf(options_.file).c_str());
    Accept();
    listener_.Reset();
    CloseFinished();
    return clients_.empty();
  }

  void Turn() {
    const int accepting = is_full_ || clients_.size() >= kClientsMost ? -1 : listener_.get();
    polled_.assign({{signals_.get(), POLLIN, 0}, {accepting, POLLIN, 0}});
    for (const auto& [fd, client] : clients_) {
      const short events = client.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
      polled_.push_back({fd, events, 0});
    }
    Duration due = steps_.empty() ? idle_since_ + options_.idle_most : kNeverDue;
    for (const auto& [number, step] : steps_) due = std::min({due, step.kill_at, step.wait_at});
    int timeout = -1;
    if (due != kNeverDue) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - MonotonicNow()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
    }
    if (::poll(polled_.data(), polled_.size(), timeout) <= 0) return OnTimers();
    if (polled_[0].revents != 0) ReadSignals();
    for (std::size_t i = 2; i < polled_.size(); ++i) {
      if (polled_[i].revents != 0) OnClient(polled_[i].fd, polled_[i].revents);
    }
    if (polled_[1].revents != 0) Accept();
    OnTimers();
    CloseFinished();
  }

  void ReadSignals() {
    signalfd_siginfo info = {};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      // To the whole job, and what it means is the tasks' to say: they have got it as well.
      if (static_cast<int>(info.ssi_signo) != SIGCHLD) leaves_ = true;
    }
    Reap();
  }

  void Accept() {
    while (clients_.size() < kClientsMost) {
      Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      // Without descriptors the next waits until a caller has gone.
      if (!socket.is_open()) is_full_ = (errno == EMFILE || errno == ENFILE) && !clients_.empty();
      if (!socket.is_open()) return;
      ucred peer = {};
      socklen_t size = sizeof peer;
      const bool is_known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
      if (!is_known || peer.uid != ::geteuid()) continue;
      const int fd = socket.get();
      clients_[fd].socket = std::move(socket);
      OnClient(fd, POLLIN);  // Its call is most likely there already.
    }
  }

  void OnClient(int fd, short events) {
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

  /// Not before all that happened in a turn has been looked at: a descriptor's number must not be another's meanwhile.
  void CloseFinished() {
    if (!finished_.empty()) is_full_ = false;
    for (const int fd : std::exchange(finished_, {})) clients_.erase(fd);
  }

  void OnFrame(Client& client, StepFrame frame) {
    if (frame.word == StepWord::kCall) {
      if (!client.step) OnCall(client, std::move(frame));
      return;
    }
    if (frame.word == StepWord::kStop) return OnStop(client, frame);
    if (!client.step) return;
    const auto step = steps_.find(*client.step);
    if (step == steps_.end()) return;
    if (frame.word == StepWord::kSignal) {
      if (book_.IsWaiting(step->first)) return GiveUp(step->second, 128 + frame.value);
      step->second.SignalAll(frame.value);
    } else if (frame.word == StepWord::kInterrupt) {
      OnInterrupt(client, step->second, frame.value);
    }
  }

  void OnCall(Client& client, StepFrame frame) {
    auto call = DecodeStepCall(std::move(frame));
    if (!call) return End(client, "divvy: the call for a step is not whole\n", 1);
    auto plan = options_.planner(*call);
    if (!plan) return End(client, plan.error().message + "\n", 1);
    if (!book_.CanEver(plan->need)) {
      return End(client,
                 plan->program + ": error: Unable to create step for job " + plan->name +
                     ": it asks for more than the job has\n",
                 1);
    }
    const StepNumber number = next_++;
    client.step = number;
    RunningStep& step = steps_.try_emplace(number, *std::move(call), *std::move(plan)).first->second;
    step.client = client.socket.get();
    step.line.number = number;
    step.line.command = step.plan.command;
    book_.Ask(number, step.plan.need);
    GrantNext();
    const auto waiting = steps_.find(number);
    if (waiting == steps_.end() || !book_.IsWaiting(number)) return;
    if (step.plan.is_immediate) {
      Say(client, step.plan.program + ": error: Unable to create step for job " + step.plan.name +
                      ": Requested nodes are busy\n");
      return GiveUp(waiting->second, 1);
    }
    list_.Write(step.line);
    if (!step.plan.busy.empty()) Say(client, step.plan.busy + "\n");
  }

  void GrantNext() {
    for (const StepGrant& grant : book_.TakeGrants()) {
      const auto at = steps_.find(grant.step);
      if (at != steps_.end()) Begin(at->second, grant);
    }
  }

  void Begin(RunningStep& step, const StepGrant& grant) {
    Client& client = clients_.at(step.client);
    auto tasks = step.plan.make(grant.step, grant.gpus);
    if (!tasks) {
      Say(client, tasks.error().message + "\n");
      return GiveUp(step, 1);
    }
    step.line.state = StepState::kRunning;
    step.line.started = WallNow();
    step.line.tasks = static_cast<int>(tasks->tasks.size());
    step.line.gpus = tasks->gpus;
    step.line.map = std::move(tasks->map);
    list_.Write(step.line);
    const std::string failures = step.Start(tasks->tasks, client.socket.get());
    for (std::size_t rank = 0; rank < step.pids.size(); ++rank) {
      if (step.pids[rank] > 0) ranks_[step.pids[rank]] = {grant.step, rank};
    }
    if (!failures.empty()) {
      Say(client, failures);
      step.SignalAll(SIGTERM);
      step.kill_at = MonotonicNow() + kKillWait;
    }
    if (step.alive == 0) Finish(step);
  }

  void Reap() {
    for (;;) {
      siginfo_t info = {};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      // What the task leaves in its group goes with it. Its number is the group's until it is reaped.
      ::kill(-info.si_pid, SIGKILL);
      int status = 0;
      ::waitpid(info.si_pid, &status, 0);
      const auto known = ranks_.extract(info.si_pid);
      if (!known) continue;
      const auto step = steps_.find(known.mapped().step);
      if (step != steps_.end()) OnTaskEnded(step->second, known.mapped().rank, status);
    }
  }

  void OnTaskEnded(RunningStep& step, std::size_t rank, int status) {
    step.NoteEnd(rank, WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                 WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    if (step.alive == 0) return Finish(step);
    const bool is_bad = step.codes[rank] != 0 && step.plan.kills_on_bad_exit;
    if (is_bad && !step.was_ended) {
      // What is said first is what failed first.
      Tell(step, step.TakeEndings());
      EndTasks(step);
    } else if (step.wait_at == kNeverDue && step.plan.wait > Duration(0) && !step.was_ended) {
      step.wait_at = MonotonicNow() + step.plan.wait;
    }
  }

  void EndTasks(RunningStep& step) {
    step.was_ended = true;
    if (!step.plan.is_quiet) Tell(step, step.plan.program + ": Terminating " + step.Id() + "\n");
    step.SignalAll(SIGTERM);
    step.wait_at = kNeverDue;
    step.kill_at = MonotonicNow() + kKillWait;
  }

  void OnTimers() {
    const Duration now = MonotonicNow();
    for (auto& [number, step] : steps_) {
      if (step.kill_at <= now) {
        step.SignalAll(SIGKILL);
        step.kill_at = kNeverDue;
      }
      if (step.wait_at <= now) {
        Tell(step, step.plan.program + ": First task exited " +
                       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(step.plan.wait).count()) +
                       "s ago\n");
        EndTasks(step);
      }
    }
  }

  void OnInterrupt(Client& client, RunningStep& step, int count) {
    if (book_.IsWaiting(step.line.number)) {
      Say(client, step.plan.program + ": Cancelled pending job step with signal 2\n");
      return GiveUp(step, 1);
    }
    if (count <= 1) {
      return Say(client, step.plan.program + ": interrupt (one more within 1 sec to abort)\n" + step.plan.program +
                             ": " + step.Id() + " task" + step.AliveText() + ": running\n");
    }
    if (count == 2) {
      Say(client, step.plan.program + ": sending Ctrl-C to " + step.Id() + "\n");
      step.SignalAll(SIGINT);
      step.kill_at = std::min(step.kill_at, MonotonicNow() + kKillWait);
      return;
    }
    Say(client, step.plan.program + ": forcing the step's termination\n");
    step.SignalAll(SIGKILL);
  }

  void OnStop(Client& client, const StepFrame& frame) {
    const auto step = steps_.find(static_cast<StepNumber>(frame.value));
    const auto signal = ParseInteger(frame.body);
    if (step == steps_.end() || !signal || *signal < 1 || *signal >= NSIG)
      return End(client, "Invalid job step id specified\n", 1);
    End(client, "", 0);
    if (book_.IsWaiting(step->first)) {
      Tell(step->second, step->second.plan.program + ": Cancelled pending job step\n");
      return GiveUp(step->second, 1);
    }
    step->second.SignalAll(static_cast<int>(*signal));
    if (*signal == SIGTERM) step->second.kill_at = std::min(step->second.kill_at, MonotonicNow() + kKillWait);
  }

  void OnAbandoned(StepNumber number) {
    const auto step = steps_.find(number);
    if (step == steps_.end()) return;
    step->second.client = -1;
    if (book_.IsWaiting(number)) return GiveUp(step->second, 1);
    step->second.SignalAll(SIGTERM);
    step->second.kill_at = std::min(step->second.kill_at, MonotonicNow() + kAbandonedGrace);
  }

  /// A step that never ran.
  void GiveUp(RunningStep& step, int code) { Close(step, code); }

  void Finish(RunningStep& step) {
    Tell(step, step.TakeEndings());
    Close(step, step.Code());
  }

  void Close(RunningStep& step, int code) {
    const StepNumber number = step.line.number;
    step.line.state = StepState::kEnded;
    step.line.code = code;
    step.line.ended = WallNow();
    list_.Write(step.line);
    if (const auto client = clients_.find(step.client); client != clients_.end()) End(client->second, "", code);
    steps_.erase(number);
    book_.Leave(number);
    GrantNext();
  }

  void Tell(const RunningStep& step, const std::string& text) {
    if (const auto client = clients_.find(step.client); client != clients_.end()) Say(client->second, text);
  }

  void Say(Client& client, const std::string& text) {
    if (text.empty()) return;
    client.unsent += EncodeStepFrame(StepWord::kSay, 0, text);
    Flush(client);
  }

  void End(Client& client, const std::string& text, int code) {
    if (!text.empty()) client.unsent += EncodeStepFrame(StepWord::kSay, 0, text);
    client.unsent += EncodeStepFrame(StepWord::kExit, code, "");
    client.is_over = true;
    Flush(client);
  }

  void Flush(Client& client) {
    while (!client.unsent.empty()) {
      const ssize_t sent =
          ::send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) return;
      // It has gone; the next poll says so.
      client.unsent.erase(0, sent < 0 ? std::string::npos : static_cast<std::size_t>(sent));
    }
    if (client.is_over) finished_.push_back(client.socket.get());
  }

  struct Rank {
    StepNumber step = 0;
    std::size_t rank = 0;
  };

  StepServerOptions options_;
  StepBook book_;
  StepListFile list_;
  Descriptor listener_;
  Descriptor signals_;
  std::vector<pollfd> polled_;
  std::map<int, Client> clients_;  // By descriptor.
  std::vector<int> finished_;      // Clients to be closed; one may be named twice.
  std::map<StepNumber, RunningStep> steps_;
  std::unordered_map<pid_t, Rank> ranks_;
  StepNumber next_ = 0;
  Duration idle_since_{0};
  bool leaves_ = false;
  bool is_full_ = false;  // No descriptor is left for another caller.
};

}  // namespace

int RunStepServer(StepServerOptions options) { return StepServer(std::move(options)).Run(); }

}  // namespace divvy
