// Which jobs may be requeued as the last resort to return a borrowed part of a GPU. The share daemon of the node, which
// lends by this rule, and the controller, which requeues, use the same rule, so every loan can be repaid.
#pragma once

#include "model/job_record.h"

namespace divvy {

/// Returns true if the running job may be requeued so that borrowed GPU memory goes back to its owners. The job's own
/// setting decides, or the administrator's (`preemption`, `preemptible`) as it was when the job started. Jobs with a
/// terminal, and jobs that may run only once, are never requeued.
inline bool MayRequeueToRepay(const JobRecord& record) {
  return record.preemptible == Preemptible::kRequeue && !record.is_foreground && !record.is_run_once;
}

}  // namespace divvy
