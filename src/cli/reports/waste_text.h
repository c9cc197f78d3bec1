// What the command line says of jobs that waste their GPUs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/api.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/waste_messages.h"

namespace divvy::cli {

/// Nothing of a daemon that does not know.
wire::WasteAnswer AskWaste(Api& api);
/// "2 jobs waste 5 GPUs; divvy report waste": of those that are `counted`; empty: none does.
std::string WasteLine(const wire::WasteAnswer& answer, const std::function<bool(JobId)>& counted);
/// By job, how many GPUs it wastes.
using WastedGpus = std::map<JobId, double>;
WastedGpus WastedBy(const wire::WasteAnswer& answer);
/// In the same order.
std::vector<wire::ListedJob> JobsWithWaste(std::vector<wire::JobView> jobs, const WastedGpus& wasted);
/// "2": of listings, that of a job; "": it wastes none.
std::string WasteCell(const WastedGpus& wasted, JobId id);
/// What its last run lost; nothing where that is not known, not worth telling, or it had no GPU.
std::optional<wire::JobWaste> AskJobWaste(Api& api, JobId id);
/// Lines for a job that has ended: "lost 3.2 of its 8.0 GPU-hours (40%) at a cost of 6.40", and what it should have
/// asked for.
std::vector<std::string> WasteOf(const wire::JobWaste& waste);
/// Lines for a job, one for each finding: "does nothing with ...; divvy cancel 17 (lost 3.2 GPU-hours)".
std::vector<std::string> WasteOf(const wire::WasteAnswer& answer, JobId id);

}  // namespace divvy::cli
