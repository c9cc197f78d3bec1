// Caps: how many jobs of a group, an array or a user run at once, and how many GPUs they hold together.
//
// GPUs count as jobs hold them: what a job starts with, what it grows by, less what it has given back. What is kept for
// somebody within a cap (a promise, a claim) is `beside` what is held. A job without GPUs is never kept back by a cap
// on GPUs.
#pragma once

#include <optional>

#include "engine/core/state/state.h"

namespace divvy::core {

bool IsCountedIn(const ClassKey& key, CapIndex cap);

/// Whether a job that holds `parts` may not start.
bool RefusesJobs(const Cap& cap, const CapUse& beside = {});
bool RefusesGpus(const Cap& cap, std::int64_t parts, const CapUse& beside = {});
inline bool Refuses(const Cap& cap, std::int64_t parts, const CapUse& beside = {}) {
  return RefusesJobs(cap, beside) || RefusesGpus(cap, parts, beside);
}

/// The first of `caps` that refuses a job of `parts` as things are.
std::optional<CapIndex> RefusedBy(const Cluster::State& state, const std::vector<CapIndex>& caps, std::int64_t parts);

/// Running jobs of these caps take no more than this on: what is promised to somebody within a cap is not theirs.
/// kNoBound: no cap counts GPUs.
std::int64_t RoomToGrow(const Cluster::State& state, const std::vector<CapIndex>& caps);

/// What somebody would lose: so much less is held of the caps of its class.
struct CapLoss {
  ClassIndex job_class = 0;
  std::int64_t parts = 0;
};
/// Its caps have room for one of the class once those who were told to leave have left, who has a claim has started,
/// and this is lost as well.
bool FitsItsCaps(const Cluster::State& state, ClassIndex job_class, const std::vector<CapLoss>& losses = {});

}  // namespace divvy::core
