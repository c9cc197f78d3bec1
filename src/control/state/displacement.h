// The controller's state of a run with whole GPUs that its node may park (docs/time-sharing.md). Its row in the store
// is the setting "displacement.17", from the run's start to its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "engine/policy.h"
#include "engine/time_sharing/time_sharing.h"
#include "model/job_record.h"
#include "model/presence.h"

namespace divvy {

inline constexpr std::string_view kDisplacementPrefix = "displacement.";

/// Whether a run is parked because it is a paused trial of a sweep, and not for a newcomer. Such a run is not owed
/// anything: the contract of time-sharing does not apply while it is parked. Stored as numbers: add new values at the
/// end.
enum class SetAside {
  kNo,
  kUntilPromoted,  // It does not return.
  kPromoted,       // It returns when GPUs of its node are idle.
};

/// Displacement::limit of a row of an earlier release, which does not say whether the user has set the limit since.
inline constexpr Duration kAnyLimit{-1};

/// The record has its GPUs unless the presence is kAway.
struct Displacement {
  std::uint32_t attempt = 0;  // The run that it belongs to.
  Presence presence = Presence::kHere;
  SetAside set_aside = SetAside::kNo;
  JobId by;                     // The job that it was parked for last. Not set: never, or it was set aside.
  GpuSet gpus;                  // The GPUs that it has, or had before it was parked.
  Time displaced_at = kNoTime;  // When it was told to leave. kNoTime: it has its GPUs.
  Time here_since = kNoTime;    // When it started, or returned last.
  Time settled_at = kNoTime;    // When it settled (engine/time_sharing). kNoTime: it has not.
  Duration lost{0};             // Time without GPUs, except since `displaced_at`.
  Duration lost_settled{0};     // The part of `lost` since it settled.
  Duration lost_aside{0};       // The part of `lost` while it was set aside.
  Duration in_limit{0};         // The part of `lost` for which the record's time limit was extended, if it had one.
  Duration extended{0};         // By how much `limit` is longer than the limit that the user has set last.
  Duration limit{0};            // The record's time limit after it was extended last. Another one: the user has set it.
  // As the node reported since this start of the controller.
  bool has_report = false;
  bool can_park = false;
  std::string why;             // Why it cannot be parked, or why the last command failed.
  std::string old_why;         // `why` when it was told to leave.
  Time rests_until = kNoTime;  // After it could not be parked, the next attempt is made then.
  bool rests_when_back = false;
  std::string failure;          // Why the last attempt to park it, or to let a promoted trial return, was given up.
  Time commanded_at = kNoTime;  // When the last command was sent.
  Time repeats_at = kNoTime;    // After a command failed, it is sent again then.
  // Measured since this start of the controller.
  Duration park_time{0};    // How long its last park took.
  Duration return_time{0};  // How long its last return took.
  Time returning_since = kNoTime;
  Time idle_since = kNoTime;  // While parked: since when GPUs are idle for it, or a promoted trial waits for some.

  bool is_displaced() const { return displaced_at != kNoTime; }
};

std::pair<std::string, std::string> DisplacementRow(JobId job, const Displacement& displacement);
/// Parses the time-sharing state of a job from its row of the store. Returns nullopt if it cannot be read; the job then
/// counts as one that cannot be parked.
std::optional<Displacement> DisplacementOfRow(std::string_view text);

/// Returns the options of the time-sharing rule (engine/time_sharing) for these settings.
time_sharing::Options OptionsOf(const TimeSharingSettings& settings);
/// Returns whether a node can park a run of this job, or of this array's elements: it is on one node, with whole GPUs
/// that it keeps until its end, and does not insist on them (--no-pause).
bool IsParkable(const JobRecord& record);
/// Returns the run time and lost time of a running job, in the form that the time-sharing rule uses.
time_sharing::JobView ViewOf(const JobRecord& record, const Displacement& displacement, Time now);

}  // namespace divvy
