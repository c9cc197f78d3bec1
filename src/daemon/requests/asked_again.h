// What the page's Submit asks of the daemon where a command line would look around itself.
#pragma once

#include "daemon/requests/valohai_reading.h"
#include "model/job_record.h"
#include "wire/messages/submit_messages.h"

namespace divvy {

/// What a job asked for, as it was changed since (divvy update), to be asked for once more: an element of an array by
/// itself. `default_grace` is what a job without a grace was given. The captured environment stays in it.
wire::AgainView AskedAgain(const JobRecord& record, const JobSpec& spec, Duration default_grace, Time now);

/// As options of divvy submit. The line names the directory in which the job would run: the home of `around` if the
/// specification has none.
wire::WordsAnswer SaidInWords(JobSpec spec, const dialect::Surroundings& around);

/// Files that the script's lines name are not read.
wire::ScriptAnswer ReadScriptLines(const wire::ScriptQuestion& question, dialect::Surroundings around);

}  // namespace divvy
