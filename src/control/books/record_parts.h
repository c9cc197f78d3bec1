// Queries about a record that several files need: array membership, names, node allocations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job_record.h"

namespace divvy {

/// Returns true if the job waits or, for an array, if any of its elements does.
inline bool SomeWait(const JobRecord& record) {
  return record.array_count > 0 ? !record.array_waiting.empty() : IsWaiting(record.state);
}

/// Returns a record for the array element with this number (from 0), with the array's fields and the element's own id.
inline JobRecord ElementOf(const JobRecord& array, std::uint32_t ordinal) {
  JobRecord element = array;
  element.id = ElementId(array.id, ordinal);
  element.array = array.id;
  element.array_ordinal = ordinal;
  element.array_index = array.array_indices.Nth(ordinal).value_or(ordinal);
  element.array_count = 0;
  element.array_at_once = 0;
  element.array_waiting = element.array_indices = IndexRanges();
  element.started = kNoTime;  // The array's is the start of its first element.
  return element;
}

/// Returns the number (from 0) of the array element that has the index `index` for users; nullopt if there is no such
/// element.
inline std::optional<std::uint32_t> ElementOrdinal(const JobRecord& array, std::uint32_t index) {
  if (array.array_indices.empty()) return index < array.array_count ? std::optional(index) : std::nullopt;
  if (!array.array_indices.Contains(index)) return std::nullopt;
  std::uint32_t ordinal = 0;
  for (const auto& range : array.array_indices.ranges()) {
    if (index <= range.last) return ordinal + (index - range.first);
    ordinal += range.last - range.first + 1;
  }
  return std::nullopt;
}

/// Returns true if the job `singleton`, which may not run at the same time as jobs with the same name and user, must
/// wait for `other`, because that is an earlier such job. Elements of one array do not wait for each other.
inline bool IsEarlierNamesake(const JobRecord& other, const JobRecord& singleton) {
  const JobId array = singleton.array_count > 0 ? singleton.id : singleton.array;
  const bool is_family = array.is_set() && (other.id == array || other.array == array);
  return other.id < singleton.id && !is_family && other.user.uid == singleton.user.uid && other.name == singleton.name;
}

/// Checks that a report from a job comes from its current run, while it runs. `attempt`: the run that reports; 0: the
/// current one. Fails with kFailedPrecondition.
inline Status CheckSpeaks(const JobRecord& record, std::uint32_t attempt) {
  if (!IsActive(record.state) || record.array_count > 0)
    return FailedPrecondition("job " + DisplayId(record) + " does not run");
  if (attempt != 0 && attempt != record.attempt)
    return FailedPrecondition("job " + DisplayId(record) + " was restarted since: this run of it has ended");
  return {};
}

/// Returns a job's record as one of its nodes sees it: with this node, and the GPUs that the job has there.
inline JobRecord PartOn(const JobRecord& record, const std::string& node) {
  JobRecord part = record;
  for (const NodeAllocation& allocation : record.gang) {
    if (allocation.node != node) continue;
    part.node = node;
    part.gpus = part.gpus_used = allocation.gpus;
  }
  return part;
}

/// Returns true if this part of a job on several nodes (`allocation`) has ended.
inline bool HasEnded(const JobRecord& record, const NodeAllocation& allocation) {
  return !record.gang.empty() && allocation.exit.has_value();
}

/// Prefix of the reason of a job that was preempted for another.
inline constexpr std::string_view kPreempted = "makes room for job ";
inline bool WasPreempted(const JobRecord& record) {
  return record.stop_intent == StopIntent::kRequeue && record.reason.starts_with(kPreempted);
}

/// Prefix of the reason of a trial that lost and was stopped by its sweep.
inline constexpr std::string_view kStoppedBySweep = "stopped by its sweep: ";
/// Returns true if an array counts this ended element as successful: it succeeded, or its sweep has stopped it.
inline bool EndedWell(const JobRecord& record) {
  return record.state == JobState::kSucceeded ||
         (record.state == JobState::kCancelled && record.reason.starts_with(kStoppedBySweep));
}

/// Clears the fields about changes of the job's GPUs. Called at the start and end of a run.
inline void ForgetResizes(JobRecord& record) {
  record.takes_resizes = false;
  record.gpus_asked_back = record.gpus_used = GpuSet();
  record.asked_back_at = record.gpus_since = record.grown_at = kNoTime;
}

/// Whether the job's GPUs were given to others while it is parked (docs/time-sharing.md).
inline bool HasLeftItsGpus(const JobRecord& record) {
  const Request& request = record.request;
  const bool asks_for_whole = request.gpus > 0 && !request.is_portioned() && request.slice.empty();
  return IsActive(record.state) && asks_for_whole && !request.is_elastic() && !request.is_gang() &&
         record.array_count == 0 && record.gang.empty() && record.gpus.empty();
}
/// The time limit that the job's node enforces now; zero: none. Time without its GPUs does not count.
inline Duration LimitOnNode(const JobRecord& record) {
  return HasLeftItsGpus(record) ? Duration(0) : record.time_limit;
}

/// Returns a size as a short text: "512 MiB", "1.2 GiB".
inline std::string CompactSize(Bytes size) {
  const std::int64_t mebibytes = size.count() >> 20;
  if (mebibytes < 1024) return std::to_string(mebibytes) + " MiB";
  const std::int64_t tenths = mebibytes * 10 / 1024;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

/// The scheduler's name of a user's group: "nightly of ada". A group belongs to its user, so another user's group of
/// the same name is another group.
inline std::string GroupNameOf(const std::string& group, const std::string& user) { return group + " of " + user; }

/// The name of the group that limits an array.
inline constexpr std::string_view kArrayGroup = "array ";
inline std::string ArrayGroupName(JobId array) { return std::string(kArrayGroup) + ToString(array); }

}  // namespace divvy
