// Every entry point of the driver is hooked, or excluded for a reason. driver_names.txt lists the exports of
// libcuda.so.1 of CUDA 13.2 according to its public headers; platform/gpu/cuda_functions.inc lists those of the
// stand-in.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace divvy::interpose {
namespace entry_points_test {

using Names = std::set<std::string>;

Names Hooked() {
  return {
#define HOOK(symbol) #symbol,
#define HOOK_PTSZ(symbol) #symbol, #symbol "_ptsz",
#define TOUCH(symbol) #symbol,
#define TOUCH_PTSZ(symbol) #symbol, #symbol "_ptsz",
#define TOUCH_PTDS(symbol) #symbol, #symbol "_ptds",
#include "hooks.inc"
#undef HOOK
#undef HOOK_PTSZ
#undef TOUCH
#undef TOUCH_PTSZ
#undef TOUCH_PTDS
  };
}

Names OfStandIn() {
  return {
#define DIVVY_CUDA(name, symbol, since, parameters) #symbol,
#define DIVVY_CUDA_PTSZ(name, symbol, since, parameters) #symbol, #symbol "_ptsz",
#define DIVVY_CUDA_PTDS(name, symbol, since, parameters) #symbol, #symbol "_ptds",
#define DIVVY_CUDA_ALIAS(name, symbol, since)
#include "platform/gpu/cuda_functions.inc"
#undef DIVVY_CUDA
#undef DIVVY_CUDA_PTSZ
#undef DIVVY_CUDA_PTDS
#undef DIVVY_CUDA_ALIAS
  };
}

Names OfDriver() {
  std::ifstream file(DIVVY_DRIVER_NAMES);
  Names names;
  for (std::string name; file >> name;) names.insert(name);
  return names;
}

/// Entry points that do not access a device.
const Names kWithoutDevice = {
    "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString", "cuGetExportTable",
    // These act on other processes.
    "cuCheckpointProcessCheckpoint", "cuCheckpointProcessGetRestoreThreadId", "cuCheckpointProcessGetState",
    "cuCheckpointProcessLock", "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock",
    // These are independent of all other calls.
    "cuCoredumpDeregisterCompleteCallback", "cuCoredumpDeregisterStartCallback", "cuCoredumpGetAttribute",
    "cuCoredumpGetAttributeGlobal", "cuCoredumpRegisterCompleteCallback", "cuCoredumpRegisterStartCallback",
    "cuCoredumpSetAttribute", "cuCoredumpSetAttributeGlobal", "cuLogsCurrent", "cuLogsDumpToFile", "cuLogsDumpToMemory",
    "cuLogsRegisterCallback", "cuLogsUnregisterCallback"};

/// Entry points with 32-bit addresses, from before CUDA 3.2. No 64-bit program built since then uses them.
const Names kOfOldAddresses = {"cuArray3DCreate",
                               "cuArray3DGetDescriptor",
                               "cuArrayCreate",
                               "cuArrayGetDescriptor",
                               "cuDeviceTotalMem",
                               "cuGLCtxCreate",
                               "cuGLMapBufferObject",
                               "cuGLMapBufferObjectAsync",
                               "cuGraphicsResourceGetMappedPointer",
                               "cuMemAlloc",
                               "cuMemAllocHost",
                               "cuMemAllocPitch",
                               "cuMemFree",
                               "cuMemGetAddressRange",
                               "cuMemGetInfo",
                               "cuMemHostGetDevicePointer",
                               "cuMemcpy2D",
                               "cuMemcpy2DAsync",
                               "cuMemcpy2DUnaligned",
                               "cuMemcpy3D",
                               "cuMemcpy3DAsync",
                               "cuMemcpyAtoA",
                               "cuMemcpyAtoD",
                               "cuMemcpyAtoH",
                               "cuMemcpyAtoHAsync",
                               "cuMemcpyDtoA",
                               "cuMemcpyDtoD",
                               "cuMemcpyDtoDAsync",
                               "cuMemcpyDtoH",
                               "cuMemcpyDtoHAsync",
                               "cuMemcpyHtoA",
                               "cuMemcpyHtoAAsync",
                               "cuMemcpyHtoD",
                               "cuMemcpyHtoDAsync",
                               "cuMemsetD16",
                               "cuMemsetD2D16",
                               "cuMemsetD2D32",
                               "cuMemsetD2D8",
                               "cuMemsetD32",
                               "cuMemsetD8",
                               "cuModuleGetGlobal",
                               "cuTexRefGetAddress",
                               "cuTexRefSetAddress",
                               "cuTexRefSetAddress2D",
                               "cuVDPAUCtxCreate"};

std::string Missing(const Names& wanted, const Names& hooked) {
  std::string missing;
  for (const std::string& name : wanted) {
    if (!hooked.contains(name) && !kWithoutDevice.contains(name) && !kOfOldAddresses.contains(name)) {
      missing += name + " ";
    }
  }
  return missing;
}

TEST(EntryPoints, EveryDriverFunctionIsHookedOrExcludedForAReason) {
  ASSERT_GT(OfDriver().size(), 650U);
  EXPECT_EQ(Missing(OfDriver(), Hooked()), "");
}

/// The name without "_v2", "_ptsz" and so on, as passed to cuGetProcAddress together with a version.
std::string Plain(const std::string& name) { return name.substr(0, name.find('_')); }

/// Newer than driver_names.txt and all known drivers: programs ask for them and learn that they do not exist. A driver
/// that has them returns them without hooks.
const Names kOfNewerDrivers = {
    "cuLogicalEndpointAddDevice",   "cuLogicalEndpointBindAddr",  "cuLogicalEndpointBindMem",
    "cuLogicalEndpointCreate",      "cuLogicalEndpointDestroy",   "cuLogicalEndpointExport",
    "cuLogicalEndpointGetLimits",   "cuLogicalEndpointIdRelease", "cuLogicalEndpointIdReserve",
    "cuLogicalEndpointImport",      "cuLogicalEndpointQuery",     "cuLogicalEndpointUnbind",
    "cuStreamBeginRecaptureToGraph"};

TEST(EntryPoints, FunctionsThatProgramsRequestAreKnown) {
  Names known;
  for (const std::string& name : OfDriver()) known.insert(Plain(name));
  std::ifstream file(DIVVY_REQUESTED_NAMES);
  int asked = 0;
  std::string unknown;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string how, name;
    words >> how >> name;
    if ((how != "dlsym" && how != "proc") || !name.starts_with("cu")) continue;
    ++asked;
    if (!known.contains(Plain(name)) && !kOfNewerDrivers.contains(name)) unknown += name + " ";
  }
  EXPECT_GT(asked, 600);
  EXPECT_EQ(unknown, "");
}

TEST(EntryPoints, EveryEmulatedFunctionIsHookedOrExcludedForAReason) { EXPECT_EQ(Missing(OfStandIn(), Hooked()), ""); }

TEST(EntryPoints, NoExcludedFunctionIsHookedOrMissingFromTheDriver) {
  const Names hooked = Hooked();
  const Names there = OfDriver();
  for (const Names* left : {&kWithoutDevice, &kOfOldAddresses}) {
    for (const std::string& name : *left) {
      EXPECT_FALSE(hooked.contains(name)) << name;
      EXPECT_TRUE(there.contains(name)) << name;
    }
  }
}

}  // namespace entry_points_test
}  // namespace divvy::interpose
