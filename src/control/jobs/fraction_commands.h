// Running jobs with GPU fractions: changes of their size, and borrowed parts that are returned. The node knows which
// tenant is on which GPU at the moment (docs/sharing.md); here only the plan is known.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_commands.h"
#include "control/jobs/job_updates.h"
#include "control/state/effect_recorder.h"
#include "control/state/fraction_planner.h"
#include "control/state/job_table.h"
#include "control/state/retry_delays.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class FractionCommands {
 public:
  FractionCommands(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, FractionPlanner& fractions,
                   RetryDelays& retries, JobAccess& access, JobUpdates& updates, JobCommands& commands)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        fractions_(fractions),
        retries_(retries),
        access_(access),
        updates_(updates),
        commands_(commands) {}

  // See Controller.
  Result<std::string> ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                    const FindOutcome& outcome);
  Result<const JobRecord*> FindTenant(JobId id, const Caller& caller, std::string_view verb) const;
  void OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now);
  void OnShareEvent(JobId id, std::uint32_t attempt, const std::string& what, Time now);

 private:
  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  FractionPlanner& fractions_;
  RetryDelays& retries_;
  JobAccess& access_;
  JobUpdates& updates_;
  JobCommands& commands_;
};

}  // namespace divvy
