// gqueue and ginfo.
#include <cstdio>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/client/table.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/gflow/gflow_queue.h"
#include "cli/shims/gflow/gflow_words.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using dialect::Option;

struct Request {
  QueueView view;
  double since = 0;
  bool is_tmux = false;
  bool wants_help = false;
  ListingOptions listing{.interval_s = 2};
};

dialect::Apply ListInto(std::vector<std::string>& out) {
  return [&out](std::string_view value) -> Status {
    for (std::string_view part : Split(value, ',')) {
      if (Trim(part).empty()) return InvalidArgument("'" + std::string(value) + "' has an empty part");
      out.emplace_back(Trim(part));
    }
    return {};
  };
}

dialect::Apply OneOf(std::string& out, std::vector<std::string> words) {
  return [&out, words = std::move(words)](std::string_view value) -> Status {
    out = ToLower(value);
    for (const std::string& word : words) {
      if (word == out) return {};
    }
    return InvalidArgument("'" + std::string(value) + "' is not valid; expected one of " + Join(words, ", "));
  };
}

std::vector<Option> QueueTable(Request& request) {
  QueueView& view = request.view;
  std::vector<Option> table = {
      Option::Value("user", 'u', "NAMES", "Jobs of these users, or all (default: yours)", ListInto(view.users),
                    {"users"}),
      Option::Value("limit", 'n', "N", "The first N jobs; -N: the last N",
                    [&view](std::string_view value) -> Status {
                      auto number = ParseInteger(value);
                      if (!number || *number > 1'000'000'000 || *number < -1'000'000'000)
                        return InvalidArgument("'" + std::string(value) + "' is not a whole number");
                      view.limit = static_cast<long>(*number);
                      return {};
                    }),
      Option::Flag("all", 'a', "Include jobs that have ended", Sets(view.shows_final)),
      Option::Flag("completed", 'c', "Only jobs that have ended", Sets(view.shows_completed_only)),
      Option::Value("since", "WHEN", "Jobs since 1h, 2d, 3w, today, yesterday or a date",
                    [&request](std::string_view value) -> Status {
                      DIVVY_TRY(request.since, AgoOrMoment(value));
                      request.view.shows_final = true;
                      return {};
                    }),
      Option::Value("sort", 'r', "KEY", "Sort by id, state, time, name, gpus or priority",
                    OneOf(view.sort, {"id", "state", "time", "name", "gpus", "priority"})),
      Option::Value("states", 's', "STATES",
                    "Queued, Hold, Running, Finished, Failed, Cancelled, Timeout, or their codes",
                    [&view](std::string_view value) -> Status {
                      for (std::string_view part : Split(value, ',')) {
                        DIVVY_TRY(std::string code, ParseGflowState(part));
                        view.states.push_back(code);
                      }
                      return {};
                    },
                    {"state"}),
      Option::Value("jobs", 'j', "IDS", "These jobs: 12 or 1-3,7", ListInto(view.ids), {"job"}),
      Option::Value("names", 'N', "NAMES", "Jobs of these names", ListInto(view.names), {"name"}),
      Option::Value("project", 'P', "CODE", "Jobs of this project", Keeps(view.project)),
      Option::Value(
          "format", 'f', "FIELDS",
          "JOBID,NAME,ST,STATE,TIME,TIMELIMIT,MEMORY,NODES,NODELIST(REASON),USER,PROJECT,PRIORITY,DEPENDENCY,REASON",
          Keeps(view.format)),
      Option::Flag("group", 'g', "One table for each state", Sets(view.is_grouped)),
      Option::Flag("tree", 't', "Show jobs below their dependencies", Sets(view.is_tree)),
      Option::Flag("tmux", 'T', "Jobs whose terminal can be attached", Sets(request.is_tmux)),
      Option::Value("output", 'o', "FORM", "table, json, csv or yaml",
                    OneOf(view.output, {"table", "json", "csv", "yaml"})),
      Option::Flag("watch", 'w', "Refresh until Ctrl-C", Sets(request.listing.is_watched)),
      Option::Value("interval", "SECONDS", "Refresh interval of --watch (default: 2)",
                    [&request](std::string_view value) -> Status {
                      auto seconds = ParseNumber(value);
                      if (!seconds || *seconds < 0.1 || *seconds > 3600)
                        return InvalidArgument("'" + std::string(value) +
                                               "' is not a number of seconds from 0.1 to 3600");
                      request.listing.interval_s = *seconds;
                      return {};
                    }),
      Option::Flag("help", 'h', "Print this", Sets(request.wants_help)),
  };
  AddGlobalOptions(table);
  return table;
}

Result<std::string> DrawQueue(const Request& request) {
  const QueueView& view = request.view;
  wire::JobSelector selector;
  selector.ids = view.ids;
  selector.since = request.since;
  QueueView shown = view;
  if (view.users.size() == 1 && view.users[0] != "all") selector.user = view.users[0];
  if (view.users.size() > 1 || (view.users.size() == 1 && view.users[0] == "all") || !view.ids.empty())
    selector.user = "all";
  if (view.users.size() == 1) shown.users.clear();
  bool names_final = false;
  for (const std::string& code : view.states) names_final = names_final || (code != "PD" && code != "H" && code != "R");
  // A tree also shows ended jobs, because waiting jobs may depend on them.
  shown.shows_final = view.shows_final || !view.ids.empty() || view.is_tree;
  selector.includes_final = shown.shows_final || view.shows_completed_only || names_final;
  DIVVY_TRY(Api api, Api::Connect());
  DIVVY_TRY(std::vector<wire::JobView> jobs, api.Jobs(selector));
  if (request.is_tmux)
    std::erase_if(jobs, [](const wire::JobView& job) { return GflowStateOf(job.state).code != "R"; });
  return RenderGqueue(SelectGflowJobs(std::move(jobs), shown), shown, ToSeconds(CallerParseContext().now));
}

}  // namespace

int GqueueMain(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "completion") return BecomeDivvy(words);
  Request request;
  std::vector<Option> table = QueueTable(request);
  DIVVY_TRY_OR_FAIL(auto parsed, dialect::ParseOptions(table, words));
  if (request.wants_help) {
    std::fputs(UsageText("gqueue [OPTIONS]", table).c_str(), stdout);
    return 0;
  }
  if (!parsed.positional.empty()) {
    return Fail(InvalidArgument("'" + parsed.positional[0] +
                                "' is not an option; to see one job, write gqueue --jobs " + parsed.positional[0]));
  }
  return ShowListing(request.listing, [&] { return DrawQueue(request); });
}

int GinfoMain(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "completion") return BecomeDivvy(words);
  bool wants_help = false;
  std::vector<Option> table = {Option::Flag("help", 'h', "Print this", Sets(wants_help))};
  AddGlobalOptions(table);
  DIVVY_TRY_OR_FAIL(auto parsed, dialect::ParseOptions(table, words));
  if (wants_help) {
    std::fputs(UsageText("ginfo", table).c_str(), stdout);
    return 0;
  }
  // Older releases had "ginfo info".
  if (parsed.positional.size() > 1 || (parsed.positional.size() == 1 && parsed.positional[0] != "info")) {
    return Fail(InvalidArgument("ginfo takes no words; write: ginfo"));
  }
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  DIVVY_TRY_OR_FAIL(auto gpus, api.Gpus());
  wire::JobSelector everybody;
  everybody.user = "all";
  everybody.states = {"starting", "running", "paused", "stopping"};
  DIVVY_TRY_OR_FAIL(auto jobs, api.Jobs(everybody));
  std::fputs(RenderGinfo(gpus, jobs).c_str(), stdout);
  return 0;
}

}  // namespace divvy::cli
