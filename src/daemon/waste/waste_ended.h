// What a job that has ended should have asked for: found soon after its end, while all that it used is still known
// finely, and kept beside its samples.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "control/controller/controller.h"
#include "daemon/telemetry/sample_book.h"
#include "daemon/waste/waste_book.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

using EndedFindings = std::function<void(const std::vector<wire::WasteFinding>&)>;

/// An agent has sent all that it saw of a job so long after its end.
inline constexpr samples::Second kAllIsSeenAfter = 15;

/// Finds and keeps it, where the run is one that is judged. `done` may be null, and is called on the loop's thread, now
/// or later; all else outlives that.
void FindEndedWaste(SampleBook& samples, const WasteBook& book, const Controller& controller, const JobRecord& record,
                    samples::Second now, EndedFindings done);
/// As it was kept, or else as FindEndedWaste.
void AskEndedWaste(SampleBook& samples, const WasteBook& book, const Controller& controller, const JobRecord& record,
                   samples::Second now, EndedFindings done);
/// What was kept of the run that ended then; nothing: that of another, or none.
std::optional<std::vector<wire::WasteFinding>> FindingsIn(std::string_view kept, Time ended);

}  // namespace divvy
