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

/// Returns one component of a heterogeneous job, counted from 0, as if it were a job. Requires: the component exists.
wire::JobView ComponentView(const wire::JobView& job, std::size_t component);
wire::JobDetail ComponentDetail(const wire::JobDetail& job, std::size_t component);

/// Replaces each heterogeneous job with a line per component. `ids`: the requested ones. If they name only components
/// of a job ("17+1"), only these are included.
std::vector<wire::JobView> SplitComponents(const std::vector<wire::JobView>& jobs, const std::vector<std::string>& ids);

/// The first component that has the step's GPUs on every node of `step`; 0 if none has. `job`: the whole job.
std::size_t ComponentOfStep(const wire::JobView& job, const wire::JobView& step);

/// Returns the number of the component that a job's or step's line shows: 1 for "17+1". Nullopt if the line is not of a
/// heterogeneous job.
std::optional<std::size_t> ComponentNumber(const wire::JobView& line);

/// Returns the id of the heterogeneous job that a component's line belongs to: "17" for "17+1".
std::string LeaderId(const wire::JobView& line);
/// Returns Slurm's ids of all components of the line's job: "17-19" for job 17 with three components.
std::string ComponentIds(const wire::JobView& line, std::size_t components);

}  // namespace divvy::cli::slurm
