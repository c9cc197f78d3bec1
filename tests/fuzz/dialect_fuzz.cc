// Feeds arbitrary bytes to the parsers of user input. They must not crash, and every error must be one line. The first
// byte selects the parser.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/text.h"
#include "dialect/config/config.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/job_options.h"
#include "dialect/options/quantities.h"
#include "dialect/service/service_file.h"
#include "dialect/slurm/slurm.h"
#include "dialect/sweep/sweep_file.h"
#include "dialect/valohai/valohai.h"
#include "sweep/halving.h"

namespace {

using namespace divvy;           // This program has only one source file.
using namespace divvy::dialect;  // NOLINT

ParseContext FuzzParseContext() {
  ParseContext around;
  around.now = Time(std::chrono::seconds(1'772'452'800));
  around.utc_offset = 1h;
  around.directory = "/home/ada";
  around.home = "/home/ada";
  around.user = "ada";
  around.read_file = [](const std::string& path) -> Result<std::string> { return path; };
  around.resolve_job = [](std::string_view) -> Result<JobId> { return JobId(41); };
  return around;
}

template <typename T>
void Check(const Result<T>& result) {
  if (!result && (result.error().message.empty() || result.error().message.find('\n') != std::string::npos))
    std::abort();
}

void ReadOptions(std::string_view text, bool is_gflow) {
  const ParseContext around = FuzzParseContext();
  std::vector<std::string> words;
  for (std::string_view word : Split(text, '\n')) words.emplace_back(word);
  JobSpec spec;
  const auto parsed = ParseOptions(is_gflow ? GflowOptions(spec, around) : JobOptions(spec, around), words);
  Check(parsed);
  if (!parsed) return;
  spec.command = parsed->positional;
  if (is_gflow) Check(FinishGflow(spec, around));
  Check(CheckComplete(spec));
  if (Summarise(spec).empty()) std::abort();
  const auto count = ElementCount(spec);
  Check(count);
  if (!count || *count == 0) return;
  for (const std::uint64_t ordinal : {std::uint64_t{0}, *count / 2, *count - 1})
    FillParameters(text, ElementAt(spec, ordinal).parameters);
}

void ReadQuantities(std::string_view text) {
  Check(ParseSize(text, 1 << 20));
  if (const auto size = ParseSize(text, 1); size && FormatSize(*size).empty()) std::abort();
  Check(ParseDuration(text, 1min));
  if (const auto span = ParseDuration(text, 1s); span && (FormatDuration(*span).empty() || FormatClock(*span).empty()))
    std::abort();
  Check(ParseSlurmTime(text));
  Check(ParseMoment(text, Time(std::chrono::seconds(1'772'452'800)), 1h));
  Check(ParseSignal(text));
  Check(ParseGpuSet(text));
}

void ReadScripts(std::string_view text) {
  const ParseContext around = FuzzParseContext();
  JobSpec spec;
  const JobSpec before = spec;
  const Status read = ReadScript(text, "job.sh", around, spec);
  Check(read);
  if (!read && spec != before) std::abort();
  const ScriptExplanation explanation = ExplainScript(text, "job.sh", around);
  // The explanation must report an error for a script that cannot be submitted.
  if (!read && !explanation.had_errors) std::abort();
}

void ReadSmall(std::string_view text) {
  JobSpec spec;
  Check(ParseDependencies(text, FuzzParseContext(), spec));
  Check(ParseParameter(text, spec));
  Check(ParseParameterFile(text, "grid.csv", spec));
}

void ReadValohai(std::string_view text) {
  const auto project = ParseValohaiYaml(std::string(text), "valohai.yaml");
  Check(project);
  const auto explained = ExplainValohai(std::string(text), "valohai.yaml");
  if (!project && !explained.had_errors) std::abort();
  if (!project) return;
  for (const ValohaiStep& step : project->steps) Check(MakeExecution(*project, step.name, {}, FuzzParseContext()));
  for (const auto& task : project->tasks) Check(MakeTask(*project, task.name, {}, FuzzParseContext()));
}

/// Lets trials report and end as the bytes say. Every verdict must be for a trial that the sweep has.
void RunTrials(std::string_view bytes, const sweep::HalvingRule& rule) {
  constexpr std::uint32_t kTrials = 40;
  sweep::Halving halving(rule, kTrials);
  for (const char c : bytes.substr(0, 1000)) {
    const std::uint32_t trial = static_cast<unsigned char>(c) % kTrials;
    const auto decisions = c % 5 == 0 ? halving.End(trial) : halving.Report(trial, c % 7 == 0 ? NAN : c);
    for (const sweep::Decision& decision : decisions) {
      if (decision.trial >= kTrials) std::abort();
    }
    if (halving.NextRung(trial) < 0 || halving.RungsOf(trial) < 0) std::abort();
  }
}

/// The rule of a sweep is a label of a submission, so the controller reads what a user wrote.
void ReadRule(std::string_view text) {
  const auto rule = sweep::ParseRule(text);
  Check(rule);
  if (!rule) return;
  const auto again = sweep::ParseRule(sweep::FormatRule(*rule));
  if (!again || *again != *rule) std::abort();
  RunTrials(text, rule->halving);
}

void ReadSweep(std::string_view text) {
  Check(ParseDraw(text));
  Check(ParseHalving(text, sweep::EarlyStop::kAsha));
  auto plan = ReadSweepFile(text, "sweep.yaml");
  Check(plan);
  if (!plan) return;
  // Random values for 100,000 trials take too long here.
  if (plan->trials <= kMostTrials) plan->trials = std::min<std::uint32_t>(plan->trials, 50);
  JobSpec spec;
  const Status done = CompleteSweep(*std::move(plan), spec);
  Check(done);
  if (done) ReadRule(spec.labels.at(std::string(sweep::kRuleLabel)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  switch ((bytes[0] + 1) % 10) {  // '1' selects the first parser, as in the seeds.
    case 0:
      ReadScripts(text);
      break;
    case 1:
      ReadOptions(text, false);
      break;
    case 2:
      ReadOptions(text, true);
      break;
    case 3:
      Check(ParseConfig(text, "divvy.toml"));
      break;
    case 4:
      ReadQuantities(text);
      break;
    case 5:
      ReadSmall(text);
      break;
    case 6:
      ReadValohai(text);
      break;
    case 7:
      ReadSweep(text);
      break;
    case 8:
      ReadRule(text);
      break;
    default:
      Check(ReadServiceFile(text, "services.yaml"));
      break;
  }
  return 0;
}
