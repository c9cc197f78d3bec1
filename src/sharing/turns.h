// Decides which tenant may launch work on one GPU (the turn). Stride scheduling (Waldspurger and Weihl 1995) over
// measured time. Each tenant has a virtual time that advances by its GPU time divided by its weight; the lowest runs
// next. Time spent draining a turn, and work beyond its end, is charged too, after it was measured.
//
//  * Work conserving: a holder without work gives the turn away. If only one tenant wants to run, its gate stays open
//    (until kNever).
//  * When a tenant becomes active, its virtual time becomes max(its own, the lowest of the active ones minus a bonus).
//    It runs before them, but has saved up at most the bonus. Interactive tenants have a larger bonus and end another
//    tenant's turn early.
//  * A limit also applies to a tenant that is alone. It is a budget of time that refills at the limit's rate, up to one
//    full window.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/units.h"
#include "sharing/share.h"

namespace divvy::sharing {

struct TurnSettings {
  Duration quantum = 20ms;            // Length of a turn while others wait.
  Duration window = 200ms;            // Period over which a limit is enforced.
  Duration bonus = 5ms;               // GPU time that a newly active tenant may be ahead, at most.
  Duration interactive_bonus = 40ms;  // The same for interactive tenants.
  Duration drain_bound = 2s;          // A holder that has not drained by then is reported as hung, once.
};

class Turns {
 public:
  explicit Turns(TurnSettings settings = {}) : settings_(settings) {}

  // --- Facts: `now` never decreases ----------------------------------------------------------------------------------

  /// Adds a tenant to those that use the GPU in turns. `weight`: its compute request; `limit`: its compute limit. A
  /// repeated call changes these values.
  void Add(TenantId id, GpuShare weight, GpuShare limit, bool is_interactive, Time now);
  /// Removes a tenant that has ended or left this GPU; none of its work is on the GPU any more.
  void Remove(TenantId id, Time now);
  /// Reports that the tenant wants to use the GPU: one of its programs waits for its turn, or has launched work during
  /// it.
  void OnWants(TenantId id, Time now);
  /// Reports that the tenant has no program that waits for the GPU and no unfinished work there. It gives its turn
  /// away.
  void OnIdle(TenantId id, Time now);
  /// The GPU has completed the work that the tenant launched before Decide ended its turn. Call this also if OnOverrun
  /// has stopped waiting for that work.
  void OnDrained(TenantId id, Time now);
  /// Stops waiting for the tenant's work to complete (after Decision::hung), so the next tenant gets its turn. GPU time
  /// is charged to this tenant until OnDrained, in addition to the next one.
  void OnOverrun(TenantId id, Time now);

  // --- Decisions -----------------------------------------------------------------------------------------------------

  struct Decision {
    std::optional<TenantId> holder;  // May launch. Empty: no tenant wants to, all are at their limits, or one drains.
    bool is_alone = false;           // No other tenant wants to run: the gate is kOpen instead of kTurn.
    Time until = kNever;             // When to call Decide again at the latest, even without new facts.
    std::optional<TenantId> drains;  // Close this tenant's gate and report its OnDrained before another runs.
    std::optional<TenantId> hung;    // Equals `drains`, which exceeded the drain bound. Reported once.
  };
  Decision Decide(Time now);

  // --- Queries -------------------------------------------------------------------------------------------------------

  /// Returns the GPU time that the tenant has had so far.
  Duration Had(TenantId id) const;
  std::string CheckInvariants() const;

 private:
  struct Entry {
    GpuShare weight;
    GpuShare limit;
    bool is_interactive = false;
    bool wants = false;
    bool overruns = false;          // Its turn ended, but its work in flight is not done yet.
    std::int64_t virtual_time = 0;  // GPU nanoseconds divided by weight, where GpuShare::kWhole counts as 1.
    std::int64_t budget = 0;        // Nanoseconds that it may run now within its limit; negative after an overrun.
    Duration had{0};
  };
  using At = std::map<TenantId, Entry>::iterator;

  void Charge(Time now);
  bool IsLimited(const Entry& entry) const { return entry.limit < GpuShare(GpuShare::kWhole); }
  std::int64_t FullBudget(const Entry& entry) const;
  std::int64_t LeastBudget(const Entry& entry) const;
  bool MayRun(const Entry& entry) const;
  std::int64_t LeastWaiting() const;
  Duration TurnOf(const Entry& entry) const;
  std::optional<TenantId> NextBut(std::optional<TenantId> other) const;
  bool IsTurnOver(Time now) const;
  Time WhenToLookAgain(Time now) const;
  Decision Drain(Time now);

  TurnSettings settings_;
  std::map<TenantId, Entry> entries_;
  std::optional<TenantId> holder_;
  std::optional<TenantId> draining_;
  std::int64_t virtual_now_ = 0;  // Virtual time of the last holder. Idle tenants wake at most their bonus behind it.
  Time turn_began_ = kNoTime;
  Time charged_until_ = kNoTime;
  Time drain_began_ = kNoTime;
  bool is_hung_said_ = false;
};

}  // namespace divvy::sharing
