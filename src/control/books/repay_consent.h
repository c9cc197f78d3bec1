// Who may be queued again as the very last means of giving back what it borrowed of a GPU. The same for its machine's
// keeper, which lends by it, and for the controller, which does it: a loan that one of them counts on is repaid.
#pragma once

#include "model/job_record.h"

namespace divvy {

/// Of a run: as its job said, or else as the administrator had it when it started (`taking_back`, `preemptible`).
/// Nobody who sits before a terminal, or is to run but once.
inline bool MayRequeueToRepay(const JobRecord& record) {
  return record.preemptible == Preemptible::kRequeue && !record.is_foreground && !record.is_run_once;
}

}  // namespace divvy
