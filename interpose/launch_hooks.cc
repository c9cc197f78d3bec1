// Launches: only these wait for this tenant's turn.
#include "gate.h"
#include "hooks.h"
#include "pools.h"

namespace divvy::interpose {

namespace {

template <typename Launch>
cuda::Return Launched(cuda::Stream stream, Launch launch) {
  Inside inside(Touch::kLaunch);
  const cuda::Return result = launch();
  if (result == cuda::kSuccess && inside.is_ours()) inside.Launched(stream);
  return result;
}

template <typename Launch>
cuda::Return GraphLaunched(cuda::Stream stream, Launch launch) {
  bool is_ours = false;
  cuda::Return result = cuda::kSuccess;
  {
    Inside inside(Touch::kLaunch);
    result = launch();
    is_ours = result == cuda::kSuccess && inside.is_ours();
    if (is_ours) inside.Launched(stream);
  }
  if (is_ours) MeasureAllGraphMemory();
  return result;
}

}  // namespace

#define LAUNCH_KERNEL(symbol, own)                                                                                     \
  cuda::Return symbol##_hook(cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                             unsigned bz, unsigned shared, cuda::Stream stream, void** parameters, void** extra) {     \
    return Launched(                                                                                                   \
        own, [&] { return DRIVER(symbol)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra); });     \
  }
LAUNCH_KERNEL(cuLaunchKernel, stream)
LAUNCH_KERNEL(cuLaunchKernel_ptsz, OwnStream(stream))
#undef LAUNCH_KERNEL

#define LAUNCH_EX(symbol, own)                                                                             \
  cuda::Return symbol##_hook(const cuda::LaunchConfig* config, cuda::Function function, void** parameters, \
                             void** extra) {                                                               \
    const cuda::Stream stream = config == nullptr ? nullptr : config->stream;                              \
    return Launched(own, [&] { return DRIVER(symbol)(config, function, parameters, extra); });             \
  }
LAUNCH_EX(cuLaunchKernelEx, stream)
LAUNCH_EX(cuLaunchKernelEx_ptsz, OwnStream(stream))
#undef LAUNCH_EX

#define LAUNCH_COOPERATIVE(symbol, own)                                                                                \
  cuda::Return symbol##_hook(cuda::Function function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                             unsigned bz, unsigned shared, cuda::Stream stream, void** parameters) {                   \
    return Launched(own,                                                                                               \
                    [&] { return DRIVER(symbol)(function, gx, gy, gz, bx, by, bz, shared, stream, parameters); });     \
  }
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel, stream)
LAUNCH_COOPERATIVE(cuLaunchCooperativeKernel_ptsz, OwnStream(stream))
#undef LAUNCH_COOPERATIVE

cuda::Return cuLaunchCooperativeKernelMultiDevice_hook(cuda::CooperativeLaunch* list, unsigned count, unsigned flags) {
  const cuda::Stream first = list == nullptr || count == 0 ? nullptr : list->stream;
  return Launched(first, [&] { return DRIVER(cuLaunchCooperativeKernelMultiDevice)(list, count, flags); });
}

cuda::Return cuGraphLaunch_hook(cuda::GraphExec graph, cuda::Stream stream) {
  return GraphLaunched(stream, [&] { return DRIVER(cuGraphLaunch)(graph, stream); });
}
cuda::Return cuGraphLaunch_ptsz_hook(cuda::GraphExec graph, cuda::Stream stream) {
  return GraphLaunched(OwnStream(stream), [&] { return DRIVER(cuGraphLaunch_ptsz)(graph, stream); });
}

// Launch functions from before CUDA 4.0.
cuda::Return cuLaunch_hook(cuda::Word function) {
  return Launched(nullptr, [&] { return DRIVER(cuLaunch)(function); });
}
cuda::Return cuLaunchGrid_hook(cuda::Word function, cuda::Word width, cuda::Word height) {
  return Launched(nullptr, [&] { return DRIVER(cuLaunchGrid)(function, width, height); });
}
cuda::Return cuLaunchGridAsync_hook(cuda::Word function, cuda::Word width, cuda::Word height, cuda::Word stream) {
  return Launched(reinterpret_cast<cuda::Stream>(stream),  // NOLINT
                  [&] { return DRIVER(cuLaunchGridAsync)(function, width, height, stream); });
}

}  // namespace divvy::interpose
