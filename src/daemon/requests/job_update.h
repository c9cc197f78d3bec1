// POST /v1/jobs/update: from the message to the controller's changes.
#pragma once

#include "base/result.h"
#include "control/books/job_changes.h"
#include "wire/messages/messages.h"

namespace divvy {

/// What is the same for every job that the update names. Fails with kInvalidArgument, beginning with the field.
Result<JobChanges> ChangesOf(const wire::JobUpdate& update);

/// Completes `changes` for one job, which is as `record` and `spec` say, and checks the job that would come out as a
/// submission is checked.
Status CompleteChanges(const wire::JobUpdate& update, const JobRecord& record, const JobSpec& spec,
                       JobChanges& changes);

}  // namespace divvy
