// `divvy emulate ...`: changes of the emulated world by commands.
#include <algorithm>
#include <array>
#include <limits>

#include "base/text.h"
#include "platform/emulation/emulation.h"
#include "platform/emulation/emulation_cuda_file.h"

namespace divvy {
namespace {

using Words = std::vector<std::string>;

Result<std::int64_t> Number(const std::string& word, std::string_view what, std::int64_t most) {
  const auto number = ParseInteger(word);
  if (number && *number >= 0 && *number <= most) return *number;
  return InvalidArgument("\"" + word + "\" is not " + std::string(what) + ": expected a whole number from 0 to " +
                         std::to_string(most));
}

Result<Bytes> Size(const std::string& word) {
  if (const auto size = ParseEmulatedMemory(word)) return *size;
  return InvalidArgument("\"" + word + "\" is not a memory size: expected a size such as 10GiB or 512MiB");
}

Result<std::int64_t> Pid(const std::string& word) {
  return Number(word, "a process id", std::numeric_limits<std::int32_t>::max());
}

Status AddProcess(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t pid, Pid(words[2]));
  DIVVY_TRY(const Bytes memory, Size(words[3]));
  const bool is_graphics = words.size() > 4;
  if (is_graphics && words[4] != "graphics") {
    return InvalidArgument("add-process: \"" + words[4] +
                           "\" is not allowed after the memory: expected graphics (for a graphics process) or nothing");
  }
  return world.AddProcess(gpu, pid, memory, is_graphics);
}

Status RemoveProcess(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t pid, Pid(words[2]));
  return world.RemoveProcess(gpu, pid);
}

Status Utilisation(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t percent, Number(words[2], "a percentage", 100));
  std::int64_t memory_percent = 0;
  if (words.size() > 3) {
    DIVVY_TRY(memory_percent, Number(words[3], "a percentage", 100));
  }
  return world.SetUtilisation(gpu, static_cast<int>(percent), static_cast<int>(memory_percent));
}

Status Memory(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const Bytes memory, Size(words[2]));
  return world.SetMemoryUsed(gpu, memory);
}

Status Temperature(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t celsius, Number(words[2], "a temperature", 200));
  return world.SetTemperature(gpu, static_cast<int>(celsius));
}

Status Xid(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t code, Number(words[2], "an XID", 999));
  return world.RaiseXid(gpu, static_cast<unsigned>(code));
}

Status Lose(EmulatedWorld& world, GpuIndex gpu, const Words&) { return world.Lose(gpu); }
Status Restore(EmulatedWorld& world, GpuIndex gpu, const Words&) { return world.Restore(gpu); }

Status Mig(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  if (words[2] == "on" || words[2] == "off") return world.SetMig(gpu, words[2] == "on");
  return InvalidArgument("\"" + words[2] + "\" is not a MIG mode: expected on or off");
}

Status MakeSlice(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t compute, Number(words[2], "a number of compute slices", 7));
  DIVVY_TRY(const std::int64_t size, Number(words[3], "a number of memory slices", 8));
  DIVVY_TRY(const std::int64_t start, Number(words[4], "a memory slice", 7));
  return world.MakeSlice(gpu, static_cast<int>(compute), static_cast<int>(size), static_cast<int>(start));
}

Status UnmakeSlice(EmulatedWorld& world, GpuIndex gpu, const Words& words) {
  DIVVY_TRY(const std::int64_t start, Number(words[2], "a memory slice", 7));
  return world.UnmakeSlice(gpu, static_cast<int>(start));
}

// Writes a CUDA fault into the file next to the world file, where all programs that use the emulated CUDA driver see
// it.
Status CudaFault(const std::string& directory, GpuIndex gpu, const Words& words) {
  std::int64_t value = 1;
  if (words.size() > 3) {
    DIVVY_TRY(const Bytes number, Size(words[3]));
    value = number.count();
  }
  return SetCudaFault(directory, gpu, words[2], static_cast<std::uint64_t>(value));
}

struct Verb {
  std::string_view name;
  std::string_view arguments;
  std::size_t least;  // Number of words, the verb included.
  std::size_t most;
  Status (*run)(EmulatedWorld&, GpuIndex, const Words&);  // Null: use CudaFault.
};

constexpr std::array kVerbs = {
    Verb{"add-process", "GPU PID MEMORY [graphics]", 4, 5, AddProcess},
    Verb{"remove-process", "GPU PID", 3, 3, RemoveProcess},
    Verb{"utilisation", "GPU PERCENT [MEMORY_PERCENT]", 3, 4, Utilisation},
    Verb{"utilization", "GPU PERCENT [MEMORY_PERCENT]", 3, 4, Utilisation},
    Verb{"memory", "GPU SIZE", 3, 3, Memory},
    Verb{"temperature", "GPU CELSIUS", 3, 3, Temperature},
    Verb{"xid", "GPU CODE", 3, 3, Xid},
    Verb{"lose", "GPU", 2, 2, Lose},
    Verb{"restore", "GPU", 2, 2, Restore},
    Verb{"mig", "GPU on|off", 3, 3, Mig},
    Verb{"make-slice", "GPU COMPUTE-SLICES MEMORY-SLICES START", 5, 5, MakeSlice},
    Verb{"unmake-slice", "GPU START", 3, 3, UnmakeSlice},
    Verb{"cuda-fault", "GPU FAULT [VALUE]", 3, 4, nullptr},
};

}  // namespace

Status DriveEmulation(const std::string& directory, const std::vector<std::string>& words) {
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) names.push_back(verb.name);
  if (words.empty()) {
    return InvalidArgument(
        "divvy emulate needs an action: add-process, remove-process, utilisation, memory, temperature, "
        "xid, lose, restore, mig, make-slice, unmake-slice or cuda-fault");
  }
  const auto* verb = std::ranges::find(kVerbs, words[0], &Verb::name);
  if (verb == kVerbs.end()) {
    const std::string_view nearest = Nearest(words[0], names);
    return InvalidArgument("\"" + words[0] + "\" is not an action of divvy emulate" +
                           (nearest.empty()
                                ? ": expected add-process, remove-process, utilisation, memory, temperature, xid, "
                                  "lose, restore, mig, make-slice, unmake-slice or cuda-fault"
                                : "; did you mean " + std::string(nearest) + "?"));
  }
  if (words.size() < verb->least || words.size() > verb->most) {
    return InvalidArgument("usage: divvy emulate " + words[0] + " " + std::string(verb->arguments));
  }
  DIVVY_TRY(const std::int64_t gpu, Number(words[1], "the index of a GPU", GpuSet::kCapacity - 1));
  DIVVY_TRY(EmulatedWorld world, EmulatedWorld::Open(EmulatedWorldPath(directory)));
  DIVVY_CHECK(world.CheckIndex(static_cast<GpuIndex>(gpu)));
  if (verb->run == nullptr) return CudaFault(directory, static_cast<GpuIndex>(gpu), words);
  return verb->run(world, static_cast<GpuIndex>(gpu), words);
}

}  // namespace divvy
