// A job's specification as JSON text. Fields that equal their defaults are left out and come back as defaults, so that
// a stored specification is short and an older one still reads.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// Without the capture when that is kept elsewhere (store/: once per content).
std::string SpecToJson(const JobSpec& spec, bool with_capture);
/// Times come back to the microsecond, durations to about 15 digits. Fails with kInvalidArgument and every wrong field.
Result<JobSpec> SpecFromJson(std::string_view text);

std::string CaptureToJson(const Capture& capture);
Result<Capture> CaptureFromJson(std::string_view text);

}  // namespace divvy
