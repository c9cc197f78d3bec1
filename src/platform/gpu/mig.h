// MIG on this machine's GPUs through NVML: the mode, and listing, creating and destroying instances. Every instance
// gets one compute instance that takes all of it. A call may block for seconds, so use a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "platform/gpu/nvml.h"

namespace divvy {

/// A MIG instance on a GPU, whoever created it.
struct MigInstance {
  unsigned id = 0;  // The id of the GPU instance.
  int compute = 0;
  int size = 0;
  int start = 0;
  std::string uuid;  // UUID of the MIG device; empty: the instance has no compute instance, or several.
  Bytes memory;
};

class Mig {
 public:
  virtual ~Mig() = default;

  /// Returns the UUID of the GPU with this index. kNotFound if there is no such GPU.
  virtual Result<std::string> UuidOf(GpuIndex gpu) = 0;
  virtual Result<bool> IsOn(GpuIndex gpu) = 0;
  /// Switches the MIG mode of a GPU on or off. Errors, with advice: kFailedPrecondition if programs use the GPU or it
  /// needs a reset; kPermissionDenied if this process is not root.
  virtual Status Switch(GpuIndex gpu, bool is_on) = 0;
  virtual Result<std::vector<MigInstance>> Instances(GpuIndex gpu) = 0;
  /// Creates an instance exactly at the position of `slice`. On failure nothing of it is left.
  virtual Result<MigInstance> Make(GpuIndex gpu, const GpuSlice& slice) = 0;
  /// Creates the compute instance of an instance that has none yet.
  virtual Result<MigInstance> Complete(GpuIndex gpu, unsigned id) = 0;
  /// Destroys an instance. kFailedPrecondition if a program still uses it. Succeeds if the instance does not exist any
  /// more.
  virtual Status Unmake(GpuIndex gpu, unsigned id) = 0;
  /// Returns the device files that a program needs besides its GPU's to use the instance, such as
  /// "/dev/nvidia-caps/nvidia-cap21". Empty if the driver does not list them.
  virtual std::vector<std::string> DeviceFiles(GpuIndex gpu, unsigned id) = 0;
};

/// Loads NVML, to list, create and destroy MIG instances. An empty `library_path` means the driver's own library.
/// kUnreachable if the library cannot be loaded or does not start.
Result<std::unique_ptr<Mig>> OpenMig(const std::string& library_path);

/// Returns all instances on a GPU in MIG mode.
std::vector<MigInstance> ReadMigInstances(const NvmlLibrary& nvml, nvml::Device device);
/// Returns the sizes into which a GPU can be divided, smallest first. They come from the driver or, if MIG mode is off
/// and the driver does not report them, from the vendor's tables for its model. Empty if divvy cannot place any of
/// them.
std::vector<SliceProfile> ReadSliceProfiles(const NvmlLibrary& nvml, nvml::Device device, const GpuFacts& facts);

}  // namespace divvy
