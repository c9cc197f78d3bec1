// The description of a run in its run record, in messages of the agent and in the controller's run journal. It has all
// that is needed to adopt the run if its job is not in the store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/job_record.h"

namespace divvy {

struct RunDescription {
  JobRecord record;  // Without fields that only the controller needs. In the journal its state is final once the job
                     // has ended.
  JobSpec spec;      // For display only: it has no environment, script or parameters.
  std::int64_t gpu_parts = GpuShare::kWhole;  // The fraction of each of its GPUs, in ten-thousandths.
  std::optional<Exit> exit;                   // Set once the run has ended.
  Time ended = kNoTime;                       // Set only with `exit`.
  std::string reason;                         // In the journal: the reason of the job's state.
  bool runs_again = false;                    // In the journal: this run has ended, and the job was requeued.
};

}  // namespace divvy
