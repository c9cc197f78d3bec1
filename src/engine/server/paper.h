// Where jobs with parts of GPUs are counted. Who is really where is for their machine to say (docs/sharing.md), which
// moves them as the plan needs it: so the plan may count each on any GPU like its own, and keeps them together, for
// whole GPUs to be free. Who cannot be moved is counted where it is.
#pragma once

#include <optional>
#include <vector>

#include "engine/server/book.h"

namespace divvy {

struct PaperTenant {
  JobId job;
  GpuSet gpus;     // Where it is counted.
  GpuShare share;  // Of each of them.
  GpuSet stays;    // Where it is, as many GPUs, and cannot leave. Empty: it can be moved.
};

struct PaperMove {
  JobId job;
  GpuSet gpus;
};

/// What is to be counted elsewhere, in an order in which each fits beside all others. `tenants`: those on `node` that
/// may be counted anew; others that have parts of its GPUs stay as they are. A GPU is emptied where all that is on it
/// fits on others in parts; nobody comes to one that takes no work, nor to those `cut` into MIG slices.
std::vector<PaperMove> PackOnPaper(const BookNode& node, const std::vector<PaperTenant>& tenants, GpuSet cut);

/// The GPU like `from` with the least room for `share` that has it, of those that take work and are not `own` nor
/// `cut`; shared ones before free ones. Nothing: none has.
std::optional<GpuIndex> OtherGpuFor(const BookNode& node, GpuIndex from, GpuSet own, GpuSet cut, GpuShare share);

}  // namespace divvy
