// Under which keys the store keeps what notifications need.
#pragma once

#include <string_view>

namespace divvy {

inline constexpr std::string_view kNoticeRow = "notify.notice.";          // JOB.ID
inline constexpr std::string_view kDeliveriesRow = "notify.deliveries.";  // RECEIVER
inline constexpr std::string_view kWishRow = "notify.wish.";              // JOB, whose specification has it
inline constexpr std::string_view kReceiverRow = "notify.receiver.";      // UID.NAME
inline constexpr std::string_view kToldGpusRow = "notify.gpus";

}  // namespace divvy
