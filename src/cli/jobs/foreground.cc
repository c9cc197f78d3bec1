// "divvy run": a job on the caller's own streams. A job without a terminal of its own writes to our streams directly,
// so nothing is copied. We forward Ctrl-C and window sizes, and return the exit code.
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/job_text.h"
#include "cli/client/progress_indicator.h"
#include "cli/jobs/carried_metrics.h"
#include "cli/jobs/foreground.h"
#include "model/exit_codes.h"

namespace divvy::cli {
namespace {

/// The changes made to the terminal. Several threads change it: a relay thread learns of the job's start.
struct TerminalState {
  std::mutex mutex;
  termios before{};
  bool is_changed = false;
  bool has_begun = false;
};
TerminalState terminal;

/// Requires: terminal.mutex is held.
void MakeRaw() {
  termios raw = terminal.before;
  ::cfmakeraw(&raw);
  static_cast<void>(::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw));
}

constexpr auto kAgainMost = std::chrono::seconds(1);
/// With Voice::quits_on_interrupt: the time between Ctrl-C and the job's SIGKILL.
constexpr auto kQuitGrace = std::chrono::seconds(10);
/// How often a command that waits for the start of its job checks whether the job has ended.
constexpr auto kLookAgain = std::chrono::milliseconds(200);

// The last signal that asked this process to end; 0: none.
std::atomic<int> ending_signal = 0;
// The agent of the job's node is disconnected, so it does not learn of signals to the job.
std::atomic<bool> is_machine_away = false;

/// Handles a terminating signal that cannot be forwarded, because no daemon answers (`api` is null) or the node's agent
/// is disconnected. The first Ctrl-C only warns, because it may be a slip.
void LeaveWithoutJob(const std::string& program, const std::string& job, int signal, int interrupts, Api* api) {
  if (signal == 0 || signal == SIGWINCH || signal == SIGUSR1 || signal == SIGUSR2) return;
  if (signal == SIGINT && interrupts < 2) {
    std::fprintf(
        stderr, "%s: %s is not reachable, so job %s cannot be signalled; press Ctrl-C again to leave the job running\n",
        program.c_str(), api == nullptr ? "the daemon" : "the agent on its node", job.c_str());
    return;
  }
  if (api != nullptr && !api->Leave(job)) return;
  RawTerminal::Restore();
  ::_exit(128 + signal);
}

using SteadyTime = std::optional<std::chrono::steady_clock::time_point>;

/// Handles a Ctrl-C that only reports that the job runs, as srun does inside a job. `asked`: the time of the last
/// Ctrl-C. Returns false if this one must be forwarded.
bool Asks(Api& api, const std::string& program, const std::string& job, SteadyTime& asked) {
  const auto now = std::chrono::steady_clock::now();
  const bool is_again = asked && now - *asked <= kAgainMost;
  asked = now;
  if (is_again) return false;
  const auto view = api.Job(job);
  if (!view || view->state != "running") return false;
  std::fprintf(stderr, "%s: interrupt (one more within 1 sec to abort)\n%s: StepId=%s.0 task 0: running\n",
               program.c_str(), program.c_str(), job.c_str());
  return true;
}

/// Returns the next of these signals, 0 at `until`, or a negative number if the wait was interrupted.
int NextSignal(const sigset_t& signals, SteadyTime until) {
  if (!until) return ::sigwaitinfo(&signals, nullptr);
  const auto left = std::max(*until - std::chrono::steady_clock::now(), std::chrono::steady_clock::duration(0));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
  const timespec timeout = {.tv_sec = seconds.count(),
                            .tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(left - seconds).count()};
  const int signal = ::sigtimedwait(&signals, nullptr, &timeout);
  return signal < 0 && errno == EAGAIN ? 0 : signal;
}

/// Forwards signals of this process to the job. They are blocked in every thread and handled one by one here, because a
/// signal handler cannot talk to a daemon.
class SignalRelay {
 public:
  SignalRelay() {
    ::sigemptyset(&signals_);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGUSR1, SIGUSR2}) ::sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;
  ~SignalRelay() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  void Serve(const Voice& voice, std::string job, bool has_pty) {
    std::thread([signals = signals_, program = voice.program, asks = voice.asks_interrupts,
                 quits = voice.quits_on_interrupt, says_forcing = !voice.aborted.empty(), job = std::move(job),
                 has_pty] {
      int interrupts = 0;
      SteadyTime asked;
      SteadyTime kill_at;
      while (true) {
        const int signal = NextSignal(signals, kill_at);
        if (signal < 0) continue;
        if (signal == 0) kill_at = std::chrono::steady_clock::now() + kAgainMost;  // Unless the job is reached now.
        if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) ending_signal = signal;
        auto api = Api::Connect();
        if (!api) {
          if (signal == SIGINT) ++interrupts;
          LeaveWithoutJob(program, job, signal, interrupts, nullptr);
          continue;
        }
        if (is_machine_away) {
          if (signal == SIGINT) ++interrupts;
          LeaveWithoutJob(program, job, signal, interrupts, &*api);
          continue;
        }
        if (signal == SIGWINCH) {
          winsize size{};
          if (has_pty && ::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
            static_cast<void>(api->Resize(job, {size.ws_row, size.ws_col}));
          continue;
        }
        if (signal == SIGINT && asks && Asks(*api, program, job, asked)) continue;
        wire::ActionRequest request;
        request.select.ids = {job};
        if (signal == 0) {
          request.grace_s = 0;
          if (api->Cancel(request)) kill_at.reset();
          continue;
        }
        request.signal = signal == SIGHUP ? SIGTERM : signal;
        // The first Ctrl-C goes to the job if it has begun. The second one cancels the job, the third one kills it at
        // once.
        if (signal == SIGINT) ++interrupts;
        if (signal == SIGUSR1 || signal == SIGUSR2 || signal == SIGQUIT) {
          static_cast<void>(api->Signal(request));
          continue;
        }
        if (signal == SIGINT && interrupts == 1) {
          const auto sent = api->Signal(request);
          const bool is_sent = sent && !sent->results.empty() && sent->results.front().is_done;
          if (is_sent && quits) {
            std::fprintf(stderr, "%s: sending Ctrl-C to StepId=%s.0\n", program.c_str(), job.c_str());
            kill_at = std::chrono::steady_clock::now() + kQuitGrace;
          }
          if (is_sent) continue;
        }
        if (signal == SIGINT && interrupts > 1 && says_forcing)
          std::fprintf(stderr, "%s: forcing job termination\n", program.c_str());
        if (interrupts >= 3) request.grace_s = 0;
        static_cast<void>(api->Cancel(request));
      }
    }).detach();
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

/// Reports metrics from output that passed through this process to the daemon. Drops them if the daemon does not
/// answer, so that the job never waits for its metrics.
void TellNumbers(const std::string& id, const CarriedMetrics::Said& said) {
  wire::OwnMetricsRequest request;
  request.values.insert(said.numbers.begin(), said.numbers.end());
  request.lines_left_out = said.lines_left_out;
  request.names_left_out = said.names_left_out;
  if (auto api = Api::Connect()) static_cast<void>(AddOwnMetrics(*api, id, request));
}

/// Reports that a job on another node continues without the streams that it got here.
void TellStreamsLost(const std::string& program, const std::string& id, const std::string& why, bool has_pty) {
  // Typed input is not read any more.
  RawTerminal::Restore();
  const std::string then =
      has_pty ? "divvy attach " + id + " rejoins its terminal"
              : "its input has ended, and its further output goes to its log (divvy logs -f " + id + ")";
  std::fprintf(stderr, "%s: %s, so the streams of job %s are lost: %s; waiting for the job to end\n", program.c_str(),
               why.c_str(), id.c_str(), then.c_str());
}

/// Ends this command when the caller has left the job's terminal. Usually the daemon reports this; while the daemon is
/// down, only this process knows it.
class Leaving {
 public:
  explicit Leaving(std::string program) : program_(std::move(program)) {}
  void SetJob(const std::string& id) { id_ = id; }
  void OnDaemonWent(bool has_left) {
    is_away_ = true;
    if (has_left) Leave();
  }
  /// The new daemon is about to receive what we know.
  void OnDaemonCame() { is_away_ = false; }
  void OnPresence(bool is_away, bool has_pty) const {
    is_machine_away = is_away;
    TellPresence(id_, is_away, has_pty, program_);
  }
  void OnLeft(bool is_here) {
    if (is_away_) Leave();
    if (is_here) return;
    // The node's agent is disconnected, so tell the daemon; otherwise it would end a job whose caller disappears. Do
    // not wait for output that has not been printed yet.
    auto api = Api::Connect();
    if (api && api->Leave(id_)) Leave();
  }

 private:
  [[noreturn]] void Leave() const {
    RawTerminal::Restore();
    ::_exit(TellLeft(id_, program_));
  }

  std::string program_, id_;
  std::atomic<bool> is_away_ = false;
};

/// Reports the job's begin once, when both the begin and the job's id are known. Several threads learn of them.
class BeginReport {
 public:
  explicit BeginReport(std::function<void(const std::string& id, bool was_queued)> report)
      : report_(std::move(report)) {}
  void SetJob(const std::string& id, bool was_queued) {
    const std::lock_guard lock(mutex_);
    id_ = id;
    was_queued_ = was_queued;
    Report();
  }
  void OnBegun() {
    const std::lock_guard lock(mutex_);
    has_begun_ = true;
    changed_.notify_all();
    Report();
  }
  bool has_begun() {
    const std::lock_guard lock(mutex_);
    return has_begun_;
  }
  /// Returns false if the job neither begins nor ends within that time.
  bool Await(Duration most) {
    const auto until = std::chrono::steady_clock::now() + most;
    std::unique_lock lock(mutex_);
    while (!has_begun_ && !has_ended_) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= until) return false;
      changed_.wait_until(lock, std::min(until, now + kLookAgain));
      // The daemon reports the end only to a request that waits for it.
      if (!has_begun_) has_ended_ = EndedWaiting();
    }
    return true;
  }

 private:
  void Report() {
    if (!has_begun_ || id_.empty()) return;
    // The streams of a job that was cancelled while it waited are released too, which looks like its begin. Such a job
    // has not begun.
    has_ended_ = has_ended_ || (was_queued_ && EndedWaiting());
    if (has_ended_) has_begun_ = false;
    else if (report_) std::exchange(report_, nullptr)(id_, was_queued_);
  }
  bool EndedWaiting() const {
    auto api = Api::Connect();
    const auto job = api ? api->Job(id_) : Result<wire::JobDetail>(api.error());
    return job && job->state == "cancelled" && !job->start_time;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(const std::string&, bool)> report_;
  std::string id_;
  bool was_queued_ = false;
  bool has_begun_ = false;
  bool has_ended_ = false;  // While it waited.
};

/// Cancels a job that has not begun. Returns false if it has begun or ended meanwhile.
bool CancelWaiting(Api& api, const std::string& id) {
  const auto job = api.Job(id);
  if (!job || job->start_time) return false;
  wire::ActionRequest request;
  request.select.ids = {id};
  const auto answer = api.Cancel(request);
  if (!answer || answer->results.empty() || !answer->results.front().is_done) return false;
  const auto cancelled = api.Job(id);
  return cancelled && !cancelled->start_time;
}

}  // namespace

int TellLeft(const std::string& id, const std::string& program) {
  std::fprintf(stderr, "\n%s: left job %s, which keeps running; divvy attach %s rejoins it\n", program.c_str(),
               id.c_str(), id.c_str());
  return 0;
}

void TellPresence(const std::string& id, bool is_away, bool has_pty, const std::string& program) {
  const std::string_view end = has_pty ? "\r\n" : "\n";
  std::string text = "the agent on the node of job " + id + " is connected again";
  if (is_away) {
    text = "the agent on the node of job " + id +
           " is not connected; the job keeps running, and this command waits for the agent";
    if (has_pty) text += " (Ctrl-P Ctrl-Q leaves it)";
  }
  std::fprintf(stderr, "%s%s: %s%.*s", has_pty ? "\r\n" : "", program.c_str(), text.c_str(),
               static_cast<int>(end.size()), end.data());
}

RawTerminal::RawTerminal(bool is_wanted, From from) {
  const std::lock_guard lock(terminal.mutex);
  if (!is_wanted || ::isatty(STDIN_FILENO) != 1 || ::tcgetattr(STDIN_FILENO, &terminal.before) != 0) return;
  terminal.is_changed = true;
  if (from == From::kNow || terminal.has_begun) {
    MakeRaw();
    return;
  }
  if (from == From::kJoined) return;
  termios waiting = terminal.before;
  // Ctrl-Z is disabled: otherwise the job could start while this process is stopped and the shell reads the terminal.
  waiting.c_cc[VSUSP] = _POSIX_VDISABLE;
  static_cast<void>(::tcsetattr(STDIN_FILENO, TCSADRAIN, &waiting));
}

void RawTerminal::Begin() {
  const std::lock_guard lock(terminal.mutex);
  terminal.has_begun = true;
  if (terminal.is_changed) MakeRaw();
}

void RawTerminal::Pause() {
  const std::lock_guard lock(terminal.mutex);
  if (terminal.is_changed) static_cast<void>(::tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.before));
}

void RawTerminal::Restore() {
  const std::lock_guard lock(terminal.mutex);
  if (std::exchange(terminal.is_changed, false)) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.before);
}

RawTerminal::~RawTerminal() {
  Restore();
  const std::lock_guard lock(terminal.mutex);
  terminal.has_begun = false;
}

int RunForeground(JobSpec spec) { return RunForeground(std::move(spec), {}); }

int RunForeground(JobSpec spec, const Voice& voice) {
  spec.is_foreground = true;
  if (const Status complete = dialect::CheckComplete(spec); !complete) return voice.refuse(complete.error());
  std::string id;
  // Must outlive the relays, because their threads use `metrics`.
  CarriedMetrics metrics([&](const CarriedMetrics::Said& said) { TellNumbers(id, said); });
  // Declared before the connection, which may hold the relays' other ends and must close first.
  std::optional<StreamRelays> relays;
  auto api = Api::Connect();
  if (!api) return voice.refuse(api.error());
  if (const Status finished = FinishSpec(spec, *api); !finished) return voice.refuse(finished.error());
  if (spec.wants_pty && spec.request.nodes > 1)
    Note(
        "the job's processes on all nodes share one terminal, so a shell there has no job control (no Ctrl-Z, fg and "
        "bg)");
  SignalRelay relay;
  // If the terminal is on another node, send its size once it exists.
  StreamRelays::Hooks hooks;
  hooks.on_pumping = [wants_pty = spec.wants_pty] {
    if (wants_pty) ::kill(::getpid(), SIGWINCH);
  };
  const auto beginning = std::make_shared<BeginReport>(voice.on_begun);  // The relays' thread may outlive us.
  hooks.on_begun = [beginning] {
    RawTerminal::Begin();
    beginning->OnBegun();
  };
  hooks.has_terminal = spec.wants_pty;
  hooks.on_lost = [&] {
    is_machine_away = false;
    TellStreamsLost(voice.program, id, "the agent on its node ended or cannot be reached", spec.wants_pty);
  };
  const auto leaving = std::make_shared<Leaving>(voice.program);  // The relays' thread may outlive us.
  hooks.on_left = [leaving](bool is_here) { leaving->OnLeft(is_here); };
  hooks.on_away = [leaving, has_pty = spec.wants_pty](bool is_away) { leaving->OnPresence(is_away, has_pty); };
  hooks.on_output = [&](std::string_view bytes) { metrics.Read(bytes); };
  hooks.carries_output = voice.carries_output;
  relays.emplace(std::move(hooks));
  const auto answer = api->Submit(spec, relays->descriptors());
  if (!answer) return voice.refuse(answer.error());
  for (const std::string& note : answer->notes) Note(note);
  id = ToString(answer->id);
  leaving->SetJob(id);
  metrics.Begin();
  const bool was_queued = answer->state != "starting";
  beginning->SetJob(id, was_queued);
  // Also print this to a log or a pipe, whose reader wants to know why nothing happens.
  if (was_queued && !voice.pending.empty())
    std::fprintf(stderr, "%s: %s %s\n", voice.program.c_str(), voice.pending.c_str(), id.c_str());
  if (was_queued)
    std::fprintf(stderr, "%s: job %s %s (divvy why %s shows the reason%s)\n", voice.program.c_str(), id.c_str(),
                 voice.waits.c_str(), id.c_str(), ::isatty(STDERR_FILENO) == 1 ? "; Ctrl-C cancels" : "");
  relay.Serve(voice, id, spec.wants_pty);
  const bool is_too_late =
      was_queued && voice.most_wait && !beginning->Await(*voice.most_wait) && CancelWaiting(*api, id);
  Result<wire::WaitAnswer> end = Internal("");
  {
    const RawTerminal raw(spec.wants_pty, RawTerminal::From::kStart);
    const auto on_lost = [&, was_told = false]() mutable {
      // Input typed for another node is not read now, so Ctrl-C becomes a signal again.
      const bool is_raw = spec.wants_pty && !relays->Had().had_streams;
      if (!is_raw) RawTerminal::Pause();
      if (!std::exchange(was_told, true)) TellDaemonWent(id, is_raw, voice.program);
      leaving->OnDaemonWent(relays->has_left());
      relays->Renew();
    };
    const auto had = [&] {
      leaving->OnDaemonCame();
      return relays->Had();
    };
    end = api->Wait(id, relays->descriptors(), on_lost, had);
    relays->Finish();
  }
  metrics.Finish();
  if (end && (end->state == "succeeded" || end->state == "failed")) beginning->OnBegun();
  if (is_too_late)
    return voice.refuse(FailedPrecondition("Immediate execution impossible, insufficient resources or priority"));
  if (!end) return voice.fail(end.error());
  if (end->was_detached) return TellLeft(id, voice.program);
  if (end->state == "cancelled" && beginning->has_begun() && !voice.aborted.empty())
    std::fprintf(stderr, "%s: %s\n", voice.program.c_str(), voice.aborted.c_str());
  if (end->state == "cancelled" && !beginning->has_begun() && !voice.revoked.empty())
    std::fprintf(stderr, "%s: %s %s has been revoked\n", voice.program.c_str(), voice.revoked.c_str(), id.c_str());
  if (end->state != "succeeded" && end->state != "failed")
    std::fprintf(stderr, "%sjob %s %s\n", voice.trouble.c_str(), id.c_str(),
                 EndInWords(end->state, end->reason).c_str());
  else if (end->state == "failed" && end->exit_code >= kNoRoomMade && end->exit_code <= kCannotFind &&
           !end->reason.starts_with("exit code"))  // It did not begin.
    std::fprintf(stderr, "%s%s\n", voice.trouble.c_str(), end->reason.c_str());
  if (beginning->has_begun() && voice.on_ended) voice.on_ended(id);
  // Cancelled before it had its own exit code: end as any program that the signal ends.
  if (end->state == "cancelled" && end->exit_code <= 1 && ending_signal != 0) return 128 + ending_signal;
  return end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
}

}  // namespace divvy::cli
