// The server's own past as a workload, to replay it under another policy or on other hardware.
#pragma once

#include <span>

#include "model/job_record.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

/// Makes a workload to simulate from the records of past jobs. Uses only jobs that have started and ended. Arrays count
/// by their elements, each of which has its own record. A job that was stopped or requeued in between counts with its
/// last run.
Workload WorkloadOf(std::span<const JobRecord> records);

}  // namespace divvy::simulate
