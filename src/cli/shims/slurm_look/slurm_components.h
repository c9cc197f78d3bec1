// Components of heterogeneous jobs, each as Slurm lists it: a line of its own, "17+1", with what it asks for and has.
// The id is the whole job's: there is no other.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

inline bool IsHeterogeneous(const wire::JobView& job) { return !job.request.others.empty(); }

/// One component, from 0, as if it were a job. Requires: there is one.
wire::JobView ComponentView(const wire::JobView& job, std::size_t component);
wire::JobDetail ComponentDetail(const wire::JobDetail& job, std::size_t component);

/// A line for each component in place of its job. `ids`: those that were asked for; of a job of which only components
/// are named ("17+1") just these.
std::vector<wire::JobView> SplitComponents(const std::vector<wire::JobView>& jobs, const std::vector<std::string>& ids);

/// The first component that has, on every machine of `step`, the step's GPUs; 0 if none has. `job`: whole.
std::size_t ComponentOfStep(const wire::JobView& job, const wire::JobView& step);

/// Which component of its job such a line is: 1 of "17+1", and of its steps; nothing: it is none.
std::optional<std::size_t> ComponentNumber(const wire::JobView& line);

}  // namespace divvy::cli::slurm
