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

/// Returns the steps of a job of `user` from the list file on this machine, in ascending order. Empty if there are no
/// steps, or if the caller may not read the file.
std::vector<StepLine> StepsOf(JobId job, const std::string& user);

/// Returns the steps of a job. They come from `job` if it contains them, else from the list file on this machine. For a
/// job on an agent's node they are queried from that node.
std::vector<wire::StepView> StepsOf(Api& api, const wire::JobDetail& job);

/// Returns one line for each of the last steps, plus one for each task of a running step that has GPUs and cores of its
/// own. `controller`: the name of the controller's machine. "" without steps.
std::string StepsText(const std::vector<wire::StepView>& steps, double now, const std::string& controller);

/// Signals a step of `job` or changes its time limit: through the job's step process if that runs on this machine and
/// the caller may connect to it, else through the controller. Returns kNotFound if the step does not exist or is not
/// running, kTimedOut if there is no answer within 10 s.
Status ApplyToStep(JobId job, const std::string& user, const StepChange& change);

}  // namespace divvy::cli
