// The pieces that every message of the engine is made of, so that the same thing reads the same everywhere.
#pragma once

#include <span>
#include <string>

#include "base/bytes_text.h"
#include "base/id.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// "GPU 3", "GPUs 3 and 5", "GPUs 0-3 and 6", "no GPU".
std::string GpusText(GpuSet gpus);
/// What a job wants of its GPUs: "on one NUMA node", "joined by NVLink"; empty for any.
std::string_view TopologyPhrase(TopologyNeed need);
/// "is" or "are".
std::string_view IsOrAre(std::int64_t count);
/// Bytes as the command line takes them, rounded down: "80G", "512M".
std::string BytesFlag(Bytes bytes);
/// "job 3", "jobs 3 and 5", "jobs 3, 5 and 7", "jobs 3, 5, 7 and 12 more".
std::string JobsText(std::span<const JobId> jobs);
/// "a", "a and b", "a, b and c".
std::string AndList(std::span<const std::string> parts);

}  // namespace divvy
