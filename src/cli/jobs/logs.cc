// divvy logs, wait. On the daemon's machine, logs are read as files with the caller's own rights.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/job_text.h"
#include "cli/client/progress_indicator.h"
#include "cli/jobs/log_file.h"
#include "model/job_record.h"
#include "model/run_line.h"

namespace divvy::cli {
namespace {

using dialect::Option;

std::vector<Option> LogTable(LogFlags& flags) {
  std::vector<Option> table;
  table.push_back(
      Option::Flag("follow", 'f', "Follow the output until the job has ended", dialect::Sets(flags.follows)));
  table.push_back(Option::Value("lines", 'n', "N", "Only the last N lines",
                                [&flags](std::string_view value) -> Status {
                                  const auto lines = ParseInteger(value);
                                  if (!lines || *lines < 0)
                                    return InvalidArgument("'" + std::string(value) +
                                                           "' is not a number of lines; write 0 or more");
                                  flags.last = *lines;
                                  return {};
                                },
                                {"tail", "last"}));
  table.push_back(
      Option::Flag("error", 'e', "The job's error file, if it has its own", dialect::Sets(flags.is_error), {"stderr"}));
  table.push_back(Option::Value(
      "run", "N", "Output of run N, read from the node where it ran", [&flags](std::string_view value) -> Status {
        const auto run = ParseInteger(value);
        if (!run || *run < 1)
          return InvalidArgument("'" + std::string(value) + "' is not the number of a run; write 1 or more");
        flags.run = *run;
        return {};
      }));
  table.push_back(Option::Flag("path", "Print only the path of the file", dialect::Sets(flags.is_path)));
  return table;
}

void Pause(long milliseconds) {
  const timespec pause{0, milliseconds * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

/// The size of a full piece. A shorter piece ends at the present end of the file.
constexpr std::size_t kFullPiece = std::size_t{256} << 10;

/// Prints what is new and returns its size in bytes. `name`: the job's. `until_now`: do not print what the job writes
/// meanwhile.
std::size_t PrintNew(LogFile& file, const std::string& name, bool until_now = false) {
  std::size_t printed = 0;
  // On a terminal, the text itself shows progress.
  std::optional<ProgressIndicator> progress;
  if (until_now) progress.emplace("reading the log of job " + name);
  for (std::string text = file.Next(); !text.empty(); text = file.Next()) {
    if (::isatty(STDOUT_FILENO) == 1) progress.reset();
    if (file.dropped() > 0) std::fflush(stdout);
    NoteDropped(file, name);
    std::fwrite(text.data(), 1, text.size(), stdout);
    printed += text.size();
    if (until_now && text.size() < kFullPiece) break;
  }
  std::fflush(stdout);
  return printed;
}

/// The job's runs, oldest first. Empty if it ran at most once and will not run again.
std::vector<EarlierRun> RunsOf(const wire::JobDetail& job) {
  constexpr std::size_t kStamp = 25;  // Length of the time stamp before the text of a history line.
  std::vector<EarlierRun> runs;
  for (const std::string& line : job.history) {
    auto run = ReadRunLine(std::string_view(line).substr(std::min(line.size(), kStamp)));
    if (run) runs.push_back(*std::move(run));
  }
  return runs;
}

/// True if it waits to run again, or was cancelled meanwhile: its last run is then in its history.
bool IsBetweenRuns(const wire::JobDetail& job, const std::vector<EarlierRun>& runs) {
  return !runs.empty() && (!job.start_time || runs.back().node != job.node);
}

std::string RunText(const EarlierRun& run) {
  return "run " + std::to_string(run.run) + " was on " + (run.node.empty() ? "the controller's machine" : run.node);
}

/// Notes where earlier logs are: a job that ran on several nodes has a log on each. `node`: the one shown.
void NoteEarlierRuns(const wire::JobDetail& job, const std::string& node) {
  std::vector<EarlierRun> elsewhere;  // The newest on each machine.
  for (EarlierRun& run : RunsOf(job)) {
    std::erase_if(elsewhere, [&](const EarlierRun& other) { return other.node == run.node; });
    if (run.node != node) elsewhere.push_back(std::move(run));
  }
  if (elsewhere.empty()) return;
  std::string text;
  for (const EarlierRun& run : elsewhere) text += (text.empty() ? "" : ", ") + RunText(run);
  const std::string which = elsewhere.size() == 1 ? std::to_string(elsewhere.front().run) : "N";
  Note(text + "; divvy logs --run " + which + " " + PublicId(job) + " shows its output");
}

/// Chooses the run to show: the requested one, or the last one for a job that waits for its next run. flags.run 0: its
/// present or last run. Returns the node with that run's log.
Result<std::string> ChooseRun(const wire::JobDetail& job, LogFlags& flags) {
  const std::vector<EarlierRun> runs = RunsOf(job);
  if (flags.run != 0) {
    if (flags.follows) return InvalidArgument("--follow shows the current run; omit --run");
    if (flags.is_path) return InvalidArgument("--path shows the file of the last run; omit --run");
    const auto found = std::ranges::find(runs, flags.run, &EarlierRun::run);
    return found == runs.end() ? job.node : found->node;
  }
  if (!IsBetweenRuns(job, runs) || flags.follows || flags.is_path) return job.node;
  flags.run = runs.back().run;
  Note("job " + PublicId(job) + " last ran " + (runs.back().node.empty() ? "here" : "on " + runs.back().node) +
       ", as run " + std::to_string(flags.run));
  return runs.back().node;
}

/// Prints until the job has ended. The job may start later than this command, and on another node than its earlier run.
class Follower {
 public:
  Follower(Api& api, const wire::JobDetail& job, const LogFlags& flags)
      : api_(api), id_(PublicId(job)), flags_(flags), node_(job.node), file_(OpenLogFile(api, job, flags)) {}

  int Run() {
    while (true) {
      // Query the state before reading the file, so that everything the job wrote before its end is read.
      const auto job = api_.Job(id_);
      const auto state = job ? JobStateFromName(job->state) : std::nullopt;
      if (job && job->start_time && IsMoved(*job)) Move(*job);
      PrintNew(file_, id_);
      if (!job && job.error().code != ErrorCode::kUnreachable) return Fail(job.error());
      if (!job) {
        auto again = Api::Connect();
        if (again) api_ = *std::move(again);
      }
      const bool is_away = job && IsElsewhere(*job) && file_.error() != 0;
      if (state && IsFinal(*state)) return is_away ? Fail(Unreachable(file_.trouble())) : 0;
      if (is_away && file_.error() != ENOENT) Tell(file_.trouble());
      Pause(node_.empty() ? 100 : 250);  // An agent's node may have a high latency.
    }
  }

 private:
  /// The path of the output may become known only at the start.
  bool IsMoved(const wire::JobDetail& job) const {
    return job.node != node_ || (!IsElsewhere(job) && LogPath(job, flags_) != file_.path());
  }
  /// Prints the rest of the old log and switches to the new one, where all further output goes.
  void Move(const wire::JobDetail& job) {
    PrintNew(file_, id_);
    if (file_.error() == 0) flags_.last = -1;
    node_ = job.node;
    file_ = OpenLogFile(api_, job, flags_);
  }
  /// Prints each message only once in a row.
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

/// Succeeds if the output can be read without a path: the agent finds it, or the path is known when the job starts.
Status MayBeWithoutPath(const wire::JobDetail& job, const LogFlags& flags) {
  const std::string id = PublicId(job);
  if (job.command.empty())
    return PermissionDenied("job " + id + " belongs to " + job.user +
                            ", and only that user may see where its output is");
  if (IsElsewhere(job)) {
    if (!flags.is_path) return {};
    return FailedPrecondition(job.node + " has not reported the path of the output of job " + id);
  }
  if (flags.follows && !flags.is_path && !job.end_time) return {};
  return FailedPrecondition(
      "job " + id + " has not started, so " +
      (flags.is_path && !job.end_time ? "the path of its log is not known yet" : "there is no log") +
      (job.end_time ? "" : " (divvy why " + id + ")"));
}

}  // namespace

std::vector<Option> LogsOptions() {
  static LogFlags scratch;
  return LogTable(scratch);
}

int LogsMain(const Words& words) {
  LogFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(LogTable(flags), words));
  if (parsed.positional.size() != 1) return Fail(InvalidArgument("name one job: divvy logs [-f] ID"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto job, api.Job(parsed.positional.front()));
  if (!job.elements.empty()) return PrintArrayLogs(api, job, flags);
  const std::string id = PublicId(job);
  const bool is_on_terminal = job.is_foreground && job.output.empty();
  // A foreground job on another node has a log of the output that it wrote after the connection to its terminal was
  // lost.
  if (is_on_terminal) {
    const auto piece = IsElsewhere(job) ? api.Log(ToString(job.id), false, 0, -1) : NotFound("");
    if (!piece && piece.error().code != ErrorCode::kNotFound) return Fail(piece.error());
    if (!piece) return Fail(FailedPrecondition("job " + id + " ran on its caller's terminal, so there is no log"));
  }
  const bool asks_for_run = flags.run != 0;
  DIVVY_TRY_OR_FAIL(const auto node, ChooseRun(job, flags));
  LogFile file = OpenLogFile(api, job, flags);
  if (file.path().empty() && !is_on_terminal) {
    if (const Status may = MayBeWithoutPath(job, flags); !may) return Fail(may.error());
  }
  if (flags.is_path && file.path().empty()) {
    return Fail(FailedPrecondition("job " + id +
                                   " ran on its caller's terminal; the output after the connection was lost is " +
                                   "kept on " + job.node + ": divvy logs " + id));
  }
  if (flags.is_path) {
    std::printf("%s\n", file.path().c_str());
    return 0;
  }
  if (!asks_for_run) NoteEarlierRuns(job, node);
  if (flags.follows) return Follower(api, job, flags).Run();
  const std::size_t printed = PrintNew(file, id, true);
  // Explain an empty output, so that users do not suspect a wrong request.
  const auto state = JobStateFromName(job.state);
  if (file.error() == 0 && printed == 0 && flags.last != 0 && state && IsFinal(*state))
    Note("job " + id + " wrote nothing; it " + EndInWords(job.state, job.reason));
  if (file.error() == 0) return 0;
  if (file.error() == ENOENT && !job.start_time && flags.run == 0)
    return Fail(FailedPrecondition("job " + id + " has not started, so there is no log yet (divvy why " + id + ")"));
  return Fail(NotFound(file.trouble()));
}

int WaitMain(const Words& words) {
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions({}, words));
  if (parsed.positional.empty()) return Fail(InvalidArgument("name a job: divvy wait ID ..."));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(const auto ids, EachJob(api, parsed.positional));
  int code = 0;
  for (const std::string& id : ids) {
    const ProgressIndicator progress("waiting for job " + id + " to end");
    const auto end = api.Wait(id, {}, [&] { TellDaemonWent(id); });
    if (!end) return Fail(end.error());
    const int own = end->state == "succeeded" ? 0 : end->exit_code != 0 ? static_cast<int>(end->exit_code) : 1;
    code = std::max(code, own);
  }
  return code;
}

}  // namespace divvy::cli
