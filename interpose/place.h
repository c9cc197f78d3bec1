// Sets the GPUs that a program sees when it starts.
#pragma once

namespace divvy::interpose {

/// Call this before the driver starts. A job's environment names the GPUs with which it started. If the tenant has
/// moved since, a new program must use its present GPUs. So this updates CUDA_VISIBLE_DEVICES, which the driver reads.
/// It is left unchanged unless it names, by UUID, as many GPUs as the tenant has: any other value was set by the user
/// on purpose. A job with whole GPUs may name some of them, also by number.
void FollowTenant();

}  // namespace divvy::interpose
