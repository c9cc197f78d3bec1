#include "platform/emulation/emulation.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "platform/emulation/emulation_cuda.h"
#include "platform/emulation/emulation_cuda_file.h"
#include "platform/emulation/emulation_draft.h"
#include "platform/emulation/emulation_mig.h"
#include "platform/gpu/gpu_health.h"
#include "platform/gpu/gpu_process.h"
#include "platform/gpu/nvml_api.h"
#include "platform/os/image_file.h"

// The embedded stand-in libraries (emulate/standin_images.S).
extern "C" const char divvy_nvml_image_begin[];
extern "C" const char divvy_nvml_image_end[];
extern "C" const char divvy_cuda_image_begin[];
extern "C" const char divvy_cuda_image_end[];

namespace divvy {
namespace {

using emulation::kMaxGpus;
using emulation::kMaxProcesses;
using emulation::World;
using emulation::WorldFacts;
using emulation::WorldGpu;
using emulation::WorldProcess;
using emulation::WorldState;

constexpr std::string_view kPurpose = "emulated GPUs";
constexpr int kMaxNvLinks = static_cast<int>(nvml::kMaxNvLinks);

std::string Reason() { return std::strerror(errno); }

template <std::size_t kSize>
void CopyText(char (&out)[kSize], std::string_view text) {
  const std::size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

int NvLinksOf(std::string_view link) {
  return link.starts_with("NV") ? static_cast<int>(ParseInteger(link.substr(2)).value_or(0)) : 0;
}

nvml::TopologyLevel LevelOf(const GpuFacts& a, const GpuFacts& b) {
  const std::string& link = a.links[b.index];
  if (link == "X") return nvml::kInternal;
  if (link == "PIX") return nvml::kSingleSwitch;
  if (link == "PXB") return nvml::kMultipleSwitches;
  if (link == "PHB") return nvml::kHostBridge;
  if (link == "NODE") return nvml::kNode;
  // For GPUs that NVLink connects, the description does not have their PCIe connection; it is derived from the NUMA
  // nodes.
  return link != "SYS" && a.numa_node == b.numa_node ? nvml::kNode : nvml::kSystem;
}

// No GPU has more than 18 NVLinks, so a group in which one would need more is connected by NVSwitches. domain[i] is the
// smallest index in GPU i's group.
void FillNvLinks(const std::vector<GpuFacts>& gpus, World& world) {
  std::vector<std::uint32_t> domain(gpus.size());
  std::iota(domain.begin(), domain.end(), 0);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      for (std::size_t j = 0; j < gpus.size(); ++j) {
        if (NvLinksOf(gpus[i].links[j]) == 0 || domain[j] >= domain[i]) continue;
        domain[i] = domain[j];
        has_changed = true;
      }
    }
  }
  std::vector<bool> is_switched(gpus.size(), false);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    int sum = 0;
    for (const std::string& link : gpus[i].links) sum += NvLinksOf(link);
    if (sum > kMaxNvLinks) is_switched[domain[i]] = true;
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    WorldFacts& facts = world.gpus[i].facts;
    facts.switch_domain = domain[i];
    for (std::size_t j = 0; j < gpus.size(); ++j) {
      const int count = NvLinksOf(gpus[i].links[j]);
      if (is_switched[domain[i]]) {
        facts.switch_links = std::max(facts.switch_links, static_cast<std::uint32_t>(count));
      } else {
        facts.nvlinks[j] = static_cast<std::uint8_t>(count);
      }
    }
  }
}

std::unique_ptr<World> MakeWorld(const std::vector<GpuFacts>& gpus) {
  auto world = std::make_unique<World>();
  world->magic = emulation::kWorldMagic;
  world->layout = emulation::kWorldLayout;
  world->gpu_count = static_cast<std::uint32_t>(gpus.size());
  world->cuda_version = 13000;
  CopyText(world->driver_version, "580.95.05");
  CopyText(world->nvml_version, "13.580.95.05");
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuFacts& gpu = gpus[i];
    WorldFacts& facts = world->gpus[i].facts;
    CopyText(facts.uuid, gpu.uuid);
    CopyText(facts.name, gpu.model);
    CopyText(facts.pci, gpu.pci_address);
    facts.memory_total = static_cast<std::uint64_t>(gpu.memory_total.count());
    facts.numa_node = gpu.numa_node;
    facts.compute_capability = gpu.compute_capability;
    facts.is_mig_capable = gpu.is_mig_capable ? 1 : 0;
    facts.is_mig_enabled = gpu.is_mig_enabled ? 1 : 0;
    for (std::size_t j = 0; j < gpus.size(); ++j) facts.levels[j] = static_cast<std::uint8_t>(LevelOf(gpu, gpus[j]));
    world->gpus[i].states[0].is_mig_on = world->gpus[i].states[0].is_mig_pending = facts.is_mig_enabled;
    world->gpus[i].states[0].temperature_celsius = 32;
    world->gpus[i].states[0].power_milliwatts = 70'000;
  }
  FillNvLinks(gpus, *world);
  return world;
}

bool ShowsTheSame(const World& a, const World& b) {
  if (std::memcmp(&a, &b, offsetof(World, gpus)) != 0) return false;
  for (std::uint32_t i = 0; i < a.gpu_count && i < kMaxGpus; ++i) {
    if (std::memcmp(&a.gpus[i].facts, &b.gpus[i].facts, sizeof(WorldFacts)) != 0) return false;
  }
  return true;
}

// Keeps the CUDA state as long as the GPUs are the same. Programs of all users write the file.
Status WriteCudaFile(const std::string& path, bool is_new) {
  const auto fresh = FreshCudaFile(is_new ? "" : ReadImage(path));
  return fresh ? ReplaceFile(path, *fresh, 0666, kPurpose) : Status{};
}

}  // namespace

std::string EmulatedWorldPath(const std::string& directory) { return directory + "/" + emulation::kWorldFile; }

Result<std::string> WriteEmulation(const std::vector<GpuFacts>& gpus, const std::string& directory) {
  DIVVY_CHECK(CheckGpuCount(gpus.size()));
  for (const GpuFacts& gpu : gpus) {
    if (gpu.links.size() != gpus.size()) return Internal("an emulated GPU has no row of links");
  }
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return FailedPrecondition("cannot make the folder " + directory + " (" + failed.message() + ")");

  const std::unique_ptr<World> world = MakeWorld(gpus);
  const std::string world_path = EmulatedWorldPath(directory);
  const std::string old_world = ReadImage(world_path);
  const auto old = std::make_unique<World>();
  if (old_world.size() == sizeof(World)) std::memcpy(static_cast<void*>(old.get()), old_world.data(), sizeof(World));
  const bool is_new = !ShowsTheSame(*world, *old);
  if (is_new) {
    DIVVY_CHECK(ReplaceFile(world_path, {reinterpret_cast<const char*>(world.get()), sizeof(World)}, 0644, kPurpose));
  }
  DIVVY_CHECK(WriteCudaFile(world_path + emulation::kCudaSuffix, is_new));
  const std::string library_path = directory + "/" + emulation::kLibraryFile;
  DIVVY_CHECK(WriteImage(library_path, divvy_nvml_image_begin, divvy_nvml_image_end, kPurpose));
  DIVVY_CHECK(WriteImage(directory + "/" + emulation::kCudaLibraryFile, divvy_cuda_image_begin, divvy_cuda_image_end,
                         kPurpose));
  return library_path;
}

std::vector<std::pair<std::string, std::string>> EmulationEnvironment(const std::string& directory,
                                                                      std::string_view library_path) {
  return {{"DIVVY_EMULATE", EmulatedWorldPath(directory)},
          {"LD_LIBRARY_PATH", library_path.empty() ? directory : directory + ":" + std::string(library_path)}};
}

Result<EmulatedWorld> EmulatedWorld::Open(const std::string& world_path) {
  const int fd = open(world_path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return NotFound("no emulated GPUs at " + world_path + " (" + Reason() +
                    "): start with divvy up --emulate 8xH100-80GB");
  }
  struct stat about {};
  void* mapped = MAP_FAILED;
  if (fstat(fd, &about) == 0 && about.st_size == static_cast<off_t>(sizeof(World))) {
    mapped = mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  EmulatedWorld world(fd, mapped == MAP_FAILED ? nullptr : static_cast<World*>(mapped), world_path);
  if (world.world_ == nullptr || world.world_->magic != emulation::kWorldMagic ||
      world.world_->layout != emulation::kWorldLayout || world.world_->gpu_count > kMaxGpus) {
    return CorruptData(world_path + " does not hold emulated GPUs of this version: remove it and start again");
  }
  return world;
}

EmulatedWorld::EmulatedWorld(EmulatedWorld&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), world_(std::exchange(other.world_, nullptr)), path_(std::move(other.path_)) {}

EmulatedWorld::~EmulatedWorld() {
  if (world_ != nullptr) munmap(world_, sizeof(World));
  if (fd_ >= 0) close(fd_);
}

Status EmulatedWorld::CheckIndex(GpuIndex gpu) const {
  if (gpu < world_->gpu_count) return {};
  return InvalidArgument("there is no emulated GPU " + std::to_string(gpu) + ": there are " +
                         std::to_string(world_->gpu_count) + ", from 0");
}

Status EmulatedWorld::Change(GpuIndex gpu, const std::function<Status(WorldState&)>& change) {
  DIVVY_CHECK(CheckIndex(gpu));
  while (flock(fd_, LOCK_EX) != 0) {
    if (errno != EINTR) return Internal("cannot lock " + path_ + " (" + Reason() + ")");
  }
  WorldState state{};
  emulation::ReadState(world_->gpus[gpu], state);
  const Status status = change(state);
  if (status) emulation::PublishState(world_->gpus[gpu], state);
  flock(fd_, LOCK_UN);
  return status;
}

Status EmulatedWorld::AddProcess(GpuIndex gpu, std::int64_t pid, Bytes memory, bool is_graphics) {
  const auto stat = ReadGpuProcessStat(pid);
  if (!stat) return NotFound("there is no process " + std::to_string(pid) + " to use GPU " + std::to_string(gpu));
  if (memory.count() < 0) return InvalidArgument("expected at least 0 bytes of memory");
  return Change(gpu, [&](WorldState& state) -> Status {
    // Drops processes that have ended, and an earlier entry of this one.
    auto* const begin = state.processes;
    auto* const end = std::remove_if(begin, begin + state.process_count, [&](const WorldProcess& process) {
      const auto its = ReadGpuProcessStat(process.pid);
      return process.pid == pid || !its || its->start_ticks != process.start_ticks;
    });
    const auto count = static_cast<std::uint32_t>(end - begin);
    if (count == kMaxProcesses) {
      return LimitExceeded("emulated GPU " + std::to_string(gpu) + " already has 64 processes, which is the limit");
    }
    state.processes[count] = {static_cast<std::uint64_t>(memory.count()), stat->start_ticks,
                              static_cast<std::uint32_t>(pid), is_graphics ? 1U : 0U};
    state.process_count = count + 1;
    return {};
  });
}

Status EmulatedWorld::RemoveProcess(GpuIndex gpu, std::int64_t pid) {
  return Change(gpu, [&](WorldState& state) -> Status {
    auto* const begin = state.processes;
    auto* const end = std::remove_if(begin, begin + state.process_count,
                                     [&](const WorldProcess& process) { return process.pid == pid; });
    const auto count = static_cast<std::uint32_t>(end - begin);
    if (count == state.process_count) {
      return NotFound("process " + std::to_string(pid) + " does not use emulated GPU " + std::to_string(gpu));
    }
    state.process_count = count;
    return {};
  });
}

Status EmulatedWorld::SetUtilisation(GpuIndex gpu, int percent, int memory_percent) {
  if (percent < 0 || percent > 100 || memory_percent < 0 || memory_percent > 100) {
    return InvalidArgument("expected a utilisation from 0 to 100 percent");
  }
  return Change(gpu, [&](WorldState& state) -> Status {
    state.utilisation_percent = static_cast<std::uint32_t>(percent);
    state.memory_utilisation_percent = static_cast<std::uint32_t>(memory_percent);
    state.power_milliwatts = 70'000U + 6'000U * static_cast<std::uint32_t>(percent);
    return {};
  });
}

Status EmulatedWorld::SetMemoryUsed(GpuIndex gpu, Bytes memory) {
  return Change(gpu, [&](WorldState& state) -> Status {
    const auto total = static_cast<std::int64_t>(world_->gpus[gpu].facts.memory_total);
    if (memory.count() < 0 || memory.count() > total) {
      return InvalidArgument("GPU " + std::to_string(gpu) + " has " + std::to_string(total >> 20) +
                             " MiB; it cannot use " + std::to_string(memory.count() >> 20) + " MiB");
    }
    state.other_memory = static_cast<std::uint64_t>(memory.count());
    return {};
  });
}

Status EmulatedWorld::SetTemperature(GpuIndex gpu, int celsius) {
  if (celsius < 0 || celsius > 200) return InvalidArgument("expected a temperature from 0 to 200 degrees Celsius");
  return Change(gpu, [&](WorldState& state) -> Status {
    state.temperature_celsius = static_cast<std::uint32_t>(celsius);
    return {};
  });
}

namespace {

void Raise(WorldState& state, unsigned code) {
  state.xids[state.xid_count % emulation::kMaxXids] = code;
  ++state.xid_count;
  if (code == 48 || code == 94 || code == 95) ++state.uncorrected_errors;
  if (code == 64) state.has_remap_failed = 1;
  if (FencingXid(code).empty() || state.recovery_action == nvml::kRecoverNodeReboot) return;
  state.recovery_action = NeedsReboot(code) ? nvml::kRecoverNodeReboot : nvml::kRecoverGpuReset;
}

}  // namespace

Status EmulatedWorld::RaiseXid(GpuIndex gpu, unsigned code) {
  if (code == 0 || code > 999) return InvalidArgument("expected an XID from 1 to 999");
  return Change(gpu, [&](WorldState& state) -> Status {
    Raise(state, code);
    return {};
  });
}

Status EmulatedWorld::Lose(GpuIndex gpu) {
  return Change(gpu, [](WorldState& state) -> Status {
    if (state.is_lost == 0) Raise(state, 79);
    state.is_lost = 1;
    return {};
  });
}

Status EmulatedWorld::Restore(GpuIndex gpu) {
  return Change(gpu, [](WorldState& state) -> Status {
    state.is_lost = 0;
    state.recovery_action = nvml::kRecoverNothing;
    state.has_remap_failed = 0;
    state.uncorrected_errors = 0;
    // A reset applies the pending MIG mode. If that changes the mode, all instances are gone.
    if (state.is_mig_on != state.is_mig_pending) std::ranges::fill(state.instances, emulation::WorldInstance{});
    state.is_mig_on = state.is_mig_pending;
    return {};
  });
}

Status EmulatedWorld::SetMig(GpuIndex gpu, bool is_on) {
  return Change(gpu, [&](WorldState& state) -> Status {
    if (!emulation::HasMig(world_->gpus[gpu].facts))
      return FailedPrecondition("emulated GPU " + std::to_string(gpu) + " does not support MIG");
    for (const emulation::WorldInstance& one : state.instances) {
      if (one.is_there != 0 && !is_on)
        return FailedPrecondition("emulated GPU " + std::to_string(gpu) +
                                  " has MIG instances; remove them first (unmake-slice)");
    }
    state.is_mig_on = state.is_mig_pending = is_on ? 1U : 0U;
    return {};
  });
}

Status EmulatedWorld::MakeSlice(GpuIndex gpu, int compute, int size, int start) {
  return Change(gpu, [&](WorldState& state) -> Status {
    const std::string where = "emulated GPU " + std::to_string(gpu);
    if (state.is_mig_on == 0) return FailedPrecondition(where + " is not in MIG mode");
    const auto* form = std::ranges::find_if(emulation::kMigSizes, [&](const emulation::MigSize& one) {
      return one.compute == static_cast<std::uint32_t>(compute) && one.size == static_cast<std::uint32_t>(size);
    });
    if (form == std::end(emulation::kMigSizes) || !emulation::HasMigRoom(state, *form, static_cast<unsigned>(start)))
      return LimitExceeded(where + " has no room for this instance there");
    auto* const slot = std::ranges::find(state.instances, 0U, &emulation::WorldInstance::is_there);
    *slot = {};
    slot->memory = emulation::MigMemory(world_->gpus[gpu].facts.memory_total, form->size);
    slot->is_there = slot->has_compute = 1;
    slot->id = form->first_id + static_cast<std::uint32_t>(start) / form->size;
    slot->profile = form->id;
    slot->start = static_cast<std::uint32_t>(start);
    slot->size = form->size;
    slot->compute = form->compute;
    const std::string uuid =
        "MIG-" + std::string(world_->gpus[gpu].facts.uuid + 4).substr(0, 32) + std::to_string(start);
    std::copy_n(uuid.c_str(), uuid.size() + 1, slot->uuid);
    return {};
  });
}

Status EmulatedWorld::UnmakeSlice(GpuIndex gpu, int start) {
  return Change(gpu, [&](WorldState& state) -> Status {
    for (emulation::WorldInstance& one : state.instances) {
      if (one.is_there == 0 || one.start != static_cast<std::uint32_t>(start)) continue;
      one = {};
      return {};
    }
    return NotFound("emulated GPU " + std::to_string(gpu) + " has no instance at " + std::to_string(start));
  });
}

}  // namespace divvy
