#include "samples/waste_flags.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>

namespace divvy::samples {
namespace {

/// Requested resources should exceed the observed use by this factor.
constexpr double kRoom = 1.25;
/// Usual GPU fractions.
constexpr std::array<double, 7> kParts = {0.05, 0.1, 0.125, 0.2, 0.25, 0.5, 0.75};

std::string Short(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

/// Returns std::nullopt if no fraction is large enough.
std::optional<double> PartFor(double least) {
  const auto* const part = std::ranges::find_if(kParts, [&](double one) { return one >= least - 1e-9; });
  return part == kParts.end() ? std::nullopt : std::optional(*part);
}

/// A job that uses less than this fraction of its fair share of the cores does not wait for more cores.
constexpr double kComputes = 0.5;

/// Rounds up to GiB.
std::string GibibytesUp(double bytes) {
  constexpr double kGibibyte = 1 << 30;
  return std::to_string(std::max<std::int64_t>(1, std::llround(std::ceil(bytes / kGibibyte)))) + "G";
}

}  // namespace

std::string PercentText(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", share * 100);
  return text;
}

std::string SpanText(Second seconds) {
  if (seconds < 120) return std::to_string(seconds) + " s";
  if (seconds < 7200) return std::to_string(seconds / 60) + " min";
  return std::to_string(seconds / 3600) + " h";
}

std::string GpusOf(const WasteShape& shape) {
  if (shape.part < 1) return shape.gpus == 1 ? "its GPU fraction" : "its GPU fractions";
  return shape.gpus == 1 ? "its GPU" : "its " + std::to_string(shape.gpus) + " GPUs";
}

std::string PartFlags(const WasteShape& shape, double use, double memory_peak) {
  if (!shape.may_share || shape.gpu_memory <= Bytes()) return "";
  const double whole = static_cast<double>(shape.gpu_memory.count());
  const double memory = memory_peak * kRoom / whole;
  const double compute = use * shape.part * kRoom;
  // A job that has fractions already keeps its number of GPUs.
  const std::string count = shape.gpus == 1 || shape.part < 1 ? "" : std::to_string(shape.gpus) + "x";
  const std::string size = GibibytesUp(memory_peak * kRoom);
  // A MIG instance's share of the GPU's time is about its share of the memory. So the memory is chosen large enough
  // that the time suffices, too.
  const std::string slice = shape.may_slice && shape.gpus == 1 && shape.part >= 1 && compute <= kGpusAreBusy
                                ? " or --slice '>=" + GibibytesUp(std::max(memory, compute) * whole) + "'"
                                : "";
  if (shape.is_by_memory) {
    if (memory >= shape.part) return "";
    const auto time = PartFor(compute);
    return "--gpu-memory " + size + (compute > memory && time ? " --compute " + Short(*time) : "");
  }
  const auto part = PartFor(std::max(memory, compute));
  if (part && *part < shape.part - 1e-9) return "--gpus " + count + Short(*part) + slice;
  return "";
}

std::string LessFlags(const WasteShape& shape, double use, double memory_peak) {
  if (shape.gpus == 1 || shape.part < 1) return PartFlags(shape, use, memory_peak);
  const int fewer = std::max(1, static_cast<int>(std::ceil(shape.gpus * use * kRoom)));
  return shape.is_on_one ? "--gpus " + std::to_string(fewer) : "";
}

std::string CoreFlags(const WasteShape& shape, double used) {
  const bool has_named = shape.cpus > 0;
  double wanted = has_named ? shape.cpus * 2 : std::max(std::ceil(used) * 2, std::floor(shape.cpus_fair));
  if (shape.cpus_most > 0) wanted = std::min(wanted, static_cast<double>(shape.cpus_most));
  // A job that already uses nearly all cores of its node gains nothing by requesting them.
  const bool is_more = has_named ? wanted > shape.cpus : used < kCoresAreBusy * wanted;
  return is_more ? "--cpus " + std::to_string(static_cast<int>(wanted)) : "";
}

bool IsBoundByMachine(const WasteShape& shape, double cores, std::optional<double> machine_cpus) {
  if (shape.cpus_most <= 0 || !machine_cpus || *machine_cpus < kCoresAreBusy) return false;
  return cores >= std::max(1.0, kComputes * shape.cpus_fair);
}

std::string CoresOfMachine(const WasteShape& shape) {
  return (shape.cpus_most == 1 ? "the core" : "all " + std::to_string(shape.cpus_most) + " cores") + " of its node";
}

std::string CoresText(double cores) {
  char text[32];
  std::snprintf(text, sizeof text, cores < 9.95 ? "%.1f" : "%.0f", cores);
  return text;
}

}  // namespace divvy::samples
