// A job's specification as JSON text. Fields that equal their defaults are left out and read back as defaults. So a
// stored specification is short, and older ones stay readable.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job.h"

namespace divvy {

/// `with_capture`: false if the capture is stored elsewhere (store/ keeps one copy per content).
std::string SpecToJson(const JobSpec& spec, bool with_capture);
/// Times are exact to the microsecond, durations to about 15 digits. Fails with kInvalidArgument and every wrong field.
Result<JobSpec> SpecFromJson(std::string_view text);

std::string CaptureToJson(const Capture& capture);
Result<Capture> CaptureFromJson(std::string_view text);

}  // namespace divvy
