// Which GPU models a request means (Request::gpu_type), so that "h100", "A100-80GB" and "rtx 4090" find what NVML calls
// "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB" and "NVIDIA GeForce RTX 4090".
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace divvy {

/// True when `model` satisfies `type`: alternatives separated by '|', terms joined by '&', each a part of the model's
/// name where case, spaces, dashes and underscores do not matter. A number is a whole number: "l4" is not the L40,
/// "a10" is not the A100, "80gb" is not 180GB. An empty type accepts every model. Speeds ("h100*1.0") do not matter.
bool MatchesGpuType(std::string_view type, std::string_view model);

/// One alternative of a type and how fast the job is on it, relative to the others.
struct WeightedType {
  std::string_view terms;  // "h100&80gb".
  int speed = 1000;        // In thousandths; 1000 where none is given.

  friend bool operator==(const WeightedType&, const WeightedType&) = default;
};

/// Some alternative of `type` has a speed.
bool SaysSpeeds(std::string_view type);

/// The alternatives of `type` in its order, without those that name nothing; views into `type`. A speed that is none
/// counts as 1.
std::vector<WeightedType> AlternativesOf(std::string_view type);

/// "0.55" is 550. Nothing for what is no number from 0.001 to 1000; digits behind the third are rounded.
std::optional<int> SpeedInThousandths(std::string_view text);

}  // namespace divvy
