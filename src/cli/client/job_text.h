// Formats a job's times, GPUs and state in the same way for all listings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client/table.h"
#include "wire/messages/messages.h"

namespace divvy::cli {

/// Seconds since 1970.
double NowSeconds();
/// "0:05", "01:02:03"; negative spans are "0:00".
std::string Span(double seconds);
/// "2 h 5 min"; negative spans are "0 s".
std::string InWords(double seconds);
/// Local time: "14:05:09" today, else "Mar 01 14:05"; "" without a time.
std::string When(std::optional<double> time);
/// "2026-03-01T14:05:09Z"; "" without a time. For programs.
std::string Moment(std::optional<double> time);
/// "2026-03-01 14:05", in the caller's time zone.
std::string DayAndTime(double seconds);
/// The id that users see: "17", or "17_3" for an array element; never "17_[4-99]".
std::string PublicId(const wire::JobDetail& job);
/// "0-3,6".
std::string GpuList(const std::vector<std::int64_t>& gpus);
/// Returns true if the GPU's state is known: its node is connected and its driver responds.
bool IsSeen(const wire::GpuView& gpu);
/// "4/80G": GiB used and in total. "-/80G" if the used memory is unknown (see IsSeen); "-" if the size is unknown too.
std::string MemoryText(const wire::GpuView& gpu);
/// Describes a problem with a GPU for the job that runs on it: "fenced: XID 48 (double-bit ECC error)", "also used by
/// eve, pid 4711 python". Returns "" if there is none.
std::string GpuTrouble(const wire::GpuView& gpu);
/// The problems of the GPUs that job `id` holds, or uses without holding them. Each entry is "GPU 3" ("GPU n1:3" with
/// several nodes) and the problem.
std::vector<std::pair<std::string, std::string>> GpuTroubles(const std::vector<wire::GpuView>& gpus, JobId id);
Colour StateColour(const std::string& state);
/// Describes how a job ended, to follow "job 17 ...": "timed out: reached its time limit of 1 h", "was cancelled by
/// ada".
std::string EndInWords(const std::string& state, const std::string& reason);
/// Appends "name          value" as a line; nothing for an empty value.
void AddField(std::string& out, std::string_view name, const std::string& value);

}  // namespace divvy::cli
