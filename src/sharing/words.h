// Short texts about a tenant for listings, e.g. "borrows 12 GiB", "stays on GPU 1: uses CUDA IPC".
#pragma once

#include <string>
#include <vector>

#include "base/bytes_text.h"
#include "sharing/facts.h"

namespace divvy::sharing {

/// Returns "job 17", or "job 17 (attempt 2)" from the second attempt on.
std::string TenantText(TenantId id);
/// Returns short phrases, most important first. Empty if the tenant is on its planned GPU and within its request. `now`
/// serves to compute idle times. Examples: "parked: idle for 10m", "waits for room on a GPU", "moves to GPU 2",
/// "borrows 12 GiB", "on GPU 3 for now (its guaranteed fraction is on GPU 1)", "stays on GPU 1: uses CUDA IPC".
std::vector<std::string> Remarks(const Tenant& tenant, Time now);

}  // namespace divvy::sharing
