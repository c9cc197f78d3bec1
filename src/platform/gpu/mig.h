// MIG of this machine's GPUs by NVML: the mode, the instances there are, making and unmaking one. Every instance has
// one compute instance, which takes all of it. A call may block for seconds: for a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"

namespace divvy {

class NvmlLibrary;

/// What there is on a GPU, whoever made it.
struct MigInstance {
  unsigned id = 0;  // Of the GPU instance.
  int compute = 0;
  int size = 0;
  int start = 0;
  std::string uuid;  // Of the device that programs use; empty: it has no compute instance, or several.
  Bytes memory;
};

class Mig {
 public:
  virtual ~Mig() = default;

  /// By index. kNotFound: there is none.
  virtual Result<std::string> UuidOf(GpuIndex gpu) = 0;
  virtual Result<bool> IsOn(GpuIndex gpu) = 0;
  /// kFailedPrecondition with what helps: programs are on the GPU, it needs a reset, or root.
  virtual Status Switch(GpuIndex gpu, bool is_on) = 0;
  virtual Result<std::vector<MigInstance>> Instances(GpuIndex gpu) = 0;
  /// Just there. Nothing is left of it where this fails.
  virtual Result<MigInstance> Make(GpuIndex gpu, const GpuSlice& slice) = 0;
  /// Makes what is missing of one that has no compute instance yet.
  virtual Result<MigInstance> Complete(GpuIndex gpu, unsigned id) = 0;
  /// kFailedPrecondition: a program still is in it. Fine where it is gone already.
  virtual Status Unmake(GpuIndex gpu, unsigned id) = 0;
  /// What opens the instance to a program besides its GPU: "/dev/nvidia-caps/nvidia-cap21". None where the driver says
  /// nothing of it.
  virtual std::vector<std::string> DeviceFiles(GpuIndex gpu, unsigned id) = 0;
};

/// As OpenNvml.
Result<std::unique_ptr<Mig>> OpenMig(const std::string& library_path);

}  // namespace divvy
