// divvy attach: a viewer of a job's terminal. It reconnects if the daemon, or the agent with the terminal, restarts.
// Until then our own terminal is in its usual mode.
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/jobs/foreground.h"
#include "model/job_record.h"

namespace divvy::cli {
namespace {

constexpr long kTryAgainAfterMs = 250;

/// Handles signals of this process: a resize is passed to the job's terminal; a terminating signal ends only this
/// process. Call before any thread starts.
void ServeSignals(const std::string& id) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH}) ::sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, id] {
    while (true) {
      const int signal = ::sigwaitinfo(&signals, nullptr);
      if (signal < 0) continue;
      if (signal != SIGWINCH) {
        RawTerminal::Restore();
        if (signal != SIGHUP) TellLeft(id);
        ::_exit(128 + signal);
      }
      winsize size{};
      if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0) continue;
      if (auto api = Api::Connect()) static_cast<void>(api->Resize(id, {size.ws_row, size.ws_col}));
    }
  }).detach();
}

class Viewer {
 public:
  Viewer(Api& api, std::string id) : api_(api), id_(std::move(id)), relays_(HooksOf(joined_, id_)) {}

  /// Returns when the job has ended or the viewer has left.
  Result<wire::WaitAnswer> Run() {
    for (int told = 0;;) {
      auto end = Join();
      const int joined = *joined_;
      // If the job was never joined, return the error.
      if (end || end.error().code != ErrorCode::kUnreachable || joined == 0) return end;
      if (told < joined) {
        std::fprintf(stderr, "\ndivvy: %s; job %s keeps running, and this command rejoins it (Ctrl-C leaves it)\n",
                     end.error().message.c_str(), id_.c_str());
      }
      told = joined;
      if (const auto over = AwaitDaemon()) return *over;
    }
  }

 private:
  using Joined = std::shared_ptr<std::atomic<int>>;

  // These run on a thread that may outlive this object.
  static StreamRelays::Hooks HooksOf(const Joined& joined, const std::string& id) {
    StreamRelays::Hooks hooks;
    hooks.has_terminal = true;
    hooks.on_begun = [joined, id] {
      RawTerminal::Begin();
      // Drop what was typed while disconnected: it does not answer what is shown now.
      if (*joined > 0) static_cast<void>(::tcflush(STDIN_FILENO, TCIFLUSH));
      if ((*joined)++ > 0) std::fprintf(stderr, "divvy: rejoined job %s\r\n", id.c_str());
    };
    hooks.on_away = [id](bool is_away) { TellPresence(id, is_away, true); };
    // The job's supervisor, or the agent of its node when it connects again, notices that this process has ended.
    hooks.on_left = [id](bool is_here) {
      if (is_here) return;
      RawTerminal::Restore();
      ::_exit(TellLeft(id));
    };
    hooks.on_pumping = [] { ::kill(::getpid(), SIGWINCH); };
    return hooks;
  }

  Result<wire::WaitAnswer> Join() {
    const RawTerminal raw(true, RawTerminal::From::kJoined);
    auto end = api_.Attach(id_, relays_.descriptors());
    if (!end && end.error().code == ErrorCode::kUnreachable) relays_.RenewAll();
    else relays_.Finish();
    return end;
  }

  /// Waits for a daemon to answer. Returns nullopt if the job can be joined again; else the result of the job, or the
  /// error why the result is unknown.
  std::optional<Result<wire::WaitAnswer>> AwaitDaemon() {
    while (true) {
      const timespec pause{0, kTryAgainAfterMs * 1'000'000};
      ::nanosleep(&pause, nullptr);
      auto again = Api::Connect();
      if (!again) continue;
      api_ = *std::move(again);
      const auto job = api_.Job(id_);
      if (!job && job.error().code == ErrorCode::kUnreachable) continue;
      if (!job) return job.error();
      const auto state = JobStateFromName(job->state);
      if (state && IsFinal(*state)) return api_.Wait(id_);
      return std::nullopt;
    }
  }

  Api& api_;
  std::string id_;
  Joined joined_ = std::make_shared<std::atomic<int>>(0);
  StreamRelays relays_;
};

}  // namespace

int AttachMain(const Words& words) {
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions({}, words));
  if (parsed.positional.size() != 1) return Fail(InvalidArgument("name one job: divvy attach ID"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto job, api.Job(parsed.positional.front()));
  const std::string id = PublicId(job);
  if (!job.wants_pty)
    return Fail(FailedPrecondition("job " + id + " has no terminal (submit with --pty to have one); divvy logs -f " +
                                   id + " shows its output"));
  const auto state = JobStateFromName(job.state);
  if (state && IsFinal(*state))
    return Fail(FailedPrecondition("job " + id + " is not running: it " + EndInWords(job.state, job.reason)));
  ServeSignals(id);
  std::fprintf(stderr, "divvy: attached to job %s; Ctrl-P Ctrl-Q leaves it running\n", id.c_str());
  DIVVY_TRY_OR_FAIL(const auto end, Viewer(api, id).Run());
  if (end.was_detached) return TellLeft(id);
  return end.state == "succeeded" ? 0 : end.exit_code != 0 ? static_cast<int>(end.exit_code) : 1;
}

}  // namespace divvy::cli
