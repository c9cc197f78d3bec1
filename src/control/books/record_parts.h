// What several files ask of a record: its place in an array, and who has the same name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/job_record.h"

namespace divvy {

/// An array as a whole waits as long as elements of it do.
inline bool SomeWait(const JobRecord& record) {
  return record.array_count > 0 ? !record.array_waiting.empty() : IsWaiting(record.state);
}

/// The element with this ordinal as a record of its own: as its array is, under its own number.
inline JobRecord ElementOf(const JobRecord& array, std::uint32_t ordinal) {
  JobRecord element = array;
  element.id = ElementId(array.id, ordinal);
  element.array = array.id;
  element.array_ordinal = ordinal;
  element.array_index = array.array_indices.Nth(ordinal).value_or(ordinal);
  element.array_count = 0;
  element.array_at_once = 0;
  element.array_waiting = element.array_indices = IndexRanges();
  element.started = kNoTime;  // The array's is that of its first element.
  return element;
}

/// The ordinal of what the user calls `index`; nothing when the array has no such element.
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

/// What a singleton waits for: an earlier job of its name and user. Elements of one array do not wait for each other.
inline bool IsEarlierNamesake(const JobRecord& other, const JobRecord& singleton) {
  const JobId array = singleton.array_count > 0 ? singleton.id : singleton.array;
  const bool is_family = array.is_set() && (other.id == array || other.array == array);
  return other.id < singleton.id && !is_family && other.user.uid == singleton.user.uid && other.name == singleton.name;
}

/// A job speaks for itself: only the run that there is may, and only while it runs. `attempt`: which run says so; 0:
/// the one that there is. Fails with kFailedPrecondition.
inline Status CheckSpeaks(const JobRecord& record, std::uint32_t attempt) {
  if (!IsActive(record.state) || record.array_count > 0)
    return FailedPrecondition("job " + DisplayId(record) + " does not run");
  if (attempt != 0 && attempt != record.attempt)
    return FailedPrecondition("job " + DisplayId(record) + " was started anew since: this run of it is over");
  return {};
}

/// The record as one of its machines sees it: with the GPUs that it has there.
inline JobRecord PartOn(const JobRecord& record, const std::string& node) {
  JobRecord part = record;
  for (const Seat& seat : record.gang) {
    if (seat.node != node) continue;
    part.node = node;
    part.gpus = part.gpus_used = seat.gpus;
  }
  return part;
}

/// Of a seat of it: nothing of the job is there any more.
inline bool HasEnded(const JobRecord& record, const Seat& seat) {
  return !record.gang.empty() && seat.exit.has_value();
}

/// How the reason of a job begins that was told to end so that another starts.
inline constexpr std::string_view kTakenBack = "makes room for job ";
inline bool WasTakenBack(const JobRecord& record) {
  return record.stop_intent == StopIntent::kRequeue && record.reason.starts_with(kTakenBack);
}

/// A run that begins, or is over, was asked for nothing.
inline void ForgetResizes(JobRecord& record) {
  record.takes_resizes = false;
  record.gpus_asked_back = record.gpus_used = GpuSet();
  record.asked_back_at = record.gpus_since = record.grown_at = kNoTime;
}

/// The cap of an array is that of a group of this name.
inline std::string ArrayGroupName(JobId array) { return "array " + ToString(array); }

}  // namespace divvy
