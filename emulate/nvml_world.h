// Shared by all entry points of the stand-in: the mapped world, its lock, and the checks that a driver makes first.
#pragma once

#include <pthread.h>

#include "platform/emulation/emulation_cuda.h"
#include "platform/emulation/emulation_world.h"
#include "platform/gpu/nvml_api.h"

namespace divvy::emulation {

/// Returns the description of the emulated GPUs; null until nvmlInit_v2 has opened it. The caller must hold the lock.
const World* OpenWorld();
/// Returns how programs use the emulated GPUs, from the file that the stand-in CUDA driver shares; null if the file
/// does not exist yet. The caller must hold the lock.
const CudaFile* OpenCuda();
nvml::Return StartWorld();
/// If the description of the emulated GPUs was replaced, reads the new one; handles stay valid. The caller must hold
/// the lock.
void FollowWorld();
nvml::Return StopWorld();

/// Held by every entry point while it reads the world, so that nvmlShutdown cannot unmap it meanwhile.
class Locked {
 public:
  Locked();
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

/// The GPU behind a handle: its facts and a complete copy of its state. `result` is kSuccess, or the error to return at
/// once: not initialised, no such device, or lost.
struct Look {
  /// Looks up the GPU of an NVML handle. `takes_instances`: also accept the handle of a MIG device. Then `instance` is
  /// set, and the other fields describe the GPU of that device.
  explicit Look(nvml::Device device, bool takes_instances = false);

  Locked lock;
  nvml::Return result = nvml::kSuccess;
  unsigned index = 0;
  const WorldFacts* facts = nullptr;
  WorldState state;
  const WorldInstance* instance = nullptr;  // Points into `state`.
};

/// Function that changes the state of an emulated GPU, for all processes. Returns kNoPermission if this process may not
/// change it.
using ChangeState = nvml::Return (*)(WorldState& state, void* about);
nvml::Return ChangeWorld(unsigned gpu, ChangeState change, void* about);

/// The meaning of a handle: a slot in a GPU's instances. One slot stands for a GPU instance, its compute instance and
/// the MIG device of both.
struct InstanceSlot {
  unsigned gpu = kMaxGpus;
  unsigned slot = kMaxInstances;
};
InstanceSlot SlotOf(const void* handle);
void* HandleOf(InstanceSlot slot);

/// Returns the GPU's utilisation in percent: the busy time caused by stand-in CUDA programs in the last second, or the
/// configured utilisation if that is higher.
unsigned BusyNow(const Look& look);

/// Returns true if programs run on the GPU, or in `instance` if it is given.
bool HasPrograms(const Look& look, const WorldInstance* instance);

nvml::Device DeviceAt(unsigned index);
/// Returns the index of the GPU with this handle, or kMaxGpus if there is none. The caller must hold the lock, and
/// OpenWorld is not null.
unsigned IndexOf(nvml::Device device);
/// Copies `text` to `out`, which has `size` bytes. Returns kInsufficientSize if it does not fit with its terminating
/// zero.
nvml::Return CopyText(char* out, unsigned size, const char* text);
/// Parses domain, bus and device from "00000000:17:00.0", also with a shorter domain. Returns false for other text.
bool ParsePci(const char* text, unsigned& domain, unsigned& bus, unsigned& device);
/// Returns true while the recorded process runs: same pid, same start time, not a zombie.
bool IsAlive(const WorldProcess& process);

}  // namespace divvy::emulation
