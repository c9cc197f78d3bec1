// The controller's records as the messages that clients read.
#pragma once

#include <string>
#include <vector>

#include "control/controller.h"
#include "engine/schedule.h"
#include "model/batch.h"
#include "wire/messages.h"

namespace divvy {

wire::JobView ViewOf(const JobRecord& record, const Reason& reason);
/// `spec` may be null: then what only it knows stays empty.
wire::JobDetail DetailOf(const JobRecord& record, const JobSpec* spec, const Reason& reason,
                         const std::vector<GpuFacts>& gpus, const std::vector<Batch::HistoryLine>& history);
wire::WhyView WhyOf(const JobRecord& record, const Explanation& explanation, const Reason& reason, Time now);
wire::WhyView WhyFinal(const JobRecord& record, Time now);
/// Every GPU with who has it. `now` gives the age of foreign processes.
std::vector<wire::GpuView> GpuViews(const Controller& controller, std::string_view isolation, Time now);
wire::ErrorView ErrorViewOf(const Error& error);
int HttpStatusOf(ErrorCode code);
std::string_view Name(ErrorCode code);

}  // namespace divvy
