// Server-side helpers of the page's submit form, for what a command line client would do itself.
#pragma once

#include "daemon/requests/valohai_reading.h"
#include "model/job_record.h"
#include "wire/messages/submit_messages.h"

namespace divvy {

/// Returns the content of the submit form that submits this job again, with the changes of later `divvy update` calls;
/// for an element of an array, that element alone. `default_grace` is the grace period of jobs that set none. The
/// environment that was captured at submission is kept.
wire::AgainView AskedAgain(const JobRecord& record, const JobSpec& spec, Duration default_grace, Time now);

/// Converts a specification to options of divvy submit. The line includes the job's directory: the home of `around` if
/// the specification has none.
wire::WordsAnswer SaidInWords(JobSpec spec, const dialect::ParseContext& around);

/// Parses the lines of a batch script into a job. Files that these lines name are not read.
wire::ScriptAnswer ReadScriptLines(const wire::ScriptQuestion& question, dialect::ParseContext around);

}  // namespace divvy
