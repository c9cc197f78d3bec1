// The agent's view of its node's lease: when to send a heartbeat, and when the controller may reassign the node's jobs
// because it received none.
//
// `now` is the time since boot, including suspension, so that a machine notices that it slept. It restarts with each
// boot, when no earlier job runs any more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "model/lease_terms.h"

namespace divvy {

class Lease {
 public:
  /// Starts the lease with the controller's terms. `asked`: when the agent sent the message that these terms answer;
  /// the lease counts from then.
  void Begin(const LeaseTerms& terms, Duration asked);
  const LeaseTerms& terms() const { return terms_; }

  bool IsBeatDue(Duration now) const { return is_begun_ && now >= next_beat_; }
  /// Records that a heartbeat is sent now, and returns its number.
  std::uint64_t Beat(Duration now);
  /// Renews the lease, because the controller has answered heartbeat number `beat`. The lease then counts from when
  /// that heartbeat was sent.
  void OnAnswer(std::uint64_t beat);

  bool is_begun() const { return is_begun_; }
  /// Returns when the lease ends if the controller answers no further heartbeat.
  Duration ends() const { return renewed_ + terms_.lease; }
  bool has_ended(Duration now) const { return is_begun_ && now >= ends(); }
  /// Returns true if this node's jobs must be stopped, because the lease has ended and its terms demand that.
  bool is_fenced(Duration now) const { return terms_.stops_jobs && has_ended(now); }

  /// Returns the lease as one line (model/lease_note.h), for an agent that restarts before the machine reboots, and for
  /// the supervisors of its jobs.
  std::string ToText(std::string_view boot_id) const;
  /// Parses a line of ToText. Returns std::nullopt if the text is invalid, or was written before the machine rebooted.
  static std::optional<Lease> FromText(std::string_view text, std::string_view boot_id);

 private:
  LeaseTerms terms_;
  bool is_begun_ = false;
  Duration renewed_{0};
  Duration next_beat_{0};
  std::uint64_t last_beat_ = 0;
  std::map<std::uint64_t, Duration> sent_;  // Unanswered heartbeats; only a few.
};

}  // namespace divvy
