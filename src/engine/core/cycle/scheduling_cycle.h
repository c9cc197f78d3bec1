// One scheduling cycle. Jobs are considered in key order. Each starts if it fits and delays no reservation of a job
// before it. The first blocked job of each type (with GPUs, without) and every escalated job reserve their earliest
// possible start. Blocked jobs unaffected by changes are skipped.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "engine/core/place/earliest.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/state.h"

namespace divvy::core {

/// The maximum number of reservations at a time. Each costs a look at the ends of running jobs. Jobs further back get
/// theirs when they come nearer to the head. Slurm bounds its backfill in the same way (bf_max_job_test).
inline constexpr std::size_t kMostReservations = 16;

/// How many reservations are recomputed in one decision so that jobs may pass that fit if reservations move elsewhere.
inline constexpr int kMostRemakes = 32;

/// How many gangs that drain nodes search for better ones in one decision.
inline constexpr int kMostBetterDrains = 2;

/// After this many rounds without a start, reservations are no longer improved in this decision.
inline constexpr int kMostIdleRounds = 64;

class SchedulingCycle {
 public:
  SchedulingCycle(ClusterState& state, Time now, const Cluster::NameMember& name, int most_remakes = kMostRemakes);
  /// Makes Decide leave backfill reservations unchanged: no job gets one, and jobs that have one do not start.
  void KeepReservations() { keeps_reservations_ = true; }
  Plan Decide();

 private:
  struct Candidate {
    Key key;
    ClassIndex job_class = 0;
    Place place;
    bool is_blocked = false;     // It is known to be blocked; it may still get a reservation.
    bool is_everywhere = false;  // False: only the grown nodes can help it.
  };
  /// The order of the heap of jobs to try: returns true if `a` comes after `b` in queue order. If both are the same
  /// job, the entry that may start comes before the one known to be blocked.
  static bool Later(const Candidate& a, const Candidate& b) {
    return b.key < a.key || (b.key == a.key && a.is_blocked && !b.is_blocked);
  }
  /// A job behind a blocked head under first come, first served. Fillers are tried after all other jobs of their
  /// priority, ordered by waiting time relative to their own length, whatever their position. The head has its
  /// reservation, so the order of the fillers delays no job. Source: largest expansion factor first (LXF-backfill:
  /// Chiang, Arpaci-Dusseau, Vernon, JSSPP 2002).
  struct Filler {
    /// Returns pool and priority from a job's key, which begins with them under QueuePolicy::kFifo.
    static std::pair<std::int64_t, std::int64_t> RankOf(const Key& key) { return {key.rank[0], key.rank[1]}; }
    Candidate candidate;
    double waits = 0;  // Waiting time in units of its own length.
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
  std::vector<KeyChange> RankReservations();
  void RankHeads();
  void RankDue(const std::vector<KeyChange>& key_changes);
  static bool Passes(const std::vector<KeyChange>& key_changes, const Key& before, const Key& after);
  bool FitsOnGrown(ClassIndex index) const;
  const Candidate* Next();
  Candidate Pop();
  bool IsFiller(const Candidate& candidate);
  bool AreFillersNext(const Candidate* next) const;
  void PushFiller(Candidate candidate);
  bool Concerns(const ReservationSlot& slot) const;
  bool HasReservation(JobId entry) const;
  bool IsBarred(ClassIndex index);
  bool IsKept(ClassIndex index);
  bool IsBarredUntilItsStart(const ReservationSlot& slot) const;
  void PushBlocked(JobId entry);
  void PushBehind(ClassIndex index, const Place& place);
  void PushNext(ClassIndex index);
  void FindHeads();
  void Push(Candidate candidate);
  void Settle();
  bool Resettle(ReservationSlot slot, const Place& place);
  void PartHolds(ClassIndex index, const std::vector<TaskPlacement>& placements, Time at);
  void Unhold(ReservationSlot& slot);
  void Forget(std::size_t index);
  bool IsPutOff(const ReservationSlot& slot) const;
  bool Stands(const ReservationSlot& slot) const;
  bool IsReady(const ReservationSlot& slot) const;
  struct Outlook {
    std::vector<TaskPlacement> placements;  // The job starts there now.
    std::optional<BackfillReservation> reservation;
    bool is_later = false;  // The start is later than its reservation's.
    bool is_kept() const { return !placements.empty() || (reservation && !is_later); }
  };
  Outlook Look(const ReservationSlot& slot);
  std::optional<BackfillReservation> Renewed(const ReservationSlot& slot);
  ReservationBasis BasisOf(ClassIndex index, Time since) const;
  void NoteHopeless(ClassIndex index, ReservationBasis basis);
  bool IsHopeless(ClassIndex index, ReservationBasis basis);
  std::uint64_t HopelessEpoch(ReservationBasis basis) const;
  std::uint64_t& HopelessSince(ClassIndex index, ReservationBasis basis);
  bool Lift(std::size_t from);
  bool IsAnyEscalated(std::size_t from) const;
  void Restore(bool has_changed);
  void Try(Candidate candidate);
  void Blocked(const Candidate& candidate);
  std::vector<TaskPlacement> MoveReservations(const Candidate& candidate);
  void ReserveFor(ReservationSlot& slot);
  void HoldAgain(ReservationSlot& slot);
  void Launch(ClassIndex index, const Place& place, std::vector<TaskPlacement> placements);
  void NoteBarred(ClassIndex started);
  void GrowElastic();
  std::optional<TaskPlacement> GrowByOne(JobId id);
  void FindWakeup();
  std::vector<TaskPlacement> Find(ClassIndex index, JobId entry, bool is_everywhere);
  JobId& first_blocked(ClassIndex index) { return first_blocked_[state_.HeadOf(index)]; }

  ClusterState& state_;
  Time now_;
  const Cluster::NameMember& name_;
  Plan plan_;
  std::vector<NodeIndex> grown_;
  std::vector<Candidate> heap_;
  // Classes that fit on a grown node. They are many, and few of them start, so they are not sorted: the first is
  // searched each time, and classes that no longer fit are dropped.
  std::vector<ClassIndex> pool_;
  std::optional<Candidate> pool_head_;
  bool is_pool_checked_ = true;
  std::set<Filler> fillers_;
  std::size_t settled_ = 0;           // reservations[0..settled_) are settled in this round.
  std::vector<JobId> first_blocked_;  // Indexed by ClusterState::HeadOf.
  std::set<JobId> blocked_;           // Entries pushed as blocked in this round.
  std::optional<Key> reached_;        // The key of the last job examined in this round.
  bool has_started_ = false;          // A job started in this round.
  int idle_rounds_ = 0;               // Rounds since the last start.
  int remakes_left_ = 0;
  int drains_left_ = kMostBetterDrains;
  bool has_overrun_ = false;  // A job is running past its expected end.
  bool keeps_reservations_ = false;
};

}  // namespace divvy::core
