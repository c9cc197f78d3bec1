// How many GPUs, parts of them included, as sentences and tables say it.
#pragma once

#include <cstdio>
#include <string>

namespace divvy {

/// "2", "0.188", "1008": three digits, and never fewer than whole GPUs have.
inline std::string GpuCountText(double gpus) {
  constexpr double kThreeDigits = 100;
  char text[32];
  std::snprintf(text, sizeof text, gpus < kThreeDigits ? "%.3g" : "%.0f", gpus);
  return text;
}

/// "4 GPUs", "1 GPU", "0.25 GPUs".
inline std::string CountedGpus(double gpus) {
  const std::string count = GpuCountText(gpus);
  return count + (count == "1" ? " GPU" : " GPUs");
}

}  // namespace divvy
