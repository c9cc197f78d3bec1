// The parts of gjob that need no daemon.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "dialect/options/options.h"
#include "model/job.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// Options of gjob update and gjob redo, which write into `update`. Refuses what cannot change on a queued job.
std::vector<dialect::Option> GjobUpdateOptions(wire::JobUpdate& update);
/// "Job 12", then one line per known property.
std::string RenderGjobShow(const wire::JobDetail& job, double now);
/// A new job like `old` with the changes applied, but without the dependencies of `old`.
Result<JobSpec> SpecToRedo(const wire::JobDetail& old, const wire::JobUpdate& changes);
/// Replaces the job id in dependencies: "afterok:12" becomes "afterok:40".
std::vector<std::string> ReplaceDependency(const std::vector<std::string>& dependencies, const std::string& old_id,
                                           const std::string& new_id);

}  // namespace divvy::cli
