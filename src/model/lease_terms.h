// What a controller and a node agree on about silence. Each side counts on its own monotonic clock, from its own
// moments, so that clocks are never compared: the agent from when it *sent* the sign of life that was answered last,
// the controller from when one *came* last, which is later. So the agent's lease ends first.
#pragma once

#include <algorithm>

#include "base/time.h"

namespace divvy {

/// From the end of a lease to SIGKILL for the jobs of a node that stops them.
inline constexpr Duration kFenceGrace = std::chrono::seconds(10);
/// What it may take until the last of them has gone, and to notice that a lease has ended.
inline constexpr Duration kFenceMargin = std::chrono::seconds(5);
/// How often a supervisor looks at its agent's lease: so late it may notice that it became shorter, or that the machine
/// slept, and no later than at its end what it knew. A part of the margin.
inline constexpr Duration kLeaseLook = std::chrono::seconds(1);
static_assert(2 * kLeaseLook < kFenceMargin);

/// How long the jobs still have until SIGKILL, at `now`, when their lease has ended at `ended`. It counts from that
/// end, whenever it was noticed: who slept through it has no time left. `wanted`: what the job asked for, which may be
/// less.
constexpr Duration FenceGraceLeft(Duration ended, Duration now, Duration wanted) {
  return std::clamp<Duration>(ended + kFenceGrace - now, Duration(0), std::max(wanted, Duration(0)));
}

struct LeaseTerms {
  Duration heartbeat = std::chrono::seconds(5);  // Between two signs of life.
  Duration lease = std::chrono::seconds(30);     // From the last sign of life that was answered.
  /// Whether the node's jobs are stopped when it ends, so that they may run elsewhere; else they go on.
  bool stops_jobs = false;

  friend bool operator==(const LeaseTerms&, const LeaseTerms&) = default;
};

/// So long after the controller heard of a node last no job of it runs any more, if it stops its jobs. Clocks are taken
/// to differ by 1 % in speed at most (quartz: 0.01 %).
constexpr Duration FencedAfter(const LeaseTerms& terms) {
  return terms.lease + terms.lease / 100 + kFenceGrace + kFenceMargin;
}

/// `lost_after`: when a silent node counts as lost. `requeue_after`: when its jobs are to run elsewhere; 0: never.
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
