// divvy cancel, hold, release, requeue, pause, resume, signal, group: an action on every selected job.
#include <cstdio>
#include <optional>
#include <set>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "dialect/options/quantities.h"
#include "model/job_record.h"
#include "wire/messages/messages_teams.h"

namespace divvy::cli {
namespace {

using dialect::Option;

int Act(const Words& words, std::string_view verb,
        Result<wire::ActionAnswer> (Api::*method)(const wire::ActionRequest&), std::vector<Option> extra,
        wire::ActionRequest& request, const bool* is_quiet = nullptr) {
  std::vector<Option> table = SelectTable(request.select);
  for (Option& option : extra) table.push_back(std::move(option));
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  request.select.ids = parsed.positional;
  for (const std::string& id : request.select.ids) {
    const auto plus = id.find('+');
    if (plus != std::string::npos && plus > 0 && id.find_first_not_of("0123456789+") == std::string::npos)
      Note(id + " is a component of job " + id.substr(0, plus) + "; this command applies only to the whole job");
  }
  if (const Status selects = CheckSelection(request.select, verb); !selects) return Fail(selects.error());
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  std::optional<ProgressIndicator> progress(std::in_place, "waiting for the daemon");
  const auto results = (api.*method)(request);
  progress.reset();
  return ReportActions(results, is_quiet != nullptr && *is_quiet);
}

std::vector<Option> CancelTable(wire::ActionRequest& request) {
  std::vector<Option> table;
  table.push_back(Option::Value("signal", "SIGNAL", "First signal to send (default: the job's stop signal, TERM)",
                                [&request](std::string_view value) -> Status {
                                  DIVVY_TRY(const int signal, dialect::ParseSignal(value));
                                  request.signal = signal;
                                  return {};
                                }));
  table.push_back(Option::Value("grace", "TIME", "Time from that signal to SIGKILL (default: the job's, 30s)",
                                [&request](std::string_view value) -> Status {
                                  DIVVY_TRY(const Duration grace,
                                            dialect::ParseDuration(value, std::chrono::seconds(1)));
                                  request.grace_s = ToSeconds(grace);
                                  return {};
                                }));
  table.push_back(Option::Flag("now", "Send SIGKILL immediately",
                               [&request](std::string_view) -> Status {
                                 request.grace_s = 0;
                                 return {};
                               },
                               {"kill"}));
  table.push_back(Option::Value("reason", "TEXT", "Reason, stored with the job", dialect::Keeps(request.reason)));
  return table;
}

Option HoldOption(wire::ActionRequest& request) {
  return Option::Flag("hold", 'H', "Hold the jobs until divvy release", dialect::Sets(request.holds));
}

}  // namespace

Status CheckSelection(const wire::JobSelector& select, std::string_view verb) {
  const bool selects = !select.ids.empty() || select.is_all || !select.name.empty() || !select.project.empty() ||
                       !select.group.empty() || !select.states.empty() || !select.user.empty();
  if (selects) return {};
  return InvalidArgument("name the jobs: divvy " + std::string(verb) + " 17 18 20-25 17_3 @ (or a name), or --all");
}

namespace {

/// "20-25": the daemon's JobSelector also accepts it as a range.
bool IsRange(std::string_view word) {
  const auto dash = word.find('-');
  if (dash == std::string_view::npos) return false;
  const auto first = ParseInteger(word.substr(0, dash));
  const auto last = ParseInteger(word.substr(dash + 1));
  return first && last && *first >= 0 && *last >= *first;
}

/// "17_1-3", "17_[1,4]": the daemon's JobSelector also accepts them.
bool AreElements(std::string_view word) {
  const auto underscore = word.find('_');
  return underscore != std::string_view::npos && ParseInteger(word.substr(0, underscore)).value_or(-1) >= 0 &&
         word.find_first_of("-,[", underscore) != std::string_view::npos;
}

}  // namespace

Result<std::vector<std::string>> EachJob(Api& api, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const bool are_elements = AreElements(word);
    if (!are_elements && !IsRange(word)) {
      out.push_back(word);
      continue;
    }
    wire::JobSelector select;
    select.ids = {word};
    select.user = "all";
    select.includes_final = true;
    DIVVY_TRY(const std::vector<wire::JobView> jobs, api.Jobs(select));
    if (are_elements) {
      for (const wire::JobView& job : jobs) out.push_back(job.display_id);
      continue;
    }
    // The daemon returns the elements of arrays, but a range such as 20-25 means whole arrays.
    std::set<JobId> ids;
    for (const wire::JobView& job : jobs) ids.insert(job.array_id.value_or(job.id));
    // No job has an id in the range, so the word may be the name of a job.
    if (ids.empty()) out.push_back(word);
    for (const JobId id : ids) out.push_back(ToString(id));
  }
  return out;
}

std::vector<Option> SelectTable(wire::JobSelector& select) {
  std::vector<Option> table;
  table.push_back(Option::Flag("all", 'a', "All my queued and running jobs", dialect::Sets(select.is_all), {"me"}));
  table.push_back(Option::Value("name", 'n', "NAME", "My jobs with this name", dialect::Keeps(select.name)));
  table.push_back(Option::Value("project", 'P', "NAME", "My jobs in this project", dialect::Keeps(select.project)));
  table.push_back(Option::Value("group", "NAME", "My jobs in this group", dialect::Keeps(select.group)));
  table.push_back(
      Option::Value("user", 'u', "NAME", "Jobs of this user (administrators only)", dialect::Keeps(select.user)));
  table.push_back(
      Option::Value("state", 's', "STATE", "Only jobs in this state", [&select](std::string_view value) -> Status {
        if (!JobStateFromName(value)) return InvalidArgument("unknown job state '" + std::string(value) + "'");
        select.states.emplace_back(value);
        return {};
      }));
  return table;
}

int ReportActions(const Result<wire::ActionAnswer>& answer, bool is_quiet) {
  if (!answer) return Fail(answer.error());
  int code = 0;
  for (const wire::ActionResult& result : answer->results) {
    if (result.is_done) {
      if (!is_quiet) std::printf("job %s: %s\n", result.display_id.c_str(), result.message.c_str());
    } else {
      // A missing job has its own exit code, as in every other command, unless another error occurred too.
      const bool is_missing = result.message.starts_with("there is no job") && code != 1;
      code = is_missing ? 3 : 1;
      std::fprintf(stderr, "divvy: %s\n", result.message.c_str());
    }
  }
  if (answer->results.empty() && !is_quiet) std::printf("No job matches.\n");
  return code;
}

std::vector<Option> SelectOptions() {
  static wire::JobSelector scratch;
  return SelectTable(scratch);
}

std::vector<Option> CancelOptions() {
  static wire::ActionRequest scratch;
  std::vector<Option> table = SelectTable(scratch.select);
  for (Option& option : CancelTable(scratch)) table.push_back(std::move(option));
  static bool is_quiet = false;
  table.push_back(QuietOption(is_quiet));
  return table;
}

int CancelMain(const Words& words) {
  wire::ActionRequest request;
  bool is_quiet = false;
  std::vector<Option> table = CancelTable(request);
  table.push_back(QuietOption(is_quiet));
  return Act(words, "cancel", &Api::Cancel, std::move(table), request, &is_quiet);
}
int HoldMain(const Words& words) {
  wire::ActionRequest request;
  return Act(words, "hold", &Api::Hold, {}, request);
}
int ReleaseMain(const Words& words) {
  wire::ActionRequest request;
  return Act(words, "release", &Api::Release, {}, request);
}
std::vector<Option> RequeueOptions() {
  static wire::ActionRequest scratch;
  std::vector<Option> table = SelectTable(scratch.select);
  table.push_back(HoldOption(scratch));
  return table;
}

int RequeueMain(const Words& words) {
  wire::ActionRequest request;
  return Act(words, "requeue", &Api::Requeue, {HoldOption(request)}, request);
}
int PauseMain(const Words& words) {
  wire::ActionRequest request;
  return Act(words, "pause", &Api::Pause, {}, request);
}
int ResumeMain(const Words& words) {
  wire::ActionRequest request;
  return Act(words, "resume", &Api::Resume, {}, request);
}

int SignalMain(const Words& words) {
  if (words.size() < 2) return Fail(InvalidArgument("name a signal and the jobs: divvy signal USR1 17 ..."));
  DIVVY_TRY_OR_FAIL(const auto signal, dialect::ParseSignal(words.front()));
  wire::ActionRequest request;
  request.signal = signal;
  return Act({words.begin() + 1, words.end()}, "signal", &Api::Signal, {}, request);
}

int GroupMain(const Words& words) {
  const auto limit = words.size() == 3 && words[0] == "limit" ? ParseInteger(words[2]) : std::nullopt;
  if (!limit || *limit < 0 || *limit > 1'000'000)
    return Fail(
        InvalidArgument("name the group and its limit: divvy group limit NAME N (at most N of its jobs run at once; 0: "
                        "no limit; NAME may be an array id)"));
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  const auto answer = api.SetGroupLimit({words[1], *limit});
  if (!answer) return Fail(answer.error());
  for (const wire::ActionResult& result : answer->results)
    std::printf("%s: %s\n", words[1].c_str(), result.message.c_str());
  return 0;
}

int PostEach(const std::string& path, const std::vector<std::string>& bodies) {
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  int code = 0;
  for (const std::string& body : bodies) {
    std::optional<ProgressIndicator> progress(std::in_place, "waiting for the daemon");
    const auto text = api.Raw("POST", path, body);
    progress.reset();
    const auto answer = text ? DecodeShown<wire::MessageAnswer>(*text) : Result<wire::MessageAnswer>(text.error());
    if (!answer) code = Fail(answer.error());
    else std::printf("%s\n", answer->message.c_str());
  }
  return code;
}

}  // namespace divvy::cli
