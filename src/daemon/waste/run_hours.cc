#include "daemon/waste/run_hours.h"

#include <algorithm>

namespace divvy {

RunHours HoursOf(const ReportedRun& run, const samples::JobUse& use) {
  constexpr double kHourS = 3600;
  if (use.machines == 0 || run.gpus <= 0 || run.share <= 0) return {};
  const double worth = run.gpus / use.machines / kHourS;
  // A run that borrows capacity counts as using at most its own share, and nothing while it is idle.
  const double used = std::min(use.use_seconds / run.share, use.seconds - use.idle_seconds);
  return {worth * use.seconds, worth * used, worth * use.idle_seconds};
}

}  // namespace divvy
