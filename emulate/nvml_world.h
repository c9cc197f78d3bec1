// What every entry point of the stand-in shares: the mapped world, one lock, and the checks a driver makes first.
#pragma once

#include <pthread.h>

#include "platform/emulation/emulation_cuda.h"
#include "platform/emulation/emulation_world.h"
#include "platform/gpu/nvml_api.h"

namespace divvy::emulation {

/// Null until nvmlInit_v2 has opened a world. Read under the lock only.
const World* OpenWorld();
/// What programs of the stand-in CUDA driver use; null while there is no file of it. As above.
const CudaFile* OpenCuda();
nvml::Return StartWorld();
/// A description that was written anew is what there is from now on; handles stay what they are. Requires: the lock.
void FollowWorld();
nvml::Return StopWorld();

/// Held by every entry point while it looks at the world, so that nvmlShutdown cannot unmap it underneath.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

/// One GPU behind a handle: its facts and a complete copy of its state. `result` is kSuccess, or what to return at
/// once: not initialised, no such device, or lost.
struct Look {
  /// `takes_instances`: a MIG device will do as well; then `instance` is it, and the rest its GPU's.
  explicit Look(nvml::Device device, bool takes_instances = false);

  Locked lock;
  nvml::Return result = nvml::kSuccess;
  unsigned index = 0;
  const WorldFacts* facts = nullptr;
  WorldState state;
  const WorldInstance* instance = nullptr;  // Of `state`.
};

/// Changes the state of a GPU, in all processes. kNoPermission where this process may not.
using ChangeState = nvml::Return (*)(WorldState& state, void* about);
nvml::Return ChangeWorld(unsigned gpu, ChangeState change, void* about);

/// What a handle stands for: a slot of a GPU's instances. The same slot is a GPU instance, its compute instance and the
/// MIG device of both.
struct InstanceSlot {
  unsigned gpu = kMaxGpus;
  unsigned slot = kMaxInstances;
};
InstanceSlot SlotOf(const void* handle);
void* HandleOf(InstanceSlot slot);

/// Percent of the last second in which programs of the stand-in CUDA driver kept the GPU busy, or what was said to be
/// its utilisation, where that is more.
unsigned BusyNow(const Look& look);

/// Programs are on the GPU, or in one of its instances.
bool HasPrograms(const Look& look, const WorldInstance* instance);

nvml::Device DeviceAt(unsigned index);
/// The index behind a handle, or kMaxGpus. Requires: the lock, and an open world.
unsigned IndexOf(nvml::Device device);
/// kInsufficientSize when `text` and its end do not fit.
nvml::Return CopyText(char* out, unsigned size, const char* text);
/// Domain, bus and device of 00000000:17:00.0, or of the same with a shorter domain; false for anything else.
bool ParsePci(const char* text, unsigned& domain, unsigned& bus, unsigned& device);
/// True while the process that was entered runs: same pid, same start, not a zombie.
bool IsAlive(const WorldProcess& process);

}  // namespace divvy::emulation
