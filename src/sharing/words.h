// What listings say of a tenant: "borrows 12 GiB", "stays on GPU 1: uses CUDA IPC".
#pragma once

#include <string>
#include <vector>

#include "base/bytes_text.h"
#include "sharing/facts.h"

namespace divvy::sharing {

/// "job 17", and from the second attempt on "job 17 (attempt 2)".
std::string TenantText(TenantId id);
/// Short phrases, the weightiest first; none for one that is within its request on its paper GPU. `now` for idle times.
/// "parked: idle for 10m", "waits for room on a GPU", "moves to GPU 2", "borrows 12 GiB", "on GPU 3 for
/// now (its guaranteed part is on GPU 1)", "stays on GPU 1: uses CUDA IPC".
std::vector<std::string> Remarks(const Tenant& tenant, Time now);

}  // namespace divvy::sharing
