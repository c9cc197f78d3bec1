// divvy simulate: runs traces through the scheduler's own decisions, in virtual time.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "cli/client/commands.h"
#include "cli/simulate/simulate_chaos.h"
#include "cli/simulate/simulate_flags.h"
#include "cli/simulate/simulate_replay.h"
#include "cli/simulate/simulate_report.h"
#include "simulate/traces/trace_formats.h"

namespace divvy::cli {
namespace {

using dialect::Option;

Status CheckFillPolicies(const std::vector<std::string>& policies) {
  const auto& known = simulate::FillPolicies();
  for (const std::string& name : policies) {
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string names;
    for (const std::string_view one : known) names += (names.empty() ? "" : ", ") + std::string(one);
    const auto near = Nearest(name, known);
    return InvalidArgument("unknown placement policy '" + name + "'" +
                           (near.empty() ? "" : "; did you mean " + std::string(near) + "?") + " (policies: " + names +
                           "; with --replay: small-first and others)");
  }
  return {};
}

/// Fills an empty cluster with jobs that never leave.
int FillOpenb(SimulateFlags& flags) {
  if (flags.nodes.empty() || flags.jobs.size() != 1)
    return Fail(InvalidArgument("divvy simulate openb needs --nodes FILE and --jobs FILE"));
  if (const Status known = CheckFillPolicies(flags.policies); !known) return Fail(known.error());
  if (flags.policies.empty()) flags.policies = {"default"};
  flags.fill.seeds = flags.seeds;
  if (flags.fill.seeds.empty()) {
    for (std::uint64_t seed = 1000; seed < 1010; ++seed) flags.fill.seeds.push_back(seed);
  }
  flags.fill.threads = std::max(1U, std::thread::hardware_concurrency());
  DIVVY_TRY_OR_FAIL(const auto nodes, simulate::ReadOpenbNodes(flags.nodes));
  DIVVY_TRY_OR_FAIL(const auto jobs, simulate::ReadOpenbJobs(flags.jobs.front(), nodes));

  std::vector<simulate::FillResult> results;
  for (const std::string& policy : flags.policies) {
    ProgressBar bar(policy);
    std::size_t done = 0;
    flags.fill.policy = policy;
    flags.fill.on_run_done = [&] {
      bar.Show(static_cast<double>(++done) / static_cast<double>(flags.fill.seeds.size()));
    };
    auto result = simulate::RunFill(nodes, jobs, flags.fill);
    if (!result) return Fail(result.error());
    results.push_back(std::move(*result));
  }
  if (flags.listing.json) {
    std::fputs(FillJson(results).c_str(), stdout);
    return 0;
  }
  DIVVY_TRY_OR_FAIL(const auto table, FillTable(results, flags.listing));
  std::fputs(table.c_str(), stdout);
  return 0;
}

Error UnknownFormat(const std::string& word) {
  if (word == "gavel-rounds" || word == "shockwave-rounds" || word == "peer-cases")
    return InvalidArgument("'" + word + "' has moved to divvy-research, which scripts/build builds");
  std::string names;
  for (const std::string_view name : simulate::TraceFormats()) names += (names.empty() ? "" : ", ") + std::string(name);
  const auto near = Nearest(word, simulate::TraceFormats());
  return InvalidArgument("divvy simulate: unknown trace format '" + word + "'" +
                         (near.empty() ? "" : "; did you mean " + std::string(near) + "?") + " (formats: " + names +
                         "; history: the jobs that ran here)");
}

}  // namespace

std::vector<Option> SimulateOptions() {
  static SimulateFlags scratch;
  return SimulateOptionTable(scratch);
}

int SimulateMain(const Words& words) {
  if (!words.empty() && (words.front() == "--chaos" || words.front().starts_with("--chaos=")))
    return SimulateChaosMain(words);
  SimulateFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(SimulateOptionTable(flags), words));
  if (parsed.positional.size() > 1)
    return Fail(InvalidArgument("divvy simulate: '" + parsed.positional[1] + "' is an unexpected argument"));
  if (parsed.positional.empty() && flags.history.empty())
    return Fail(
        InvalidArgument("name what to simulate: divvy simulate FORMAT --jobs FILE, or divvy simulate history; see "
                        "divvy help simulate"));
  if (!flags.growth.empty() && flags.providers.empty())
    return Fail(InvalidArgument("divvy simulate: --growth needs --providers FILE"));
  const std::string format = parsed.positional.empty() ? "history" : parsed.positional.front();
  if (format == "history") return SimulateHistory(flags);
  const auto& formats = simulate::TraceFormats();
  if (std::ranges::find(formats, format) == formats.end()) return Fail(UnknownFormat(format));
  if (format == "openb" && !flags.is_replayed && flags.providers.empty()) return FillOpenb(flags);
  return SimulateTrace(format, flags);
}

}  // namespace divvy::cli
