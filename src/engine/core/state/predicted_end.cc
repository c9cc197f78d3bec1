#include "engine/core/state/predicted_end.h"

#include "engine/core/state/state.h"

namespace divvy::core {

void SetPredictedEnd(Cluster& cluster, JobId running, Time end) {
  ClusterState& s = cluster.state();
  Run& run = s.running.at(running);
  run.predicted_end = end;
  for (const TaskPlacement& placed : run.placements) {
    for (RunningTask& one : s.nodes[placed.node].placements) {
      if (one.job == running) one.predicted_end = end;
    }
  }
  // If the scheduler does not use predictions, or the job has a time limit, only estimates use the new prediction.
  if (!s.rules.uses_predictions || run.end != kNever) return;
  s.Expect(run, EndOf(s.rules, run, run.started));
  for (const TaskPlacement& placed : run.placements) s.Grow(placed.node);
  s.room_epoch += 1;
  for (ReservationSlot& slot : s.reservations) slot.is_stale = true;
}

}  // namespace divvy::core
