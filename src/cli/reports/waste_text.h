// Texts about jobs that waste their GPUs.
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

/// Queries which running jobs waste GPUs. Returns an empty answer if the query fails.
wire::WasteAnswer AskWaste(Api& api);
/// "2 jobs waste 5 GPUs; divvy report waste", for the jobs that `counted` accepts. Empty if none wastes any.
std::string WasteLine(const wire::WasteAnswer& answer, const std::function<bool(JobId)>& counted);
/// The number of GPUs that each job wastes.
using WastedGpus = std::map<JobId, double>;
WastedGpus WastedBy(const wire::WasteAnswer& answer);
/// The jobs in the same order, each with its wasted GPUs.
std::vector<wire::ListedJob> JobsWithWaste(std::vector<wire::JobView> jobs, const WastedGpus& wasted);
/// The job's cell in a listing: "2", or "" if it wastes none.
std::string WasteCell(const WastedGpus& wasted, JobId id);
/// The losses of the job's last run. nullopt if they are unknown or too small to mention, or if it had no GPU.
std::optional<wire::JobWaste> AskJobWaste(Api& api, JobId id);
/// Lines for an ended job: "lost 3.2 of its 8.0 GPU-hours (40%) at a cost of 6.40", and what it should have requested.
std::vector<std::string> WasteOf(const wire::JobWaste& waste);
/// Lines for a running job, one per finding: "does nothing with ...; divvy cancel 17 (lost so far: 3.2 GPU-hours)".
/// Only the first has the loss. If an action is due, one more line announces it.
std::vector<std::string> WasteOf(const wire::WasteAnswer& answer, JobId id);

}  // namespace divvy::cli
