#include "engine/core/place/start_blocker.h"

#include "engine/core/place/caps.h"
#include "engine/core/place/earliest.h"

namespace divvy::core {

StartBlocker StartBlockerOf(const ClusterState& state, ClassIndex index) {
  const JobClass& job_class = state.classes[index];
  StartBlocker barrier;
  barrier.cap = RefusedBy(state, job_class.key.caps, job_class.least_parts);
  if (state.teams.has_rules()) {
    barrier.over_limit = state.teams.OverLimit(job_class.key.team, job_class.least_parts);
    if (job_class.is_firm()) barrier.over_quota = state.teams.OverFirmQuota(job_class.key.team, job_class.least_parts);
  }
  if (job_class.checked_epoch != state.usable_epoch) {
    job_class.could_run = CouldRun(state, state.requests[job_class.key.request]);
    job_class.checked_epoch = state.usable_epoch;
  }
  barrier.could_never_run = !job_class.could_run;
  return barrier;
}

}  // namespace divvy::core
