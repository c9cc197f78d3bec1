// Findings about an ended job: the request that it should have made. They are computed soon after the end, while
// fine-grained samples are still available, and stored next to the job's samples.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/waste/waste_tracker.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

using EndedFindings = std::function<void(const std::vector<wire::WasteFinding>&)>;

/// Seconds after a job's end until an agent has sent all its samples.
inline constexpr samples::Second kAllIsSeenAfter = 15;

/// Computes the findings about the job's last run and stores them, unless the run was too short (JudgesEnded). `done`
/// may be null. It is called on the loop's thread, now or later; all other arguments must live until then.
void FindEndedWaste(MetricStore& samples, const WasteTracker& tracker, const Controller& controller,
                    const JobRecord& record, samples::Second now, EndedFindings done);
/// Returns the stored findings, or else computes them as FindEndedWaste does.
void AskEndedWaste(MetricStore& samples, const WasteTracker& tracker, const Controller& controller,
                   const JobRecord& record, samples::Second now, EndedFindings done);
/// Decodes stored findings of the run that ended at `ended`; nullopt if they belong to another run or there are none.
std::optional<std::vector<wire::WasteFinding>> FindingsIn(std::string_view kept, Time ended);

}  // namespace divvy
