// POST /v1/jobs/update: converts the message to the controller's changes.
#pragma once

#include "base/result.h"
#include "control/books/job_changes.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Returns the changes that are the same for every job of the update. Fails with kInvalidArgument; the message starts
/// with the field.
Result<JobChanges> ChangesOf(const wire::JobUpdate& update);

/// Completes `changes` for one job, given its `record` and `spec`. Checks the resulting job as a submission is checked.
Status CompleteChanges(const wire::JobUpdate& update, const JobRecord& record, const JobSpec& spec,
                       JobChanges& changes);

}  // namespace divvy
