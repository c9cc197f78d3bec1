// Building blocks of the engine's messages, so that the same thing is worded the same everywhere.
#pragma once

#include <span>
#include <string>

#include "base/bytes_text.h"
#include "base/id.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "model/job.h"

namespace divvy {

/// Returns GPUs as text: "GPU 3", "GPUs 3 and 5", "GPUs 0-3 and 6", "no GPU".
std::string GpusText(GpuSet gpus);
/// The topology that a job needs, as text: "on one NUMA node", "joined by NVLink"; empty for kAny.
std::string_view TopologyPhrase(TopologyNeed need);
/// Returns the verb for this count: "is" for 1, otherwise "are".
std::string_view IsOrAre(std::int64_t count);
/// Returns an amount of bytes as users write it in options, rounded down: "80G", "512M".
std::string BytesFlag(Bytes bytes);
/// Returns jobs as text: "job 3", "jobs 3 and 5", "jobs 3, 5 and 7", "jobs 3, 5, 7 and 12 more".
std::string JobsText(std::span<const JobId> jobs);
/// Joins parts to a list: "a", "a and b", "a, b and c".
std::string AndList(std::span<const std::string> parts);

}  // namespace divvy
