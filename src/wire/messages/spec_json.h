// A job's specification as JSON text. Fields that equal their defaults are left out and read back as defaults. So a
// stored specification is short, and older ones stay readable.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// Returns the specification as JSON. `with_capture`: with the environment and limits that were captured at submission.
/// They are left out where they are stored separately (the store keeps one copy of equal captures).
std::string SpecToJson(const JobSpec& spec, bool with_capture);
/// Parses the text of SpecToJson. Times are exact to the microsecond, durations to about 15 digits. Fails with
/// kInvalidArgument and lists every invalid field.
Result<JobSpec> SpecFromJson(std::string_view text);

std::string CaptureToJson(const Capture& capture);
Result<Capture> CaptureFromJson(std::string_view text);

}  // namespace divvy
