#include "cli/simulate/simulate_chaos.h"

#include <unistd.h>

#include <cstdio>

#include "base/text.h"
#include "cli/client/table.h"
#include "dialect/options/options.h"
#include "simulate/chaos/chaos.h"
#include "simulate/controllers/controllers_chaos.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;

struct ChaosFlags {
  simulate::ChaosOptions run;
  bool is_limited_to_worlds = false;
  bool are_steps_set = false;
  bool has_controllers = false;
};

dialect::Apply Count(std::uint64_t& into, bool& is_set, std::int64_t least) {
  return [&into, &is_set, least](std::string_view value) -> Status {
    const auto number = ParseInteger(value);
    if (!number || *number < least)
      return InvalidArgument("'" + std::string(value) + "' is not a whole number of at least " + std::to_string(least));
    into = static_cast<std::uint64_t>(*number);
    is_set = true;
    return {};
  };
}

std::vector<Option> Table(ChaosFlags& flags) {
  static bool ignored = false;
  std::vector<Option> table;
  const auto add = [&](std::string_view name, std::string_view value, std::string_view help, dialect::Apply apply) {
    table.push_back(
        {name, 0, value.empty() ? Takes::kNothing : Takes::kValue, value, help, std::move(apply), {}, false});
  };
  add("chaos", "SEED", "Inject faults chosen by this seed; see docs/chaos.md", Count(flags.run.seed, ignored, 0));
  add("steps", "N", "Start new worlds until N steps are done (default: 1000000)",
      Count(flags.run.steps, flags.are_steps_set, 1));
  add("worlds", "N", "At most N worlds, with seeds SEED, SEED + 1, ...",
      Count(flags.run.worlds, flags.is_limited_to_worlds, 1));
  add("check-every", "N", "Run the expensive checks only every N steps (default: 1)",
      Count(flags.run.check_every, ignored, 1));
  add("controllers", "", "Test three controllers on one database instead of one controller",
      dialect::Sets(flags.has_controllers));
  add("trace", "", "Print the last events of the last world, even without a failure", dialect::Sets(flags.run.traces));
  return table;
}

void ReportFailure(const simulate::ChaosFailure& failure, const char* more) {
  const std::string seed = std::to_string(failure.seed);
  std::fprintf(
      stderr, "%sdivvy: broken invariant: %s\nseed %s, step %s; to reproduce: divvy simulate --chaos %s%s --worlds 1\n",
      failure.events.c_str(), failure.broken.c_str(), seed.c_str(), std::to_string(failure.step).c_str(), seed.c_str(),
      more);
}

template <typename Outcome>
int PrintOutcome(const Outcome& outcome, const char* more) {
  if (outcome.failure) {
    ReportFailure(*outcome.failure, more);
    return 1;
  }
  std::fputs(outcome.events.c_str(), stdout);
  std::printf("%s\n", ToText(outcome.figures).c_str());
  return 0;
}

}  // namespace

int SimulateChaosMain(const Words& words) {
  ChaosFlags flags;
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(Table(flags), words));
  if (!parsed.positional.empty())
    return Fail(
        InvalidArgument("divvy simulate --chaos does not use a trace; omit '" + parsed.positional.front() + "'"));
  // A single named world runs to its end.
  if (flags.is_limited_to_worlds && !flags.are_steps_set) flags.run.steps = ~std::uint64_t{0};
  if (flags.run.traces) flags.run.events_kept = 1'000;
  const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  if (is_terminal) {
    flags.run.on_world_done = [](std::uint64_t steps) {
      std::fprintf(stderr, "\r\033[K%s steps", std::to_string(steps).c_str());
      std::fflush(stderr);
    };
  }
  const auto end_line = [is_terminal] {
    if (is_terminal) std::fputs("\r\033[K", stderr);
  };
  if (!flags.has_controllers) {
    const simulate::ChaosResult result = simulate::RunChaos(flags.run);
    end_line();
    return PrintOutcome(result, "");
  }
  simulate::ControllersChaosOptions run;
  run.seed = flags.run.seed;
  run.steps = flags.run.steps;
  run.worlds = flags.run.worlds;
  run.traces = flags.run.traces;
  if (run.traces) run.events_kept = flags.run.events_kept;
  run.on_world_done = flags.run.on_world_done;
  const simulate::ControllersChaosResult result = simulate::RunControllersChaos(run);
  end_line();
  return PrintOutcome(result, " --controllers");
}

}  // namespace divvy::cli
