// Caps limit how many jobs of a group, an array or a user run at once, and how many GPUs they hold together.
//
// GPUs count as jobs hold them: those of the start, plus growth, minus what was released. `beside` is usage that is
// reserved within a cap (a backfill reservation or a nomination), on top of what running jobs hold. A cap on GPUs never
// blocks a job without GPUs.
#pragma once

#include <optional>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

bool IsCountedIn(const ClassKey& key, CapIndex cap);

/// Return true if the limit `cap` on the running jobs of a group or user blocks the start of one more job: its limit on
/// the number of jobs (RefusesJobs), or on their GPUs (RefusesGpus). `parts`: the job's GPUs in ten-thousandths.
/// `beside`: what a backfill reservation or nomination claims within the limit, in addition to the running jobs.
bool RefusesJobs(const Cap& cap, const CapUse& beside = {});
bool RefusesGpus(const Cap& cap, std::int64_t parts, const CapUse& beside = {});
inline bool Refuses(const Cap& cap, std::int64_t parts, const CapUse& beside = {}) {
  return RefusesJobs(cap, beside) || RefusesGpus(cap, parts, beside);
}

/// Returns the first of these limits that blocks the start of a job with `parts` ten-thousandths of GPUs now; nullopt
/// if none does.
std::optional<CapIndex> RefusedBy(const ClusterState& state, const std::vector<CapIndex>& caps, std::int64_t parts);

}  // namespace divvy::core
