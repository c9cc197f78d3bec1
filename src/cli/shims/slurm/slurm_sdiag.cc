// sdiag: statistics of the scheduler since the daemon began, in the lines that exporters parse. divvy has no server
// threads, no agent queue and no separate backfill cycle; one scheduling cycle does everything.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_json.h"
#include "cli/shims/slurm_look/slurm_view.h"

namespace divvy::cli {
namespace {

using namespace slurm;
using dialect::Takes;

/// Keys are names with labels, as on the metrics page: "divvy_jobs{state=\"running\"}".
using Values = std::map<std::string, double, std::less<>>;

Values ReadMetrics(std::string_view page) {
  Values values;
  for (const std::string_view line : Split(page, '\n')) {
    const auto blank = line.rfind(' ');
    if (line.empty() || line.front() == '#' || blank == std::string_view::npos) continue;
    if (const auto value = ParseNumber(line.substr(blank + 1))) values[std::string(line.substr(0, blank))] = *value;
  }
  return values;
}

std::string SdiagText(const Values& values, const wire::StatusView& status, double now) {
  const auto value = [&](std::string_view name) {
    const auto at = values.find(name);
    return at == values.end() ? 0.0 : at->second;
  };
  const auto ended = [&](const char* state) {
    return std::llround(value("divvy_jobs_ended_total{state=\"" + std::string(state) + "\"}"));
  };
  const double decisions = value("divvy_scheduler_decision_seconds_count");
  const double spent = value("divvy_scheduler_decision_seconds_sum");
  const long long mean = decisions > 0 ? std::llround(spent / decisions * 1e6) : 0;
  const double minutes = std::max(status.uptime_s / 60, 1.0 / 60);
  std::string out;
  const auto line = [&out](const std::string& text) { out += text + "\n"; };
  const auto count = [&](const std::string& name, long long number) { line(name + std::to_string(number)); };
  const std::string rule(55, '*');
  line(rule);
  line("sdiag output at " + slurm::Moment(now) + " (" + std::to_string(static_cast<std::int64_t>(now)) + ")");
  line("Data since      " + slurm::Moment(now - status.uptime_s) + " (" +
       std::to_string(static_cast<std::int64_t>(now - status.uptime_s)) + ")");
  line(rule);
  line("Server thread count:  1");
  line("Agent queue size:     0");
  line("Agent count:          0");
  line("Agent thread count:   0");
  line("DBD Agent queue size: 0");
  line("");
  const long long finished =
      ended("succeeded") + ended("failed") + ended("cancelled") + ended("timed_out") + ended("lost");
  count("Jobs submitted: ", finished + status.jobs_running + status.jobs_queued + status.jobs_held);
  count("Jobs started:   ", finished + status.jobs_running);
  count("Jobs completed: ", ended("succeeded"));
  count("Jobs canceled:  ", ended("cancelled"));
  count("Jobs failed:    ", ended("failed") + ended("timed_out") + ended("lost"));
  line("");
  count("Jobs pending:   ", status.jobs_queued + status.jobs_held);
  count("Jobs running:   ", status.jobs_running);
  line("");
  line("Main schedule statistics (microseconds):");
  count("\tLast cycle:   ", mean);
  count("\tTotal cycles: ", std::llround(decisions));
  count("\tMean cycle:   ", mean);
  count("\tMean depth cycle:  ", status.jobs_queued);
  count("\tCycles per minute: ", std::llround(decisions / minutes));
  count("\tLast queue length: ", status.jobs_queued + status.jobs_held);
  line("");
  line("Backfilling stats");
  line("\tTotal backfilled jobs (since last slurm start): 0");
  line("\tTotal backfilled jobs (since last stats cycle start): 0");
  line("\tTotal backfilled heterogeneous job components: 0");
  line("\tTotal cycles: 0");
  line("\tLast cycle: 0");
  line("\tMean cycle: 0");
  line("\tLast depth cycle: 0");
  line("\tDepth Mean: 0");
  return out;
}

/// The same lines as JSON fields: "Jobs submitted: 3" under its section becomes statistics.jobs_submitted.
std::string DiagJson(const std::string& text) {
  std::string out;
  JsonWriter json(out);
  JsonFields fields(json);
  json.BeginObject();
  AddMeta(json, "sdiag");
  json.Key("statistics");
  json.BeginObject();
  std::string section;
  for (const std::string_view line : Split(text, '\n')) {
    if (line.starts_with("Main schedule")) section = "schedule_";
    if (line.starts_with("Backfilling")) section = "bf_";
    const auto colon = line.find(':');
    const auto number = colon == std::string_view::npos ? std::nullopt : ParseInteger(Trim(line.substr(colon + 1)));
    if (!number) continue;
    std::string name = ToLower(Trim(line.substr(0, colon)));
    if (const auto bracket = name.find(" ("); bracket != std::string::npos)
      name = name.find("cycle") != std::string::npos ? "backfilled_jobs_last_cycle" : "backfilled_jobs";
    std::ranges::replace(name, ' ', '_');
    fields.Number(section + name, *number);
  }
  json.EndObject();
  json.EndObject();
  return out + "\n";
}

}  // namespace

int SdiagMain(const std::vector<std::string>& words) {
  AnswerForm form;
  std::vector<dialect::Option> options = {
      Ignored("all", 'a', Takes::kNothing),          Ignored("sort-by-id", 'i', Takes::kNothing),
      Ignored("sort-by-time", 't', Takes::kNothing), Ignored("sort-by-time2", 'T', Takes::kNothing),
      Ignored("cluster", 'M', Takes::kValue),
  };
  AddAnswerForms(options, form);
  if (Greets("sdiag", "[OPTIONS]", options, words)) return 0;
  const auto parsed = dialect::ParseOptions(options, words);
  if (!parsed) return FailAs("sdiag", parsed.error().message);
  if (form.lists_parsers) return PrintParsers();
  auto api = Api::Connect();
  if (!api) return FailAs("sdiag", api.error());
  const auto status = api->Status();
  if (!status) return FailAs("sdiag", status.error());
  const auto page = api->Raw("GET", "/metrics", "");
  if (!page) return FailAs("sdiag", page.error());
  const std::string text = SdiagText(ReadMetrics(*page), *status, ToSeconds(CallerParseContext().now));
  PrintAnswer(form.any() ? DiagJson(text) : text, form);
  return 0;
}

}  // namespace divvy::cli
