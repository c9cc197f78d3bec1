// The server's own past as a workload: what ran here, to be run again under another policy or on other hardware.
#pragma once

#include <span>

#include "model/job_record.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

/// Of the jobs that have started and ended. Arrays count by their elements, each of which has a record of its own. A
/// job that was stopped or requeued on the way counts with its last run.
Workload WorkloadOf(std::span<const JobRecord> records);

}  // namespace divvy::simulate
