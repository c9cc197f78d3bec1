// The parts of gjob that need no daemon.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// gjob update's and gjob redo's options, which write into `update`. What cannot change on a queued job is refused.
std::vector<dialect::Option> GjobUpdateOptions(wire::JobUpdate& update);
/// "Job 12" and one line for each thing that is known about it.
std::string RenderGjobShow(const wire::JobDetail& job, double now);
/// A new job like `old`, with what `changes` holds, but for its dependencies.
Result<JobSpec> SpecToRedo(const wire::JobDetail& old, const wire::JobUpdate& changes);
/// "afterok:12" -> "afterok:40".
std::vector<std::string> ReplaceDependency(const std::vector<std::string>& dependencies, const std::string& old_id,
                                           const std::string& new_id);

}  // namespace divvy::cli
