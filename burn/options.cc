#include "options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/text.h"

namespace divvy::burn {
namespace {

constexpr std::array<std::string_view, 8> kKinds = {"malloc", "pitch",   "async", "pool",
                                                    "vmm",    "managed", "array", "graph"};

// Splits a number from the unit after it. Returns false if there is no number, or if it is negative.
bool Split(const std::string& text, double& number, std::string& unit) {
  char* end = nullptr;
  number = std::strtod(text.c_str(), &end);
  unit = end;
  return end != text.c_str() && std::isfinite(number) && number >= 0;
}

Result<std::uint64_t> Bytes(const std::string& option, const std::string& text) {
  double number = 0;
  std::string unit;
  if (Split(text, number, unit)) {
    if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
    if (unit.ends_with("B")) unit.pop_back();
    const std::array<std::string_view, 5> units = {"", "K", "M", "G", "T"};
    const auto* found = std::ranges::find(units, unit);
    if (found != units.end())
      return static_cast<std::uint64_t>(std::ldexp(number, 10 * static_cast<int>(found - units.begin())));
  }
  return InvalidArgument(option + " " + text + ": expected a memory size such as 4G or 512M");
}

Result<double> Seconds(const std::string& option, const std::string& text) {
  double number = 0;
  std::string unit;
  if (Split(text, number, unit)) {
    if (unit.empty() || unit == "s") return number;
    if (unit == "ms") return number * 1e-3;
    if (unit == "us") return number * 1e-6;
    if (unit == "ns") return number * 1e-9;
    if (unit == "m") return number * 60;
  }
  return InvalidArgument(option + " " + text + ": expected a duration such as 10, 5ms or 200us");
}

Result<std::uint64_t> Count(const std::string& option, const std::string& text) {
  const auto number = ParseInteger(text);
  if (number && *number >= 0) return static_cast<std::uint64_t>(*number);
  return InvalidArgument(option + " " + text + ": expected a whole number of at least 0");
}

Status CheckTogether(const Options& options) {
  if (options.kernel_ns == 0) return InvalidArgument("--kernel 0: expected a duration above 0, such as 5ms or 20us");
  if (std::ranges::find(kKinds, options.alloc_kind) == kKinds.end()) {
    return InvalidArgument("--alloc-kind " + options.alloc_kind +
                           ": expected malloc, pitch, async, pool, vmm, managed, array or graph");
  }
  if (options.is_checked && options.vram == 0) return InvalidArgument("--check needs memory to check: add --vram 4G");
  if (options.wake_after > 0 && options.idle_after == 0) {
    return InvalidArgument("--wake-after needs --idle-after");
  }
  if (options.gpu_seconds == 0 && options.vram == 0 && !options.is_hog && options.bench_launches == 0 &&
      options.bench_copy == 0) {
    return InvalidArgument("nothing to do: use --gpu-seconds, --vram, --hog, --bench launches N or --bench copy SIZE");
  }
  return {};
}

}  // namespace

std::string_view Usage() {
  return "usage: divvy-burn [options]: uses a GPU, and verifies its memory\n"
         "  --gpu-seconds S      GPU time to compute\n"
         "  --kernel 5ms         length of each kernel\n"
         "  --vram 4G            memory to use, in several allocations, each stamped\n"
         "  --check              check the stamps during the run and at its end\n"
         "  --dense              stamp every byte (default: 64 bytes of each 64 KiB)\n"
         "  --alloc-kind KIND    malloc (default), pitch, async, pool, vmm, managed, array or graph\n"
         "  --device 0           CUDA device ordinal\n"
         "  --seed N             seed of the stamps\n"
         "  --steps N            print a progress line N times\n"
         "  --print-rate         print GPU seconds per second, each second\n"
         "  --idle-after S       GPU time after which the program idles\n"
         "  --wake-after S       seconds to idle before it computes again\n"
         "  --hold S             seconds to keep the memory at the end\n"
         "  --hog                allocate until refused, print the amount and hold it\n"
         "  --bench launches N   print the mean time of an empty kernel launch, over N launches\n"
         "  --bench copy SIZE    print the copy speed to pinned host memory, back, and to new memory\n"
         "Exit codes: 0 success, 1 corrupt memory, 2 CUDA error, 64 wrong options. SIGTERM ends the program cleanly.\n";
}

Result<Options> ReadOptions(const std::vector<std::string>& words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    std::string value;
    const std::size_t equals = name.find('=');
    const bool has_value = equals != std::string::npos;
    if (has_value) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (name == "--check" || name == "--dense" || name == "--hog" || name == "--print-rate" || name == "--help") {
      if (has_value) return InvalidArgument(name + " takes no value");
      if (name == "--check") options.is_checked = true;
      if (name == "--dense") options.is_dense = true;
      if (name == "--hog") options.is_hog = true;
      if (name == "--print-rate") options.prints_rate = true;
      if (name == "--help") options.wants_help = true;
      continue;
    }
    if (!has_value) {
      if (i + 1 == words.size()) return InvalidArgument(name + " needs a value; see divvy-burn --help");
      value = words[++i];
    }
    if (name == "--gpu-seconds") {
      DIVVY_TRY(options.gpu_seconds, Seconds(name, value));
    } else if (name == "--vram") {
      DIVVY_TRY(options.vram, Bytes(name, value));
    } else if (name == "--kernel") {
      DIVVY_TRY(const double seconds, Seconds(name, value));
      options.kernel_ns = static_cast<std::uint64_t>(std::llround(seconds * 1e9));
    } else if (name == "--device") {
      DIVVY_TRY(const std::uint64_t device, Count(name, value));
      options.device = static_cast<int>(device);
    } else if (name == "--seed") {
      DIVVY_TRY(options.seed, Count(name, value));
    } else if (name == "--steps") {
      DIVVY_TRY(const std::uint64_t steps, Count(name, value));
      options.steps = static_cast<int>(steps);
    } else if (name == "--idle-after") {
      DIVVY_TRY(options.idle_after, Seconds(name, value));
    } else if (name == "--wake-after") {
      DIVVY_TRY(options.wake_after, Seconds(name, value));
    } else if (name == "--hold") {
      DIVVY_TRY(options.hold_seconds, Seconds(name, value));
    } else if (name == "--alloc-kind") {
      options.alloc_kind = value;
    } else if (name == "--bench") {
      if ((value != "launches" && value != "copy") || i + 1 == words.size())
        return InvalidArgument("expected --bench launches 1000000, or --bench copy 1G");
      if (value == "launches") {
        DIVVY_TRY(options.bench_launches, Count("--bench launches", words[++i]));
      } else {
        DIVVY_TRY(options.bench_copy, Bytes("--bench copy", words[++i]));
      }
    } else {
      return InvalidArgument("\"" + name + "\" is not an option of divvy-burn; see divvy-burn --help");
    }
  }
  if (!options.wants_help) DIVVY_CHECK(CheckTogether(options));
  return options;
}

}  // namespace divvy::burn
