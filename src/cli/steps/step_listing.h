// The steps of a job that runs here, for the commands that list and end them. They are told by a file of the job's own
// user (model/steps/step_list.h), so they are there for that user and for root, on the machine itself.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/client/api.h"
#include "model/job.h"
#include "model/steps/step_list.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// Ascending; empty where there are none, or where they are not ours to see.
std::vector<StepLine> StepsOf(JobId job, const std::string& user);

/// Those of a job: as the daemon tells them, or else, of one that runs below an agent, as its own list does, here or
/// asked of its machine.
std::vector<wire::StepView> StepsOf(Api& api, const wire::JobDetail& job);

/// A line for each of the last steps, and for each task of those that run what it has for itself. `controller`: what
/// the controller's own machine is called. Empty without steps.
std::string StepsText(const std::vector<wire::StepView>& steps, double now, const std::string& controller);

/// Signal `signal` to step `step` of `job`: by its step process, where that is on this machine and ours to reach, else
/// by the controller. kNotFound: there is no such step, or it is not running.
Status SignalStep(JobId job, const std::string& user, StepNumber step, int signal);

}  // namespace divvy::cli
