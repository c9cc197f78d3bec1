// What divvy-burn is told on its command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::burn {

struct Options {
  double gpu_seconds = 0;
  std::uint64_t vram = 0;  // Bytes.
  bool is_checked = false;
  bool is_dense = false;
  std::uint64_t kernel_ns = 5'000'000;
  int device = 0;
  std::uint64_t seed = 1;
  int steps = 0;          // Lines of progress.
  double idle_after = 0;  // GPU seconds; 0: never.
  double wake_after = 0;  // Seconds of the clock.
  bool prints_rate = false;
  std::string alloc_kind = "malloc";
  bool is_hog = false;
  double hold_seconds = -1;  // After all else; below 0: a hog holds until it is told to end, others not at all.
  std::uint64_t bench_launches = 0;
  std::uint64_t bench_copy = 0;  // Bytes.
  bool wants_help = false;
};

/// Refuses with one line that names the option and what it takes.
Result<Options> ReadOptions(const std::vector<std::string>& words);

std::string_view Usage();

}  // namespace divvy::burn
