// Components of heterogeneous jobs as Slurm lists them: each has its own line, "17+1", with its own request, resources
// and id. The id of component 1 of job 17 is 18, and selects that job.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

inline bool IsHeterogeneous(const wire::JobView& job) { return !job.request.others.empty(); }

/// One component, counted from 0, as if it were a job. Requires: it exists.
wire::JobView ComponentView(const wire::JobView& job, std::size_t component);
wire::JobDetail ComponentDetail(const wire::JobDetail& job, std::size_t component);

/// Replaces each heterogeneous job with a line per component. `ids`: the requested ones. If they name only components
/// of a job ("17+1"), only these are included.
std::vector<wire::JobView> SplitComponents(const std::vector<wire::JobView>& jobs, const std::vector<std::string>& ids);

/// The first component that has the step's GPUs on every node of `step`; 0 if none has. `job`: the whole job.
std::size_t ComponentOfStep(const wire::JobView& job, const wire::JobView& step);

/// The component number of a line, or of a step's line: 1 for "17+1"; nullopt if it is not a component.
std::optional<std::size_t> ComponentNumber(const wire::JobView& line);

/// The id of the whole job of a component's line: "17" for "17+1".
std::string LeaderId(const wire::JobView& line);
/// The ids of all components of the job of a line: "17-19".
std::string ComponentIds(const wire::JobView& line, std::size_t components);

}  // namespace divvy::cli::slurm
