// Numbers of GPUs, including fractions, as text for sentences and tables.
#pragma once

#include <cstdio>
#include <string>

namespace divvy {

/// "2", "0.188", "1008": three digits, but all digits of whole GPUs.
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
