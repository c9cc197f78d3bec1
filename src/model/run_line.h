// The start of a run as a line of its job's history: for people, and, of runs that are over, to be read again by who
// looks for what they left on their machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/batch.h"

namespace divvy {

/// Where it runs, or ran last: "GPUs 0-3", "n1 (GPUs 0-3)", "n1 (GPU 1), n2 (GPU 1)". Empty: without GPUs on the
/// controller's own machine.
std::string PlaceText(const JobRecord& record);
/// "started on n1 (GPUs 0-3): first in line"; from the second run on "run 2 started on ...".
std::string StartedText(const JobRecord& record);
/// Of one that has ended: "failed: exit code 1".
std::string EndText(const JobRecord& record);
/// The run was over at `ended` and the job is to run once more: where this one was stays in its history, and what it
/// had of GPUs in reports. `outcome`: final. Not of one that never began.
void KeepRun(const JobRecord& record, JobState outcome, Time ended, Batch& batch);

/// Of an array, whose own start is that of its last element.
inline constexpr std::string_view kFirstElementStarted = "its first element started";

/// A run of before.
struct EarlierRun {
  std::uint32_t run = 0;  // As DIVVY_ATTEMPT has it.
  std::string node;       // Where its first process was; as JobRecord::node.

  friend bool operator==(const EarlierRun&, const EarlierRun&) = default;
};
/// What KeepRun wrote; nothing where it is another line.
std::optional<EarlierRun> ReadRunLine(std::string_view text);

}  // namespace divvy
