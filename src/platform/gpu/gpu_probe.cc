// GpuProbe on top of a loaded NVML.
#include "platform/gpu/gpu_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "platform/gpu/gpu_health.h"
#include "platform/gpu/gpu_process.h"
#include "platform/gpu/mig.h"
#include "platform/gpu/nvml.h"
#include "platform/gpu/nvml_links.h"
#include "platform/gpu/slice_record.h"

namespace divvy {
namespace {

constexpr int kMaxEventsAtOnce = 256;  // So that a flood of errors from a GPU cannot block a check.

struct GpuUnderWatch {
  nvml::Device device = nullptr;
  bool has_events = false;
  // The GPU's health at the last check.
  unsigned long long xid = 0;  // The last XID that fences, until the GPU was reset.
  bool was_in_need = false;    // The driver has required a recovery since that XID.
  bool was_lost = false;
  // MIG facts, and changes not made by divvy that the last check saw. A change is reported only if two checks in a row
  // see it, because divvy may just be creating or destroying an instance.
  bool is_only_sliced = false;
  bool can_be_cut = false;
  std::string was_strange;
};

// Reads sysfs, for drivers whose NVML does not report the node. NVML writes 00000000:17:00.0, sysfs 0000:17:00.0 in
// lower case.
int NumaNodeFromSysfs(const std::string& pci) {
  if (pci.size() < 5) return -1;
  const std::string path = "/sys/bus/pci/devices/" + ToLower(pci.substr(4)) + "/numa_node";
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  char text[32];
  const ssize_t length = read(fd, text, sizeof(text));
  close(fd);
  if (length <= 0) return -1;
  return static_cast<int>(ParseInteger(Trim(std::string_view(text, static_cast<std::size_t>(length)))).value_or(-1));
}

class NvmlProbe : public GpuProbe {
 public:
  NvmlProbe(std::unique_ptr<NvmlLibrary> nvml, MigUse mig, std::string slices)
      : nvml_(std::move(nvml)), mig_(mig), slices_(std::move(slices)) {
    if (nvml_->create_events != nullptr && nvml_->create_events(&events_) != nvml::kSuccess) events_ = nullptr;
  }
  ~NvmlProbe() override {
    if (events_ != nullptr && nvml_->free_events != nullptr) nvml_->free_events(events_);
  }

  /// Fills gpus_ and registers for their events, so that no later XID is missed.
  Status FindDevices();
  Result<std::vector<GpuFacts>> Facts() override;
  std::vector<GpuObservation> Observe(GpuSet which, bool with_processes,
                                      const std::set<std::int64_t>& supervisors) override;
  void ForgetFaults(GpuSet which) override;
  std::string driver() const override;

 private:
  void Register(GpuUnderWatch& gpu);
  GpuFacts FactsOf(GpuIndex index) const;
  SliceRecord OwnSlices() const;
  void LearnSlices(GpuIndex index, const SliceRecord& record, GpuFacts& facts);
  std::string CutByOthers(GpuUnderWatch& gpu, const SliceRecord& record) const;
  int NumaNodeOf(nvml::Device device, const std::string& pci) const;
  void DrainEvents();
  void ReadLoad(nvml::Device device, GpuObservation& seen) const;
  void ReadHealth(GpuUnderWatch& gpu, GpuObservation& seen) const;
  std::optional<unsigned> RecoveryActionOf(nvml::Device device) const;
  bool HasRemapFailed(nvml::Device device) const;
  std::vector<GpuProcess> ProcessesOf(nvml::Device device, const std::set<std::int64_t>& supervisors);

  std::unique_ptr<NvmlLibrary> nvml_;
  MigUse mig_;
  std::string slices_;
  nvml::EventSet events_ = nullptr;
  std::vector<GpuUnderWatch> gpus_;  // By index.
  GpuProcessTable processes_;
  bool has_looked_ = false;
};

Status NvmlProbe::FindDevices() {
  unsigned count = 0;
  if (const nvml::Return result = nvml_->get_count(&count); result != nvml::kSuccess) {
    return Unreachable("NVML does not report the number of GPUs (error " + std::to_string(static_cast<int>(result)) +
                       "): check that nvidia-smi works");
  }
  gpus_.resize(std::min<std::size_t>(count, GpuSet::kCapacity));
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    GpuUnderWatch& gpu = gpus_[i];
    if (gpu.device != nullptr) continue;
    if (nvml_->get_handle(static_cast<unsigned>(i), &gpu.device) != nvml::kSuccess) gpu.device = nullptr;
    Register(gpu);
  }
  return {};
}

void NvmlProbe::Register(GpuUnderWatch& gpu) {
  if (gpu.device == nullptr || gpu.has_events || events_ == nullptr || nvml_->register_events == nullptr) return;
  gpu.has_events = nvml_->register_events(gpu.device, nvml::kEventXid, events_) == nvml::kSuccess;
}

Result<std::vector<GpuFacts>> NvmlProbe::Facts() {
  DIVVY_CHECK(FindDevices());
  const SliceRecord record = OwnSlices();
  std::vector<GpuFacts> facts;
  std::vector<nvml::Device> devices;
  std::vector<std::string> pci;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    facts.push_back(FactsOf(static_cast<GpuIndex>(i)));
    LearnSlices(static_cast<GpuIndex>(i), record, facts.back());
    devices.push_back(gpus_[i].device);
    pci.push_back(facts.back().pci_address);
  }
  auto links = ReadLinks(*nvml_, devices, pci);
  for (std::size_t i = 0; i < facts.size(); ++i) facts[i].links = std::move(links[i]);
  return facts;
}

GpuFacts NvmlProbe::FactsOf(GpuIndex index) const {
  GpuFacts facts;
  facts.index = index;
  nvml::Device device = gpus_[index].device;
  if (device == nullptr) return facts;
  std::array<char, nvml::kNameSize> text{};
  const auto size = static_cast<unsigned>(text.size());
  if (nvml_->get_name != nullptr && nvml_->get_name(device, text.data(), size) == nvml::kSuccess) {
    facts.model = text.data();
  }
  if (nvml_->get_uuid != nullptr && nvml_->get_uuid(device, text.data(), size) == nvml::kSuccess) {
    facts.uuid = text.data();
  }
  nvml::Memory memory{};
  if (nvml_->get_memory != nullptr && nvml_->get_memory(device, &memory) == nvml::kSuccess) {
    facts.memory_total = Bytes(static_cast<std::int64_t>(memory.total));
  }
  nvml::PciAddress pci{};
  if (nvml_->get_pci != nullptr && nvml_->get_pci(device, &pci) == nvml::kSuccess) facts.pci_address = pci.bus_id;
  facts.numa_node = NumaNodeOf(device, facts.pci_address);
  int major = 0;
  int minor = 0;
  if (nvml_->get_compute_capability != nullptr &&
      nvml_->get_compute_capability(device, &major, &minor) == nvml::kSuccess) {
    facts.compute_capability = 10 * major + minor;
  }
  unsigned current = 0;
  unsigned pending = 0;
  facts.is_mig_capable =
      nvml_->get_mig_mode != nullptr && nvml_->get_mig_mode(device, &current, &pending) == nvml::kSuccess;
  facts.is_mig_enabled = facts.is_mig_capable && current != 0;
  return facts;
}

// An unreadable record counts as empty: then all instances belong to others.
SliceRecord NvmlProbe::OwnSlices() const {
  auto record = slices_.empty() ? Result<SliceRecord>(SliceRecord()) : ReadSliceRecord(slices_);
  return record ? *std::move(record) : SliceRecord();
}

// If divvy did not switch MIG mode on, the mode of the GPU stays as it is.
void NvmlProbe::LearnSlices(GpuIndex index, const SliceRecord& record, GpuFacts& facts) {
  GpuUnderWatch& gpu = gpus_[index];
  const bool is_fixed = facts.is_mig_enabled && !record.HasSwitched(facts.uuid);
  if (facts.is_mig_capable && mig_ != MigUse::kOff && (facts.is_mig_enabled || mig_ == MigUse::kAuto))
    facts.slices = ReadSliceProfiles(*nvml_, gpu.device, facts);
  facts.is_only_sliced = is_fixed && !facts.slices.empty();
  gpu.can_be_cut = !facts.slices.empty();
  gpu.is_only_sliced = facts.is_only_sliced;
}

// Describes MIG changes that divvy did not make.
std::string NvmlProbe::CutByOthers(GpuUnderWatch& gpu, const SliceRecord& record) const {
  unsigned current = 0;
  unsigned pending = 0;
  if (nvml_->get_mig_mode == nullptr || nvml_->get_mig_mode(gpu.device, &current, &pending) != nvml::kSuccess)
    return "";
  const bool is_on = current == nvml::kMigOn;
  if (!is_on) return gpu.is_only_sliced ? "its MIG mode was switched off; restart divvy to use the whole GPU" : "";
  std::array<char, nvml::kUuidSize> uuid{};
  if (nvml_->get_uuid == nullptr ||
      nvml_->get_uuid(gpu.device, uuid.data(), static_cast<unsigned>(uuid.size())) != nvml::kSuccess)
    return "";
  if (!gpu.can_be_cut)
    return mig_ == MigUse::kOff
               ? "it is in MIG mode, and [gpus] mig = \"off\" excludes such GPUs"
               : "it is in MIG mode, but was not when divvy started, or divvy does not know its MIG instances";
  if (!gpu.is_only_sliced && !record.HasSwitched(uuid.data()))
    return "its MIG mode was switched on; restart divvy to use MIG instances on it";
  std::vector<std::string> others;
  for (const MigInstance& one : ReadMigInstances(*nvml_, gpu.device)) {
    if (record.Find(uuid.data(), one.start, one.size) == nullptr)
      others.push_back(std::to_string(one.compute) + "g at " + std::to_string(one.start));
  }
  return others.empty() ? "" : "it has MIG instances that divvy did not make: " + Join(others, ", ");
}

int NvmlProbe::NumaNodeOf(nvml::Device device, const std::string& pci) const {
  std::array<unsigned long, 16> nodes{};
  constexpr int kBits = 8 * sizeof(unsigned long);
  if (nvml_->get_memory_affinity != nullptr &&
      nvml_->get_memory_affinity(device, static_cast<unsigned>(nodes.size()), nodes.data(), nvml::kAffinityOfNode) ==
          nvml::kSuccess) {
    for (int node = 0; node < static_cast<int>(nodes.size()) * kBits; ++node) {
      if ((nodes[static_cast<std::size_t>(node / kBits)] >> (node % kBits) & 1) != 0) return node;
    }
  }
  return NumaNodeFromSysfs(pci);
}

std::vector<GpuObservation> NvmlProbe::Observe(GpuSet which, bool with_processes,
                                               const std::set<std::int64_t>& supervisors) {
  DrainEvents();
  const SliceRecord record = OwnSlices();
  std::vector<GpuObservation> out;
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (!which.Contains(static_cast<GpuIndex>(i))) continue;
    GpuUnderWatch& gpu = gpus_[i];
    if (gpu.device == nullptr && nvml_->get_handle(static_cast<unsigned>(i), &gpu.device) != nvml::kSuccess) {
      gpu.device = nullptr;
    }
    Register(gpu);
    GpuObservation seen;
    seen.index = static_cast<GpuIndex>(i);
    ReadHealth(gpu, seen);
    if (seen.is_present) {
      ReadLoad(gpu.device, seen);
      if (with_processes) seen.processes = ProcessesOf(gpu.device, supervisors);
      std::string strange = slices_.empty() ? "" : CutByOthers(gpu, record);
      if (strange == gpu.was_strange || !has_looked_) seen.cut_by_others = strange;
      gpu.was_strange = std::move(strange);
    } else {
      seen.utilisation_percent = -1;
    }
    out.push_back(std::move(seen));
  }
  if (with_processes) processes_.EndRound();
  has_looked_ = true;
  return out;
}

void NvmlProbe::DrainEvents() {
  if (events_ == nullptr || nvml_->wait_events == nullptr) return;
  nvml::Event event{};
  for (int i = 0; i < kMaxEventsAtOnce && nvml_->wait_events(events_, &event, 0) == nvml::kSuccess; ++i) {
    if ((event.type & nvml::kEventXid) == 0 || FencingXid(event.value).empty()) continue;
    const auto gpu = std::ranges::find(gpus_, event.device, &GpuUnderWatch::device);
    if (gpu == gpus_.end()) continue;
    gpu->xid = event.value;
    gpu->was_in_need = false;
  }
}

void NvmlProbe::ReadHealth(GpuUnderWatch& gpu, GpuObservation& seen) const {
  nvml::Memory memory{};
  nvml::Return result = nvml::kSuccess;
  if (gpu.device == nullptr) {
    result = nvml::kGpuIsLost;
  } else if (nvml_->get_memory != nullptr) {
    result = nvml_->get_memory(gpu.device, &memory);
  }
  if (result == nvml::kGpuIsLost) {
    gpu.was_lost = true;
    seen.is_present = false;
    seen.fault = gpu.xid != 0 ? XidText(gpu.xid) : "the driver has lost it";
    return;
  }
  seen.memory_used = Bytes(static_cast<std::int64_t>(memory.used));

  const std::optional<unsigned> action = RecoveryActionOf(gpu.device);
  const bool is_in_need = result == nvml::kResetRequired || action.value_or(nvml::kRecoverNothing) != 0;
  if (is_in_need) {
    gpu.was_in_need = true;
  } else if (gpu.was_in_need || gpu.was_lost) {
    // The GPU was reset: the driver no longer requires a recovery, or the lost GPU answers again.
    gpu.xid = 0;
    gpu.was_in_need = false;
  }
  gpu.was_lost = false;

  if (gpu.xid != 0) {
    seen.fault = XidText(gpu.xid);
  } else if (is_in_need) {
    switch (action.value_or(nvml::kRecoverGpuReset)) {
      case nvml::kRecoverNodeReboot:
        seen.fault = "the driver requires a reboot of the node";
        break;
      case nvml::kRecoverDrainPeers:
        seen.fault = "the driver requires an end of peer-to-peer traffic";
        break;
      default:
        seen.fault = "the driver requires a reset of the GPU";
        break;
    }
  } else if (HasRemapFailed(gpu.device)) {
    seen.fault = "memory row remapping failed: replace the GPU";
  }
}

std::optional<unsigned> NvmlProbe::RecoveryActionOf(nvml::Device device) const {
  if (nvml_->get_fields == nullptr) return std::nullopt;
  nvml::FieldValue field{};
  field.field = nvml::kFieldRecoveryAction;
  if (nvml_->get_fields(device, 1, &field) != nvml::kSuccess || field.result != nvml::kSuccess) return std::nullopt;
  return field.value.as_unsigned;
}

bool NvmlProbe::HasRemapFailed(nvml::Device device) const {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned is_pending = 0;
  unsigned has_failed = 0;
  return nvml_->get_remapped_rows != nullptr &&
         nvml_->get_remapped_rows(device, &correctable, &uncorrectable, &is_pending, &has_failed) == nvml::kSuccess &&
         has_failed != 0;
}

void NvmlProbe::ReadLoad(nvml::Device device, GpuObservation& seen) const {
  nvml::Utilisation use{};
  if (nvml_->get_utilisation != nullptr && nvml_->get_utilisation(device, &use) == nvml::kSuccess) {
    seen.utilisation_percent = static_cast<int>(use.gpu);
    seen.memory_utilisation_percent = static_cast<int>(use.memory);
  } else {
    seen.utilisation_percent = -1;  // GPUs in MIG mode do not report it.
  }
  unsigned number = 0;
  if (nvml_->get_temperature != nullptr &&
      nvml_->get_temperature(device, nvml::kTemperatureOfGpu, &number) == nvml::kSuccess) {
    seen.temperature_celsius = static_cast<int>(number);
  }
  if (nvml_->get_power != nullptr && nvml_->get_power(device, &number) == nvml::kSuccess) {
    seen.power_watts = static_cast<int>((number + 500) / 1000);
  }
}

// Retries with a larger list until all entries fit: processes come and go between two calls.
template <typename Entry, typename List>
void AppendProcesses(nvml::Device device, List list, bool is_graphics, std::map<std::int64_t, GpuProcess>& out) {
  if (list == nullptr) return;
  std::vector<Entry> entries(32);
  constexpr int kAttempts = 5;
  for (int i = 0; i < kAttempts; ++i) {
    auto count = static_cast<unsigned>(entries.size());
    const nvml::Return result = list(device, &count, entries.data());
    if (result == nvml::kInsufficientSize) {
      entries.resize(count + 32);
      continue;
    }
    if (result != nvml::kSuccess) return;
    for (unsigned j = 0; j < count; ++j) {
      const auto [at, is_new] = out.try_emplace(entries[j].pid);
      if (is_new) at->second.is_graphics = is_graphics;
      const bool is_known = entries[j].used_memory != nvml::kMemoryNotAvailable;
      const Bytes used(is_known ? static_cast<std::int64_t>(entries[j].used_memory) : 0);
      if constexpr (std::is_same_v<Entry, nvml::ProcessUse>) {
        if (entries[j].gpu_instance != nvml::kNoInstance)
          at->second.gpu_instance = static_cast<int>(entries[j].gpu_instance);
      }
      at->second.memory_used = std::max(at->second.memory_used, used);
    }
    return;
  }
}

std::vector<GpuProcess> NvmlProbe::ProcessesOf(nvml::Device device, const std::set<std::int64_t>& supervisors) {
  // Compute comes first: a process in both lists counts as compute.
  std::map<std::int64_t, GpuProcess> found;
  if (nvml_->list_compute != nullptr) {
    AppendProcesses<nvml::ProcessUse>(device, nvml_->list_compute, false, found);
  } else {
    AppendProcesses<nvml::ProcessUseV1>(device, nvml_->list_compute_v1, false, found);
  }
  AppendProcesses<nvml::ProcessUse>(device, nvml_->list_mps, false, found);
  if (nvml_->list_graphics != nullptr) {
    AppendProcesses<nvml::ProcessUse>(device, nvml_->list_graphics, true, found);
  } else {
    AppendProcesses<nvml::ProcessUseV1>(device, nvml_->list_graphics_v1, true, found);
  }
  std::vector<GpuProcess> out;
  for (const auto& [pid, use] : found) {
    GpuProcess process = processes_.Describe(pid, supervisors);
    process.memory_used = use.memory_used;
    process.is_graphics = use.is_graphics;
    process.gpu_instance = use.gpu_instance;
    out.push_back(std::move(process));
  }
  return out;
}

void NvmlProbe::ForgetFaults(GpuSet which) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    if (which.Contains(static_cast<GpuIndex>(i))) gpus_[i].xid = 0;
  }
}

std::string NvmlProbe::driver() const {
  std::array<char, nvml::kVersionSize> text{};
  if (nvml_->get_driver_version == nullptr ||
      nvml_->get_driver_version(text.data(), static_cast<unsigned>(text.size())) != nvml::kSuccess) {
    return "";
  }
  return text.data();
}

}  // namespace

Result<std::unique_ptr<GpuProbe>> OpenNvml(const std::string& library_path, const std::string& world_path, MigUse mig,
                                           const std::string& slices) {
  DIVVY_TRY(std::unique_ptr<NvmlLibrary> nvml, NvmlLibrary::Load(library_path, world_path));
  auto probe = std::make_unique<NvmlProbe>(std::move(nvml), mig, slices);
  DIVVY_CHECK(probe->FindDevices());
  return std::unique_ptr<GpuProbe>(std::move(probe));
}

}  // namespace divvy
