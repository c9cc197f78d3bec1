// One decision. Jobs are taken in the order of their keys: each starts if it fits and delays nothing that is held for
// a job before it; the first blocked job of its kind (with GPUs, without) and every escalated one holds the earliest
// start that it can have. What could not start before and is not touched by anything that changed is not looked at.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/core/state/state.h"

namespace divvy::core {

/// Reservations at one time. Each costs a look at the ends of running jobs; those further back are made when their turn
/// comes nearer. Slurm bounds its backfill in the same way (bf_max_job_test).
inline constexpr std::size_t kMostPromises = 16;

/// How many promises are made anew in one decision to let jobs pass that fit beside them elsewhere.
inline constexpr int kMostRemakes = 32;

/// Gangs that drain nodes and look for better ones in one decision.
inline constexpr int kMostBetterDrains = 2;

/// Rounds in which nobody starts, after which promises are no longer improved in this decision.
inline constexpr int kMostIdleRounds = 64;

/// Why a job may not start whatever is free.
struct Barrier {
  std::optional<CapIndex> cap;
  TeamIndex over_limit = kRootTeam;
  TeamIndex over_quota = kRootTeam;
  bool could_never_run = false;
  bool any() const { return cap || over_limit != kRootTeam || over_quota != kRootTeam || could_never_run; }
};
Barrier BarrierOf(const Cluster::State& state, ClassIndex job_class);

class Pass {
 public:
  Pass(Cluster::State& state, Time now, const Cluster::NameMember& name, int most_remakes = kMostRemakes);
  /// Promises stay as they are: nobody gets one, and who has one does not start.
  void KeepPromises() { keeps_promises_ = true; }
  Plan Decide();

 private:
  struct Candidate {
    Key key;
    ClassIndex job_class = 0;
    Place place;
    bool is_blocked = false;     // Known to be; it may be promised a start.
    bool is_everywhere = false;  // Else the grown nodes are all that can help it.
  };
  /// Of the same job who may start comes first, and who is known to be blocked after it.
  static bool Later(const Candidate& a, const Candidate& b) {
    return b.key < a.key || (b.key == a.key && a.is_blocked && !b.is_blocked);
  }
  /// Stands behind a blocked head in first come, first served: tried when all of its priority are settled, by how long
  /// it waits beside how long it will run, whatever its place: the head has its promise, so nobody waits longer for the
  /// order among those who fill gaps. Source: largest expansion factor first (LXF-backfill: Chiang, Arpaci-Dusseau,
  /// Vernon, JSSPP 2002).
  struct Filler {
    /// Of those in one pool with the same priority, which a key of Order::kFifo begins with.
    static std::pair<std::int64_t, std::int64_t> RankOf(const Key& key) { return {key.rank[0], key.rank[1]}; }
    Candidate candidate;
    double waits = 0;  // In lengths of its own.
    Duration likely{0};
    friend bool operator<(const Filler& a, const Filler& b) {
      if (const auto order = RankOf(a.candidate.key) <=> RankOf(b.candidate.key); order != 0) return order < 0;
      if (a.waits != b.waits) return a.waits > b.waits;
      return a.likely != b.likely ? a.likely < b.likely : a.candidate.key < b.candidate.key;
    }
  };

  void TakeDue();
  void Round();
  void Collect();
  bool MustGoOn() const;
  struct KeyChange {
    Key before;
    Key after;
  };
  std::vector<KeyChange> RankPromises();
  void RankHeads();
  void RankDue(const std::vector<KeyChange>& promised);
  static bool Passes(const std::vector<KeyChange>& promised, const Key& before, const Key& after);
  bool FitsOnGrown(ClassIndex index) const;
  const Candidate* Next();
  Candidate Pop();
  bool IsFiller(const Candidate& candidate);
  bool AreFillersNext(const Candidate* next) const;
  void PushFiller(Candidate candidate);
  bool Concerns(const PromiseSlot& slot) const;
  bool IsPromised(JobId entry) const;
  bool IsBarred(ClassIndex index);
  bool IsKept(ClassIndex index);
  bool IsBarredUntilItsStart(const PromiseSlot& slot) const;
  void PushBlocked(JobId entry);
  void PushBehind(ClassIndex index, const Place& place);
  void PushNext(ClassIndex index);
  void FindHeads();
  void Push(Candidate candidate);
  void Settle();
  bool Resettle(PromiseSlot slot, const Place& place, bool is_escalated);
  void PartHolds(ClassIndex index, const std::vector<Piece>& pieces, Time at);
  void Unhold(PromiseSlot& slot);
  void Forget(std::size_t index);
  bool IsPutOff(const PromiseSlot& slot) const;
  bool Stands(const PromiseSlot& slot) const;
  bool IsReady(const PromiseSlot& slot) const;
  struct Outlook {
    std::vector<Piece> pieces;  // It starts there now.
    std::optional<Promise> promise;
    bool is_later = false;  // Than it was promised.
    bool is_kept() const { return !pieces.empty() || (promise && !is_later); }
  };
  Outlook Look(const PromiseSlot& slot, bool is_escalated);
  std::optional<Promise> Renewed(const PromiseSlot& slot, bool is_escalated);
  void NoteHopeless(ClassIndex index, bool is_escalated);
  bool IsHopeless(ClassIndex index, bool is_escalated);
  std::uint64_t& HopelessSince(ClassIndex index, bool is_escalated);
  bool Lift(std::size_t from);
  bool IsAnyEscalated(std::size_t from) const;
  void Restore(bool has_changed);
  void Try(Candidate candidate);
  void Blocked(const Candidate& candidate);
  std::vector<Piece> MovePromises(const Candidate& candidate);
  void HoldFor(PromiseSlot& slot);
  void HoldAgain(PromiseSlot& slot);
  void Launch(ClassIndex index, const Place& place, std::vector<Piece> pieces);
  void NoteBarred(ClassIndex started);
  void GrowElastic();
  std::optional<Piece> GrowByOne(JobId id);
  void FindWakeup();
  std::vector<Piece> Find(ClassIndex index, JobId entry, bool is_everywhere);
  JobId& first_blocked(ClassIndex index) { return first_blocked_[state_.HeadOf(index)]; }

  Cluster::State& state_;
  Time now_;
  const Cluster::NameMember& name_;
  Plan plan_;
  std::vector<NodeIndex> grown_;
  std::vector<Candidate> heap_;
  // Classes that fit on a grown node. They are many and few of them start, so they are not put in order: the first is
  // looked for each time, and those that no longer fit are dropped.
  std::vector<ClassIndex> pool_;
  std::optional<Candidate> pool_front_;
  bool is_pool_checked_ = true;
  std::set<Filler> fillers_;
  std::size_t settled_ = 0;           // promises[0..settled_) stand in this round.
  std::vector<JobId> first_blocked_;  // By State::HeadOf.
  std::set<JobId> blocked_;           // Pushed as such in this round.
  std::optional<Key> reached_;        // Of whom was looked at last in this round.
  bool has_started_ = false;          // Somebody, in this round.
  int idle_rounds_ = 0;               // Since somebody started.
  int remakes_left_ = 0;
  int drains_left_ = kMostBetterDrains;
  bool has_overrun_ = false;  // Somebody was expected to have ended by now.
  bool keeps_promises_ = false;
};

}  // namespace divvy::core
