// A driver with one device whose calls do nothing, to measure the overhead of the library in front of it.
#include <string.h>

#include "platform/gpu/cuda_api.h"

namespace divvy::cuda {

using Word = unsigned long;

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

// The form that cuMulticastBindMem has had since CUDA 13.1, and the one before.
extern "C" __attribute__((visibility("default"))) Return cuMulticastBindMem(Word, Word, Word, Word, Word, Word) {
  return kUnknown;
}
extern "C" __attribute__((visibility("default"))) Return cuMulticastBindMem_v2(Word a, Word b, Word c, Word d, Word e,
                                                                               Word f, Word g) {
  return a == 1 && b == 2 && c == 3 && d == 4 && e == 5 && f == 6 && g == 7 ? kSuccess : kInvalidValue;
}
Return cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long, ProcAddressResult*) {
  if (strcmp(name, "cuMulticastBindMem") != 0) return kNotFound;
  *function =
      version >= 13010 ? reinterpret_cast<void*>(&cuMulticastBindMem_v2) : reinterpret_cast<void*>(&cuMulticastBindMem);
  return kSuccess;
}

}  // namespace divvy::cuda
