#include "cli/simulate/simulate_flags.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "cli/client/commands.h"
#include "dialect/config/config.h"
#include "dialect/options/quantities.h"
#include "simulate/experiment.h"
#include "simulate/traces/trace_time.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

// Limits the number of runs, so that a typing error in --seeds does not take a week.
constexpr std::int64_t kMostRuns = 10'000;
constexpr double kMostFill = 100;
constexpr double kMostLoad = 1000;
constexpr double kMostAgeing = 1000;
constexpr std::int64_t kMostMoves = 16;
constexpr std::int64_t kMostParkableGpus = 64;
constexpr double kMostHostMemory = 100;

using Setter = dialect::Apply;

/// "1000..1009", "1,2,7", or both joined by commas.
Status ReadSeeds(std::string_view text, std::vector<std::uint64_t>& seeds) {
  seeds.clear();
  for (const std::string_view part : Split(text, ',')) {
    const std::size_t dots = part.find("..");
    const auto first = ParseInteger(part.substr(0, dots));
    const auto last = dots == std::string_view::npos ? first : ParseInteger(part.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first)
      return InvalidArgument("'" + std::string(text) + "' is not a list of seeds; write 1000..1009 or 1,2,7");
    if (*last - *first >= kMostRuns || seeds.size() >= static_cast<std::size_t>(kMostRuns))
      return InvalidArgument("at most " + std::to_string(kMostRuns) + " seeds are allowed");
    for (std::int64_t seed = *first; seed <= *last; ++seed) seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  return {};
}

/// Accepts one of a few words.
template <typename T>
Setter OneOf(std::vector<std::pair<std::string_view, T>> words, T& into) {
  return [words = std::move(words), &into](std::string_view value) -> Status {
    std::string names;
    for (const auto& [name, meaning] : words) {
      if (name == value) {
        into = meaning;
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return InvalidArgument("'" + std::string(value) + "' is not valid: expected one of " + names);
  };
}

Setter Text(std::string& into) { return dialect::Keeps(into); }

Setter List(std::vector<std::string>& into) {
  return [&into](std::string_view value) -> Status {
    for (const std::string_view part : Split(value, ',')) into.emplace_back(Trim(part));
    return {};
  };
}

Setter Moment(std::optional<Time>& into) {
  return [&into](std::string_view value) -> Status {
    into = simulate::ParseDateTime(value);
    if (!into)
      return InvalidArgument("'" + std::string(value) + "' is not a date; write 2020-09-01 or \"2020-09-01 12:00:00\"");
    return {};
  };
}

Setter Number(double& into, double above, double most, const char* what) {
  return [=, &into](std::string_view value) -> Status {
    const auto number = ParseNumber(value);
    if (!number || *number <= above || *number > most)
      return InvalidArgument("'" + std::string(value) + "' is " + what);
    into = *number;
    return {};
  };
}

/// `unit`: the unit of a number without a unit.
Status ReadTime(std::string_view text, Duration unit, Duration& into) {
  DIVVY_TRY(into, dialect::ParseDuration(text, unit));
  return {};
}

void AddInput(SimulateFlags& flags, std::vector<Option>& table) {
  const auto add = [&table](std::string_view name, std::string_view value, std::string_view help, Setter apply,
                            std::vector<std::string_view> aliases = {}) {
    table.push_back(Option::Value(name, value, help, std::move(apply), std::move(aliases)));
  };
  add("jobs", "FILE,...", "Trace: one or more files, plain or .gz", List(flags.jobs), {"pods", "trace"});
  add("nodes", "FILE|NxG", "Cluster: a node list, or 96x8 or 36x1:v100,36x1:p100 (nodes x GPUs : model)",
      Text(flags.nodes), {"cluster"});
  add("from", "DATE", "Only jobs submitted at or after this time", Moment(flags.from));
  add("to", "DATE", "Only jobs submitted before this time", Moment(flags.to));
  add("history", "last-30d", "How far back divvy simulate history goes (default: the whole history)",
      [&flags](std::string_view value) -> Status {
        flags.history = value.starts_with("last-") ? value.substr(5) : value;
        const auto span = dialect::ParseDuration(flags.history, std::chrono::hours(24));
        if (!span) return span.error();
        if (*span <= Duration(0))
          return InvalidArgument("'" + std::string(value) + "' is not a period; write last-30d");
        return {};
      });
  add("load", "X", "Submit jobs X times as fast (default: 1)",
      Number(flags.load, 0, kMostLoad, "not a number above 0 and at most 1000"));
  add("what-if", "CHANGE", "Also simulate a changed cluster: \"+8 H100\", \"+2x8:H100\", \"-8\"; repeatable",
      [&flags](std::string_view value) -> Status {
        flags.what_if.emplace_back(value);
        return {};
      });
  add("seeds", "A..B",
      "openb: one run for each seed (default: 1000..1009); replays: submission times shifted by up to 30 min",
      [&flags](std::string_view value) { return ReadSeeds(value, flags.seeds); }, {"seed"});
}

Status ReadProviders(std::string_view path, std::vector<Provider>& providers) {
  std::ifstream file{std::string(path), std::ios::binary};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return NotFound("cannot read '" + std::string(path) + "'; write a file with [[providers]] tables");
  DIVVY_TRY(dialect::Config config, dialect::ParseConfig(text, path));
  if (config.providers.empty())
    return InvalidArgument(std::string(path) + " has no [[providers]]; docs/providers.md has examples");
  providers = std::move(config.providers);
  return {};
}

void AddGrowth(SimulateFlags& flags, std::vector<Option>& table) {
  table.push_back(Option::Value(
      "providers", "FILE", "Nodes also come from the [[providers]] of this file, and go; without --nodes, all of them",
      [&flags](std::string_view value) { return ReadProviders(value, flags.providers); }));
  table.push_back(Option::Value(
      "growth", "NAME,...", "How nodes are requested: none, node-per-job, cheapest-first, divvy (default: all)",
      [&flags](std::string_view value) -> Status {
        for (const std::string_view part : Split(value, ',')) {
          const auto policy = simulate::GrowthPolicyFromName(Trim(part));
          if (!policy)
            return InvalidArgument("'" + std::string(part) +
                                   "' is not valid: expected none, node-per-job, cheapest-first or divvy");
          flags.growth.push_back(*policy);
        }
        return {};
      }));
}

void AddRules(SimulateFlags& flags, std::vector<Option>& table) {
  const auto add = [&table](std::string_view name, char letter, std::string_view value, std::string_view help,
                            Setter apply, std::vector<std::string_view> aliases = {}) {
    const Takes takes = value.empty() ? Takes::kNothing : Takes::kValue;
    table.push_back({name, letter, takes, value, help, std::move(apply), std::move(aliases), false});
  };
  add("policy", 'p', "NAME,...", "Policies to compare, see above (default: small-first; openb: default)",
      List(flags.policies), {"policies", "compare"});
  add("predict", 0, "HOW", "Source of run time predictions: history (of jobs that have ended by then), true or none",
      [&flags](std::string_view value) -> Status {
        const auto known = simulate::PredictingFromName(value);
        if (!known) return InvalidArgument("'" + std::string(value) + "' is not valid: expected history, true or none");
        flags.engine.predicting = *known;
        return {};
      });
  add("backfill", 0, "WHAT",
      "Jobs that may start before a blocked job: reserved (if they delay no reservation), none or anything",
      OneOf<core::Backfill>({{"reserved", core::Backfill::kReserved},
                             {"none", core::Backfill::kNone},
                             {"anything", core::Backfill::kAnything}},
                            flags.engine.rules.backfill));
  add("placement", 0, "HOW", "How to choose nodes: best, pack, spread or sequential (default: best)",
      OneOf<PlacementStrategy>({{"best", PlacementStrategy::kBest},
                                {"pack", PlacementStrategy::kPack},
                                {"spread", PlacementStrategy::kSpread},
                                {"sequential", PlacementStrategy::kSequential}},
                               flags.engine.placement));
  add("escalate-after", 0, "TIME", "Do not backfill past jobs that have waited this long (default: 1h; 0: never)",
      [&flags](std::string_view value) -> Status {
        const auto span = dialect::ParseDuration(value, std::chrono::hours(1));
        if (!span) return span.error();
        flags.engine.rules.escalate_after = *span;
        return {};
      });
  add("ageing", 0, "X", "shortest: weight of the waiting time against the predicted GPU time (default: 1; 0: ignored)",
      [&flags](std::string_view value) -> Status {
        const auto ageing = ParseNumber(value);
        if (!ageing || *ageing < 0 || *ageing > kMostAgeing)
          return InvalidArgument("'" + std::string(value) + "' is not a number from 0 to 1000");
        flags.engine.rules.ageing = *ageing;
        return {};
      });
  add("contract", 0, "PERCENT",
      "time-sharing: what a long job may lose to others, in percent of its run time so far, or none (default: 20%)",
      dialect::Reads(flags.time_sharing.options.at_most, simulate::ParseContract));
  add("trial", 0, "TIME", "time-sharing: GPU time for which a new job is not displaced (default: 64h)",
      [&flags](std::string_view value) {
        return ReadTime(value, std::chrono::hours(1), flags.time_sharing.options.trial);
      });
  add("park-time", 0, "TIME", "time-sharing: time to copy a job to host memory, and back (default: 10s)",
      [&flags](std::string_view value) -> Status {
        DIVVY_CHECK(ReadTime(value, std::chrono::seconds(1), flags.time_sharing.options.park));
        flags.time_sharing.options.wake = flags.time_sharing.options.park;
        return {};
      });
  add("parkable-gpus", 0, "N", "time-sharing: jobs of more GPUs are never parked; 0: none is (default: 64)",
      [&flags](std::string_view value) -> Status {
        const auto gpus = ParseInteger(value);
        if (!gpus || *gpus < 0 || *gpus > kMostParkableGpus)
          return InvalidArgument("'" + std::string(value) + "' is not a number from 0 to " +
                                 std::to_string(kMostParkableGpus));
        flags.time_sharing.parkable_gpus = static_cast<int>(*gpus);
        return {};
      });
  add("host-memory", 0, "X", "time-sharing: host memory of a node in multiples of its GPUs' memory (default: 1)",
      [&flags](std::string_view value) -> Status {
        const auto multiple = ParseNumber(value);
        if (!multiple || !(*multiple >= 0 && *multiple <= kMostHostMemory))
          return InvalidArgument("'" + std::string(value) + "' is not a number from 0 to 100");
        flags.time_sharing.host_memory = *multiple;
        return {};
      });
  add("no-limits", 0, "", "Ignore the time limits of the trace", dialect::Sets(flags.engine.uses_limits, false));
  add("teams", 0, "", "Treat the trace's teams as teams of equal weight (default: one team)",
      dialect::Sets(flags.engine.uses_teams));
  add("replay", 0, "", "openb: jobs arrive and end as in the trace, instead of filling the cluster",
      dialect::Sets(flags.is_replayed));
  add("fill", 0, "X", "openb: submit jobs until they request X times the GPUs (default: 1.3)",
      Number(flags.fill.fill, 0, kMostFill, "not a number above 0 and at most 100"));
  add("moves", 0, "N", "openb: migrate up to N running jobs for a job that fits nowhere (default: 0)",
      [&flags](std::string_view value) -> Status {
        const auto moves = ParseInteger(value);
        if (!moves || *moves < 0 || *moves > kMostMoves)
          return InvalidArgument("'" + std::string(value) + "' is not a number from 0 to " +
                                 std::to_string(kMostMoves));
        flags.fill.moves_per_job = static_cast<int>(*moves);
        return {};
      });
}

}  // namespace

std::vector<Option> SimulateOptionTable(SimulateFlags& flags) {
  std::vector<Option> table;
  AddInput(flags, table);
  AddRules(flags, table);
  AddGrowth(flags, table);
  for (Option& option : ListingOptionTable(flags.listing)) {
    if (option.name == "watch" || option.name == "interval") continue;
    if (option.name == "csv") {
      option.takes = Takes::kOptionalValue;
      option.value_name = "FOLDER";
      option.help = "Print CSV; with a folder: write summary, groups and every job as files in it";
      option.apply = [&flags](std::string_view value) -> Status {
        flags.listing.csv = true;
        flags.csv_folder = value;
        return {};
      };
    }
    table.push_back(std::move(option));
  }
  table.push_back(Option::Value("html", "FILE", "Write a self-contained HTML page with plots", Text(flags.html_file)));
  table.push_back(Option::Value("by", "GROUP", "One row for each job size, team or submission hour: size, team or hour",
                                [&flags](std::string_view value) -> Status {
                                  if (value != "size" && value != "team" && value != "hour")
                                    return InvalidArgument("'" + std::string(value) +
                                                           "' is not valid: expected size, team or hour");
                                  flags.by = value;
                                  return {};
                                }));
  return table;
}

ProgressBar::~ProgressBar() {
  if (shown_ >= 0) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Show(double share) {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  const int thousandths = static_cast<int>(std::clamp(share, 0.0, 1.0) * 1000);
  if (!is_terminal || thousandths <= shown_) return;
  shown_ = thousandths;
  constexpr std::size_t kWidth = 24;
  const std::size_t filled = kWidth * static_cast<std::size_t>(thousandths) / 1000;
  std::fprintf(stderr, "\r\033[K[%s%s] %d %%  %s", std::string(filled, '#').c_str(),
               std::string(kWidth - filled, '.').c_str(), thousandths / 10, what_.c_str());
  std::fflush(stderr);
}

}  // namespace divvy::cli
