// Contexts: creation, the current one, and destruction. Each takes a fixed size of device memory, as with real drivers.
#include "cuda_current.h"

namespace divvy::cuda {

__thread ContextStack current_contexts;

namespace {

bool IsDevice(Device device) { return device >= 0 && static_cast<unsigned>(device) < driver.gpu_count; }

bool Exists(Context context) {
  for (Context other : driver.contexts) {
    if (other == context) return true;
  }
  return false;
}

Return Push(Context context) {
  ContextStack& stack = current_contexts;
  if (stack.depth == 32) return kInvalidContext;
  stack.items[stack.depth++] = context;
  return kSuccess;
}

}  // namespace

Context MakeContext(Device device, unsigned flags, bool is_primary, Return* error) {
  *error = TakeMemory(device, driver.context_bytes, true);
  if (*error != kSuccess) return nullptr;
  auto* context = New<OpaqueContext>();
  context->device = device;
  context->flags = flags;
  context->api_version = 3020;
  context->is_primary = is_primary;
  context->id = ++driver.next_id;
  context->residual = driver.context_bytes;
  context->legacy = NewStream(context, 0, 0);
  context->limits[0] = 1024;     // Stack.
  context->limits[1] = 1 << 20;  // printf.
  context->limits[2] = 8 << 20;  // Heap.
  *error = StartContextThread(context);
  if (*error != kSuccess) {
    GiveMemory(device, context->residual, true);
    free(context->legacy);
    context->streams.Free();
    free(context);
    return nullptr;
  }
  driver.contexts.Add(context);
  return context;
}

void EndContext(Context context) {
  // Drops the remaining commands.
  context->sticky = context->sticky == kSuccess ? kContextIsDestroyed : context->sticky;
  StopContextThread(context);
  while (context->modules.count != 0) UnloadModule(context->modules[0]);
  for (size_t i = driver.ranges.count; i-- > 0;) {
    Range* range = driver.ranges[i];
    if (range->context != context) continue;
    // Reservations, mappings, pools and graph memory outlive a context.
    if (range->kind == kReserved || range->kind == kMapped || range->kind == kPooled || range->kind == kOfGraph) {
      range->context = nullptr;
      continue;
    }
    RemoveRange(range);
  }
  for (Stream stream : context->streams) free(stream);
  context->streams.Free();
  GiveMemory(context->device, context->residual, true);
  driver.contexts.Remove(context);
  for (Context& primary : driver.primary) {
    if (primary == context) primary = nullptr;
  }
  context->modules.Free();
  context->peers.Free();
  free(context);
}

Return cuDevicePrimaryCtxRetain(Context* context, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (context == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  if (driver.primary[device] == nullptr) {
    Return error = kSuccess;
    driver.primary[device] = MakeContext(device, driver.primary_flags[device], true, &error);
    if (error != kSuccess) return error;
  }
  ++driver.primary_users[device];
  *context = driver.primary[device];
  return kSuccess;
}

Return cuDevicePrimaryCtxRelease_v2(Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (driver.primary_users[device] == 0) return kInvalidContext;
  if (--driver.primary_users[device] == 0 && driver.primary[device] != nullptr) EndContext(driver.primary[device]);
  return kSuccess;
}
Return cuDevicePrimaryCtxRelease(Device device) { return cuDevicePrimaryCtxRelease_v2(device); }

Return cuDevicePrimaryCtxReset_v2(Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (driver.primary[device] != nullptr) EndContext(driver.primary[device]);
  driver.primary_users[device] = 0;
  return kSuccess;
}
Return cuDevicePrimaryCtxReset(Device device) { return cuDevicePrimaryCtxReset_v2(device); }

Return cuDevicePrimaryCtxSetFlags_v2(Device device, unsigned flags) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  driver.primary_flags[device] = flags;
  return kSuccess;
}
Return cuDevicePrimaryCtxSetFlags(Device device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

Return cuDevicePrimaryCtxGetState(Device device, unsigned* flags, int* is_active) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!IsDevice(device)) return kInvalidDevice;
  if (flags != nullptr) *flags = driver.primary_flags[device];
  if (is_active != nullptr) *is_active = driver.primary[device] != nullptr ? 1 : 0;
  return kSuccess;
}

Return cuCtxCreate_v2(Context* context, unsigned flags, Device device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (context == nullptr) return kInvalidValue;
  if (!IsDevice(device)) return kInvalidDevice;
  Return error = kSuccess;
  *context = MakeContext(device, flags, false, &error);
  return error != kSuccess ? error : Push(*context);
}
Return cuCtxCreate(Context* context, unsigned flags, Device device) { return cuCtxCreate_v2(context, flags, device); }
Return cuCtxCreate_v3(Context* context, ExecAffinity*, int, unsigned flags, Device device) {
  return cuCtxCreate_v2(context, flags, device);
}
Return cuCtxCreate_v4(Context* context, ContextOptions*, unsigned flags, Device device) {
  return cuCtxCreate_v2(context, flags, device);
}

Return cuCtxDestroy_v2(Context context) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!Exists(context) || context->is_primary) return kInvalidContext;
  WaitForContext(context);
  ContextStack& stack = current_contexts;
  if (stack.depth != 0 && stack.items[stack.depth - 1] == context) --stack.depth;
  EndContext(context);
  return kSuccess;
}
Return cuCtxDestroy(Context context) { return cuCtxDestroy_v2(context); }
Return cuCtxDetach(Context context) { return cuCtxDestroy_v2(context); }
Return cuCtxAttach(Context* context, unsigned) { return cuCtxGetCurrent(context); }

Return cuCtxPushCurrent_v2(Context context) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  return Exists(context) ? Push(context) : kInvalidContext;
}
Return cuCtxPushCurrent(Context context) { return cuCtxPushCurrent_v2(context); }

Return cuCtxPopCurrent_v2(Context* context) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  ContextStack& stack = current_contexts;
  if (stack.depth == 0) return kInvalidContext;
  --stack.depth;
  if (context != nullptr) *context = stack.items[stack.depth];
  return kSuccess;
}
Return cuCtxPopCurrent(Context* context) { return cuCtxPopCurrent_v2(context); }

Return cuCtxSetCurrent(Context context) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  ContextStack& stack = current_contexts;
  if (context != nullptr && !Exists(context)) return kInvalidContext;
  if (stack.depth == 0) return context == nullptr ? kSuccess : Push(context);
  if (context == nullptr) {
    --stack.depth;
  } else {
    stack.items[stack.depth - 1] = context;
  }
  return kSuccess;
}

Return cuCtxGetCurrent(Context* context) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (context == nullptr) return kInvalidValue;
  *context = CurrentContext();
  return kSuccess;
}

Return cuCtxGetDevice(Device* device) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (device == nullptr) return kInvalidValue;
  const Context context = CurrentContext();
  if (context == nullptr) return kInvalidContext;
  *device = context->device;
  return kSuccess;
}

Return cuCtxGetDevice_v2(Device* device, Context context) {
  if (context == nullptr) return cuCtxGetDevice(device);
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (device == nullptr || !Exists(context)) return kInvalidValue;
  *device = context->device;
  return kSuccess;
}

Return cuCtxGetFlags(unsigned* flags) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (flags == nullptr) return kInvalidValue;
  *flags = call.context->flags;
  return kSuccess;
}

Return cuCtxSetFlags(unsigned flags) {
  Call call;
  if (call.error == kSuccess) call.context->flags = flags;
  return call.error;
}

// As in CUDA: waiting for a context during a capture fails and invalidates the capture.
static bool SpoilCaptures(Context context) {
  bool is_any = false;
  for (Stream stream : context->streams) {
    if (stream->capture == nullptr) continue;
    stream->is_capture_spoiled = is_any = true;
  }
  return is_any;
}

Return cuCtxSynchronize() {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (SpoilCaptures(call.context)) return kStreamCaptureUnsupported;
  WaitForContext(call.context);
  TrimPools(call.context->device);
  return call.context->sticky;
}

Return cuCtxSynchronize_v2(Context context) {
  if (context == nullptr) return cuCtxSynchronize();
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (!Exists(context)) return kInvalidContext;
  WaitForContext(context);
  TrimPools(context->device);
  return context->sticky;
}

Return cuCtxGetApiVersion(Context context, unsigned* version) {
  Call call(Call::kInitialized);
  if (call.error != kSuccess) return call.error;
  if (version == nullptr) return kInvalidValue;
  *version = context == nullptr ? 3020 : context->api_version;
  return kSuccess;
}

Return cuCtxGetId(Context context, unsigned long long* id) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (id == nullptr) return kInvalidValue;
  *id = context == nullptr ? call.context->id : context->id;
  return kSuccess;
}

Return cuCtxGetLimit(size_t* value, int limit) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (value == nullptr || limit < 0 || limit >= 16) return kInvalidValue;
  *value = call.context->limits[limit];
  return kSuccess;
}

Return cuCtxSetLimit(int limit, size_t value) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (limit < 0 || limit >= 16) return kInvalidValue;
  call.context->limits[limit] = value;
  return kSuccess;
}

Return cuCtxGetCacheConfig(int* config) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (config == nullptr) return kInvalidValue;
  *config = 0;
  return kSuccess;
}
Return cuCtxSetCacheConfig(int) {
  Call call;
  return call.error;
}

Return cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return kSuccess;
}

Return cuCtxResetPersistingL2Cache() {
  Call call;
  return call.error;
}

Return cuCtxEnablePeerAccess(Context peer, unsigned) {
  Call call;
  if (call.error != kSuccess) return call.error;
  if (!Exists(peer) || peer->device == call.context->device) return kInvalidContext;
  for (Context other : call.context->peers) {
    if (other == peer) return kPeerAccessAlreadyEnabled;
  }
  call.context->peers.Add(peer);
  return kSuccess;
}

Return cuCtxDisablePeerAccess(Context peer) {
  Call call;
  if (call.error != kSuccess) return call.error;
  return call.context->peers.Remove(peer) ? kSuccess : kPeerAccessNotEnabled;
}

}  // namespace divvy::cuda
