#include "engine/core/explain/explain_text.h"

#include <algorithm>

#include "base/text.h"

namespace divvy::core {
namespace {

// Formats `parts` / `whole` (a power of ten) without trailing zeros: "4", "0.4", "1.25".
std::string Decimal(std::int64_t parts, std::int64_t whole) {
  std::string text = std::to_string(parts / whole);
  const std::int64_t rest = parts % whole;
  if (rest == 0) return text;
  std::string digits = std::to_string(whole + rest).substr(1);
  while (digits.back() == '0') digits.pop_back();
  return text + "." + digits;
}

}  // namespace

std::string GpuNumber(std::int64_t gpu_parts) { return Decimal(gpu_parts, placement::kGpuParts); }

std::string GpuText(std::int64_t gpu_parts) {
  return GpuNumber(gpu_parts) + (gpu_parts == placement::kGpuParts ? " GPU" : " GPUs");
}

std::string CpusText(std::int64_t cpu_milli) {
  return Decimal(cpu_milli, 1000) + (cpu_milli == 1000 ? " CPU" : " CPUs");
}

std::string MibText(std::int64_t mib) { return BytesText(Bytes(mib << 20)); }

std::string GpusOf(const Shape& shape) {
  if (shape.gpus == 0) return "no GPU";
  if (shape.slice) return "a " + std::string(placement::MigProfileName(*shape.slice)) + " slice of a GPU";
  const std::string memory = shape.gpu_memory_mib == 0 ? "" : " with " + MibText(shape.gpu_memory_mib);
  if (shape.is_whole()) return Plural(shape.gpus, "GPU") + memory + (!memory.empty() && shape.gpus > 1 ? " each" : "");
  if (shape.gpus == 1) return GpuNumber(shape.parts) + " of a GPU" + memory;
  return std::to_string(shape.gpus) + " GPUs to " + GpuNumber(shape.parts) + memory + " each";
}

std::string GpusFlag(const Shape& shape) {
  if (shape.is_whole()) return std::to_string(shape.gpus);
  return (shape.gpus > 1 ? std::to_string(shape.gpus) + "x" : "") + GpuNumber(shape.parts);
}

std::string CpusFlag(std::int64_t cpu_milli) { return Decimal(cpu_milli, 1000); }

std::string MibFlag(std::int64_t mib) { return BytesFlag(Bytes(mib << 20)); }

std::string_view LocalityName(Locality level) {
  switch (level) {
    case Locality::kAnywhere:
      return "cluster";
    case Locality::kBlock:
      return "block";
    case Locality::kRack:
      return "rack";
    case Locality::kNode:
      break;
  }
  return "node";
}

std::string_view TopologyName(TopologyNeed need) {
  if (need == TopologyNeed::kAny) return "any";
  return need == TopologyNeed::kNuma ? "numa" : "nvlink";
}

// On a node that mixes classes of GPUs, a set of GPUs of two alternatives satisfies neither.
std::vector<Shape> MergedAlternatives(const TaskGroup& group, bool has_mixed_nodes) {
  std::vector<Shape> merged;
  for (Shape shape : group.alternatives) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const Shape& one) {
      Shape alike = one;
      alike.models = shape.models;
      return alike == shape;
    });
    const bool has_anti_affinity = has_mixed_nodes && shape.gpus > 1;
    if (same == merged.end() || has_anti_affinity) merged.push_back(shape);
    else same->models |= shape.models;
  }
  return merged;
}

std::string WhichText(const Names& names, const TaskGroup& group, const Shape& shape) {
  std::string text;
  if (names.filters && group.filters.size() == group.alternatives.size() && !group.filters.empty()) {
    std::vector<FilterIndex> filters;
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      Shape alike = group.alternatives[i];
      alike.models = shape.models;
      if (alike == shape && (group.alternatives[i].models & ~shape.models) == 0) filters.push_back(group.filters[i]);
    }
    text = names.filters(filters);
  } else if (shape.models != placement::kAnyModel && shape.gpus > 0) {
    text = names.models ? names.models(shape.models) : "of the requested type";
  }
  return text.empty() ? "" : " " + text;
}

}  // namespace divvy::core
