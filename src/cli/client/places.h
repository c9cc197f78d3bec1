// On which machines a job is, as listings say it to people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/api.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// How the controller's own machine is called among several; empty: there is no other, or it cannot be asked.
std::string NameAmongSeveral(Api& api);
/// The same; "localhost" for empty.
std::string OwnName(Api& api);

/// "n1", of several machines "n1+3": the first, and how many more. Empty before the job has started. `own`: the name of
/// the controller's own machine; empty: no one needs to be told.
std::string NodeText(const wire::JobView& job, const std::string& own);

/// What a job has on each machine: "n1: ranks 0-3, GPUs 0-7". Empty for a job on a server that is alone.
std::vector<std::string> SeatLines(const wire::JobDetail& job, const std::string& own);

/// "2x4": GPUs on each of several machines; "2..8" of an elastic job.
std::string GpuCount(const wire::RequestView& request);

/// One component, from 0, as a request of its own. Requires: there is one.
wire::RequestView ComponentOf(const wire::RequestView& request, std::size_t component);

/// Its deadline ends this run, earlier than what it asked for would: `request.time_limit_s` is what was left until
/// then.
bool EndsByDeadline(const wire::RequestView& request, std::optional<double> start_time);
/// "2 machines with 4 GPUs each of type h100, 8 CPUs each, where ib": what a job asks for.
std::string AsksFor(const wire::RequestView& request);
/// Of a heterogeneous job: the same for each of its components.
std::vector<std::string> ComponentLines(const wire::RequestView& request);

}  // namespace divvy::cli
