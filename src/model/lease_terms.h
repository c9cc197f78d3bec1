// The agreement between a controller and a node about silence. Each side counts on its own monotonic clock, so the
// clocks are never compared. The agent counts from when it *sent* the last heartbeat that was answered. The controller
// counts from when the last heartbeat *arrived*, which is later. So the agent's lease ends first.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace divvy {

/// Time from the end of a lease to SIGKILL, for the jobs of a node that stops them.
inline constexpr Duration kFenceGrace = std::chrono::seconds(10);
/// Time that the controller adds for a node to notice that its lease has ended, and for the last process to be gone
/// after SIGKILL.
inline constexpr Duration kFenceMargin = std::chrono::seconds(5);
/// How often a supervisor checks its agent's lease. It may notice this late that the lease became shorter, or that the
/// machine slept. It notices the end of the lease that it already knew without delay. This is part of kFenceMargin.
inline constexpr Duration kLeaseLook = std::chrono::seconds(1);
static_assert(2 * kLeaseLook < kFenceMargin);

/// How long the jobs still have until SIGKILL, at `now`, if their lease ended at `ended`. The time counts from that
/// end, no matter when it was noticed: after a long suspend nothing is left. `wanted`: the grace period that the job
/// requested, which may be shorter.
constexpr Duration FenceGraceLeft(Duration ended, Duration now, Duration wanted) {
  return std::clamp<Duration>(ended + kFenceGrace - now, Duration(0), std::max(wanted, Duration(0)));
}

struct LeaseTerms {
  Duration heartbeat = std::chrono::seconds(5);  // Interval of the agent's heartbeats.
  Duration lease = std::chrono::seconds(30);     // Time since the last answered heartbeat.
  /// Whether the node's jobs are stopped when the lease ends, so that they can run elsewhere. False: they continue.
  bool stops_jobs = false;

  friend bool operator==(const LeaseTerms&, const LeaseTerms&) = default;
};

/// How long after the last message from a node the controller can rely on that none of the node's jobs runs any more.
/// Only for a node that stops its jobs when its lease ends. Assumes that the clock speeds differ by at most 1 %
/// (quartz: 0.01 %).
constexpr Duration FencedAfter(const LeaseTerms& terms) {
  return terms.lease + terms.lease / 100 + kFenceGrace + kFenceMargin;
}

/// Returns the terms for a node. `lost_after`: how long a node is silent until it counts as lost. `requeue_after`: how
/// long it is silent until its jobs are requeued elsewhere; 0: never.
constexpr LeaseTerms TermsFor(Duration lost_after, Duration requeue_after) {
  LeaseTerms terms;
  terms.lease = lost_after;
  terms.stops_jobs = requeue_after > Duration(0);
  if (terms.stops_jobs) {
    const Duration rest = requeue_after - kFenceGrace - kFenceMargin;
    terms.lease = std::max<Duration>(rest * 100 / 101, std::chrono::seconds(5));
  }
  terms.heartbeat = std::clamp<Duration>(std::min(terms.lease, lost_after) / 6, std::chrono::milliseconds(200),
                                         std::chrono::seconds(5));
  return terms;
}

}  // namespace divvy
