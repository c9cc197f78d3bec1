// Notifications that wait for their delivery, in order for each receiver: when which is to be tried, how often a
// receiver may be bothered, and what became of them. Every change is a row for the store, so that a kill loses none;
// what was being delivered then is delivered again, under the same id. No I/O: time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "model/job.h"
#include "wire/notify_messages.h"

namespace divvy {

class NoticeQueue {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  struct Limits {
    int most_per_minute = 20;  // To one receiver; as many at once after a quiet minute.
    Duration retry_after = std::chrono::seconds(5);
    Duration give_up_after = std::chrono::hours(24);
    std::size_t most_of_one = 1'000;  // That wait for one receiver; what comes beyond is lost, and counted.
    std::size_t most_at_once = 8;     // Under way to all; one to each.
  };
  static constexpr Duration kLongestRetry = std::chrono::hours(1);

  explicit NoticeQueue(Limits limits) : limits_(limits) {}

  static Setting RowOf(const wire::QueuedNotice& notice);
  /// The job whose notice, or wish, is kept under this key; nothing: neither.
  static std::optional<JobId> JobOfRow(std::string_view key);
  /// True if the key is one of ours: a notice, which waits from now on, or how deliveries went.
  bool LoadSetting(std::string_view key, std::string_view text);

  /// Whether one more may wait for `to`; if not, it counts as lost.
  bool TakesFor(const std::string& to);
  /// Once its row is durable.
  void Add(wire::QueuedNotice notice);

  /// What is to be delivered now; under way from here on, until OnResult.
  std::vector<wire::QueuedNotice> Take(Time now);
  /// When there is more for Take; kNever: not before something else happens.
  Time NextDue(Time now) const;

  /// How the delivery of this notice went: rows for the store. Ignored (no rows) where it is none under way.
  std::vector<Setting> OnResult(const std::string& to, const std::string& id, const wire::DeliveryResult& result,
                                Time now);
  /// Nobody is there any more to be told.
  std::vector<Setting> Drop(const std::string& to);

  struct Counts {
    wire::KeptDeliveries kept;
    std::size_t waiting = 0;
    Time next_try = kNever;
  };
  Counts Of(const std::string& to) const;
  /// All that ever had something to be told, and have not been dropped.
  std::vector<std::string> Receivers() const;
  std::size_t size() const { return size_; }

 private:
  struct Line {
    std::deque<wire::QueuedNotice> waiting;
    bool is_under_way = false;  // The first of them.
    int failures = 0;           // In a row.
    Time not_before = kNoTime;
    double allowance = -1;  // Of deliveries; below 0: not bothered yet.
    Time counted_at = kNoTime;
    wire::KeptDeliveries kept;
  };
  double AllowanceOf(const Line& line, Time now) const;
  Time DueOf(const Line& line, Time now) const;
  Duration RetryAfter(const Line& line, const std::string& id, double wanted_s) const;
  static Setting RowOf(const std::string& to, const Line& line);

  Limits limits_;
  std::map<std::string, Line> lines_;
  std::size_t size_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace divvy
