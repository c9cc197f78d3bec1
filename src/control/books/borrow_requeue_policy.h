// Which jobs may be requeued as the last resort to return a borrowed part of a GPU. The share daemon of the node, which
// lends by this rule, and the controller, which requeues, use the same rule, so every loan can be repaid.
#pragma once

#include "model/job_record.h"

namespace divvy {

/// For a run: uses the job's own setting, or the administrator's at its start (`preemption`, `preemptible`). Never a
/// job with a terminal or one that may run only once.
inline bool MayRequeueToRepay(const JobRecord& record) {
  return record.preemptible == Preemptible::kRequeue && !record.is_foreground && !record.is_run_once;
}

}  // namespace divvy
