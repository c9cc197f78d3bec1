// The command-line options of divvy-burn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::burn {

struct Options {
  double gpu_seconds = 0;
  std::uint64_t vram = 0;  // In bytes.
  bool is_checked = false;
  bool is_dense = false;
  std::uint64_t kernel_ns = 5'000'000;
  int device = 0;
  std::uint64_t seed = 1;
  int steps = 0;          // Number of progress lines.
  double idle_after = 0;  // In GPU seconds; 0: never.
  double wake_after = 0;  // In wall-clock seconds.
  bool prints_rate = false;
  std::string alloc_kind = "malloc";
  bool is_hog = false;
  // Time to hold memory at the end. Negative: a hog holds until a signal, others do not hold.
  double hold_seconds = -1;
  std::uint64_t bench_launches = 0;
  std::uint64_t bench_copy = 0;  // In bytes.
  bool wants_help = false;
};

/// Parses the command-line options of divvy-burn. An error is one line that names the option and its valid values.
Result<Options> ReadOptions(const std::vector<std::string>& words);

std::string_view Usage();

}  // namespace divvy::burn
