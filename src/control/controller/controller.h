// The controller: commands and facts in; rows to persist, orders to send and answers out. A state machine without I/O:
// the daemon drives it with real sockets and disks, the tests with none.
//
// Every public method applies one fact at a time `now` and adds to the effects that TakeEffects() hands over. Decide()
// plans with what has changed since; the daemon calls it once per turn of its loop, so that everything that arrived
// during one commit is decided and committed together.
//
// Invariants (CheckInvariants): a record is active exactly when it runs in the cluster, with the same GPUs; a record
// waits exactly when the cluster has its entry; ids are never given out twice.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/effects.h"
#include "control/books/job_changes.h"
#include "control/books/node_book.h"
#include "control/books/pool_book.h"
#include "control/books/progress.h"
#include "control/books/reservation_book.h"
#include "control/books/run_time_book.h"
#include "control/books/settings_text.h"
#include "control/books/speed_book.h"
#include "control/books/team_book.h"
#include "control/books/usage_book.h"
#include "engine/server/explain.h"
#include "model/job_record.h"
#include "model/run_description.h"

namespace divvy {

/// How a job that is no longer live ended; nothing if there never was such a job. Asked of the store.
using FindOutcome = std::function<std::optional<JobRecord>(JobId)>;

struct Limits {
  std::uint64_t max_queued = 1'000'000;  // Waiting members, arrays counted by element; beyond, submissions are refused.
  std::uint64_t max_queued_of_user = 10'000;  // The same of each user who is no administrator.
  bool users_may_raise = false;               // Users may give their jobs a priority above 0.
  Duration max_time_limit{0};                 // 0: none.
  Duration default_time_limit{0};             // 0: none.
  Bytes ignore_unmanaged_below;               // A foreign process with less GPU memory than this takes no GPU away.
};

struct SubmitResult {
  JobId id;
  std::uint64_t count = 1;
  JobState state = JobState::kQueued;
};

class Controller {
 public:
  /// `seed` feeds the draws of random placement; the same seed and facts give the same history.
  Controller(Policy policy, Limits limits, std::uint64_t seed);

  // --- Start ---------------------------------------------------------------------------------------------------

  void SetCapacity(NodeCapacity capacity);
  /// The name of the controller's own machine, for people.
  void SetOwnName(std::string name);
  /// How the elements of an array are called whose own name has a "{": names of parameters, which only its
  /// specification knows. Asked inside a step, of an element as it begins to be a record of its own.
  void SetElementNames(std::function<std::string(const JobRecord& element)> name_of) { name_of_ = std::move(name_of); }
  /// Takes over what the store held. Active jobs stay active until OnAdopted, OnExited or OnVanished says more.
  void Load(std::vector<JobRecord> live, const std::vector<std::pair<std::string, std::string>>& settings,
            std::uint64_t next_id, std::uint64_t jobs_total, const FindOutcome& outcome);

  /// Jobs that ended before this start, oldest first: how long they ran says how long their like will. Before Load.
  void LearnRunTimes(const std::vector<JobRecord>& finished);

  // --- Commands ------------------------------------------------------------------------------------------------

  /// `elements`: how many the spec's array and sweep make together; 0: a single job. The spec must be complete.
  Result<SubmitResult> Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                              const FindOutcome& outcome);
  /// What would become of such a submission, which changes nothing. Fails as Submit does.
  struct Forecast {
    JobId id;                 // That it would get.
    Time start = kNever;      // kNever: nothing known makes it start.
    std::string basis;        // Of `start`, or why there is none; empty: it would start at once.
    std::vector<Seat> seats;  // Where, if at once.
  };
  Result<Forecast> Foresee(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                           const FindOutcome& outcome);
  /// Undoes submissions that could not be made durable, before any of their effects were sent.
  void Withdraw(const std::vector<JobId>& ids, Time now);

  // Each says what was done ("cancelled", "stopping: SIGTERM now, SIGKILL after 30 s") or why not.
  Result<std::string> Cancel(JobId id, int signal, Duration grace, const std::string& reason, const Caller& caller,
                             Time now);
  Result<std::string> Hold(JobId id, const Caller& caller, Time now);
  Result<std::string> Release(JobId id, Time at, const Caller& caller, Time now);
  /// `holds`: it waits for Release then.
  Result<std::string> Requeue(JobId id, bool holds, const Caller& caller, Time now);
  /// The same of a job that has ended, by its record, under its own id. `spec` is its specification; `array` that of
  /// its array, where it is an element; `owner_groups`: as Caller::groups, of its user, whoever asks. What it depended
  /// on does not count again.
  Result<std::string> RequeueEnded(JobRecord ended, const JobSpec& spec, std::optional<JobRecord> array,
                                   std::vector<std::string> owner_groups, bool holds, const Caller& caller, Time now);
  Result<std::string> Pause(JobId id, bool is_paused, const Caller& caller, Time now);
  Result<std::string> Signal(JobId id, int signal, SignalReach reach, const Caller& caller);
  /// All of `changes` or none: of an array in all elements that wait, and in those that run where they still may
  /// change. Errors name the field that is refused. `changes.spec` is for the job `id` itself.
  Result<std::string> Update(JobId id, const JobChanges& changes, const Caller& caller, Time now,
                             const FindOutcome& outcome);
  /// Whether the caller leads the team that the job runs for, or one above it.
  bool Leads(const Caller& caller, const JobRecord& record) const {
    return teams_.IsLedBy(record.team, caller.user.name);
  }
  /// Owner and administrators may do to a job whatever `verb` says, and whoever leads its team what CanLead says;
  /// fails with kPermissionDenied.
  Status Authorise(const JobRecord& record, const Caller& caller, std::string_view verb) const;
  Result<std::string> SetGroupLimit(const std::string& group, int limit, const Caller& caller, Time now);

  /// New work on each of `nodes` (empty: the controller's own machine) gets these GPUs only; nothing: all. On all of
  /// them or on none. What it may use now, on the last.
  Result<GpuSet> Restrict(std::optional<GpuSet> allowed, const Caller& caller,
                          const std::vector<std::string>& nodes = {""});
  /// `process.node` is known, or empty. One on another machine is looked up by its pid among those that were seen on
  /// GPUs there.
  Result<std::string> Ignore(IgnoredProcess process, bool is_ignored, const Caller& caller);

  // --- Parts of GPUs (controller_portions.cc) -------------------------------------------------------------------

  /// A job that has, or waits for, parts of GPUs: what it asks of each is this from now on. While it runs, only as far
  /// as there is room beside those who share them with it.
  Result<std::string> ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                    const FindOutcome& outcome);
  /// The record of a job that runs with parts of GPUs, for who may do something with them: `verb` is "park", "wake"
  /// or "move".
  Result<const JobRecord*> FindTenant(JobId id, const Caller& caller, std::string_view verb) const;
  /// Where tenants of a machine's shared GPUs are that cannot be moved from there. Said whenever it may have changed.
  struct Tenant {
    JobId job;
    std::uint32_t attempt = 0;
    GpuSet gpus;  // Where it is, as many as it has parts of.
    bool can_move = false;
  };
  /// Whether it has.
  bool OnTenants(const std::string& node, const std::vector<Tenant>& tenants);
  void OnStuckGpus(const std::string& node, const std::map<GpuIndex, std::string>& stuck);  // All: why no new work.
  /// Nothing else was left to give others what is their right (docs/sharing.md): back to the queue. Ignored unless the
  /// job agreed to it, and it is this attempt of it.
  void OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now);
  /// Parked, woken, moved: it goes into the job's history. Ignored for an attempt that is over.
  void OnShareEvent(JobId id, std::uint32_t attempt, const std::string& what, Time now);

  // --- Elastic jobs that run (controller_elastic.cc) -----------------------------------------------------------

  struct Checkpointed {
    GpuSet gpus;               // To use from now on.
    bool has_changed = false;  // They are others than it was told before.
  };
  /// The job, by its own word, has come to where it can change its GPUs: what it was asked for is given back now. From
  /// the first time on it takes part in being resized. `attempt`: which run says so; 0: the one that there is.
  Result<Checkpointed> Checkpoint(JobId id, std::uint32_t attempt, const Caller& caller, Time now);

  // --- Progress and speeds (controller_progress.cc) ------------------------------------------------------------

  /// A job that runs says how far it is; what it said last is durable ten seconds later at most. `attempt`: as above.
  Result<Progress> ReportProgress(JobId id, std::uint32_t attempt, const ProgressReport& report, const Caller& caller,
                                  Time now);
  /// What jobs said and is not durable yet; to be kept when the daemon ends.
  Batch UnkeptProgress() const;
  const SpeedBook& speeds() const { return speeds_; }
  /// How fast a job is on which GPUs here, and who says so: "A100 at 0.55 of H100, learned from 12 runs". Empty:
  /// nobody.
  std::string SpeedsOf(const JobRecord& record) const;

  // --- Teams (controller_teams.cc) -----------------------------------------------------------------------------

  /// Before Load. Fails with one line; the daemon does not start on it.
  Status UseTeamsFile(const TeamsFile& file) { return teams_.AddFile(file); }
  // Administrators only. Each says what was done.
  Result<std::string> SetTeam(const TeamChange& change, const Caller& caller, Time now);
  Result<std::string> RemoveTeam(const std::string& name, const Caller& caller, Time now);
  Result<std::string> SetTeamUser(const UserChange& change, const Caller& caller, Time now);
  Result<std::string> SetQuotas(bool are_on, const Caller& caller, Time now);
  const TeamBook& teams() const { return teams_; }
  /// What Load found that can no longer be as it was, a line each.
  const std::vector<std::string>& team_warnings() const { return team_warnings_; }
  /// What a team (with all below it) or a user does now, and has used up in its budget's period.
  struct TeamLoad {
    std::int64_t running = 0;  // Jobs.
    std::int64_t queued = 0;
    double gpus = 0;
    Used used;
  };
  /// By UsageBook::TeamKey and UserKey; of all that have a row, and of users with jobs.
  std::map<std::string, TeamLoad> TeamLoads(Time now) const;
  /// The usage of each user this month in each team itself, without the teams below it; "" stands for no team.
  std::map<std::pair<std::string, std::string>, Used> MemberUsage(Time now) const;

  // --- Pools (controller_pools.cc) -----------------------------------------------------------------------------

  /// After UseTeamsFile, before Load. Fails with one line; the daemon does not start on it.
  Status UsePools(std::vector<PoolRow> rows);
  const PoolBook& pools() const { return pools_; }
  /// Of a waiting job that names several pools, why it is not offered to the others: a line for each.
  std::vector<std::string> ClosedPools(const JobRecord& record) const;
  struct PoolLoad {
    std::vector<NodeIndex> nodes;
    std::int64_t running = 0;  // Jobs.
    std::int64_t queued = 0;
    double gpus = 0;  // That its jobs hold.
  };
  /// By name; of those that labels of machines name as well.
  std::map<std::string, PoolLoad> PoolLoads() const;

  // --- Reservations (controller_reservations.cc) ---------------------------------------------------------------

  /// How far ahead turns are booked.
  static constexpr Duration kBookingHorizon = std::chrono::hours(24 * 8);
  /// Administrators only. Refused, with who is in the way, when one of its turns within the horizon has no room.
  Result<GpuReservation> Reserve(GpuReservation asked, const Caller& caller, Time now);
  /// By number or name; administrators, and the user whom it is for.
  Result<std::string> CancelReservation(const std::string& which, const Caller& caller, Time now);
  const ReservationBook& reservations() const { return reservations_; }
  std::vector<TurnView> TurnsAhead(const GpuReservation& reservation, Time now) const;
  /// What a booking of the engine is a turn of.
  std::optional<std::uint64_t> ReservationOfBooking(std::uint64_t booking) const;

  // --- Runs that the store does not know (controller_found.cc) ---------------------------------------------------

  enum class Found {
    kTaken,    // The store knows the job: the run is taken over, as the attempt that it is.
    kOver,     // The store knows that this run is over, or was replaced by a later one: it is ended.
    kUnknown,  // The store was lost, emptied or restored: the run is left alone and its GPUs are withheld.
  };
  /// A node found this run by its run record, or says what has become of it. `run.record.node` is that node.
  Found OnFound(RunDescription run, Time now, const FindOutcome& outcome);
  /// A line of the run journal: a launch, or the end of a run, that the store may not know. After Load, in order.
  void Replay(const RunDescription& run, Time now);
  /// Whether Replay may have a use for a line about this run.
  bool MayReplay(JobId job, std::uint32_t attempt) const;
  /// No id below this is given out any more.
  void ReserveIds(std::uint64_t next_id);
  /// Takes over a run that was found, under its old id. It never runs again: its environment is not known. Owners and
  /// administrators.
  Result<std::string> Adopt(JobId id, const Caller& caller, Time now);
  /// Ends a run that was found, and forgets it. Owners and administrators.
  Result<std::string> EndFound(JobId id, const Caller& caller);
  struct FoundRun {
    RunDescription run;
    bool is_ending = false;
    bool is_id_taken = false;  // The store knows another job of that id.
    bool is_adopted = false;   // Kept for the case that this cannot be made durable (Withdraw).
  };
  const std::map<JobId, FoundRun>& found() const { return found_; }

  // --- Facts ---------------------------------------------------------------------------------------------------

  // `node`: the machine that says so; empty: the controller's own. Times `at` are the controller's.
  void OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node = {});
  /// The end of a job's process tree. A report of an older attempt, or of a job that is not active, only gives its
  /// run record back. May queue the job again (retry, requeue).
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now, const std::string& node = {});
  /// A restart of the daemon, or agent, found no supervisor that watches the job, and no end.
  enum class Vanished {
    kNeverStarted,  // Its launch never happened.
    kUnseen,        // It ran, its supervisor was killed, and nobody saw the end.
    kRebooted,      // It ran when the machine went down.
    kFenced,        // Its machine is cut off, and has stopped its jobs by its own lease.
    kGone,          // Its machine is gone for good, as an administrator says.
  };
  void OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node = {});
  void OnGpusObserved(const std::vector<GpuObservation>& observations);

  // --- Machines of agents (controller_nodes.cc), gangs (controller_gangs.cc) -----------------------------------

  /// Within this time all machines of a gang have prepared their parts, or it is undone.
  static constexpr Duration kPrepareWithin = std::chrono::seconds(60);
  /// A machine has come, or what it is or is to do has changed. Before Load for each that is in the store; it takes no
  /// work before OnNodeAccounted.
  void OnNodeRow(const NodeRow& row);
  void OnNodeRemoved(const std::string& name);
  /// It is connected, and what runs there is known.
  void OnNodeAccounted(const std::string& name);
  /// Its connection was cut, perhaps for a moment: nothing new goes there until it is back.
  void OnNodeAway(const std::string& name);
  std::string AbsenceOf(const std::string& name) const;  ///< "node n1 is away: ...". Empty: it is there, or is none.
  std::string DrainOf(const std::string& name) const;    ///< What stops its jobs before long; empty: nothing does.
  /// Not heard from for long. Its jobs go on for all we know.
  void OnNodeLost(const std::string& name, Time now);
  void OnNodeBack(const std::string& name);
  /// What keeps it from taking jobs, as it finds itself; empty: nothing any more. `name` empty: our own machine.
  void OnNodeTrouble(const std::string& name, const std::string& what);
  /// That, or what kept it from starting its last job: "its disk is full: ...". Empty: nothing.
  std::string TroubleOf(const std::string& name) const;
  /// By its own lease it has stopped its jobs; or it is away for good, an administrator says. They may run elsewhere.
  void OnNodeFenced(const std::string& name, Time now) { LoseRuns(name, Vanished::kFenced, now); }
  void OnNodeGone(const std::string& name, Time now) { LoseRuns(name, Vanished::kGone, now); }
  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& observations);
  /// It has prepared its part of a gang; `port`: where its step process hears the others, not 0.
  void OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now);
  /// Its start is delayed there; `why` becomes the job's reason until it starts: "waits up to 10 s for directory ...".
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node = "");
  /// Active jobs that have a part there, which has not ended; ascending.
  std::vector<JobId> RunsOn(const std::string& node) const;
  /// As records name it: empty for the controller's own.
  std::string NodeName(NodeIndex node) const;
  std::optional<NodeIndex> IndexOf(const std::string& node) const;
  const std::vector<GpuObservation>& observations(NodeIndex node) const;

  /// Something of the daemon's own, durable with all that this step changes.
  void KeepSetting(std::string_view key, std::string text) {
    effects_.batch.settings.emplace_back(key, std::move(text));
  }

  /// Goes into the history, and to whoever watches: "GPU 3 works again".
  void OnMachineEvent(const std::string& text, Time now);

  /// What teams used lately, so that it goes on to count after the next start of the daemon (policy fair). Decide keeps
  /// it now and then; to be kept when the daemon ends. Nothing where nothing was used.
  std::optional<std::pair<std::string, std::string>> TeamUsageSetting(Time now) const;

  /// Plans and starts what can start. Cheap when nothing has changed.
  void Decide(Time now);
  /// When Decide is needed next though nothing happens; kNever: it is not.
  Time next_wakeup() const { return next_wakeup_; }

  Effects TakeEffects() {
    batch_index_ = BatchIndex();
    return std::exchange(effects_, Effects());
  }

  // --- Views ---------------------------------------------------------------------------------------------------

  const Server& cluster() const { return cluster_; }
  const Policy& policy() const { return policy_; }
  const std::map<JobId, JobRecord>& live() const { return live_; }
  const JobRecord* Find(JobId id) const;
  /// The array that holds `id` as an element that is not a record of its own yet.
  const JobRecord* ArrayOf(JobId id) const;
  /// The reason why this waiting job has not started, as of the last decision: the first blocker of `why`
  /// (start_reason.h).
  Reason WaitingReason(const JobRecord& record) const;
  /// How long a job's like ran, for estimates.
  core::SpreadOf run_spread() const;
  const RunTimes& run_times() const { return run_times_.run_times(); }
  const std::vector<IgnoredProcess>& ignored() const { return ignored_; }
  const std::vector<GpuObservation>& observations() const { return observations_; }
  /// GPUs of the machine that new work may use; nothing: all.
  std::optional<GpuSet> restriction(const std::string& node = {}) const {
    const auto at = restrictions_.find(node);
    return at == restrictions_.end() ? std::nullopt : std::optional(at->second);
  }
  std::uint64_t jobs_total() const { return jobs_total_; }
  /// A specification that came or changed since TakeEffects; null when it did not.
  std::shared_ptr<const JobSpec> PendingSpec(JobId id) const;

  std::string CheckInvariants() const;

 private:
  Result<NodeIndex> FindMachine(const std::string& node) const;
  Status CheckRestriction(NodeIndex node, GpuSet allowed) const;
  void ForgetIgnored(const std::string& node, const std::vector<GpuObservation>& observations);
  Result<JobRecord*> FindForAction(JobId id, const Caller& caller, std::string_view verb);
  /// Makes an array's element a record of its own, so that it can differ.
  JobRecord* SplitElement(JobRecord& array, std::uint32_t ordinal);
  JobRecord NewElement(const JobRecord& array, std::uint32_t ordinal) const;
  void TakeBackFromArray(const JobRecord& element, std::optional<JobRecord> array);
  /// Removes a live job and its elements from memory and appends them to `removed`.
  void RemoveSubmission(JobId id, std::vector<JobRecord>& removed);
  /// For so many jobs more in the queue.
  Status CheckRoom(std::uint64_t jobs, const Caller& caller) const;
  /// kPermissionDenied where the caller may not give a job that has `before` the priority `after`.
  Status CheckPriority(int before, int after, const Caller& caller) const;
  Forecast ForecastOf(JobId waiting, Time now) const;
  void PutWaiting(const JobRecord& record);
  std::vector<std::string> UnmetDependencies(const JobRecord& record) const;
  /// The jobs that have to end first, where all that it still waits for are such; else none.
  std::vector<JobId> EndsWaitedFor(const JobRecord& record) const;
  Status LearnOutcomes(const std::vector<Dependency>& dependencies, const FindOutcome& outcome);
  void ForgetOutcomes(const std::vector<Dependency>& dependencies);  ///< Where nobody else waits for them.
  bool IsAskedFor(const JobRecord& record) const;
  /// The target of a dependency: live, or how it ended; null while an array's element has no record of its own.
  const JobRecord* Target(const Dependency& dependency) const;
  /// One that waits with its array is named by array and index: it may never get a record under its own id.
  void NameElements(std::vector<Dependency>& dependencies) const;
  bool WasCancelledWaiting(const Dependency& dependency) const;
  bool IsForgotten(const Dependency& dependency) const;  ///< Nobody knows any more what became of its target.
  DependencyStatus StatusOf(const JobRecord& record, const Dependency& dependency) const;
  std::string WhyImpossible(const Dependency& dependency) const;
  /// Stores in `record` what is known of its targets now; true if that has changed.
  bool SettleDependencies(JobRecord& record) const;
  /// Whether the dependencies can still be met, and else why not.
  struct Hope {
    bool is_lost = false;
    std::string why;
  };
  Hope HopeOf(const JobRecord& record) const;
  class WaitGraph;
  /// "5 after 6 after 5" when `start` would wait for itself were the records `edited` live; "" when it would not.
  std::string FindCycle(const std::map<JobId, JobRecord>& edited, JobId start) const;
  void IndexDependencies(const JobRecord& record, bool is_added);
  void ResolveDependents(const JobRecord& changed, Time now);
  void Finish(JobRecord& record, JobState state, Reason reason, Time now);
  void FinishArrayIfDone(JobId array, Time now);
  Status CheckTimeLimit(Duration limit) const;
  // The steps of Update; those before Replace change nothing.
  Result<std::map<JobId, JobRecord>> Concerned(JobId id, const Caller& caller) const;
  Status KeepWhatMayChange(JobId id, const JobChanges& changes, std::map<JobId, JobRecord>& records) const;
  Status CheckChange(const JobRecord& before, const JobRecord& after, const JobChanges& changes,
                     const Caller& caller) const;
  Status CheckPoolChange(const JobRecord& after, const JobChanges& changes, const Caller& caller) const;
  Status CheckDependencies(JobId id, const std::map<JobId, JobRecord>& edited, const JobChanges& changes,
                           const FindOutcome& outcome);
  void Replace(const JobRecord& after, const JobChanges& changes, const FindOutcome& outcome);
  void CountElements(const JobRecord& array);
  void KeepSpec(JobId id, std::shared_ptr<const JobSpec> spec);
  /// The state and reason of a job whose run ended with `exit`.
  static std::pair<JobState, Reason> Judge(const JobRecord& record, const Exit& exit);
  bool RunsAgain(JobRecord& record, JobState outcome, const Exit& exit, Time now);
  /// Nothing of it is left anywhere; its exit and end are set.
  void EndRun(JobRecord& record, Time now);
  /// As EndSeat.
  bool VanishSeat(JobRecord& record, const std::string& node, Vanished how, Time now);
  void QueueAgain(JobRecord& record, Time begin, Reason reason, Time now);
  JobId NextMember(JobId entry);
  /// `decision.entry`, or an element of it, runs as `job` in the cluster already.
  void Start(const StartDecision& decision, JobId job, Time now);
  /// Of all GPUs that it holds; empty where they are of several.
  std::string ModelOf(const JobRecord& record) const;
  RunningJob ToRunning(const JobRecord& record) const;
  Preemptible PreemptibleOf(const JobRecord& record) const;
  void TakeBack(const Taking& taking, Time now);
  void Resize(const Resizing& resizing, Time now);
  void RefreshPredictions(Time now);
  void ExpectEndOf(const JobRecord& record);
  void KeepProgress(Time now);
  void KeepStarts(Time now);
  void EmptyRemoved(NodeIndex node);
  JobRecord& Revive(JobRecord ended, const FindOutcome& outcome);
  JobRecord* SameJob(const JobRecord& run);
  void LeaveCluster(const JobRecord& record);
  bool HasRoomFor(const RunDescription& run, const JobRecord* known) const;
  void HoldBack(JobRecord& record, Time now);
  void KeepEnd(JobRecord& record, const RunDescription& run, Time now);
  void TakeUp(JobRecord& record, const RunDescription& run, const std::string& why, Time now);
  void ForgetFound(const std::string& node);
  void RefreshGpusOf(const std::string& node);
  /// Which found runs have this GPU, as a text for people; empty: none.
  std::string FoundOn(const std::string& node, GpuIndex gpu) const;
  void LoseRuns(const std::string& node, Vanished how, Time now);
  std::string PlacePool(const std::string& pool) const;
  void LearnSpeed(const JobRecord& record, bool ended_well);
  std::vector<ModelSpeed> LearnedSpeeds(const JobRecord& record) const;
  void RefreshAvailability();
  void RefreshGpus(NodeIndex node, const std::vector<GpuObservation>& observations);
  // Machines and gangs.
  struct Machine {
    NodeWork work = NodeWork::kTakes;
    std::string reason;  // Why an administrator gives it no work.
    Time drain_deadline = kNever;
    bool is_accounted = false;
    bool is_away = false;
    bool is_lost = false;
    bool is_removed = false;
    bool is_drained = false;  // It is draining, and nothing runs there any more.
    std::string trouble;      // What keeps it from taking jobs, as it finds itself.
    std::string refusal;      // What kept it from starting the last one; looked at again at
    Time rests_until = kNever;
    std::vector<GpuIndex> gone;  // Counted, because something runs there, and no longer there.
    std::vector<GpuObservation> observations;
    std::map<JobId, GpuSet> stays;          // Tenants of shared GPUs that cannot be moved, and where they are.
    std::map<GpuIndex, std::string> stuck;  // OnStuckGpus.
    bool is_paper_loose = false;            // Whether parts of its GPUs may be counted on fewer of them.
  };
  void KnowModels(const NodeCapacity& capacity);
  Machine& MachineOf(NodeIndex node);
  void SetFacts(NodeIndex node, const NodeRow& row);
  void KeepGpusOf(const JobRecord& record);
  void RefreshNode(NodeIndex node);
  void FollowMachines(Time now);
  void StopForDrain(NodeIndex node, Time now);
  /// A machine could not start what it was given, for reasons of its own.
  void OnRefusal(JobRecord& record, const std::string& node, const Exit& exit, Time now);
  /// Its GPUs could not be emptied for it.
  void OnNoRoom(JobRecord& record, const std::string& node, const Exit& exit);
  Duration RoomDelay(JobId job) const;
  /// It was queued again since it had borrowed what others have a right to: not before this.
  Duration BorrowDelay(const JobRecord& record, Time now);
  // Parts of GPUs: which of its machine's GPUs each is counted on (engine/server/paper.h).
  void LoosenPaper(const JobRecord& record);
  void PackPaper();
  void PackPaper(NodeIndex node);
  void SetPaper(JobRecord& record, GpuSet gpus);
  GpuSet CutGpus(const BookNode& node) const;
  Status GrowPortion(JobRecord& record, const GpuPortion& wanted);
  std::string MachineText(NodeIndex node) const;
  /// To each of its machines on which its part has not ended.
  void Send(const JobRecord& record, Order order);
  void Launch(const JobRecord& record, Time now);
  void LetGo(const JobRecord& record);
  void FollowPreparing(Time now);
  // Jobs that have to be over by a time (controller_deadlines.cc).
  void WatchDeadline(const JobRecord& record);
  void EndLate(Time now);
  void EndLateElements(JobRecord& array, Time now);
  static bool CutToDeadline(JobRecord& record);  ///< Whether its limit is another now, by more than a moment.
  static void RestoreLimit(JobRecord& record);   ///< Its run is over, and another may be longer.
  void UndoGang(JobRecord& record, const std::string& why, Time now);
  /// Whether that was the last of them. The record's exit is that of the part that ended first.
  bool EndSeat(JobRecord& record, const std::string& node, const Exit& exit, Time at, Time now);
  void Persist(const JobRecord& record);
  void Note(JobId id, std::string text, Time now);
  void Announce(const JobRecord& record);
  // Teams.
  std::vector<GroupName> GroupsOf(const JobRecord& record) const;
  std::vector<const TeamRow*> TeamsOf(const JobRecord& record) const { return teams_.PathOf(record.team); }
  // Pools.
  bool HasPool(const std::string& name) const;
  /// The pool of a job that names none, and what its pool says where the job does not.
  Status FillPool(JobSpec& spec) const;
  Status CheckPoolNames(const std::vector<std::string>& names) const;
  Status FillComponentPools(JobSpec& spec, const Caller& caller) const;
  Status TakeWholeMachines(const PoolRow& pool, JobSpec& spec) const;
  static void ShareGpus(const PoolRow& pool, JobSpec& spec);
  /// Those of these pools that its user may use; `list` may be empty. Refused where none of them takes such a job.
  Result<std::string> CheckPools(const std::string& list, const PoolBook::Wish& wish) const;
  PoolBook::Wish WishOf(const JobRecord& record) const;
  /// Those of its pools in which it may start, as things are; all that admit it where all of them are full.
  std::vector<std::string> OpenPools(const JobRecord& record) const;
  /// As TeamBar.
  std::string PoolBar(const JobRecord& record) const;
  /// Why the pool never takes it as things are; empty: it does, when there is room.
  std::string WhyClosed(const PoolRow& pool, const JobRecord& record) const;
  std::vector<GroupName> PoolGroupsOf(const JobRecord& record) const;
  void CountInItsPool(const JobRecord& record);
  /// Jobs that name several pools wait in those that are open to them now. Whether any does in others than before.
  bool FollowPools();
  /// One decision, carried out. When the next is due.
  Time CarryOut(Time now);
  /// Fills in the team that the job runs for. Changes nothing when it fails.
  Status CheckTeam(JobSpec& spec, std::uint64_t elements, const Caller& caller, Time now) const;
  Status CheckQueued(const JobSpec& spec, std::uint64_t elements, const Caller& caller) const;
  /// Refuses what its team may never run, so that it would wait for ever.
  Status CheckTeamGpus(const JobRecord& record) const;
  /// Refuses what is more than the user may ever hold at once.
  Status CheckUserGpus(const std::string& user, const Request& request) const;
  /// What keeps such a job from starting whatever is free, as something that it waits for; empty: nothing.
  std::string TeamBar(const JobRecord& record) const;
  /// Administrators, and who leads all teams of the user.
  Status CheckMaySetUser(const UserChange& change, const Caller& caller) const;
  void LoadTeams();
  void KeepTeamUsage(Time now);
  void LoadTeamUsage();
  bool TellTeams(Time now);
  void SetTeamCaps();
  void FollowTeams(Time now);
  void PutAllAgain();
  void KnowUserCap(const JobRecord& record);
  /// Its run is over.
  void CountUsage(const JobRecord& record, Time until);
  Stretch StretchOf(const JobRecord& record, Time until) const;
  Used UsedBy(const std::string& key, BudgetPeriod period, Time now) const;
  void WatchBudgets(Time now);
  // Reservations.
  bool BookTurn(const GpuReservation& reservation, const GpuTurn& turn, Time now);
  bool BookAgain(const GpuReservation& reservation, const GpuTurn& turn, Time now);
  void Unbook(std::uint64_t turn);
  void BookAnew(Time now);
  void FollowReservations(Time now);
  std::string WhyNoRoom(const GpuReservation& reservation, const GpuTurn& turn, Time now) const;

  Server cluster_;
  Policy policy_;
  Limits limits_;
  std::uint64_t seed_ = 0;
  std::map<JobId, JobRecord> live_;
  std::uint64_t next_id_ = 1;
  std::uint64_t jobs_total_ = 0;
  /// Dependency -> who waits for it. Singletons wait under their name.
  std::map<JobId, std::set<JobId>> dependents_;
  std::map<std::string, std::set<JobId>> singletons_;
  /// How jobs that are no longer live ended, as long as somebody's dependency asks.
  std::map<JobId, JobRecord> outcomes_;
  std::map<std::string, int> group_limits_;
  std::map<std::string, GpuSet> restrictions_;  // By machine, as records name it; of those that have one.
  std::vector<IgnoredProcess> ignored_;
  std::vector<GpuObservation> observations_;
  std::vector<Machine> machines_;  // By number; of the controller's own only what it takes.
  std::map<JobId, int> refusals_;  // How many machines, one after the other, could not start a job.
  /// Jobs that had to end since they borrowed: how often without having run for long between.
  struct Repaid {
    int times = 0;
    bool is_now = false;
  };
  std::map<JobId, Repaid> repaid_;
  std::map<JobId, Time> preparing_;  // Gangs that get ready, and until when they may.
  /// By the latest start: jobs that have to be over by a time. Some of them may have started, or are over.
  std::set<std::pair<Time, JobId>> latest_starts_;
  std::string first_model_;  // Of the GPUs that came first.
  bool needs_plan_ = true;
  Time next_wakeup_ = kNever;
  PoolBook pools_;
  std::set<JobId> choosy_;  // Wait, or waited lately, and name several pools of which one is capped.
  TeamBook teams_;
  UsageBook usage_;
  std::set<std::string> team_caps_;           // Groups whose limits are those of teams and users.
  std::map<std::string, std::string> spent_;  // Whose budget is used up, and what their jobs wait for.
  Time budgets_change_at_ = kNoTime;          // When one is used up, or begins anew.
  bool are_budgets_stale_ = false;            // Other jobs run since.
  std::vector<std::string> team_warnings_;
  std::string told_teams_;  // Of the engine, as text.
  ReservationBook reservations_;
  RunTimeBook run_times_;
  SpeedBook speeds_;
  bool is_mixed_ = false;  // The GPUs are of several models: only then speeds matter.
  struct Booked {
    std::uint64_t id = 0;  // In the engine.
    Time until = kNever;
  };
  std::map<std::uint64_t, Booked> bookings_;  // By turn.
  Time next_booking_ = kNoTime;               // When turns are to be looked at again.
  std::string team_usage_;                    // As kept.
  Time next_usage_ = kNoTime;                 // When it is to be kept again.
  // Predictions of those that wait: where the sweep is, when it goes on, and as of how many runs it began.
  JobId refreshed_until_;
  Time next_refresh_ = kNoTime;
  std::uint64_t refreshed_runs_ = 0;
  std::uint64_t sweep_runs_ = 0;
  /// Who said lately how far it is.
  struct KeptProgress {
    Time again = kNoTime;  // When its row may be written again.
    bool is_stale = false;
  };
  std::map<JobId, KeptProgress> kept_progress_;
  Time next_progress_ = kNever;
  std::map<JobId, std::uint32_t> unkept_starts_;  // Began lately, by that attempt (OnStarted).
  Time next_starts_ = kNever;                     // When those that still run are kept.
  std::map<JobId, FoundRun> found_;
  Effects effects_;
  BatchIndex batch_index_;
  std::function<std::string(const JobRecord& element)> name_of_;
};

}  // namespace divvy
