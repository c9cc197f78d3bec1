#include "platform/gpu/mig.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/text.h"
#include "model/gpus/slice_counts.h"

namespace divvy {
namespace {

/// Number of profile numbers (NVML_GPU_INSTANCE_PROFILE_*). Newer drivers have more profiles than divvy creates.
constexpr unsigned kMostProfiles = 0x20;
/// Maximum number of instances of one profile on a GPU.
constexpr unsigned kMostInstances = 16;

struct Known {
  unsigned number;
  int compute;
  int size;
};
constexpr std::array kKnown = {Known{nvml::kSlices1, 1, 1}, Known{nvml::kSlices1Wide, 1, 2},
                               Known{nvml::kSlices2, 2, 2}, Known{nvml::kSlices3, 3, 4},
                               Known{nvml::kSlices4, 4, 4}, Known{nvml::kSlices7, 7, 8}};

// True for GPUs with seven compute slices and eight memory slices; an A30 has four of each.
bool IsOfUsualForm(const std::string& model) {
  constexpr std::array<std::string_view, 10> kFamilies = {"A100", "A800",  "H100", "H800", "H200",
                                                          "H20",  "GH200", "B200", "B300", "GB200"};
  return std::ranges::any_of(kFamilies,
                             [&](std::string_view family) { return model.find(family) != std::string::npos; });
}

Bytes MebiBytes(unsigned long long count) { return Bytes(static_cast<std::int64_t>(count) << 20); }

std::string UuidOf(const NvmlLibrary& nvml, nvml::Device device) {
  std::array<char, nvml::kUuidSize> text{};
  const bool is_known = nvml.get_uuid(device, text.data(), static_cast<unsigned>(text.size())) == nvml::kSuccess;
  return is_known ? text.data() : "";
}

// Returns the only device of an instance; null if there are several or none.
nvml::Device DeviceOf(const NvmlLibrary& nvml, nvml::Device gpu, unsigned id) {
  nvml::Device found = nullptr;
  for (unsigned i = 0; i < kMostInstances; ++i) {
    nvml::Device device = nullptr;
    unsigned its = 0;
    if (nvml.get_mig_device(gpu, i, &device) != nvml::kSuccess) continue;
    if (nvml.get_slice_id(device, &its) != nvml::kSuccess || its != id) continue;
    if (found != nullptr) return nullptr;
    found = device;
  }
  return found;
}

/// Calls `found` with each instance on the GPU and its handle. The driver writes up to `profile.instances` entries for
/// a profile. Profiles with more entries than `list` can hold are skipped.
template <typename Found>
void ForEachInstance(const NvmlLibrary& nvml, nvml::Device device, const Found& found) {
  for (unsigned number = 0; number < kMostProfiles; ++number) {
    nvml::GpuInstanceProfile profile{};
    if (nvml.get_slice_profile(device, number, &profile) != nvml::kSuccess) continue;
    std::array<nvml::GpuInstance, kMostInstances> list{};
    unsigned count = 0;
    if (profile.instances > list.size() || nvml.list_slices(device, profile.id, list.data(), &count) != nvml::kSuccess)
      continue;
    for (unsigned i = 0; i < std::min(count, kMostInstances); ++i) {
      nvml::GpuInstanceInfo info{};
      if (nvml.get_slice(list[i], &info) != nvml::kSuccess) continue;
      MigInstance one;
      one.id = info.id;
      one.compute = static_cast<int>(profile.slices);
      one.size = static_cast<int>(info.place.size);
      one.start = static_cast<int>(info.place.start);
      one.memory = MebiBytes(profile.memory_mb);
      if (nvml::Device itself = DeviceOf(nvml, device, info.id)) one.uuid = UuidOf(nvml, itself);
      found(std::move(one), list[i]);
    }
  }
}

}  // namespace

std::vector<MigInstance> ReadMigInstances(const NvmlLibrary& nvml, nvml::Device device) {
  std::vector<MigInstance> found;
  if (!nvml.has_mig()) return found;
  ForEachInstance(nvml, device, [&](MigInstance one, nvml::GpuInstance) { found.push_back(std::move(one)); });
  return found;
}

std::vector<SliceProfile> ReadSliceProfiles(const NvmlLibrary& nvml, nvml::Device device, const GpuFacts& facts) {
  std::vector<SliceProfile> found;
  if (!nvml.has_mig() || facts.memory_total == Bytes()) return found;
  nvml::GpuInstanceProfile whole{};
  const bool tells = nvml.get_slice_profile(device, nvml::kSlices7, &whole) == nvml::kSuccess;
  if (!tells && (facts.is_mig_enabled || !IsOfUsualForm(facts.model))) return found;
  if (!tells) return UsualSlices(facts.memory_total);
  for (const Known& known : kKnown) {
    nvml::GpuInstanceProfile profile{};
    if (nvml.get_slice_profile(device, known.number, &profile) != nvml::kSuccess) continue;
    const Bytes memory = MebiBytes(profile.memory_mb);
    found.push_back({SliceName(known.compute, memory, facts.memory_total), known.compute, known.size, memory});
  }
  return found;
}

namespace {

class NvmlMig final : public Mig {
 public:
  explicit NvmlMig(std::unique_ptr<NvmlLibrary> nvml) : nvml_(std::move(nvml)) {}

  Result<std::string> UuidOf(GpuIndex gpu) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    return divvy::UuidOf(*nvml_, device);
  }

  Result<bool> IsOn(GpuIndex gpu) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    unsigned current = 0;
    unsigned pending = 0;
    DIVVY_CHECK(Check(nvml_->get_mig_mode(device, &current, &pending), "reading the MIG mode of", gpu));
    return current == nvml::kMigOn;
  }

  Status Switch(GpuIndex gpu, bool is_on) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    const std::string what = std::string("switching MIG mode ") + (is_on ? "on" : "off") + " of";
    const unsigned wanted = is_on ? nvml::kMigOn : nvml::kMigOff;
    nvml::Return activation = nvml::kSuccess;
    DIVVY_CHECK(Check(nvml_->set_mig_mode(device, wanted, &activation), what, gpu));
    if (activation == nvml::kSuccess) return {};
    // The mode could not be switched now. Sets the pending mode back, so that it does not take effect at a later reset
    // for another reason.
    nvml::Return ignored = nvml::kSuccess;
    nvml_->set_mig_mode(device, is_on ? nvml::kMigOff : nvml::kMigOn, &ignored);
    const std::string index = std::to_string(gpu);
    if (activation == nvml::kResetRequired) {
      return FailedPrecondition("GPU " + index + " changes its MIG mode only with a reset; run nvidia-smi -i " + index +
                                " -mig " + std::to_string(wanted) + " and nvidia-smi -i " + index +
                                " --gpu-reset while nothing uses the GPU, then restart divvy");
    }
    return Check(activation, what, gpu);
  }

  Result<std::vector<MigInstance>> Instances(GpuIndex gpu) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    return ReadMigInstances(*nvml_, device);
  }

  Result<MigInstance> Make(GpuIndex gpu, const GpuSlice& slice) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    const auto known = std::ranges::find_if(
        kKnown, [&](const Known& one) { return one.compute == slice.compute && one.size == slice.size; });
    if (known == kKnown.end()) return NotFound("there is no MIG profile " + slice.profile);
    nvml::GpuInstanceProfile profile{};
    DIVVY_CHECK(Check(nvml_->get_slice_profile(device, known->number, &profile),
                      "reading the MIG profile " + slice.profile + " of", gpu));
    const nvml::SlicePlace place{static_cast<unsigned>(slice.start), static_cast<unsigned>(slice.size)};
    nvml::GpuInstance made = nullptr;
    DIVVY_CHECK(Check(
        nvml_->make_slice(device, profile.id, &place, &made),
        "creating MIG instance " + slice.profile + " at memory slice " + std::to_string(slice.start) + " of", gpu));
    nvml::GpuInstanceInfo info{};
    Status status = Check(nvml_->get_slice(made, &info), "reading the new MIG instance of", gpu);
    if (status) {
      auto complete = Complete(gpu, info.id);
      if (complete) return complete;
      status = complete.error();
    }
    nvml_->unmake_slice(made);
    return status.error();
  }

  Result<MigInstance> Complete(GpuIndex gpu, unsigned id) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    const auto handle = HandleOf(device, id);
    if (handle.second == nullptr) return NotFound("GPU " + std::to_string(gpu) + " has no such MIG instance any more");
    const auto known = std::ranges::find(kKnown, static_cast<int>(handle.first.compute), &Known::compute);
    if (handle.first.uuid.empty()) {
      nvml::ComputeInstanceProfile profile{};
      const unsigned number = known == kKnown.end() ? nvml::kSlices1 : known->number;
      DIVVY_CHECK(Check(nvml_->get_compute_profile(handle.second, number, nvml::kSharedEngines, &profile),
                        "reading the compute instance profiles of", gpu));
      nvml::ComputeInstance made = nullptr;
      DIVVY_CHECK(Check(nvml_->make_compute(handle.second, profile.id, &made), "creating a compute instance on", gpu));
    }
    const auto complete = HandleOf(device, id).first;
    if (!complete.uuid.empty()) return complete;
    static_cast<void>(UnmakeCompute(handle.second, gpu));
    return Internal("the driver reports no device for the MIG instance that was created on GPU " + std::to_string(gpu));
  }

  Status Unmake(GpuIndex gpu, unsigned id) override {
    DIVVY_TRY(const nvml::Device device, Find(gpu));
    const auto handle = HandleOf(device, id);
    if (handle.second == nullptr) return {};
    DIVVY_CHECK(UnmakeCompute(handle.second, gpu));
    return Check(nvml_->unmake_slice(handle.second), "destroying a MIG instance of", gpu);
  }

  std::vector<std::string> DeviceFiles(GpuIndex gpu, unsigned id) override {
    const auto device = Find(gpu);
    unsigned minor = 0;
    if (!device || nvml_->get_minor == nullptr || nvml_->get_minor(*device, &minor) != nvml::kSuccess) return {};
    const std::string instance =
        "/proc/driver/nvidia/capabilities/gpu" + std::to_string(minor) + "/mig/gi" + std::to_string(id);
    std::vector<std::string> files;
    for (const std::string& access : {instance + "/access", instance + "/ci0/access"}) {
      if (auto file = CapabilityFile(access); !file.empty()) files.push_back(std::move(file));
    }
    return files;
  }

 private:
  Result<nvml::Device> Find(GpuIndex gpu) {
    nvml::Device device = nullptr;
    const nvml::Return found = nvml_->get_handle(gpu, &device);
    if (found == nvml::kInvalidArgument) return NotFound("there is no GPU " + std::to_string(gpu));
    DIVVY_CHECK(Check(found, "looking for", gpu));
    return device;
  }

  Status Check(nvml::Return result, const std::string& doing, GpuIndex gpu) const {
    if (result == nvml::kSuccess) return {};
    const std::string text = doing + " GPU " + std::to_string(gpu) + ": " + nvml_->Explain(result);
    if (result == nvml::kInUse) return FailedPrecondition(text);
    if (result == nvml::kNoPermission)
      return PermissionDenied(text + "; only root may change MIG instances: run divvy as the system service");
    return Internal(text);
  }

  std::pair<MigInstance, nvml::GpuInstance> HandleOf(nvml::Device device, unsigned id) const {
    std::pair<MigInstance, nvml::GpuInstance> found;
    ForEachInstance(*nvml_, device, [&](MigInstance one, nvml::GpuInstance handle) {
      if (one.id == id) found = {std::move(one), handle};
    });
    return found;
  }

  Status UnmakeCompute(nvml::GpuInstance instance, GpuIndex gpu) {
    for (unsigned number = 0; number < kMostProfiles; ++number) {
      nvml::ComputeInstanceProfile profile{};
      if (nvml_->get_compute_profile(instance, number, nvml::kSharedEngines, &profile) != nvml::kSuccess) continue;
      std::array<nvml::ComputeInstance, kMostInstances> list{};
      unsigned count = 0;
      if (profile.instances > list.size()) continue;
      if (nvml_->list_compute_instances(instance, profile.id, list.data(), &count) != nvml::kSuccess) continue;
      for (unsigned i = 0; i < std::min(count, kMostInstances); ++i)
        DIVVY_CHECK(Check(nvml_->unmake_compute(list[i]), "destroying a compute instance of", gpu));
    }
    return {};
  }

  // The line "DeviceFileMinor: 21" gives the file's minor number.
  static std::string CapabilityFile(const std::string& access) {
    std::ifstream file(access);
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view kMinor = "DeviceFileMinor:";
      if (!line.starts_with(kMinor)) continue;
      const auto minor = ParseInteger(Trim(std::string_view(line).substr(kMinor.size())));
      if (minor) return "/dev/nvidia-caps/nvidia-cap" + std::to_string(*minor);
    }
    return "";
  }

  std::unique_ptr<NvmlLibrary> nvml_;
};

}  // namespace

Result<std::unique_ptr<Mig>> OpenMig(const std::string& library_path) {
  DIVVY_TRY(auto nvml, NvmlLibrary::Load(library_path, ""));
  if (!nvml->has_mig()) return FailedPrecondition("the driver's NVML does not support MIG; it needs R460 or later");
  return std::unique_ptr<Mig>(std::make_unique<NvmlMig>(std::move(nvml)));
}

}  // namespace divvy
