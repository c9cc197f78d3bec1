#include "cli/term/throttle_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace divvy::cli {
namespace {

struct Reason {
  std::uint64_t bit;
  std::string_view words;
  bool is_slowdown;
};
/// Keep in sync with web/src/lib/throttle.js.
constexpr Reason kReasons[] = {{0x2, "clocks that were set", false}, {0x4, "power cap", false},
                               {0x8, "hardware slowdown", true},     {0x10, "sync boost", false},
                               {0x20, "heat (driver)", true},        {0x40, "heat (hardware)", true},
                               {0x80, "power brake", true},          {0x100, "display clocks", false}};
constexpr std::uint64_t kIdle = 0x1;

std::string ThrottleWords(std::uint64_t bits, bool are_slowdowns) {
  std::string text;
  const auto add = [&text](std::string_view words) { text += (text.empty() ? "" : ", ") + std::string(words); };
  bits &= ~kIdle;
  for (const Reason& reason : kReasons) {
    if ((bits & reason.bit) != 0 && (reason.is_slowdown || !are_slowdowns)) add(reason.words);
    bits &= ~reason.bit;
  }
  if (bits != 0 && !are_slowdowns) add("an unknown reason");
  return text;
}

std::uint64_t BitsOf(double value) { return value > 0 ? static_cast<std::uint64_t>(std::llround(value)) : 0; }

}  // namespace

std::string ThrottleText(std::uint64_t bits) {
  const std::string text = ThrottleWords(bits, false);
  return text.empty() ? "none" : text;
}

std::string ThrottleShares(const std::vector<std::optional<double>>& values) {
  const auto seen = std::ranges::count_if(values, [](const auto& value) { return value.has_value(); });
  std::string text;
  for (const Reason& reason : kReasons) {
    const auto count =
        std::ranges::count_if(values, [&](const auto& value) { return value && (BitsOf(*value) & reason.bit) != 0; });
    if (count == 0) continue;
    const auto percent =
        std::max<std::int64_t>(1, std::llround(100.0 * static_cast<double>(count) / static_cast<double>(seen)));
    text += (text.empty() ? "" : ", ") + std::string(reason.words) + " in " + std::to_string(percent) + "%";
  }
  return text.empty() ? text : text + " of the samples";
}

std::string SlowdownText(std::uint64_t bits) {
  const std::string text = ThrottleWords(bits, true);
  return text.empty() ? text : "slowed by " + text;
}

Slowdowns SlowdownsOf(const wire::LatestAnswer& latest) {
  Slowdowns slowdowns;
  for (const wire::LatestGpu& seen : latest.gpus) {
    const auto bits = seen.values.find("gpu_throttle");
    if (bits == seen.values.end()) continue;
    if (std::string text = SlowdownText(BitsOf(bits->second)); !text.empty())
      slowdowns.emplace(std::pair(seen.node, seen.gpu), std::move(text));
  }
  return slowdowns;
}

void AddSlowdowns(const wire::LatestAnswer& latest, std::vector<wire::GpuView>& gpus) {
  const Slowdowns slowdowns = SlowdownsOf(latest);
  for (wire::GpuView& gpu : gpus) {
    if (const auto slowed = slowdowns.find({gpu.node, gpu.index}); slowed != slowdowns.end())
      gpu.reason += (gpu.reason.empty() ? "" : "; ") + slowed->second;
  }
}

}  // namespace divvy::cli
