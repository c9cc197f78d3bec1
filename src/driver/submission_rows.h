// Keys of the store's rows that remember the keys of submissions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "model/job.h"

namespace divvy {

inline constexpr std::string_view kSubmissionRow = "submission.";  // JOB

inline std::string SubmissionRow(JobId job) { return std::string(kSubmissionRow) + ToString(job); }

/// Some store rows remember with which key a job was submitted. Returns the job of such a row by the row's name;
/// nullopt if `key` does not name such a row.
inline std::optional<JobId> JobOfSubmissionRow(std::string_view key) {
  if (!key.starts_with(kSubmissionRow)) return std::nullopt;
  const auto id = ParseInteger(key.substr(kSubmissionRow.size()));
  return id && *id > 0 ? std::optional(JobId(static_cast<std::uint64_t>(*id))) : std::nullopt;
}

}  // namespace divvy
