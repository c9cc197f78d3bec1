// The start of a run as a line in its job's history. It is for people. For ended runs it is also parsed again to find
// what they left on their nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/batch.h"

namespace divvy {

/// The node and GPUs of the current or last run: "GPUs 0-3", "n1 (GPUs 0-3)", "n1 (GPU 1), n2 (GPU 1)". Empty: a job
/// without GPUs on the controller's own node.
std::string PlaceText(const JobRecord& record);
/// "started on n1 (GPUs 0-3): first in line"; from the second run on, "run 2 started on ...".
std::string StartedText(const JobRecord& record);
/// Describes how a job has ended: "failed: exit code 1".
std::string EndText(const JobRecord& record);
/// Adds the run that ended at `ended` to the job's history and to the past runs, which reports need. Call it when the
/// job will run again. `outcome`: a final state. Does nothing if the run never started.
void KeepRun(const JobRecord& record, JobState outcome, Time ended, Batch& batch);

/// The history line of an array when its first element starts.
inline constexpr std::string_view kFirstElementStarted = "its first element started";

/// A previous run.
struct EarlierRun {
  std::uint32_t run = 0;  // The number in DIVVY_ATTEMPT.
  std::string node;       // The node of its first process; same as JobRecord::node.

  friend bool operator==(const EarlierRun&, const EarlierRun&) = default;
};
/// Parses a history line that KeepRun wrote. Returns std::nullopt for any other line.
std::optional<EarlierRun> ReadRunLine(std::string_view text);

}  // namespace divvy
