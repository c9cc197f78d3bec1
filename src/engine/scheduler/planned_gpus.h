// Planned GPUs of tenants, that is, of jobs with GPU fractions. The node itself knows on which GPU a tenant really is
// and migrates tenants as the plan requires (docs/sharing.md). So the plan may count a tenant on any GPU of the same
// model and memory, and packs tenants together to keep whole GPUs free. A tenant that cannot be migrated is counted
// where it is.
#pragma once

#include <optional>
#include <vector>

#include "engine/scheduler/scheduler_facts.h"

namespace divvy {

struct PlannedTenant {
  JobId job;
  GpuSet gpus;     // GPUs on which it is counted.
  GpuShare share;  // Its fraction of each of them.
  GpuSet stays;    // The GPUs that it is on and cannot leave, as many as `gpus`. Empty: it can be migrated.
};

struct PlannedMove {
  JobId job;
  GpuSet gpus;
};

/// Plans which tenants (jobs with GPU fractions) of the node are counted on other GPUs, so that GPUs become free for
/// whole-GPU jobs. Returns the moves in an order in which each fits when it is made. `tenants`: those that may be
/// counted on another GPU; all other tenants of the node stay as they are. A GPU is emptied if everything on it fits on
/// other GPUs that are already shared. Tenants are moved only to GPUs that take work. The exception is a tenant that
/// cannot leave its GPU (PlannedTenant::stays): it is counted there even if that GPU takes no work. No tenant is moved
/// to a GPU divided into MIG instances (`cut`).
std::vector<PlannedMove> PackPlannedGpus(const NodeUsage& node, const std::vector<PlannedTenant>& tenants, GpuSet cut);

/// Returns the best other GPU of the same model and memory as `from` for a fraction `share`: the one with the least
/// sufficient room, shared GPUs before free ones. Only GPUs that take work and are in neither `own` nor `cut` qualify.
/// nullopt if there is none.
std::optional<GpuIndex> OtherGpuFor(const NodeUsage& node, GpuIndex from, GpuSet own, GpuSet cut, GpuShare share);

}  // namespace divvy
