// MIG entry points: the mode, instances, and the devices that programs use.
#include <stdio.h>
#include <string.h>

#include "nvml_world.h"
#include "platform/emulation/emulation_mig.h"

using namespace divvy::nvml;       // NOLINT: the entry points are outside the namespace by their ABI.
using namespace divvy::emulation;  // NOLINT: same reason.

namespace {

constexpr int kAmpere = 80;

Device DeviceOf(InstanceSlot slot) { return static_cast<Device>(HandleOf(slot)); }

bool IsOn(const Look& look) { return look.state.is_mig_on != 0; }

// Checks the preconditions of all calls about a GPU's instances.
Return Check(const Look& look) {
  if (look.result != kSuccess) return look.result;
  return HasMig(*look.facts) && IsOn(look) ? kSuccess : kNotSupported;
}

// The MIG instance of a handle, if it exists. While this object lives, it holds the lock.
struct Held {
  explicit Held(const void* handle) : slot(OpenWorld() == nullptr ? InstanceSlot() : Find(handle)) {
    if (slot.gpu == kMaxGpus) return;
    ReadState(OpenWorld()->gpus[slot.gpu], state);
    instance = &state.instances[slot.slot];
    if (instance->is_there != 0) result = kSuccess;
  }
  static InstanceSlot Find(const void* handle) { return handle == nullptr ? InstanceSlot() : SlotOf(handle); }

  Locked lock;
  InstanceSlot slot;
  Return result = OpenWorld() == nullptr ? kUninitialized : kInvalidArgument;
  WorldState state = {};
  WorldInstance* instance = nullptr;
};

// Creates a unique instance name from the GPU's name and a counter.
void NameInstance(char* out, size_t room, const char* gpu, unsigned long long number) {
  unsigned long long hash = 14695981039346656037ULL;
  for (const char* at = gpu; *at != '\0'; ++at) hash = (hash ^ static_cast<unsigned char>(*at)) * 1099511628211ULL;
  const unsigned long long other = (hash ^ number) * 0x9e3779b97f4a7c15ULL;
  snprintf(out, room, "MIG-%08llx-%04llx-5%03llx-8%03llx-%012llx", hash >> 32, hash >> 16 & 0xffff, hash & 0xfff,
           other >> 48 & 0xfff, other & 0xffffffffffffULL);
}

struct Making {
  const MigSize* size;
  unsigned start;
  const WorldFacts* facts;
  unsigned slot;
};

Return MakeInstance(WorldState& state, void* about) {
  auto& making = *static_cast<Making*>(about);
  if (!HasMigRoom(state, *making.size, making.start)) return kInsufficientResources;
  for (unsigned slot = 0; slot < kMaxInstances; ++slot) {
    WorldInstance& fresh = state.instances[slot];
    if (fresh.is_there != 0) continue;
    fresh = {};
    fresh.is_there = 1;
    fresh.id = making.size->first_id + making.start / making.size->size;
    fresh.profile = making.size->id;
    fresh.start = making.start;
    fresh.size = making.size->size;
    fresh.compute = making.size->compute;
    fresh.memory = MigMemory(making.facts->memory_total, fresh.size);
    NameInstance(fresh.uuid, sizeof(fresh.uuid), making.facts->uuid, ++state.instances_made);
    making.slot = slot;
    return kSuccess;
  }
  return kInsufficientResources;
}

// Writes the handles of the GPU's MIG instances with this profile to the caller's list.
template <typename Handle>
Return List(Handle* list, unsigned* count, unsigned gpu, const WorldState& state, unsigned profile_id) {
  unsigned found = 0;
  for (unsigned slot = 0; slot < kMaxInstances; ++slot) {
    if (state.instances[slot].is_there == 0 || state.instances[slot].profile != profile_id) continue;
    list[found++] = static_cast<Handle>(HandleOf({gpu, slot}));
  }
  *count = found;
  return kSuccess;
}

}  // namespace

Return nvmlDeviceGetMigMode(Device device, unsigned* current, unsigned* pending) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (current == nullptr || pending == nullptr) return kInvalidArgument;
  if (!HasMig(*look.facts)) return kNotSupported;
  *current = look.state.is_mig_on;
  *pending = look.state.is_mig_pending;
  return kSuccess;
}

Return nvmlDeviceSetMigMode(Device device, unsigned mode, Return* activation) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (activation == nullptr || mode > kMigOn) return kInvalidArgument;
  if (!HasMig(*look.facts)) return kNotSupported;
  for (const WorldInstance& one : look.state.instances) {
    if (one.is_there != 0 && mode == kMigOff) return kInUse;
  }
  const bool needs_reset = look.facts->compute_capability / 10 * 10 == kAmpere;
  *activation = mode == look.state.is_mig_on ? kSuccess
                : HasPrograms(look, nullptr) ? kInUse
                : needs_reset                ? kResetRequired
                                             : kSuccess;
  struct Wanted {
    unsigned mode;
    bool is_now;
  } wanted = {mode, *activation == kSuccess};
  return ChangeWorld(
      look.index,
      [](WorldState& state, void* about) {
        const auto& set = *static_cast<const Wanted*>(about);
        state.is_mig_pending = set.mode;
        if (set.is_now) state.is_mig_on = set.mode;
        return kSuccess;
      },
      &wanted);
}

Return nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* count) {
  Look look(device);
  if (look.result != kSuccess) return look.result;
  if (count == nullptr) return kInvalidArgument;
  *count = HasMig(*look.facts) ? kMaxInstances : 0U;
  return kSuccess;
}

Return nvmlDeviceGetGpuInstanceProfileInfo(Device device, unsigned slices, GpuInstanceProfile* profile) {
  Look look(device);
  if (const Return result = Check(look); result != kSuccess) return result;
  if (profile == nullptr) return kInvalidArgument;
  for (const MigSize& size : kMigSizes) {
    if (size.profile != slices) continue;
    const unsigned most = static_cast<unsigned>(__builtin_popcount(size.starts));
    *profile = {size.id,
                0,
                size.compute,
                most,
                size.compute * 16,
                size.compute,
                size.compute,
                0,
                0,
                0,
                MigMemory(look.facts->memory_total, size.size) >> 20};
    return kSuccess;
  }
  return kNotSupported;
}

Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device device, unsigned profile_id, SlicePlace* places,
                                                     unsigned* count) {
  Look look(device);
  if (const Return result = Check(look); result != kSuccess) return result;
  const MigSize* size = FindMigSize(profile_id);
  if (size == nullptr || count == nullptr) return kInvalidArgument;
  unsigned found = 0;
  for (unsigned start = 0; start < 8; ++start) {
    if (((size->starts >> start) & 1) == 0) continue;
    if (places != nullptr) places[found] = {start, size->size};
    ++found;
  }
  *count = found;
  return kSuccess;
}

Return nvmlDeviceCreateGpuInstanceWithPlacement(Device device, unsigned profile_id, const SlicePlace* place,
                                                GpuInstance* instance) {
  Look look(device);
  if (const Return result = Check(look); result != kSuccess) return result;
  const MigSize* size = FindMigSize(profile_id);
  if (size == nullptr || place == nullptr || instance == nullptr || place->size != size->size) return kInvalidArgument;
  Making making = {size, place->start, look.facts, 0};
  const Return made = ChangeWorld(look.index, MakeInstance, &making);
  if (made == kSuccess) *instance = static_cast<GpuInstance>(HandleOf({look.index, making.slot}));
  return made;
}

Return nvmlDeviceGetGpuInstances(Device device, unsigned profile_id, GpuInstance* instances, unsigned* count) {
  Look look(device);
  if (const Return result = Check(look); result != kSuccess) return result;
  if (instances == nullptr || count == nullptr || FindMigSize(profile_id) == nullptr) return kInvalidArgument;
  return List(instances, count, look.index, look.state, profile_id);
}

Return nvmlGpuInstanceGetInfo(GpuInstance instance, GpuInstanceInfo* info) {
  const Held held(instance);
  if (held.result != kSuccess) return held.result;
  if (info == nullptr) return kInvalidArgument;
  *info = {
      DeviceAt(held.slot.gpu), held.instance->id, held.instance->profile, {held.instance->start, held.instance->size}};
  return kSuccess;
}

Return nvmlGpuInstanceDestroy(GpuInstance instance) {
  Held held(instance);
  if (held.result != kSuccess) return held.result;
  if (held.instance->has_compute != 0) return kInUse;
  return ChangeWorld(
      held.slot.gpu,
      [](WorldState& state, void* about) {
        state.instances[*static_cast<const unsigned*>(about)] = {};
        return kSuccess;
      },
      &held.slot.slot);
}

Return nvmlGpuInstanceGetComputeInstanceProfileInfo(GpuInstance instance, unsigned slices, unsigned engines,
                                                    ComputeInstanceProfile* profile) {
  const Held held(instance);
  if (held.result != kSuccess) return held.result;
  if (profile == nullptr || engines != kSharedEngines) return kInvalidArgument;
  for (const MigSize& size : kMigSizes) {
    // Only a compute instance that covers the whole GPU instance is emulated.
    if (size.profile != slices || slices == kSlices1Wide || size.compute != held.instance->compute) continue;
    *profile = {slices, size.compute, 1, size.compute * 16, size.compute, size.compute, 0, 0, 0};
    return kSuccess;
  }
  return kNotSupported;
}

Return nvmlGpuInstanceCreateComputeInstance(GpuInstance instance, unsigned, ComputeInstance* made) {
  Held held(instance);
  if (held.result != kSuccess) return held.result;
  if (made == nullptr) return kInvalidArgument;
  if (held.instance->has_compute != 0) return kInsufficientResources;
  *made = static_cast<ComputeInstance>(HandleOf(held.slot));
  return ChangeWorld(
      held.slot.gpu,
      [](WorldState& state, void* about) {
        state.instances[*static_cast<const unsigned*>(about)].has_compute = 1;
        return kSuccess;
      },
      &held.slot.slot);
}

Return nvmlGpuInstanceGetComputeInstances(GpuInstance instance, unsigned profile_id, ComputeInstance* instances,
                                          unsigned* count) {
  const Held held(instance);
  if (held.result != kSuccess) return held.result;
  if (instances == nullptr || count == nullptr) return kInvalidArgument;
  const bool is_such = FindMigSize(held.instance->profile)->compute == (profile_id == 4 ? 7 : profile_id + 1);
  *count = held.instance->has_compute != 0 && is_such ? 1 : 0;
  if (*count == 1) instances[0] = static_cast<ComputeInstance>(HandleOf(held.slot));
  return kSuccess;
}

Return nvmlComputeInstanceGetInfo_v2(ComputeInstance instance, ComputeInstanceInfo* info) {
  const Held held(instance);
  if (held.result != kSuccess || held.instance->has_compute == 0) return kInvalidArgument;
  if (info == nullptr) return kInvalidArgument;
  *info = {DeviceAt(held.slot.gpu), static_cast<GpuInstance>(HandleOf(held.slot)), 0, 0, {0, held.instance->compute}};
  return kSuccess;
}

Return nvmlComputeInstanceDestroy(ComputeInstance instance) {
  InstanceSlot slot;
  {
    const Held held(instance);
    if (held.result != kSuccess || held.instance->has_compute == 0) return kInvalidArgument;
    slot = held.slot;
  }
  const Look look(DeviceOf(slot), true);
  if (look.result != kSuccess) return look.result;
  if (HasPrograms(look, look.instance)) return kInUse;
  return ChangeWorld(
      slot.gpu,
      [](WorldState& state, void* about) {
        state.instances[*static_cast<const unsigned*>(about)].has_compute = 0;
        return kSuccess;
      },
      &slot.slot);
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device device, unsigned index, Device* mig) {
  Look look(device);
  if (const Return result = Check(look); result != kSuccess) return result;
  if (mig == nullptr || index >= kMaxInstances) return kInvalidArgument;
  const WorldInstance& one = look.state.instances[index];
  if (one.is_there == 0 || one.has_compute == 0) return kNotFound;
  *mig = static_cast<Device>(HandleOf({look.index, index}));
  return kSuccess;
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device mig, Device* device) {
  const Look look(mig, true);
  if (look.result != kSuccess) return look.result;
  if (look.instance == nullptr || device == nullptr) return kInvalidArgument;
  *device = DeviceAt(look.index);
  return kSuccess;
}

Return nvmlDeviceIsMigDeviceHandle(Device device, unsigned* is_mig) {
  const Look look(device, true);
  if (look.result != kSuccess) return look.result;
  if (is_mig == nullptr) return kInvalidArgument;
  *is_mig = look.instance != nullptr ? 1U : 0U;
  return kSuccess;
}

Return nvmlDeviceGetGpuInstanceId(Device mig, unsigned* id) {
  const Look look(mig, true);
  if (look.result != kSuccess) return look.result;
  if (look.instance == nullptr || id == nullptr) return kInvalidArgument;
  *id = look.instance->id;
  return kSuccess;
}

Return nvmlDeviceGetComputeInstanceId(Device mig, unsigned* id) {
  const Look look(mig, true);
  if (look.result != kSuccess) return look.result;
  if (look.instance == nullptr || id == nullptr) return kInvalidArgument;
  *id = 0;
  return kSuccess;
}
