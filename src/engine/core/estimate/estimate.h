// When a waiting job will start, as an interval, and what that rests on.
//
// Three things have to come about, and the last of them decides: its caps and limits let it, running jobs leave enough
// of what it needs on fitting nodes, and those ahead in line have had their turn on the summed capacity of these nodes,
// without backfill. Who has a turn takes room of its caps and limits too, until its expected end; until they let it, it
// holds up only whom the same ones count. Later than the truth rather than earlier, if nothing is submitted that goes
// first. A promise is the answer where there is one, unless it is likely that the job starts before (promises go by
// time limits, and those who have none are told of what is likely), or that one goes first whom a limit keeps back. So
// of jobs that ask for the same, who stands first is not said to start last.
//
// Three ends of a job are told apart: typical is its prediction, or else its time limit; latest is its time limit, or
// else what one in ten exceeds; earliest is what one in ten stays under, where anything is known of that.
//
// Cost: a look at every piece on fitting nodes for each of the three; the first kMostStepped members ahead one by one,
// those behind them summed by class.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/id.h"
#include "base/time.h"
#include "model/job.h"

namespace divvy::core {

struct Ahead;
class View;

/// How long jobs like this one run: one in ten shorter than `low`, one in ten longer than `high` (engine/run_times.h).
struct RunSpread {
  Duration low{0};
  Duration high{0};
};
/// Of a running job, or of a waiting entry; nothing: not known.
using SpreadOf = std::function<std::optional<RunSpread>(JobId)>;

struct Estimate {
  Time typical = kNever;    // kNever: nothing known makes it start.
  Time earliest = kNoTime;  // kNoTime: not known.
  Time latest = kNever;     // kNever: not known.
  bool is_promise = false;  // `latest` is kept by the scheduler, if GPUs stay in service.
  std::string basis;        // "when job 12 and job 14 end, by prediction", or why there is no time.
};

/// Members ahead that are placed one by one.
inline constexpr std::uint64_t kMostStepped = 2'000;
/// Running jobs and classes of which a spread is asked; with more, the interval rests on time limits alone.
inline constexpr std::size_t kMostAsked = 2'000;

/// Requires: the job of the view waits and will not start at once.
Estimate EstimateStart(View& view, const Ahead& ahead, const SpreadOf& spread);

}  // namespace divvy::core
