// Why a GPU's clocks are reduced: names for NVML's bits (nvmlClocksEventReasons in nvml.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "wire/messages/messages.h"
#include "wire/messages/series_messages.h"

namespace divvy::cli {

/// "power cap, heat (driver)"; "none" without a reason. The slow clocks of an idle GPU do not count.
std::string ThrottleText(std::uint64_t bits);

/// "power cap in 40%, heat (driver) in 3% of what was seen", for values of `gpu_throttle`. Empty if there was no
/// reason.
std::string ThrottleShares(const std::vector<std::optional<double>>& values);

/// "slowed by heat (driver)": only reasons that indicate insufficient cooling or power supply; empty if there are none.
/// A power cap does not count, because it is normal under full load.
std::string SlowdownText(std::uint64_t bits);

/// SlowdownText for each slowed GPU, by node and index.
using Slowdowns = std::map<std::pair<std::string, std::int64_t>, std::string>;
Slowdowns SlowdownsOf(const wire::LatestAnswer& latest);

/// Appends the text to the `reason` of each slowed GPU.
void AddSlowdowns(const wire::LatestAnswer& latest, std::vector<wire::GpuView>& gpus);

}  // namespace divvy::cli
