// Keys of the store's rows that notifications use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "model/job.h"

namespace divvy {

inline constexpr std::string_view kNoticeRow = "notify.notice.";          // JOB.ID
inline constexpr std::string_view kDeliveriesRow = "notify.deliveries.";  // RECEIVER
// JOB is the job whose specification holds the row's data.
inline constexpr std::string_view kWishRow = "notify.wish.";
inline constexpr std::string_view kReceiverRow = "notify.receiver.";  // UID.NAME
inline constexpr std::string_view kToldGpusRow = "notify.gpus";

/// Returns the job that a store row about notifications belongs to, by the row's key; nullopt if the key is not one of
/// such a row.
inline std::optional<JobId> JobOfNoticeRow(std::string_view key) {
  for (const std::string_view prefix : {kNoticeRow, kWishRow}) {
    if (!key.starts_with(prefix)) continue;
    const std::string_view rest = key.substr(prefix.size());
    const auto id = ParseInteger(rest.substr(0, rest.find('.')));
    if (id && *id > 0) return JobId(static_cast<std::uint64_t>(*id));
  }
  return std::nullopt;
}

}  // namespace divvy
