// The CUDA driver's C ABI as divvy uses it: every entry point of cuda_functions.inc, declared as libcuda.so.1 exports
// it. Nothing is linked to the driver. Code that needs it loads it, and casts the results of dlsym or cuGetProcAddress
// with decltype(&::cuMemAlloc_v2). The stand-in (emulate/) and the library that shares GPUs (interpose/) define the
// entry points that they implement. Entry points keep CUDA's names; the types (cuda_types.h) have names of this code
// base.
#pragma once

#include "platform/gpu/cuda_types.h"

namespace divvy::cuda {

#define DIVVY_CUDA_EXPORT extern "C" __attribute__((visibility("default"))) Return
#define DIVVY_CUDA(name, symbol, since, parameters) DIVVY_CUDA_EXPORT symbol parameters;
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) \
  DIVVY_CUDA_EXPORT symbol parameters;                   \
  DIVVY_CUDA_EXPORT symbol##_ptsz parameters;
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) \
  DIVVY_CUDA_EXPORT symbol parameters;                   \
  DIVVY_CUDA_EXPORT symbol##_ptds parameters;
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
#undef DIVVY_CUDA_EXPORT

}  // namespace divvy::cuda
