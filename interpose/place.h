// Where a program finds its GPUs when it starts.
#pragma once

namespace divvy::interpose {

/// To be called before the driver is started. A job's environment names the GPUs that it began on; where its tenant has
/// moved since, a program that it starts is to come to those that it is on now: CUDA_VISIBLE_DEVICES, which the driver
/// reads, is set to them. Left alone where it does not name as many GPUs by their UUIDs as the tenant has: then
/// somebody else means something by it.
void FollowTenant();

}  // namespace divvy::interpose
