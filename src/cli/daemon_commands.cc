// divvy up, down, status: the daemon's life from the command line.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/text.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "dialect/quantities.h"
#include "wire/codec.h"

extern char** environ;

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

// A start recovers from the store and looks for GPUs; a sick driver may take its time.
constexpr int kStartMostMs = 60'000;

struct UpFlags {
  std::string emulate;
  std::string gpus;
  std::string listen;
  bool is_foreground = false;
  bool is_quiet = false;
};

std::vector<Option> UpTable(UpFlags& flags) {
  const auto set = [](bool& flag) {
    return [&flag](std::string_view) -> Status {
      flag = true;
      return {};
    };
  };
  const auto text = [](std::string& into) {
    return [&into](std::string_view value) -> Status {
      if (value.empty()) return InvalidArgument("the value is empty");
      into = value;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back({"emulate",
                   0,
                   Takes::kValue,
                   "SPEC|FILE",
                   "Stand-in GPUs instead of real ones: 8xH100-80GB, or a description file",
                   text(flags.emulate),
                   {},
                   false});
  table.push_back({"gpus",
                   0,
                   Takes::kValue,
                   "LIST",
                   "Use only these GPUs for new work: 0-3 or 0,2 (as divvy gpus restrict)",
                   text(flags.gpus),
                   {},
                   false});
  table.push_back({"listen",
                   0,
                   Takes::kValue,
                   "HOST:PORT",
                   "Serve other machines there as well, over TLS: 0.0.0.0:7433",
                   text(flags.listen),
                   {},
                   false});
  table.push_back({"controller",
                   0,
                   Takes::kNothing,
                   "",
                   "As --listen 0.0.0.0:7433",
                   [&flags](std::string_view) -> Status {
                     flags.listen = "0.0.0.0:7433";
                     return {};
                   },
                   {},
                   false});
  table.push_back({"foreground",
                   'f',
                   Takes::kNothing,
                   "",
                   "Stay in the foreground and log to standard error (for systemd)",
                   set(flags.is_foreground),
                   {},
                   false});
  table.push_back(
      {"quiet", 'q', Takes::kNothing, "", "Print nothing when all is well", set(flags.is_quiet), {}, false});
  return table;
}

/// Reads what the starting daemon says: "ready" or an error. Empty text: it ended without a word.
Result<std::string> AwaitReady(int fd) {
  std::string text;
  pollfd poll{fd, POLLIN, 0};
  while (true) {
    const int ready = ::poll(&poll, 1, kStartMostMs);
    if (ready == 0) return Error{ErrorCode::kTimedOut, "the daemon did not serve within a minute; its log says more"};
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.ends_with('\n')) return text;
  }
}

std::string StatusLine(const wire::StatusView& status) {
  std::string out = "divvy " + status.version + " serves at " + status.socket + " (pid " + std::to_string(status.pid) +
                    ", up " + dialect::FormatDuration(Duration(static_cast<std::int64_t>(status.uptime_s * 1e9))) +
                    ")\n";
  out += "GPUs       " + std::to_string(status.gpus_free) + " of " + std::to_string(status.gpus) + " free; " +
         status.gpu_source + "\n";
  out += "jobs       " + std::to_string(status.jobs_running) + " running, " + std::to_string(status.jobs_queued) +
         " queued, " + std::to_string(status.jobs_held) + " held, " + std::to_string(status.jobs_total) + " ever\n";
  out += "policy     " + status.policy + "\n";
  out += "isolation  " + status.isolation + "\n";
  if (!status.listens.empty()) out += "listens    " + status.listens + " (TLS, with tokens)\n";
  if (!status.trouble.empty()) out += Paint(Colour::kRed, "TROUBLE    " + status.trouble) + "\n";
  for (const std::string& warning : status.warnings) out += Paint(Colour::kYellow, "warning    " + warning) + "\n";
  return out;
}

}  // namespace

std::vector<Option> UpOptions() {
  static UpFlags scratch;
  return UpTable(scratch);
}

int UpMain(const Words& words) {
  UpFlags flags;
  const auto parsed = dialect::ParseOptions(UpTable(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty())
    return Fail(InvalidArgument("divvy up takes no word like '" + parsed->positional.front() + "'"));
  const Places places = FindPlaces();
  if (auto running = Api::Connect(places.socket)) {
    const auto status = running->Status();
    // One that was killed may take connections for another moment.
    if (status || status.error().code != ErrorCode::kUnreachable) {
      const std::string who =
          status ? "pid " + std::to_string(status->pid) + " of " + status->user : std::string("another daemon");
      return Fail({ErrorCode::kAlreadyExists, "a daemon serves at " + places.socket + " already (" + who +
                                                  "); divvy down ends it, its jobs go on"});
    }
  }
  std::vector<std::string> arguments = {"divvy", "internal-daemon"};
  if (!flags.emulate.empty()) arguments.insert(arguments.end(), {"--emulate", flags.emulate});
  if (!flags.gpus.empty()) arguments.insert(arguments.end(), {"--gpus", flags.gpus});
  if (!flags.listen.empty()) arguments.insert(arguments.end(), {"--listen", flags.listen});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  if (flags.is_foreground) {
    ::execv("/proc/self/exe", argv.data());
    return Fail(Internal("cannot start: " + std::string(std::strerror(errno))));
  }
  int ready[2];
  if (::pipe2(ready, O_CLOEXEC) != 0) return Fail(Internal("cannot make a pipe: " + std::string(std::strerror(errno))));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  // Its own words before it has its log go to the pipe as well as after: the daemon is told which descriptor that is.
  ::posix_spawn_file_actions_adddup2(&actions, ready[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  std::string marker = "--detached";
  argv.insert(argv.end() - 1, marker.data());
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/proc/self/exe", &actions, &attributes, argv.data(), environ);
  ::close(ready[1]);
  if (error != 0) return Fail(Internal("cannot start the daemon: " + std::string(std::strerror(error))));
  const auto said = AwaitReady(ready[0]);
  ::close(ready[0]);
  if (!said) return Fail(said.error());
  if (*said != "ready\n") {
    std::string text(Trim(*said));
    if (text.starts_with("divvy: ")) text.erase(0, 7);
    return Fail(FailedPrecondition(
        text.empty() ? "the daemon ended before it served; see " + places.state + "/daemon.log" : text));
  }
  if (flags.is_quiet) return 0;
  auto api = Api::Connect(places.socket);
  if (!api) return Fail(api.error());
  const auto status = api->Status();
  if (!status) return Fail(status.error());
  std::fputs(StatusLine(*status).c_str(), stdout);
  return 0;
}

int DownMain(const Words& words) {
  const auto parsed = dialect::ParseOptions({}, words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty())
    return Fail(
        InvalidArgument("divvy down takes no word like '" + parsed->positional.front() + "' (divvy cancel ends jobs)"));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  const auto status = api->Status();
  if (!status) return Fail(status.error());
  if (const auto down = api->Shutdown(); !down) return Fail(down.error());
  // Down means gone: the next up must not meet it.
  const pid_t pid = static_cast<pid_t>(status->pid);
  for (int i = 0; i < 1000 && ::kill(pid, 0) == 0; ++i) {
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  if (status->jobs_running > 0) {
    std::printf("The daemon is down. %s and will be known to the next one.\n",
                (Plural(status->jobs_running, "job") + (status->jobs_running == 1 ? " goes on" : " go on")).c_str());
  } else {
    std::printf("The daemon is down.\n");
  }
  return 0;
}

std::vector<Option> StatusOptions() {
  static ListingOptions scratch;
  std::vector<Option> table = ListingOptionTable(scratch);
  std::erase_if(table, [](const Option& option) {
    return option.name != "json" && option.name != "watch" && option.name != "interval";
  });
  return table;
}

int StatusMain(const Words& words) {
  ListingOptions listing;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(listing), words);
  if (!parsed) return Fail(parsed.error());
  if (!parsed->positional.empty())
    return Fail(InvalidArgument("divvy status takes no word like '" + parsed->positional.front() +
                                "' (divvy show tells of a job)"));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(const wire::StatusView status, api->Status());
    return listing.json ? wire::Encode(status) + "\n" : StatusLine(status);
  });
}

}  // namespace divvy::cli
