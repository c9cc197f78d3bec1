// What the command line says of jobs that waste their GPUs.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/api.h"
#include "wire/waste_messages.h"

namespace divvy::cli {

/// Nothing of a daemon that does not know.
wire::WasteAnswer AskWaste(Api& api);
/// "2 jobs waste 5 GPUs; divvy report waste": of those that are `counted`; empty: none does.
std::string WasteLine(const wire::WasteAnswer& answer, const std::function<bool(JobId)>& counted);
/// Lines for a job, one for each finding: "does nothing with ...; divvy cancel 17 (lost 3.2 GPU-hours)".
std::vector<std::string> WasteOf(const wire::WasteAnswer& answer, JobId id);

}  // namespace divvy::cli
