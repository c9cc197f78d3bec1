// Emulated GPUs: a description becomes a folder with a stand-in for the driver's NVML library and the world file that
// the library shows. Everything above the library runs as it does on real GPUs. docs/emulation.md is the user's side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/gpu.h"
#include "platform/emulation_world.h"

namespace divvy {

/// Reads "8xH100-80GB", "4xA100-40GB,2xV100-16GB" or the text of a description file (docs/emulation.md). The same text
/// gives the same GPUs, UUIDs included. Refuses with one line that names the place and the nearest thing that is known.
Result<std::vector<GpuFacts>> ParseGpuDescription(std::string_view spec_or_text);

/// What follows --emulate: a specification, or the path of a description file (anything with a '/' or that exists).
Result<std::vector<GpuFacts>> LoadGpuDescription(const std::string& spec_or_path);

/// Puts the world file and the library into `directory`, which is made if need be, each in one step (rename), and
/// returns the path of the library. A world that already shows exactly these GPUs is kept with all that happened in it.
/// Requires: links as ParseGpuDescription makes them; at most 64 GPUs.
Result<std::string> WriteEmulation(const std::vector<GpuFacts>& gpus, const std::string& directory);

/// The world file that WriteEmulation put into `directory`.
std::string EmulatedWorldPath(const std::string& directory);

/// Changes what the stand-in library shows, in every process that uses it, at once. Several writers may be at work, in
/// several processes; one that is killed half-way leaves the world as it was. Not for two threads at the same time.
class EmulatedWorld {
 public:
  static Result<EmulatedWorld> Open(const std::string& world_path);
  EmulatedWorld(EmulatedWorld&& other) noexcept;
  EmulatedWorld& operator=(EmulatedWorld&&) = delete;
  ~EmulatedWorld();

  int gpu_count() const { return static_cast<int>(world_->gpu_count); }

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
