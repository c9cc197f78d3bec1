// Emulated GPUs: a description becomes a folder with a stand-in for the driver's NVML library and the world file that
// the library shows. Everything above the library runs as on real GPUs. docs/emulation.md describes it for users.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpus/gpu.h"
#include "platform/emulation/emulation_world.h"

namespace divvy {

/// Parses "8xH100-80GB", "4xA100-40GB,2xV100-16GB" or the text of a description file (docs/emulation.md). The same text
/// gives the same GPUs, UUIDs included. Errors are one line with the position and the nearest known name.
Result<std::vector<GpuFacts>> ParseGpuDescription(std::string_view spec_or_text);

/// Parses the value of --emulate: a specification, or the path of a description file. A value is a path if it has a '/'
/// or a file extension, or if the file exists.
Result<std::vector<GpuFacts>> LoadGpuDescription(const std::string& spec_or_path);

/// Writes the world file (the emulated GPUs and their state) and the stand-ins for NVML and the CUDA driver into
/// `directory` (created if needed), each atomically by rename. Returns the path of the NVML library. A world file that
/// already has exactly these GPUs is kept, with their state. Requires: links as ParseGpuDescription makes them; at most
/// 64 GPUs.
Result<std::string> WriteEmulation(const std::vector<GpuFacts>& gpus, const std::string& directory);

/// Returns the path of the world file that WriteEmulation wrote into `directory`.
std::string EmulatedWorldPath(const std::string& directory);
/// The name of the stand-in for NVML in that folder.
inline constexpr const char* kEmulatedNvml = "libnvidia-ml.so.1";

/// Returns the environment variables that a program needs to find the emulated GPUs of `directory` through NVML and
/// CUDA. `library_path`: the program's present LD_LIBRARY_PATH.
std::vector<std::pair<std::string, std::string>> EmulationEnvironment(const std::string& directory,
                                                                      std::string_view library_path);

/// Changes what the stand-in library shows, at once in every process that uses it. Several processes may write at the
/// same time; a writer that is killed midway leaves the world unchanged. Not thread-safe.
class EmulatedWorld {
 public:
  static Result<EmulatedWorld> Open(const std::string& world_path);
  EmulatedWorld(EmulatedWorld&& other) noexcept;
  EmulatedWorld& operator=(EmulatedWorld&&) = delete;
  ~EmulatedWorld();

  int gpu_count() const { return static_cast<int>(world_->gpu_count); }
  /// Returns an error if there is no GPU with this index.
  Status CheckIndex(GpuIndex gpu) const;

  /// Lets process `pid`, which must be running, use `memory` of the GPU until it ends. A second call for the same pid
  /// sets the new amount.
  Status AddProcess(GpuIndex gpu, std::int64_t pid, Bytes memory, bool is_graphics = false);
  Status RemoveProcess(GpuIndex gpu, std::int64_t pid);
  Status SetUtilisation(GpuIndex gpu, int percent, int memory_percent = 0);
  /// Sets the memory in use besides that of the processes.
  Status SetMemoryUsed(GpuIndex gpu, Bytes memory);
  Status SetTemperature(GpuIndex gpu, int celsius);
  /// Lets the emulated driver report an XID error. If it is one for which divvy fences a GPU, the driver also requires
  /// a reset, until Restore is called.
  Status RaiseXid(GpuIndex gpu, unsigned code);
  /// Lets the GPU fall off the bus: the driver reports XID 79, and then no longer answers for this GPU.
  Status Lose(GpuIndex gpu);
  /// Restores the state after a reset: present and healthy. Processes and load stay.
  Status Restore(GpuIndex gpu);
  /// SetMig, MakeSlice and UnmakeSlice simulate changes that are not made by divvy: switching the MIG mode, creating an
  /// instance with so many compute and memory slices, and destroying the instance that begins at memory slice `start`.
  Status SetMig(GpuIndex gpu, bool is_on);
  Status MakeSlice(GpuIndex gpu, int compute, int size, int start);
  Status UnmakeSlice(GpuIndex gpu, int start);

 private:
  EmulatedWorld(int fd, emulation::World* world, std::string path) : fd_(fd), world_(world), path_(std::move(path)) {}
  Status Change(GpuIndex gpu, const std::function<Status(emulation::WorldState&)>& change);

  int fd_;
  emulation::World* world_;
  std::string path_;
};

/// Makes one change to the emulated GPUs, given by the arguments of `divvy emulate`: "add-process 0 4711 10GiB
/// graphics". Error messages say what was expected.
Status DriveEmulation(const std::string& directory, const std::vector<std::string>& words);

/// Parses "80GB", "512MiB", "1024" (bytes). GB means GiB, as in the names of GPUs. Returns nullopt for anything else.
std::optional<Bytes> ParseEmulatedMemory(std::string_view text);

}  // namespace divvy
