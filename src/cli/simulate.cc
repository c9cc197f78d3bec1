// divvy simulate: published traces against the scheduler's own decisions, in virtual time. No daemon takes part.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/simulate_chaos.h"
#include "cli/simulate_report.h"
#include "cli/table.h"
#include "simulate/fill.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

// More runs than anybody waits for; a slip of the finger in --seeds should not take a week.
constexpr std::int64_t kMostRuns = 10'000;
constexpr double kMostFill = 100;
constexpr std::int64_t kMostMoves = 16;

struct SimulateFlags {
  std::string nodes;
  std::string jobs;
  std::vector<std::string> policies;
  simulate::FillOptions fill;
  ListingOptions listing;
};

std::string PolicyNames() {
  std::string names;
  for (const std::string_view name : simulate::FillPolicies()) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

Status ReadPolicies(std::string_view text, std::vector<std::string>& policies) {
  policies.clear();
  for (const std::string_view part : Split(text, ',')) {
    const std::string_view name = Trim(part);
    if (std::ranges::find(simulate::FillPolicies(), name) == simulate::FillPolicies().end()) {
      const auto near = Nearest(name, simulate::FillPolicies());
      return InvalidArgument("there is no placement policy '" + std::string(name) + "'" +
                             (near.empty() ? "" : "; did you mean " + std::string(near) + "?") +
                             " (policies: " + PolicyNames() + ")");
    }
    policies.emplace_back(name);
  }
  return {};
}

/// "1000..1009", "1,2,7", or both joined by commas.
Status ReadSeeds(std::string_view text, std::vector<std::uint64_t>& seeds) {
  seeds.clear();
  for (const std::string_view part : Split(text, ',')) {
    const std::size_t dots = part.find("..");
    const auto first = ParseInteger(part.substr(0, dots));
    const auto last = dots == std::string_view::npos ? first : ParseInteger(part.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first)
      return InvalidArgument("'" + std::string(text) + "' is no list of seeds; write 1000..1009 or 1,2,7");
    if (*last - *first >= kMostRuns || seeds.size() >= static_cast<std::size_t>(kMostRuns))
      return InvalidArgument("more than " + std::to_string(kMostRuns) + " seeds");
    for (std::int64_t seed = *first; seed <= *last; ++seed) seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  return {};
}

std::vector<Option> Table(SimulateFlags& flags) {
  const auto text = [](std::string& into) {
    return [&into](std::string_view value) -> Status {
      into = value;
      return {};
    };
  };
  std::vector<Option> table;
  table.push_back({"nodes",
                   0,
                   Takes::kValue,
                   "FILE",
                   "The cluster: a CSV list of nodes, plain or .gz",
                   text(flags.nodes),
                   {},
                   false});
  table.push_back({"jobs",
                   0,
                   Takes::kValue,
                   "FILE",
                   "The trace: a CSV list of jobs, plain or .gz",
                   text(flags.jobs),
                   {"pods", "trace"},
                   false});
  table.push_back({"policy",
                   'p',
                   Takes::kValue,
                   "NAME,...",
                   "The placement policies to run (default: default); see above",
                   [&flags](std::string_view value) { return ReadPolicies(value, flags.policies); },
                   {"policies", "compare"},
                   false});
  table.push_back({"seeds",
                   0,
                   Takes::kValue,
                   "A..B",
                   "One run for each seed, and the mean of them (default: 1000..1009)",
                   [&flags](std::string_view value) { return ReadSeeds(value, flags.fill.seeds); },
                   {"seed"},
                   false});
  table.push_back({"fill",
                   0,
                   Takes::kValue,
                   "X",
                   "Let jobs arrive until they ask for X times the GPUs (default: 1.3)",
                   [&flags](std::string_view value) -> Status {
                     const auto fill = ParseNumber(value);
                     if (!fill || *fill <= 0 || *fill > kMostFill)
                       return InvalidArgument("'" + std::string(value) + "' is not above 0 and at most 100");
                     flags.fill.fill = *fill;
                     return {};
                   },
                   {},
                   false});
  table.push_back({"moves",
                   0,
                   Takes::kValue,
                   "N",
                   "For a job that fits nowhere, move up to N others that run (default: 0)",
                   [&flags](std::string_view value) -> Status {
                     const auto moves = ParseInteger(value);
                     if (!moves || *moves < 0 || *moves > kMostMoves)
                       return InvalidArgument("'" + std::string(value) + "' is no number from 0 to " +
                                              std::to_string(kMostMoves));
                     flags.fill.moves_per_job = static_cast<int>(*moves);
                     return {};
                   },
                   {},
                   false});
  for (Option& option : ListingOptionTable(flags.listing)) {
    if (option.name != "watch" && option.name != "interval") table.push_back(std::move(option));
  }
  return table;
}

/// On a terminal only, and gone when the work is done.
class Progress {
 public:
  Progress(std::string what, std::size_t total) : what_(std::move(what)), total_(total) { Draw(); }
  ~Progress() {
    if (is_shown_) std::fputs("\r\033[K", stderr);
  }
  void Step() {
    ++done_;
    Draw();
  }

 private:
  void Draw() const {
    if (!is_shown_) return;
    constexpr std::size_t kWidth = 24;
    const std::size_t filled = kWidth * done_ / total_;
    std::fprintf(stderr, "\r\033[K[%s%s] %zu/%zu runs  %s", std::string(filled, '#').c_str(),
                 std::string(kWidth - filled, '.').c_str(), done_, total_, what_.c_str());
    std::fflush(stderr);
  }

  std::string what_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool is_shown_ = ::isatty(STDERR_FILENO) == 1;
};

int SimulateOpenb(SimulateFlags& flags) {
  if (flags.nodes.empty() || flags.jobs.empty())
    return Fail(InvalidArgument("divvy simulate openb needs --nodes FILE and --jobs FILE"));
  if (flags.policies.empty()) flags.policies = {"default"};
  if (flags.fill.seeds.empty()) {
    for (std::uint64_t seed = 1000; seed < 1010; ++seed) flags.fill.seeds.push_back(seed);
  }
  flags.fill.threads = std::max(1U, std::thread::hardware_concurrency());
  const auto nodes = simulate::ReadOpenbNodes(flags.nodes);
  if (!nodes) return Fail(nodes.error());
  const auto jobs = simulate::ReadOpenbJobs(flags.jobs, *nodes);
  if (!jobs) return Fail(jobs.error());

  std::vector<simulate::FillResult> results;
  for (const std::string& policy : flags.policies) {
    Progress progress(policy, flags.fill.seeds.size());
    flags.fill.policy = policy;
    flags.fill.on_run_done = [&progress] { progress.Step(); };
    auto result = simulate::RunFill(*nodes, *jobs, flags.fill);
    if (!result) return Fail(result.error());
    results.push_back(std::move(*result));
  }
  if (flags.listing.json) {
    std::fputs(FillJson(results).c_str(), stdout);
    return 0;
  }
  const auto table = FillTable(results, flags.listing);
  if (!table) return Fail(table.error());
  std::fputs(table->c_str(), stdout);
  return 0;
}

}  // namespace

std::vector<Option> SimulateOptions() {
  static SimulateFlags scratch;
  return Table(scratch);
}

int SimulateMain(const Words& words) {
  if (!words.empty() && (words.front() == "--chaos" || words.front().starts_with("--chaos=")))
    return SimulateChaosMain(words);
  SimulateFlags flags;
  const auto parsed = dialect::ParseOptions(Table(flags), words);
  if (!parsed) return Fail(parsed.error());
  if (parsed->positional.size() != 1 || parsed->positional.front() != "openb")
    return Fail(InvalidArgument(parsed->positional.empty()
                                    ? "say what to simulate: divvy simulate openb --nodes FILE --jobs FILE"
                                    : "divvy simulate: there is no trace format '" + parsed->positional.back() +
                                          "'; write divvy simulate openb"));
  return SimulateOpenb(flags);
}

}  // namespace divvy::cli
