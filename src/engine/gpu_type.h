// Which GPU models a request means (Request::gpu_type), so that "h100", "A100-80GB" and "rtx 4090" find what NVML calls
// "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB" and "NVIDIA GeForce RTX 4090".
#pragma once

#include <string_view>

namespace divvy {

/// True when `model` satisfies `type`: alternatives separated by '|', terms joined by '&', each a part of the model's
/// name where case, spaces, dashes and underscores do not matter. A number is a whole number: "l4" is not the L40,
/// "a10" is not the A100, "80gb" is not 180GB. An empty type accepts every model.
bool MatchesGpuType(std::string_view type, std::string_view model);

}  // namespace divvy
