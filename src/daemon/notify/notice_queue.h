// Notifications that wait for delivery, in order for each receiver. Decides when each one is tried, limits the rate per
// receiver, and records the results. Every change is a row for the store, so that a crash loses none. A delivery that
// was under way during a crash is repeated under the same id. No I/O: time is an argument.
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
    /// The limit on deliveries per minute to one receiver, also all at once after a minute without any. All mail
    /// addresses that one user's jobs name count as one receiver.
    int most_per_minute = 20;
    Duration retry_after = std::chrono::seconds(5);
    Duration give_up_after = std::chrono::hours(24);
    std::size_t most_of_one = 1'000;       // Waiting notices per receiver; further ones are dropped and counted.
    std::size_t most_of_an_owner = 4'000;  // Waiting notices for all receivers of one user, or of the administrators.
    std::size_t most_at_once = 8;          // Deliveries under way in total; one per receiver.
  };
  static constexpr Duration kLongestRetry = std::chrono::hours(1);
  /// The number of idle mail addresses that are kept per user, for addresses that jobs named; the oldest are dropped.
  static constexpr std::size_t kMostMails = 16;

  explicit NoticeQueue(Limits limits) : limits_(limits) {}

  static Setting RowOf(const wire::QueuedNotice& notice);
  /// Loads a row of the store: a notice, which waits for delivery from now on, or the record of a receiver's
  /// deliveries. Returns true if the key belongs to this class.
  bool LoadSetting(std::string_view key, std::string_view text);

  /// Returns true if one more notice may wait for the receiver `to`. Otherwise counts one as lost for that receiver.
  bool TakesFor(const std::string& to);
  /// Adds a notice to the queue. Call once the notice's row is durable.
  void Add(wire::QueuedNotice notice);

  /// Returns the notices to deliver now. Each counts as under way until OnResult is called for it.
  std::vector<wire::QueuedNotice> Take(Time now);
  /// Returns the next time when Take may return more; kNever if it can do so only after another call (Add, OnResult).
  Time NextDue(Time now) const;

  /// Records the result of the delivery of notice `id` to the receiver `to`. Returns the rows to store; none if this
  /// delivery is not under way.
  std::vector<Setting> OnResult(const std::string& to, const std::string& id, const wire::DeliveryResult& result,
                                Time now);
  /// Removes a receiver that no longer exists.
  std::vector<Setting> Drop(const std::string& to);

  struct Counts {
    wire::KeptDeliveries kept;
    std::size_t waiting = 0;
    Time next_try = kNever;
  };
  Counts Of(const std::string& to) const;
  /// All receivers that ever had a notice and have not been dropped.
  std::vector<std::string> Receivers() const;
  std::size_t size() const { return size_; }

 private:
  struct Line {
    std::deque<wire::QueuedNotice> waiting;
    bool is_under_way = false;  // The first notice is being delivered.
    int failures = 0;           // Consecutive failures.
    Time not_before = kNoTime;
    wire::KeptDeliveries kept;
  };
  struct Allowance {
    double left = 0;  // Deliveries that are allowed now.
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
  std::map<std::string, std::size_t> waiting_of_;  // The number of waiting notices, by the receivers' owner.
  std::size_t size_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace divvy
