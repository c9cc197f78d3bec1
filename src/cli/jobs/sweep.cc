// divvy sweep: searches over hyper-parameters, whose trials are the elements of a job array.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <thread>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "cli/client/shown_answer.h"
#include "cli/client/table.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/task_options.h"
#include "dialect/sweep/sweep_file.h"
#include "wire/messages/codec.h"
#include "wire/messages/sweep_messages.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::SweepMethod;
using dialect::Takes;

constexpr std::string_view kSweepUsage =
    "divvy sweep run [FILE] [OPTIONS] [-- COMMAND...] | list | show ID | cancel ID | ask ID | tell ID NAME=VALUE...";

struct SweepRequest {
  dialect::SweepPlan plan;
  JobSpec spec;
  bool is_quiet = false;
  bool is_json = false;
};

Status ReadSweepCount(std::string_view text, std::int64_t least, std::int64_t most, std::int64_t& out) {
  const auto number = ParseInteger(Trim(text));
  if (!number || *number < least || *number > most)
    return InvalidArgument("'" + std::string(text) + "' is not a whole number from " + std::to_string(least) + " to " +
                           std::to_string(most));
  out = *number;
  return {};
}

std::vector<Option> SweepTable(SweepRequest& request) {
  dialect::SweepPlan& plan = request.plan;
  const auto text = [](std::string& target) {
    return [&target](std::string_view value) -> Status {
      target = value;
      return {};
    };
  };
  const auto halving = [&plan](sweep::EarlyStop stop) {
    return [&plan, stop](std::string_view value) -> Status {
      DIVVY_TRY(plan.rule.halving, dialect::ParseHalving(value, stop));
      return {};
    };
  };
  std::vector<Option> table;
  const auto add = [&](std::string_view name, std::string_view value, std::string_view help, dialect::Apply apply) {
    table.push_back({name,
                     0,
                     value.empty() ? Takes::kNothing : Takes::kValue,
                     value,
                     help,
                     std::move(apply),
                     {},
                     false,
                     dialect::OptionGroup::kMostUsed});
  };
  add("draw", "NAME=DISTRIBUTION:MIN:MAX",
      "Draw a parameter at random: uniform, int_uniform, log_uniform_values, normal (then :MU:SIGMA)",
      [&plan](std::string_view value) -> Status {
        DIVVY_TRY(sweep::SpaceParameter parameter, dialect::ParseDraw(value));
        std::erase_if(plan.space, [&](const auto& other) { return other.name == parameter.name; });
        plan.space.push_back(std::move(parameter));
        if (plan.method == SweepMethod::kGrid) plan.method = SweepMethod::kRandom;
        return {};
      });
  add("method", "METHOD", "How values are chosen: grid, random or ask", [&plan](std::string_view value) -> Status {
    DIVVY_TRY(plan.method, dialect::SweepMethodFromName(value));
    return {};
  });
  add("trials", "N", "Number of trials", [&plan](std::string_view value) -> Status {
    std::int64_t count = 0;
    DIVVY_CHECK(ReadSweepCount(value, 1, dialect::kMostTrials, count));
    plan.trials = static_cast<std::uint32_t>(count);
    return {};
  });
  add("parallel", "N", "Trials at once (default: as many as fit)", [&plan](std::string_view value) -> Status {
    std::int64_t count = 0;
    DIVVY_CHECK(ReadSweepCount(value, 0, dialect::kMostTrials, count));
    plan.rule.parallel = static_cast<int>(count);
    return {};
  });
  add("seed", "N", "Seed of random values (default: 1)", [&plan](std::string_view value) -> Status {
    std::int64_t seed = 0;
    DIVVY_CHECK(ReadSweepCount(value, 0, 2'000'000'000, seed));
    plan.seed = static_cast<std::uint64_t>(seed);
    return {};
  });
  add("metric", "NAME", "The number that trials report as JSON lines, to be compared", text(plan.rule.metric));
  add("goal", "GOAL", "Which values are better: minimize or maximize (default: minimize)",
      [&plan](std::string_view value) -> Status {
        if (value != "minimize" && value != "maximize")
          return InvalidArgument("invalid goal '" + std::string(value) + "': expected minimize or maximize");
        plan.rule.goal = value == "maximize" ? sweep::Goal::kMaximize : sweep::Goal::kMinimize;
        return {};
      });
  add("target", "NUMBER", "End the sweep when the metric of a trial reaches this",
      [&plan](std::string_view value) -> Status {
        plan.rule.target = ParseNumber(value);
        if (!plan.rule.target) return InvalidArgument("'" + std::string(value) + "' is not a number");
        return {};
      });
  add("resource", "NAME", "The number that counts training, reported with the metric (default: epoch)",
      text(plan.rule.resource));
  add("asha", "MIN:MAX[:ETA]", "Stop trials that are not among the best 1/ETA at MIN, MIN*ETA, ... (default ETA: 3)",
      halving(sweep::EarlyStop::kAsha));
  add("asha-promotion", "MIN:MAX[:ETA]", "Like --asha, but pause trials there until they are promoted",
      halving(sweep::EarlyStop::kAshaPromotion));
  add("hyperband", "MIN:MAX[:ETA]", "Run the brackets of Hyperband", halving(sweep::EarlyStop::kHyperband));
  add("park-losers", "", "Park paused trials in host memory, so that they need no checkpoint",
      [&plan](std::string_view) -> Status {
        plan.rule.parks_losers = true;
        return {};
      });
  table.push_back({"quiet",
                   'q',
                   Takes::kNothing,
                   "",
                   "Print only the id",
                   [&request](std::string_view) -> Status {
                     request.is_quiet = true;
                     return {};
                   },
                   {},
                   false,
                   dialect::OptionGroup::kOther});
  table.push_back({"json",
                   0,
                   Takes::kNothing,
                   "",
                   "Print the answer as JSON",
                   [&request](std::string_view) -> Status {
                     request.is_json = true;
                     return {};
                   },
                   {},
                   false,
                   dialect::OptionGroup::kOther});
  return table;
}

bool IsSweepFile(std::string_view word) { return word.ends_with(".yaml") || word.ends_with(".yml"); }

/// Options of the file come first, so that those of the command line win.
Result<SweepRequest> ReadSweepRequest(Words words) {
  const dialect::ParseContext around = CallerParseContext();
  SweepRequest request;
  if (!words.empty() && IsSweepFile(words.front())) {
    DIVVY_TRY(const std::string text, around.read_file(words.front()));
    DIVVY_TRY(request.plan, dialect::ReadSweepFile(text, words.front()));
    const std::vector<Option> table = dialect::JobOptions(request.spec, around);
    if (const auto parsed = dialect::ParseOptions(table, request.plan.options); !parsed)
      return Error{parsed.error().code, words.front() + ": options: " + parsed.error().message};
    words.erase(words.begin());
  }
  std::vector<Option> table = dialect::JobOptions(request.spec, around);
  for (Option& option : SweepTable(request)) table.push_back(std::move(option));
  DIVVY_TRY(dialect::Parsed parsed, dialect::ParseOptions(table, words, {true, true, false, {}}));
  Words command = std::move(parsed.positional);
  command.insert(command.end(), parsed.after_dashes.begin(), parsed.after_dashes.end());
  if (!command.empty() && IsSweepFile(command.front()))
    return InvalidArgument("the file comes before the options: divvy sweep run " + command.front() + " ...");
  if (command.empty()) command = request.plan.command;
  if (command.empty())
    return InvalidArgument(
        "nothing to run; add program: train.py to the file, or write: divvy sweep run [FILE] "
        "[OPTIONS] -- COMMAND...");
  JobSpec& spec = request.spec;
  spec.command = std::move(command);
  if (spec.directory.empty()) spec.directory = around.directory;
  dialect::CompleteTasks(spec);
  dialect::CompletePortion(spec);
  DIVVY_CHECK(dialect::CompleteSweep(request.plan, spec));
  return request;
}

int RunSweep(const Words& words) {
  auto request = ReadSweepRequest(words);
  if (!request) return Fail(request.error());
  const auto answer = SubmitJob(std::move(request->spec));
  if (!answer) return Fail(answer.error());
  const std::string id = ToString(answer->id);
  if (request->is_quiet) {
    std::printf("%s\n", id.c_str());
  } else if (request->is_json) {
    std::printf("{\"id\":%s,\"trials\":%lld}\n", id.c_str(), static_cast<long long>(answer->count));
  } else {
    std::printf("sweep %s: %s; divvy sweep show %s\n", id.c_str(), answer->summary.c_str(), id.c_str());
  }
  return 0;
}

std::string SweepNumber(const std::optional<double>& value) {
  if (!value) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", *value);
  return text;
}

Colour ColourOfTrial(const std::string& state) {
  if (state == "running") return Colour::kGreen;
  if (state == "failed" || state == "lost" || state == "timed_out") return Colour::kRed;
  return state == "stopped" || state == "paused" || state == "parked" ? Colour::kDim : Colour::kNone;
}

std::string TrialCounts(const wire::SweepView& view) {
  std::string text = std::to_string(view.running) + " running, " + std::to_string(view.waiting) + " waiting";
  if (view.paused > 0) text += ", " + std::to_string(view.paused) + " paused";
  if (view.parked > 0) text += " (" + std::to_string(view.parked) + " parked)";
  if (view.stopped > 0) text += ", " + std::to_string(view.stopped) + " stopped";
  return text + ", " + std::to_string(view.ended) + " ended";
}

int ListSweeps(const Words& words) {
  static const std::vector<Column> columns = {{"ID", true},
                                              {"NAME", false, true, true},
                                              {"USER", false, true, false, true},
                                              {"METHOD"},
                                              {"EARLY", false, true, false, true},
                                              {"STATE"},
                                              {"TRIALS", true},
                                              {"RUNNING", true},
                                              {"BEST", true},
                                              {"TRIAL", true},
                                              {"NOTE", false, true, true, true, true}};
  ListingOptions listing;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(listing), words);
  if (!parsed) return Fail(parsed.error());
  return ShowListing(listing, [&]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/sweeps", ""));
    if (listing.json) return text + "\n";
    DIVVY_TRY(const auto views, DecodeShown<std::vector<wire::SweepView>>(text));
    if (views.empty() && !listing.csv) return std::string("No sweeps.\n");
    std::vector<std::vector<Cell>> rows;
    for (const wire::SweepView& view : views) {
      rows.push_back({{ToString(view.id), Colour::kBold},
                      {view.name},
                      {view.user},
                      {view.method},
                      {view.early_terminate},
                      {view.state, ColourOfTrial(view.state)},
                      {std::to_string(view.trials)},
                      {std::to_string(view.running)},
                      {SweepNumber(view.best)},
                      {view.best_trial ? std::to_string(*view.best_trial) : ""},
                      {view.note}});
    }
    return RenderTable(columns, rows, listing);
  });
}

std::string SweepHeadline(const wire::SweepDetail& view) {
  std::string text = "sweep " + ToString(view.id) + " (" + view.name + ") of " + view.user + ", " + view.state + ": " +
                     std::to_string(view.trials) + " trials, " + TrialCounts(view) + "\n";
  if (!view.metric.empty()) {
    text += "  " + view.goal + " " + view.metric;
    if (view.target) text += " to " + SweepNumber(view.target);
    if (view.early_terminate != "none") {
      text += "; " + view.early_terminate + " from " + SweepNumber(view.min_iter) +
              (view.max_iter > 0 ? " to " + SweepNumber(view.max_iter) : "") + " " + view.resource + ", eta " +
              std::to_string(view.eta);
    }
    text += "\n";
  }
  if (view.best_trial)
    text += "  best: trial " + std::to_string(*view.best_trial) + " with " + view.metric + " " +
            SweepNumber(view.best) + "\n";
  if (!view.note.empty()) text += "  note: " + view.note + "\n";
  return text;
}

/// The best trials first; those without a value last, by number.
void SortByValue(wire::SweepDetail& view) {
  const bool is_greatest_first = view.goal == "maximize";
  std::ranges::stable_sort(view.list, [&](const wire::SweepTrialView& a, const wire::SweepTrialView& b) {
    if (a.best.has_value() != b.best.has_value()) return a.best.has_value();
    return a.best && *a.best != *b.best && (*a.best > *b.best) == is_greatest_first;
  });
}

Result<std::string> TrialsTable(wire::SweepDetail view, const ListingOptions& listing) {
  std::vector<Column> columns = {{"TRIAL", true}, {"JOB", true, true, false, true}, {"STATE"}};
  for (const std::string& name : view.parameters) columns.push_back({name, true, true, true});
  columns.push_back({view.metric.empty() ? std::string_view("METRIC") : std::string_view(view.metric), true});
  columns.push_back({view.resource, true});
  columns.push_back({"RUNG", true});
  columns.push_back({"NOTE", false, true, true, true, true});
  SortByValue(view);
  std::vector<std::vector<Cell>> rows;
  for (const wire::SweepTrialView& trial : view.list) {
    std::vector<Cell>& row = rows.emplace_back();
    row = {
        {std::to_string(trial.trial), Colour::kBold}, {ToString(trial.id)}, {trial.state, ColourOfTrial(trial.state)}};
    for (const std::string& name : view.parameters) {
      const auto value = trial.parameters.find(name);
      row.push_back({value == trial.parameters.end() ? "" : value->second});
    }
    row.push_back({SweepNumber(trial.best)});
    row.push_back({trial.best ? SweepNumber(trial.best_at) : ""});
    row.push_back({std::to_string(trial.rungs.size())});
    row.push_back({trial.note});
  }
  return RenderTable(columns, rows, listing);
}

int ShowSweep(const Words& words) {
  ListingOptions listing;
  const auto parsed = dialect::ParseOptions(ListingOptionTable(listing), words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.size() != 1) return Fail(InvalidArgument("name one sweep: divvy sweep show ID"));
  return ShowListing(listing, [&, which = parsed->positional.front()]() -> Result<std::string> {
    DIVVY_TRY(Api api, Api::Connect());
    DIVVY_TRY(const std::string text, api.Raw("GET", "/v1/sweeps/" + which, ""));
    if (listing.json) return text + "\n";
    DIVVY_TRY(wire::SweepDetail view, DecodeShown<wire::SweepDetail>(text));
    const std::string head = listing.csv ? "" : SweepHeadline(view);
    if (view.list.empty() && !listing.csv) return head + "  No trial has begun.\n";
    DIVVY_TRY(const std::string table, TrialsTable(std::move(view), listing));
    return head + table;
  });
}

int CancelSweeps(const Words& words) {
  if (words.empty()) return Fail(InvalidArgument("name a sweep: divvy sweep cancel ID"));
  for (const std::string& word : words) {
    auto api = Api::Connect();
    if (!api) return Fail(api.error());
    // Refuses jobs that are no sweep.
    if (const auto view = api->Raw("GET", "/v1/sweeps/" + word, ""); !view) return Fail(view.error());
  }
  return CancelMain(words);
}

/// Waits until the sweep wants parameters or has ended, and prints what an optimiser needs as JSON.
int AskSweep(const Words& words) {
  if (words.size() != 1) return Fail(InvalidArgument("name one sweep: divvy sweep ask ID"));
  std::optional<ProgressIndicator> progress(std::in_place, "waiting until the sweep wants another trial");
  while (true) {
    auto api = Api::Connect();
    const auto text = api ? api->Raw("GET", "/v1/sweeps/" + words.front(), "") : Result<std::string>(api.error());
    // Keep waiting while the daemon restarts, so that the optimiser does not fail.
    if (!text && text.error().code != ErrorCode::kUnreachable) return Fail(text.error());
    if (text) {
      const auto view = DecodeShown<wire::SweepDetail>(*text);
      if (!view) return Fail(view.error());
      if (view->method != "ask")
        return Fail(FailedPrecondition("sweep " + words.front() +
                                       " draws its parameters itself; divvy sweep ask needs a sweep with "
                                       "method: ask in its file"));
      if (view->wanted > 0 || view->state == "ended") {
        progress.reset();
        std::printf("%s\n", text->c_str());
        return 0;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
}

int TellSweep(const Words& words) {
  if (words.size() < 2)
    return Fail(InvalidArgument("name a sweep and its values: divvy sweep tell ID lr=0.1 layers=3"));
  wire::SweepTell request;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == std::string::npos || equals == 0)
      return Fail(InvalidArgument("'" + words[i] + "' is not NAME=VALUE; write it like lr=0.1"));
    request.parameters[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  auto api = Api::Connect();
  if (!api) return Fail(api.error());
  const auto text = api->Raw("POST", "/v1/sweeps/" + words.front() + "/tell", wire::EncodeChanged(request));
  if (!text) return Fail(text.error());
  const auto told = DecodeShown<wire::SweepTold>(*text);
  if (!told) return Fail(told.error());
  std::printf("%lld\n", static_cast<long long>(told->trial));
  return 0;
}

}  // namespace

std::vector<Option> SweepOptions() {
  static SweepRequest scratch;
  static const dialect::ParseContext around;
  std::vector<Option> table = SweepTable(scratch);
  for (Option& option : dialect::JobOptions(scratch.spec, around)) table.push_back(std::move(option));
  return table;
}

int SweepMain(const Words& words) {
  static constexpr std::pair<std::string_view, int (*)(const Words&)> kVerbs[] = {
      {"run", RunSweep},        {"list", ListSweeps}, {"show", ShowSweep},
      {"cancel", CancelSweeps}, {"ask", AskSweep},    {"tell", TellSweep}};
  const Words rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  for (const auto& [verb, run] : kVerbs) {
    if (!words.empty() && words.front() == verb) return run(rest);
  }
  if (words.empty()) return ListSweeps({});
  return Fail(InvalidArgument("divvy sweep: unknown command '" + words.front() + "'; use " + std::string(kSweepUsage)));
}

}  // namespace divvy::cli
