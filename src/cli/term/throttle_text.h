// Why a GPU's clocks are held back: NVML's bits (nvmlClocksEventReasons in nvml.h), as people read them.
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

/// "power cap, heat (driver)"; "none" without a reason. An idle GPU's slow clocks are none.
std::string ThrottleText(std::uint64_t bits);

/// "power cap in 40%, heat (driver) in 3% of what was seen": of values of `gpu_throttle`. Empty: there was none.
std::string ThrottleShares(const std::vector<std::optional<double>>& values);

/// "slowed by heat (driver)": those that tell of a cooler or a supply that does not suffice; empty without. A power cap
/// is no such thing: at full work it is usual.
std::string SlowdownText(std::uint64_t bits);

/// The same of each GPU that is slowed, by machine and index.
using Slowdowns = std::map<std::pair<std::string, std::int64_t>, std::string>;
Slowdowns SlowdownsOf(const wire::LatestAnswer& latest);

/// Says it of each GPU that is slowed, beside its reason.
void AddSlowdowns(const wire::LatestAnswer& latest, std::vector<wire::GpuView>& gpus);

}  // namespace divvy::cli
