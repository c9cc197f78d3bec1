// divvy logs, wait. On the daemon's machine logs are read as files, with the caller's own rights.
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
#include "cli/job_text.h"
#include "cli/log_file.h"
#include "model/job_record.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

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

void Pause(long milliseconds) {
  const timespec pause{0, milliseconds * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

/// A shorter piece was all that there was.
constexpr std::size_t kFullPiece = std::size_t{256} << 10;

/// How many bytes that were. `name`: of the job. `until_now`: not what it writes while this prints.
std::size_t PrintNew(LogFile& file, const std::string& name, bool until_now = false) {
  std::size_t printed = 0;
  for (std::string text = file.Next(); !text.empty(); text = file.Next()) {
    if (file.dropped() > 0) std::fflush(stdout);
    NoteDropped(file, name);
    std::fwrite(text.data(), 1, text.size(), stdout);
    printed += text.size();
    if (until_now && text.size() < kFullPiece) break;
  }
  std::fflush(stdout);
  return printed;
}

/// Until the job has ended. It may begin after us, and on another machine than the one where it ran before.
class Follower {
 public:
  Follower(Api& api, const wire::JobDetail& job, const LogFlags& flags)
      : api_(api), id_(PublicId(job)), flags_(flags), node_(job.node), file_(OpenLogFile(api, job, flags)) {}

  int Run() {
    while (true) {
      // Asked before the file is read: what a job wrote before it was final is then surely read.
      const auto job = api_.Job(id_);
      const auto state = job ? JobStateFromName(job->state) : std::nullopt;
      if (job && job->start_time && job->node != node_) Move(*job);
      PrintNew(file_, id_);
      if (!job && job.error().code != ErrorCode::kUnreachable) return Fail(job.error());
      if (!job) {
        auto again = Api::Connect();
        if (again) api_ = *std::move(again);
      }
      const bool is_away = job && IsElsewhere(*job) && file_.error() != 0;
      if (state && IsFinal(*state)) return is_away ? Fail(Unreachable(file_.trouble())) : 0;
      if (is_away && file_.error() != ENOENT) Tell(file_.trouble());
      Pause(node_.empty() ? 100 : 250);  // An agent's machine may be far.
    }
  }

 private:
  /// What was there is printed; all that it writes from now on is elsewhere.
  void Move(const wire::JobDetail& job) {
    PrintNew(file_, id_);
    if (file_.error() == 0) flags_.last = -1;
    node_ = job.node;
    file_ = OpenLogFile(api_, job, flags_);
  }
  /// Once.
  void Tell(const std::string& trouble) {
    if (trouble != told_) Note(trouble);
    told_ = trouble;
  }

  Api& api_;
  std::string id_;
  LogFlags flags_;
  std::string node_;
  LogFile file_;
  std::string told_;
};

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
  if (!job->elements.empty()) return PrintArrayLogs(*api, *job, flags);
  const std::string id = PublicId(*job);
  const bool is_on_terminal = job->is_foreground && job->output.empty();
  // Elsewhere it has one for what it printed after its pipes were lost.
  if (is_on_terminal) {
    const auto piece = IsElsewhere(*job) ? api->Log(ToString(job->id), false, 0, -1) : NotFound("");
    if (!piece && piece.error().code != ErrorCode::kNotFound) return Fail(piece.error());
    if (!piece) return Fail(FailedPrecondition("job " + id + " ran on its caller's terminal, so there is no log"));
  }
  LogFile file = OpenLogFile(*api, *job, flags);
  if (file.path().empty() && !is_on_terminal)
    return Fail(PermissionDenied("job " + id + " belongs to " + job->user + ", who alone may see where its output is"));
  if (flags.is_path && file.path().empty()) {
    return Fail(FailedPrecondition("job " + id +
                                   " ran on its caller's terminal; what it printed after that was lost is " +
                                   "kept on " + job->node + ": divvy logs " + id));
  }
  if (flags.is_path) {
    std::printf("%s\n", file.path().c_str());
    return 0;
  }
  if (flags.follows) return Follower(*api, *job, flags).Run();
  const std::size_t printed = PrintNew(file, id, true);
  // An empty answer leaves people wondering whether they asked for the right thing.
  const auto state = JobStateFromName(job->state);
  if (file.error() == 0 && printed == 0 && flags.last != 0 && state && IsFinal(*state))
    Note("job " + id + " wrote nothing; it " + EndInWords(job->state, job->reason));
  if (file.error() == 0) return 0;
  if (file.error() == ENOENT && !job->start_time)
    return Fail(FailedPrecondition("job " + id + " has not started, so there is no log yet (divvy why " + id + ")"));
  return Fail(NotFound(file.trouble()));
}

int WaitMain(const Words& words) {
  const auto parsed = dialect::ParseOptions({}, words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.empty()) return Fail(InvalidArgument("name a job: divvy wait ID ..."));
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  int code = 0;
  for (const std::string& id : parsed->positional) {
    const auto end = api->Wait(id, {}, [&] { TellDaemonWent(id); });
    if (!end) return Fail(end.error());
    const int own = end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
    code = std::max(code, own);
  }
  return code;
}

}  // namespace divvy::cli
