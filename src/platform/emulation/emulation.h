// Emulated GPUs: a description becomes a folder with a stand-in for the driver's NVML library and the world file that
// the library shows. Everything above the library runs as it does on real GPUs. docs/emulation.md is the user's side.
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

/// Reads "8xH100-80GB", "4xA100-40GB,2xV100-16GB" or the text of a description file (docs/emulation.md). The same text
/// gives the same GPUs, UUIDs included. Refuses with one line that names the place and the nearest thing that is known.
Result<std::vector<GpuFacts>> ParseGpuDescription(std::string_view spec_or_text);

/// What follows --emulate: a specification, or the path of a description file (anything with a '/' or that exists).
Result<std::vector<GpuFacts>> LoadGpuDescription(const std::string& spec_or_path);

/// Puts the world file and the libraries (NVML and the CUDA driver) into `directory`, which is made if need be, each in
/// one step (rename), and returns the path of NVML's. A world that already shows exactly these GPUs is kept with all
/// that happened in it. Requires: links as ParseGpuDescription makes them; at most 64 GPUs.
Result<std::string> WriteEmulation(const std::vector<GpuFacts>& gpus, const std::string& directory);

/// The world file that WriteEmulation put into `directory`.
std::string EmulatedWorldPath(const std::string& directory);
/// The name of the stand-in for NVML there.
inline constexpr const char* kEmulatedNvml = "libnvidia-ml.so.1";

/// What a program needs in its environment to find the emulated GPUs of `directory`, by NVML and by CUDA: the names and
/// values to be set. `library_path`: what it has of LD_LIBRARY_PATH.
std::vector<std::pair<std::string, std::string>> EmulationEnvironment(const std::string& directory,
                                                                      std::string_view library_path);

/// The bytes of a new file for the stand-in CUDA drivers to share, or nothing when `old`, the bytes of the one there
/// is, can be kept: it is of this version and this boot.
std::optional<std::string> FreshCudaFile(std::string_view old);

/// What one process has of an emulated GPU, as the stand-in CUDA driver counts it.
struct EmulatedUse {
  GpuIndex gpu = 0;
  std::int64_t pid = 0;
  Bytes memory;              // Allocated.
  Bytes residual;            // Contexts, their code and globals.
  std::int64_t busy_ns = 0;  // GPU time that it ever used.
};

/// All that living processes have of the emulated GPUs of `directory`, by GPU, then by pid.
Result<std::vector<EmulatedUse>> ReadEmulatedUses(const std::string& directory);

/// Switches a fault of CUDA on or off, for all programs: "oom-at" (the n-th allocation from now on), "copy-rate" (bytes
/// each second), "sticky" (the next launch ends its context with this error), "refuse-checkpoint", "refuse-restore"
/// (1, or 0 for off), "none" (all off).
Status SetCudaFault(const std::string& directory, GpuIndex gpu, std::string_view fault, std::uint64_t value);

/// Changes what the stand-in library shows, in every process that uses it, at once. Several writers may be at work, in
/// several processes; one that is killed half-way leaves the world as it was. Not for two threads at the same time.
class EmulatedWorld {
 public:
  static Result<EmulatedWorld> Open(const std::string& world_path);
  EmulatedWorld(EmulatedWorld&& other) noexcept;
  EmulatedWorld& operator=(EmulatedWorld&&) = delete;
  ~EmulatedWorld();

  int gpu_count() const { return static_cast<int>(world_->gpu_count); }
  /// Refuses an index that names none of the GPUs.
  Status CheckIndex(GpuIndex gpu) const;

  /// The process `pid`, which must run, uses `memory` of the GPU until it ends. Again for the same pid: the new amount.
  Status AddProcess(GpuIndex gpu, std::int64_t pid, Bytes memory, bool is_graphics = false);
  Status RemoveProcess(GpuIndex gpu, std::int64_t pid);
  Status SetUtilisation(GpuIndex gpu, int percent, int memory_percent = 0);
  /// Memory in use besides that of the processes.
  Status SetMemoryUsed(GpuIndex gpu, Bytes memory);
  Status SetTemperature(GpuIndex gpu, int celsius);
  /// The driver reports an XID. One that fences also makes it ask for a reset, until Restore.
  Status RaiseXid(GpuIndex gpu, unsigned code);
  /// The GPU falls off the bus: XID 79, then no answer.
  Status Lose(GpuIndex gpu);
  /// As after a reset: present and well. Processes and load stay.
  Status Restore(GpuIndex gpu);
  /// Somebody else than divvy switches the MIG mode, makes an instance of so many compute and memory slices, or unmakes
  /// the one that begins there.
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

/// One change by words, for `divvy emulate ...`: "add-process 0 4711 10GiB graphics". Refuses with what was expected.
Status DriveEmulation(const std::string& directory, const std::vector<std::string>& words);

/// The words that DriveEmulation takes, one form a line.
std::string_view DriveEmulationUsage();

/// "80GB", "512MiB", "1024" (bytes). GB means GiB, as GPU memory is sold; nothing for anything else.
std::optional<Bytes> ParseEmulatedMemory(std::string_view text);

}  // namespace divvy
