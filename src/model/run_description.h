// A run as its run record, the agent of its node and the controller's run journal describe it: all that is needed to
// take the run over where the store does not know it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/job_record.h"

namespace divvy {

struct RunDescription {
  JobRecord record;  // Without what only the controller has a use for. Final in the journal once the job has ended.
  JobSpec spec;      // For display only: it has no environment, script or parameters.
  std::int64_t gpu_parts = GpuShare::kWhole;  // The share of each of its GPUs, in ten-thousandths.
  std::optional<Exit> exit;                   // Set once the run has ended.
  Time ended = kNoTime;                       // Only with `exit`.
  std::string reason;                         // In the journal: of the job's state.
  bool runs_again = false;                    // In the journal: this run is over and the job was queued again.
};

}  // namespace divvy
