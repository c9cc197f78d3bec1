// Under which keys the store keeps what notifications need.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "model/job.h"

namespace divvy {

inline constexpr std::string_view kNoticeRow = "notify.notice.";          // JOB.ID
inline constexpr std::string_view kDeliveriesRow = "notify.deliveries.";  // RECEIVER
inline constexpr std::string_view kWishRow = "notify.wish.";              // JOB, whose specification has it
inline constexpr std::string_view kReceiverRow = "notify.receiver.";      // UID.NAME
inline constexpr std::string_view kToldGpusRow = "notify.gpus";

/// The job whose notice, or wish, is kept under this key; nothing: neither.
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
