// A driver with one device whose calls do nothing, to measure the overhead of the library in front of it.
#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

Return cuInit(unsigned) { return kSuccess; }
Return cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
Return cuDeviceGetUuid(Uuid* uuid, Device) {
  *uuid = {};
  return kSuccess;
}
Return cuDevicePrimaryCtxRetain(Context* context, Device) {
  *context = reinterpret_cast<Context>(1);
  return kSuccess;
}
Return cuCtxSetCurrent(Context) { return kSuccess; }
Return cuCtxGetCurrent(Context* context) {
  *context = reinterpret_cast<Context>(1);
  return kSuccess;
}
Return cuCtxGetDevice(Device* device) {
  *device = 0;
  return kSuccess;
}
Return cuCtxSynchronize() { return kSuccess; }
Return cuModuleLoadData(Module*, const void*) { return kSuccess; }
Return cuModuleGetFunction(Function*, Module, const char*) { return kSuccess; }
Return cuLaunchKernel(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**,
                      void**) {
  return kSuccess;
}

}  // namespace divvy::cuda
