// Server-side helpers of the page's submit form, for what a command line client would do itself.
#pragma once

#include "daemon/requests/valohai_reading.h"
#include "model/job_record.h"
#include "wire/messages/submit_messages.h"

namespace divvy {

/// Returns a job's request for resubmission, with later changes (divvy update); for an element of an array, just that
/// element. `default_grace` is the grace of jobs that set none. The captured environment is kept.
wire::AgainView AskedAgain(const JobRecord& record, const JobSpec& spec, Duration default_grace, Time now);

/// Converts a specification to options of divvy submit. The line includes the job's directory: the home of `around` if
/// the specification has none.
wire::WordsAnswer SaidInWords(JobSpec spec, const dialect::ParseContext& around);

/// Files that the script's lines name are not read.
wire::ScriptAnswer ReadScriptLines(const wire::ScriptQuestion& question, dialect::ParseContext around);

}  // namespace divvy
