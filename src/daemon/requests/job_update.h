// POST /v1/jobs/update: converts the message to the controller's changes.
#pragma once

#include "base/result.h"
#include "control/books/job_changes.h"
#include "wire/messages/messages.h"

namespace divvy {

/// Returns the changes that are the same for every job of the update. If a value is invalid, fails with
/// kInvalidArgument; the message starts with the name of the field.
Result<JobChanges> ChangesOf(const wire::JobUpdate& update);

/// Adds to `changes` those that depend on the single job with this `record` and `spec`. Fails if the changed job would
/// be refused as a submission.
Status CompleteChanges(const wire::JobUpdate& update, const JobRecord& record, const JobSpec& spec,
                       JobChanges& changes);

}  // namespace divvy
