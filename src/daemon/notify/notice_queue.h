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
#include "wire/messages/notify_messages.h"

namespace divvy {

class NoticeQueue {
 public:
  using Setting = std::pair<std::string, std::string>;  // A row for the store; an empty text removes it.
  struct Limits {
    /// To one receiver, all that one user's jobs mail to together counted as one; as many at once after a quiet minute.
    int most_per_minute = 20;
    Duration retry_after = std::chrono::seconds(5);
    Duration give_up_after = std::chrono::hours(24);
    std::size_t most_of_one = 1'000;       // That wait for one receiver; what comes beyond is lost, and counted.
    std::size_t most_of_an_owner = 4'000;  // For all of one user's, or the administrators'.
    std::size_t most_at_once = 8;          // Under way to all; one to each.
  };
  static constexpr Duration kLongestRetry = std::chrono::hours(1);
  /// Addresses that a user's jobs named and that nothing waits for; the oldest are forgotten beyond that.
  static constexpr std::size_t kMostMails = 16;

  explicit NoticeQueue(Limits limits) : limits_(limits) {}

  static Setting RowOf(const wire::QueuedNotice& notice);
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
    wire::KeptDeliveries kept;
  };
  struct Allowance {
    double left = 0;  // Deliveries.
    Time at = kNoTime;
  };
  double AllowanceOf(const std::string& to, Time now) const;
  Time DueOf(const std::string& to, const Line& line, Time now) const;
  void ForgetMails(const std::string& to, std::vector<Setting>& rows);
  Duration RetryAfter(const Line& line, const std::string& id, double wanted_s) const;
  static Setting RowOf(const std::string& to, const Line& line);

  Limits limits_;
  std::map<std::string, Line> lines_;
  std::map<std::string, Allowance> allowances_;
  std::map<std::string, std::size_t> waiting_of_;  // By owner.
  std::size_t size_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace divvy
