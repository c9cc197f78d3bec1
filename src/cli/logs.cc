// divvy logs, wait, attach. Logs are read as files, with the caller's own rights: the daemon never reads a file for
// somebody.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>

#include "base/text.h"
#include "cli/api.h"
#include "cli/commands.h"
#include "cli/foreground.h"
#include "model/job_record.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

struct LogFlags {
  bool follows = false;
  bool is_error = false;
  bool is_path = false;
  std::int64_t last = -1;
};

std::vector<Option> LogTable(LogFlags& flags) {
  const auto set = [](bool& flag) {
    return [&flag](std::string_view) -> Status {
      flag = true;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back(
      {"follow", 'f', Takes::kNothing, "", "Go on printing until the job has ended", set(flags.follows), {}, false});
  table.push_back({"lines",
                   'n',
                   Takes::kValue,
                   "N",
                   "Only the last N lines",
                   [&flags](std::string_view value) -> Status {
                     const auto lines = ParseInteger(value);
                     if (!lines || *lines < 0)
                       return InvalidArgument("'" + std::string(value) + "' is no number of lines");
                     flags.last = *lines;
                     return {};
                   },
                   {"tail", "last"},
                   false});
  table.push_back({"error",
                   'e',
                   Takes::kNothing,
                   "",
                   "The job's error file, where it has one of its own",
                   set(flags.is_error),
                   {"stderr"},
                   false});
  table.push_back({"path", 0, Takes::kNothing, "", "Print the file's name only", set(flags.is_path), {}, false});
  return table;
}

void Write(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// Where the last `lines` lines of the file begin.
off_t TailOffset(int fd, std::int64_t lines) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return 0;
  off_t at = status.st_size;
  std::int64_t seen = 0;
  char buffer[65536];
  while (at > 0) {
    const off_t begin = at > static_cast<off_t>(sizeof buffer) ? at - static_cast<off_t>(sizeof buffer) : 0;
    const ssize_t got = ::pread(fd, buffer, static_cast<std::size_t>(at - begin), begin);
    if (got <= 0) return 0;
    for (ssize_t i = got - 1; i >= 0; --i) {
      const bool is_last_byte = begin + i == status.st_size - 1;
      if (buffer[i] == '\n' && !is_last_byte && ++seen == lines) return begin + i + 1;
    }
    at = begin;
  }
  return 0;
}

off_t CopyFrom(int fd, off_t at) {
  char buffer[65536];
  ssize_t got = 0;
  while ((got = ::pread(fd, buffer, sizeof buffer, at)) > 0) {
    Write({buffer, static_cast<std::size_t>(got)});
    at += got;
  }
  return at;
}

void Pause() {
  const timespec pause{0, 100'000'000};
  ::nanosleep(&pause, nullptr);
}

int Follow(Api& api, const std::string& id, const std::string& path, const LogFlags& flags) {
  int fd = -1;
  off_t at = 0;
  while (true) {
    // Asked before the file is read: what a job wrote before it was final is then surely read.
    const auto job = api.Job(id);
    const auto state = job ? JobStateFromName(job->state) : std::nullopt;
    if (fd < 0) {
      fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd >= 0 && flags.last >= 0) at = TailOffset(fd, flags.last);
    }
    if (fd >= 0) at = CopyFrom(fd, at);
    if (!job && job.error().code != ErrorCode::kUnreachable) return Fail(job.error());
    if (!job) {
      auto again = Api::Connect();
      if (again) api = *std::move(again);
    }
    if (state && IsFinal(*state)) break;
    Pause();
  }
  if (fd >= 0) ::close(fd);
  return 0;
}

}  // namespace

std::vector<Option> LogsOptions() {
  static LogFlags scratch;
  return LogTable(scratch);
}

int LogsMain(const Words& words) {
  LogFlags flags;
  const auto parsed = dialect::ParseOptions(LogTable(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.size() != 1) return Fail(InvalidArgument("name one job: divvy logs [-f] ID"));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  const auto job = api->Job(parsed->positional.front());
  if (!job) return Fail(job.error());
  const std::string id = ToString(job->id);
  if (job->is_foreground && job->output.empty())
    return Fail(FailedPrecondition("job " + id + " ran on its caller's terminal, so there is no log"));
  const std::string path = flags.is_error && !job->error.empty() ? job->error : job->output;
  if (flags.is_path) {
    std::printf("%s\n", path.c_str());
    return 0;
  }
  if (flags.follows) return Follow(*api, id, path, flags);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT && !job->start_time)
      return Fail(FailedPrecondition("job " + id + " has not started, so there is no log yet (divvy why " + id + ")"));
    return Fail(NotFound("cannot read '" + path + "': " + std::strerror(errno)));
  }
  CopyFrom(fd, flags.last >= 0 ? TailOffset(fd, flags.last) : 0);
  ::close(fd);
  return 0;
}

int WaitMain(const Words& words) {
  const auto parsed = dialect::ParseOptions({}, words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.empty()) return Fail(InvalidArgument("name a job: divvy wait ID ..."));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  int code = 0;
  for (const std::string& id : parsed->positional) {
    const auto end = api->Wait(id);
    if (!end) return Fail(end.error());
    const int own = end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
    code = std::max(code, own);
  }
  return code;
}

int AttachMain(const Words& words) {
  const auto parsed = dialect::ParseOptions({}, words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.size() != 1) return Fail(InvalidArgument("name one job: divvy attach ID"));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  const auto job = api->Job(parsed->positional.front());
  if (!job) return Fail(job.error());
  const std::string id = ToString(job->id);
  if (!job->wants_pty)
    return Fail(FailedPrecondition("job " + id + " has no terminal (submit with --pty to have one); divvy logs -f " +
                                   id + " shows its output"));
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0) static_cast<void>(api->Resize(id, {size.ws_row, size.ws_col}));
  std::fprintf(stderr, "divvy: attached to job %s; Ctrl-P Ctrl-Q leaves it running\n", id.c_str());
  const int streams[] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  Result<wire::WaitAnswer> end = Internal("");
  {
    const RawTerminal raw(true);
    end = api->Attach(id, streams);
  }
  if (!end) return Fail(end.error());
  if (end->was_detached) {
    std::fprintf(stderr, "\ndivvy: left job %s, which goes on\n", id.c_str());
    return 0;
  }
  return end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
}

}  // namespace divvy::cli
