// gjob: shows and changes one job.
#include <cstdio>

#include "base/text.h"
#include "base/units.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/jobs/log_file.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/gflow/gflow_job.h"
#include "cli/shims/gflow/gflow_queue.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using Words = std::vector<std::string>;

constexpr std::string_view kJobUsage =
    "gjob attach|log|hold|release|show|update|redo|close-sessions JOB [OPTIONS]\n"
    "       (a, l, h, r, s, u, close for short; gjob VERB --help shows a verb's options)";

/// Parses a verb's words. Returns an exit code if it printed the help or an error, else nullopt with the words in
/// `out`.
std::optional<int> ParseVerb(std::string_view usage, std::vector<Option>& table, const Words& words, bool wants_job,
                             Words& out) {
  bool wants_help = false;
  table.push_back(Option::Flag("help", 'h', "Print this", Sets(wants_help)));
  AddGlobalOptions(table);
  DIVVY_TRY_OR_FAIL(auto parsed, dialect::ParseOptions(table, words));
  if (wants_help) {
    std::fputs(UsageText(usage, table).c_str(), stdout);
    return 0;
  }
  out = parsed.positional;
  if (wants_job && out.size() != 1) return Fail(InvalidArgument("which job? write: " + std::string(usage)));
  return std::nullopt;
}

Status ToLines(std::string_view value, long sign, long& out) {
  auto number = ParseInteger(value);
  if (!number || *number < 1 || *number > 1'000'000'000)
    return InvalidArgument("'" + std::string(value) + "' is not a number of lines");
  out = sign * static_cast<long>(*number);
  return {};
}

/// Returns everything that the job has written so far.
Result<std::string> ReadLogOf(Api& api, const wire::JobDetail& job) {
  if (!IsElsewhere(job)) return CallerParseContext().read_file(job.output);
  LogFile file = OpenLogFile(api, job, {});
  std::string whole;
  for (std::string piece = file.Next(); !piece.empty(); piece = file.Next()) whole += piece;
  if (file.error() != 0) return NotFound(file.trouble());
  return whole;
}

int Log(const Words& words) {
  long lines = 0;
  bool is_raw = false, keeps_frames = false, wants_path = false, follows = false;
  std::vector<Option> table = {
      Option::Value("first", 'f', "N", "The first N lines",
                    [&](std::string_view value) { return ToLines(value, 1, lines); }),
      Option::Value("last", 'l', "N", "The last N lines",
                    [&](std::string_view value) { return ToLines(value, -1, lines); }),
      Option::Flag("raw", "Keep escape sequences", Sets(is_raw)),
      Option::Flag("no-ansi", "Remove escape sequences; each repaint is a separate line", Sets(keeps_frames)),
      Option::Flag("path", "Print only the path of the file", Sets(wants_path)),
      Option::Flag("follow", 'F', "Follow the output until the job has ended", Sets(follows))};
  Words jobs;
  if (auto code = ParseVerb("gjob log JOB [OPTIONS]", table, words, true, jobs)) return *code;
  if (follows && (lines != 0 || wants_path))
    return Fail(InvalidArgument("--follow cannot be combined with --first, --last or --path"));
  if (follows) return BecomeDivvy({"logs", "-f", jobs[0]});
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto job, api.Job(jobs[0]));
  if (job.output.empty() && !job.start_time)
    return Fail(NotFound("job " + job.display_id + " has not started, so it has no log"));
  if (job.output.empty())
    return Fail(NotFound("job " + job.display_id + " has no log: it used its caller's own terminal"));
  if (wants_path) {
    std::printf("%s\n", job.output.c_str());
    return 0;
  }
  // divvy logs also handles files that this user may not read and jobs that have written nothing yet.
  if (lines == 0 && is_raw) return BecomeDivvy({"logs", jobs[0]});
  DIVVY_TRY_OR_FAIL(auto text, ReadLogOf(api, job));
  std::string shown = text;
  if (!is_raw && keeps_frames) {
    for (char& c : shown) c = c == '\r' ? '\n' : c;
  }
  if (!is_raw) shown = CleanLog(shown);
  std::string_view slice = SliceLines(shown, lines);
  std::fwrite(slice.data(), 1, slice.size(), stdout);
  return 0;
}

int PrintResults(const Result<wire::ActionAnswer>& answer, std::string_view done) {
  if (!answer) return Fail(answer.error());
  int code = 0;
  for (const wire::ActionResult& result : answer->results) {
    if (result.is_done) {
      std::printf("Job %s %.*s\n", result.display_id.c_str(), static_cast<int>(done.size()), done.data());
    } else {
      std::fprintf(stderr, "gjob: job %s: %s\n", result.display_id.c_str(), result.message.c_str());
      code = 1;
    }
  }
  return code;
}

int HoldOrRelease(const Words& words, bool releases) {
  wire::ActionRequest request;
  std::vector<Option> table;
  if (releases) {
    table.push_back(Option::Value("at", "TIME", "Earliest start time: 22:00, now+1h, 2026-03-01T16:00",
                                  [&](std::string_view value) -> Status {
                                    const dialect::ParseContext around = CallerParseContext();
                                    DIVVY_TRY(Time at, dialect::ParseMoment(value, around.now, around.utc_offset));
                                    request.at = ToSeconds(at);
                                    return {};
                                  }));
  }
  Words jobs;
  if (auto code = ParseVerb(releases ? "gjob release IDS [--at TIME]" : "gjob hold IDS", table, words, true, jobs))
    return *code;
  DIVVY_TRY_OR_FAIL(auto ids, ParseIdList(jobs[0]));
  request.select.ids = ids;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return releases ? PrintResults(api.Release(request), "released.") : PrintResults(api.Hold(request), "put on hold.");
}

int Show(const Words& words) {
  std::vector<Option> table;
  Words jobs;
  if (auto code = ParseVerb("gjob show IDS", table, words, true, jobs)) return *code;
  DIVVY_TRY_OR_FAIL(auto ids, ParseIdList(jobs[0]));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  wire::JobSelector selector;
  selector.ids = ids;
  selector.user = "all";
  selector.includes_final = true;
  DIVVY_TRY_OR_FAIL(auto found, api.Jobs(selector));
  if (found.empty()) return Fail(NotFound("there is no job " + jobs[0]));
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto job = api.Job(found[i].count > 1 ? ToString(found[i].id) : found[i].display_id);
    if (!job) return Fail(job.error());
    std::printf("%s%s", i > 0 ? "\n" : "", RenderGjobShow(*job, ToSeconds(CallerParseContext().now)).c_str());
  }
  return 0;
}

int Update(const Words& words) {
  wire::JobUpdate update;
  std::vector<Option> table = GjobUpdateOptions(update);
  Words jobs;
  if (auto code = ParseVerb("gjob update IDS [OPTIONS]", table, words, true, jobs)) return *code;
  DIVVY_TRY_OR_FAIL(auto ids, ParseIdList(jobs[0]));
  update.select.ids = ids;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  return PrintResults(api.Update(update), "updated.");
}

struct RedoRequest {
  wire::JobUpdate changes;
  bool clears_dependencies = false;
  bool cascades = false;
};

/// Submits `old` again with the changes. If requested, also resubmits the jobs that were cancelled because it failed.
Status RedoOne(Api& api, const wire::JobDetail& old, const RedoRequest& request, const std::vector<wire::JobView>& all,
               int depth) {
  const dialect::ParseContext around = CallerParseContext();
  DIVVY_TRY(JobSpec spec, SpecToRedo(old, request.changes));
  std::vector<std::string> dependencies = request.changes.dependencies.value_or(old.dependencies);
  if (request.clears_dependencies) dependencies.clear();
  if (!dependencies.empty()) DIVVY_CHECK(dialect::ParseDependencies(Join(dependencies, ","), around, spec));
  DIVVY_TRY(wire::SubmitAnswer answer, SubmitJob(std::move(spec)));
  std::printf("Submitted batch job %s (%s), again from job %s\n", ToString(answer.id).c_str(), old.name.c_str(),
              old.display_id.c_str());
  constexpr int kMaxDepth = 64;
  if (!request.cascades || depth == kMaxDepth) return {};
  for (const wire::JobView& child : all) {
    if (child.state != "cancelled") continue;
    RedoRequest next;
    next.cascades = true;
    std::vector<std::string> rewritten = ReplaceDependency(child.dependencies, ToString(old.id), ToString(answer.id));
    if (rewritten == child.dependencies) continue;
    next.changes.dependencies = rewritten;
    DIVVY_TRY(wire::JobDetail detail, api.Job(child.display_id));
    DIVVY_CHECK(RedoOne(api, detail, next, all, depth + 1));
  }
  return {};
}

int Redo(const Words& words) {
  RedoRequest request;
  std::vector<Option> table = GjobUpdateOptions(request.changes);
  table.push_back(Option::Flag("clear-deps", "Drop the dependencies", Sets(request.clears_dependencies)));
  table.push_back(
      Option::Flag("cascade", "Also jobs that were cancelled because this job failed", Sets(request.cascades)));
  Words jobs;
  if (auto code = ParseVerb("gjob redo JOB [OPTIONS]", table, words, true, jobs)) return *code;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto old, api.Job(jobs[0]));
  std::vector<wire::JobView> all;
  if (request.cascades) {
    wire::JobSelector selector;
    selector.includes_final = true;
    auto found = api.Jobs(selector);
    if (!found) return Fail(found.error());
    all = std::move(*found);
  }
  Status status = RedoOne(api, old, request, all, 0);
  return status ? 0 : Fail(status.error());
}

}  // namespace

int GjobMain(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    std::printf("usage: %.*s\n", static_cast<int>(kJobUsage.size()), kJobUsage.data());
    return words.empty() ? 2 : 0;
  }
  const Words rest(words.begin() + 1, words.end());
  const std::string& verb = words[0];
  if (verb == "attach" || verb == "a") {
    if (rest.size() != 1) return Fail(InvalidArgument("which job? write: gjob attach JOB"));
    return BecomeDivvy({"attach", rest[0]});
  }
  if (verb == "log" || verb == "l") return Log(rest);
  if (verb == "hold" || verb == "h") return HoldOrRelease(rest, false);
  if (verb == "release" || verb == "r") return HoldOrRelease(rest, true);
  if (verb == "show" || verb == "s") return Show(rest);
  if (verb == "update" || verb == "u") return Update(rest);
  if (verb == "redo") return Redo(rest);
  if (verb == "close-sessions" || verb == "close") {
    std::printf("Nothing to close: divvy's jobs need no tmux session, and leave none behind.\n");
    return 0;
  }
  if (verb == "completion" && rest.size() == 1) return BecomeDivvy(words);
  static constexpr std::string_view kVerbs[] = {"attach", "log",    "hold", "release",
                                                "show",   "update", "redo", "close-sessions"};
  std::string_view nearest = Nearest(verb, kVerbs);
  return Fail(
      InvalidArgument("gjob has no verb '" + verb + "'" +
                      (nearest.empty() ? "; gjob --help lists them" : "; did you mean " + std::string(nearest) + "?")));
}

}  // namespace divvy::cli
