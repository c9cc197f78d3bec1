// Green contexts: parts of a device's multiprocessors with streams of their own. As in CUDA they belong to the device's
// primary context, and so do their allocations and modules. The stand-in does not slow a part down: its kernels take as
// long as on the whole device.
#include "cuda_current.h"

namespace divvy::cuda {

// CUdevResourceDesc and CUgreenCtx.
struct OpaqueResourceDescriptor {
  DeviceResource part;
};

struct OpaqueGreenContext {
  Context context;
  DeviceResource part;
  unsigned flags;
};

namespace {

constexpr unsigned kAlignment = 8;  // Multiprocessors are handed out in groups of this size, as on Hopper.
constexpr unsigned kDefaultStream = 1;

/// Requires the monitor. Returns the green contexts of this process.
List<GreenContext>& GreenContexts() {
  static List<GreenContext> all;
  return all;
}

bool Exists(GreenContext green) {
  for (GreenContext other : GreenContexts()) {
    if (other == green) return true;
  }
  return false;
}

GreenContext GreenOf(Context context) {
  for (GreenContext green : GreenContexts()) {
    if (green->context == context) return green;
  }
  return nullptr;
}

DeviceResource Part(unsigned multiprocessors) {
  DeviceResource part{};
  part.type = kResourceSm;
  part.sm_count = multiprocessors;
  part.min_partition = kAlignment;
  part.alignment = kAlignment;
  return part;
}

Return WholeOf(Device device, DeviceResource* resource, int type) {
  if (resource == nullptr) return kInvalidValue;
  if (type != kResourceSm) return kInvalidResourceType;
  int count = 0;
  const Return result = cuDeviceGetAttribute(&count, kMultiprocessorCount, device);
  if (result == kSuccess) *resource = Part(static_cast<unsigned>(count));
  return result;
}

}  // namespace

Return cuDeviceGetDevResource(Device device, DeviceResource* resource, int type) {
  return WholeOf(device, resource, type);
}

Return cuCtxGetDevResource(Context context, DeviceResource* resource, int type) {
  Device device = -1;
  const Return result = cuCtxGetDevice_v2(&device, context);
  if (result != kSuccess) return result;
  {
    Call call(Call::kInitialized);
    if (call.error != kSuccess) return call.error;
    const GreenContext green = GreenOf(context == nullptr ? CurrentContext() : context);
    if (green != nullptr) return resource == nullptr ? kInvalidValue : (*resource = green->part, kSuccess);
  }
  return WholeOf(device, resource, type);
}

Return cuGreenCtxGetDevResource(GreenContext green, DeviceResource* resource, int type) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!Exists(green) || resource == nullptr) return kInvalidValue;
  if (type != kResourceSm) return kInvalidResourceType;
  *resource = green->part;
  return kSuccess;
}

Return cuDevSmResourceSplitByCount(DeviceResource* result, unsigned* groups, const DeviceResource* input,
                                   DeviceResource* rest, unsigned, unsigned least) {
  if (groups == nullptr || input == nullptr || least > input->sm_count) return kInvalidValue;
  if (input->type != kResourceSm) return kInvalidResourceType;
  const auto size = static_cast<unsigned>(RoundUp(least == 0 ? 1 : least, kAlignment));
  const unsigned most = input->sm_count / size;
  if (result == nullptr) return *groups = most, kSuccess;
  if (*groups > most) *groups = most;
  for (unsigned i = 0; i < *groups; ++i) result[i] = Part(size);
  const unsigned left = input->sm_count - *groups * size;
  if (rest != nullptr) *rest = left == 0 ? DeviceResource{} : Part(left);
  return kSuccess;
}

Return cuDevResourceGenerateDesc(ResourceDescriptor* descriptor, DeviceResource* resources, unsigned count) {
  if (descriptor == nullptr || resources == nullptr || count == 0) return kInvalidValue;
  unsigned sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (resources[i].type != kResourceSm) return kInvalidResourceType;
    sum += resources[i].sm_count;
  }
  *descriptor = New<OpaqueResourceDescriptor>();  // CUDA has no call to free it either.
  (*descriptor)->part = Part(sum);
  return kSuccess;
}

Return cuGreenCtxCreate(GreenContext* green, ResourceDescriptor descriptor, Device device, unsigned flags) {
  if (green == nullptr || descriptor == nullptr || flags > kDefaultStream) return kInvalidValue;
  Context primary = nullptr;
  Return result = cuDevicePrimaryCtxRetain(&primary, device);
  if (result != kSuccess) return result;
  {
    Call call(Call::kInitialized);
    result = call.error;
    const size_t bytes = driver.context_bytes;
    driver.context_bytes = 0;  // It uses the memory of the primary context.
    const Context context = result == kSuccess ? MakeContext(device, primary->flags, false, &result) : nullptr;
    driver.context_bytes = bytes;
    if (context != nullptr) {
      *green = New<OpaqueGreenContext>();
      **green = {context, descriptor->part, flags};
      GreenContexts().Add(*green);
      return kSuccess;
    }
  }
  cuDevicePrimaryCtxRelease_v2(device);
  return result;
}

Return cuGreenCtxDestroy(GreenContext green) {
  Device device = -1;
  {
    Call call(Call::kInitialized);
    if (call.error != kSuccess) return call.error;
    if (!Exists(green)) return kInvalidContext;
    const Context context = green->context;
    device = context->device;
    const Context primary = driver.primary[device];
    WaitForContext(context);
    for (Range* range : driver.ranges) {
      if (range->context == context) range->context = primary;
    }
    for (Module module : context->modules) {
      module->context = primary;
      if (primary != nullptr) primary->modules.Add(module);
    }
    context->modules.Free();
    if (primary != nullptr) primary->residual += context->residual;
    context->residual = 0;
    EndContext(context);
    GreenContexts().Remove(green);
    free(green);
  }
  return cuDevicePrimaryCtxRelease_v2(device);
}

Return cuCtxFromGreenCtx(Context* context, GreenContext green) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (context == nullptr || !Exists(green)) return kInvalidValue;
  *context = green->context;
  return kSuccess;
}

Return cuGreenCtxStreamCreate(Stream* stream, GreenContext green, unsigned flags, int priority) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (stream == nullptr || !Exists(green) || flags != kStreamNonBlocking) return kInvalidValue;
  *stream = NewStream(green->context, flags, priority);
  return kSuccess;
}

Return cuStreamGetGreenCtx(Stream stream, GreenContext* green) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (green == nullptr) return kInvalidValue;
  *green = GreenOf(call.Resolve(stream)->context);
  return kSuccess;
}

}  // namespace divvy::cuda
