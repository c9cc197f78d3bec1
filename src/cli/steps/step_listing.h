// Lists and ends the steps of running jobs. The list is a file of the job's user (model/steps/step_list.h). So only
// that user and root can read it, on the node itself.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "model/job.h"
#include "model/steps/step_list.h"
#include "platform/steps/step_client.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// In ascending order. Empty if there are no steps or if we may not read them.
std::vector<StepLine> StepsOf(JobId job, const std::string& user);

/// The steps of a job: from the daemon's answer, else from the list on this machine, else queried from the node of a
/// job under an agent.
std::vector<wire::StepView> StepsOf(Api& api, const wire::JobDetail& job);

/// One line for each of the last steps, plus one for each task of the running ones with its own GPUs and cores.
/// `controller`: the name of the controller's machine. "" without steps.
std::string StepsText(const std::vector<wire::StepView>& steps, double now, const std::string& controller);

/// Signals a step of `job` or changes its time limit: through its step process if we can reach that on this machine,
/// else through the controller. Returns kNotFound if the step does not exist or is not running,
/// kTimedOut if there is no answer within 10 s.
Status ApplyToStep(JobId job, const std::string& user, const StepChange& change);

}  // namespace divvy::cli
