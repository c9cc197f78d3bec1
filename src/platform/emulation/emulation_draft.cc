#include "platform/emulation/emulation_draft.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>

#include "base/text.h"

namespace divvy {
namespace {

/// Returns the letters and digits in lower case, without the vendor's name: "NVIDIA H100-80GB" and "h100 80gb" are the
/// same.
std::string Normalised(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    if (std::isalnum(c)) out += static_cast<char>(std::tolower(c));
  }
  for (std::string_view maker : {"nvidia", "geforce", "tesla"}) {
    if (out.starts_with(maker)) out.erase(0, maker.size());
  }
  return out;
}

std::string NearestModel(std::string_view text) {
  std::vector<std::string> specs;
  for (const GpuModel& model : KnownGpuModels()) {
    specs.emplace_back(model.family);
    specs.push_back(model.Spec());
  }
  const std::vector<std::string_view> views(specs.begin(), specs.end());
  return std::string(Nearest(text, views));
}

// Removes "-80GB" from the end of a model's name and returns the number; 0 if there is none.
int TakeMemorySuffix(std::string_view& name) {
  const std::size_t dash = name.find_last_of("- ");
  if (dash == std::string_view::npos) return 0;
  std::string_view size = name.substr(dash + 1);
  for (std::string_view unit : {"gib", "gb", "g"}) {
    if (size.size() <= unit.size() || ToLower(size.substr(size.size() - unit.size())) != unit) continue;
    const auto gigabytes = ParseInteger(size.substr(0, size.size() - unit.size()));
    if (!gigabytes || *gigabytes <= 0 || *gigabytes > 100'000 || !std::isdigit(static_cast<unsigned char>(size[0]))) {
      return 0;
    }
    name = Trim(name.substr(0, dash));
    return static_cast<int>(*gigabytes);
  }
  return 0;
}

const GpuModel* FindKnown(std::string_view family, int gigabytes) {
  for (const GpuModel& model : KnownGpuModels()) {
    if (Normalised(model.family) == Normalised(family) && (gigabytes == 0 || model.gigabytes == gigabytes))
      return &model;
  }
  // "A100-SXM4", "H100-SXM5": the same model as without the socket.
  const std::string lower = ToLower(family);
  const std::size_t socket = lower.find("-sxm");
  return socket == std::string::npos ? nullptr : FindKnown(family.substr(0, socket), gigabytes);
}

bool IsModelName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == ' ';
  });
}

std::string MemorySizesOf(std::string_view family) {
  std::vector<std::string> specs;
  for (const GpuModel& model : KnownGpuModels()) {
    if (Normalised(model.family) == Normalised(family)) specs.push_back(model.Spec());
  }
  return Join(specs, " or ");
}

std::string UuidOf(std::size_t index, std::string_view model) {
  // FNV-1a, then the finaliser of splitmix64: the same description gives the same UUIDs on every machine.
  std::uint64_t seed = 0xCBF29CE484222325U;
  for (unsigned char c : std::string(model) + "#" + std::to_string(index)) seed = (seed ^ c) * 0x100000001B3U;
  auto next = [&seed] {
    std::uint64_t z = (seed += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  };
  const std::uint64_t high = next();
  const std::uint64_t low = next();
  char text[64];
  std::snprintf(text, sizeof(text), "GPU-%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16 & 0xFFFF), static_cast<unsigned>(high & 0xFFFF),
                static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFU));
  return text;
}

}  // namespace

Result<GpuDraft> DraftGpu(std::string_view model_text, std::optional<Bytes> given_memory) {
  std::string_view family = Trim(model_text);
  if (!IsModelName(family)) {
    return InvalidArgument("\"" + std::string(family) +
                           "\" is not a GPU model name: " + std::string(kDescriptionExample));
  }
  const std::string whole(family);
  const int gigabytes = TakeMemorySuffix(family);
  GpuDraft draft;
  draft.model = FindKnown(family, gigabytes);
  if (draft.model != nullptr) {
    draft.facts.model = draft.model->name;
    draft.facts.memory_total = draft.model->memory;
    draft.facts.compute_capability = draft.model->compute_capability;
    draft.facts.is_mig_capable = draft.model->is_mig_capable;
  } else if (FindKnown(family, 0) != nullptr && !given_memory) {
    return InvalidArgument(std::string(family) + " does not come with " + std::to_string(gigabytes) + " GB: use " +
                           MemorySizesOf(FindKnown(family, 0)->family) + ", or set the memory in a description file");
  } else if (gigabytes == 0 && !given_memory) {
    const std::string nearest = NearestModel(whole);
    return InvalidArgument("model \"" + whole + "\" is unknown and no memory size is given" +
                           (nearest.empty() ? ": add a size, such as " + whole + "-24GB" : DidYouMean(nearest)));
  } else {
    draft.facts.model = family.starts_with("NVIDIA") ? std::string(family) : "NVIDIA " + std::string(family);
    draft.facts.memory_total = Bytes(std::int64_t{gigabytes} << 30);
  }
  if (given_memory) draft.facts.memory_total = *given_memory;
  return draft;
}

Result<std::vector<GpuFacts>> FinishDrafts(const std::vector<GpuDraft>& drafts) {
  if (drafts.empty()) return InvalidArgument("the GPU description has no GPUs: " + std::string(kDescriptionExample));
  std::vector<GpuFacts> gpus;
  std::vector<const GpuModel*> models;
  for (const GpuDraft& draft : drafts) {
    gpus.push_back(draft.facts);
    gpus.back().index = static_cast<GpuIndex>(gpus.size() - 1);
    if (gpus.back().uuid.empty()) gpus.back().uuid = UuidOf(gpus.size() - 1, gpus.back().model);
    models.push_back(draft.model);
  }
  WireServer(gpus, models);
  for (const GpuFacts& a : gpus) {
    for (const GpuFacts& b : gpus) {
      if (a.index >= b.index) continue;
      const bool is_pci = EqualsIgnoringCase(a.pci_address, b.pci_address);
      if (!is_pci && a.uuid != b.uuid) continue;
      return InvalidArgument("GPUs " + std::to_string(a.index) + " and " + std::to_string(b.index) + " have the same " +
                             (is_pci ? "PCI address " + a.pci_address : "UUID " + a.uuid) + ": give each its own");
    }
  }
  return gpus;
}

Status CheckGpuCount(std::size_t count) {
  if (count <= GpuSet::kCapacity) return {};
  const std::string most = std::to_string(GpuSet::kCapacity);
  return InvalidArgument("the description has " + std::to_string(count) + " GPUs, but a node can have at most " + most +
                         ": use " + most + " or fewer, and add nodes for more (divvy agent --emulate)");
}

std::string DidYouMean(std::string_view nearest) {
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace divvy
