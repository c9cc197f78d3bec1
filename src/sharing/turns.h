// Whose turn on one GPU it is. Stride scheduling (Waldspurger and Weihl 1995) over measured time: each tenant has a
// virtual time that advances by the time it had, divided by its weight; the least goes next. The drain of a turn, and
// what a holder ran beyond it, are charged as well, after they were measured.
//
//  * Work conserving: a holder with nothing to do gives the turn away, and alone the gate stands open (until kNever).
//  * A waker's virtual time is max(its own, the least of those at work, less a bonus): it goes before them, and has
//    saved up no more than the bonus. An interactive one's bonus is larger, and it ends another's turn early.
//  * A limit caps also one who is alone: a budget of time that refills at the limit's rate, at most a window full.
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
  Duration quantum = 20ms;            // Of a turn while others wait.
  Duration window = 200ms;            // A limit is kept over so long.
  Duration bonus = 5ms;               // Of GPU time that a waker is ahead, at most.
  Duration interactive_bonus = 40ms;  // Of an interactive one.
  Duration drain_bound = 2s;          // A holder that has not drained by then is reported as hung, once.
};

class Turns {
 public:
  explicit Turns(TurnSettings settings = {}) : settings_(settings) {}

  // --- Facts: `now` never runs backwards
  // --------------------------------------------------------------------------------

  /// `weight`: compute request; `limit`: compute limit. Said again: changes them.
  void Add(TenantId id, GpuShare weight, GpuShare limit, bool is_interactive, Time now);
  /// It has died or left this GPU: what it had in flight is over.
  void Remove(TenantId id, Time now);
  /// Somebody waits at its gate, or it launched while the gate was open.
  void OnWants(TenantId id, Time now);
  /// Nothing waits and the device has done all (the word kYield, or seen by its counters): gives the turn away.
  void OnIdle(TenantId id, Time now);
  /// After Decide ended its turn: what it had in flight is done, also if nobody waits for that any more.
  void OnDrained(TenantId id, Time now);
  /// It is not waited for any longer (after Decision::hung), and is charged until OnDrained, beside whoever has the
  /// turn meanwhile.
  void OnOverrun(TenantId id, Time now);

  // --- What is to be done
  // -----------------------------------------------------------------------------------------------

  struct Decision {
    std::optional<TenantId> holder;  // Who may launch. Nobody: nobody wants, all are at their limits, or one drains.
    bool is_alone = false;           // Nobody else wants: its gate is kOpen, else kTurn.
    Time until = kNever;             // When to decide again at the latest, though no fact came.
    std::optional<TenantId> drains;  // Whose gate is to be shut and who has to say OnDrained before another goes.
    std::optional<TenantId> hung;    // `drains` has not drained within the bound: said once.
  };
  Decision Decide(Time now);

  // --- Questions
  // --------------------------------------------------------------------------------------------------------

  /// GPU time that it has had so far.
  Duration Had(TenantId id) const;
  std::string CheckInvariants() const;

 private:
  struct Entry {
    GpuShare weight;
    GpuShare limit;
    bool is_interactive = false;
    bool wants = false;
    bool overruns = false;          // Its turn is long over, and what it had in flight is not done yet.
    std::int64_t virtual_time = 0;  // Nanoseconds of a GPU by a weight of GpuShare::kWhole.
    std::int64_t budget = 0;        // Nanoseconds that it may run now, by its limit; below zero after an overrun.
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
  std::int64_t virtual_now_ = 0;  // Of who had the last turn: nobody who was idle wakes further behind than its bonus.
  Time turn_began_ = kNoTime;
  Time charged_until_ = kNoTime;
  Time drain_began_ = kNoTime;
  bool is_hung_said_ = false;
};

}  // namespace divvy::sharing
