// The CUDA driver as loaded by divvy-burn: libcuda.so.1 by the loader's rules, each function by its name. A preloaded
// library can therefore intercept divvy-burn like any other program.
#pragma once

#include "base/result.h"
#include "platform/gpu/cuda_api.h"

namespace divvy::burn {

// clang-format off
#define DIVVY_BURN_FUNCTIONS(F) \
  F(cuInit) F(cuDeviceGet) F(cuDeviceGetName) F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease_v2) \
  F(cuCtxSetCurrent) F(cuCtxSynchronize) F(cuGetErrorName) F(cuMemGetInfo_v2) F(cuModuleLoadData) \
  F(cuModuleUnload) F(cuModuleGetFunction) F(cuMemAlloc_v2) F(cuMemFree_v2) F(cuMemAllocPitch_v2) \
  F(cuMemAllocManaged) F(cuMemAllocAsync) F(cuMemAllocFromPoolAsync) F(cuMemFreeAsync) F(cuMemPoolCreate) \
  F(cuMemPoolDestroy) F(cuMemGetAllocationGranularity) F(cuMemAddressReserve) F(cuMemAddressFree) F(cuMemCreate) \
  F(cuMemRelease) F(cuMemMap) F(cuMemUnmap) F(cuMemSetAccess) F(cuArrayCreate_v2) F(cuArrayDestroy) \
  F(cuMemcpy2D_v2) F(cuMemcpyHtoD_v2) F(cuMemcpyDtoH_v2) F(cuMemsetD8_v2) F(cuLaunchKernel) F(cuStreamCreate) \
  F(cuStreamDestroy_v2) F(cuStreamSynchronize) F(cuEventCreate) F(cuEventDestroy_v2) F(cuEventRecord) \
  F(cuEventSynchronize) F(cuGraphCreate) F(cuGraphDestroy) F(cuGraphAddMemAllocNode) \
  F(cuMemHostAlloc) F(cuMemFreeHost) F(cuGraphInstantiateWithFlags) F(cuGraphLaunch) F(cuGraphExecDestroy) \
  F(cuDeviceGraphMemTrim)
// clang-format on

struct Driver {
#define DIVVY_BURN_MEMBER(name) decltype(&cuda::name) name = nullptr;
  DIVVY_BURN_FUNCTIONS(DIVVY_BURN_MEMBER)
#undef DIVVY_BURN_MEMBER
};

/// Loads the CUDA driver's library. An error names the function that the library lacks.
Result<Driver> LoadDriver();

/// Returns an error such as "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)".
Error CudaError(const Driver& driver, std::string_view what, cuda::Return error);

/// Returns from the enclosing function with the error of a call that failed.
#define DIVVY_CUDA_TRY(driver, name, ...)                                                                   \
  if (const cuda::Return divvy_cuda_error = (driver).name(__VA_ARGS__); divvy_cuda_error != cuda::kSuccess) \
  return CudaError(driver, #name, divvy_cuda_error)

}  // namespace divvy::burn
