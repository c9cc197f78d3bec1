// Matches the GPU models that a request names (Request::gpu_type): "h100", "A100-80GB" and "rtx 4090" match what NVML
// calls
// "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB" and "NVIDIA GeForce RTX 4090".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace divvy {

/// Returns whether `model` satisfies `type`: alternatives separated by '|', each made of terms joined by '&'. A term
/// matches part of the model's name; case, spaces, dashes and underscores are ignored. Numbers match whole numbers
/// only: "l4" does not match the L40, "a10" not the A100, "80gb" not 180GB. An empty type accepts every model. Speeds
/// ("h100*1.0") are ignored.
bool MatchesGpuType(std::string_view type, std::string_view model);

/// One alternative of a type, and the job's speed on it relative to the others.
struct WeightedType {
  std::string_view terms;  // "h100&80gb".
  int speed = 1000;        // In thousandths; 1000 if the type gives none.

  friend bool operator==(const WeightedType&, const WeightedType&) = default;
};

/// Returns true if an alternative of `type` has a speed, as in "h100*1.0".
bool SaysSpeeds(std::string_view type);

/// Returns the alternatives of `type` in order, as views into `type`; empty ones are skipped. An invalid speed counts
/// as 1.
std::vector<WeightedType> AlternativesOf(std::string_view type);

/// Parses a relative speed in thousandths, rounded: "0.55" is 550. Returns nullopt if `text` is not a number from 0.001
/// to 1000.
std::optional<int> SpeedInThousandths(std::string_view text);

}  // namespace divvy
