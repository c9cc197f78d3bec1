// The controller: takes commands and facts; produces rows to persist, node commands to send and answers. A state
// machine without I/O: the daemon drives it with real sockets and disks, tests without any.
//
// Every public method applies one fact at a time `now` and adds to the effects that TakeEffects() returns. Decide()
// plans with everything that has changed since. The daemon calls it once per iteration of its loop, so that all events
// that arrived during one commit are decided and committed together.
//
// Each part of the state has one owner (control/state, control/jobs); this class makes them and combines what they do.
//
// Invariants (CheckInvariants): a record is active exactly when it runs in the cluster, with the same GPUs; a record
// waits exactly when the cluster has its entry; ids are never reused.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/job_changes.h"
#include "control/books/limits.h"
#include "control/books/node_registry.h"
#include "control/jobs/elastic_runs.h"
#include "control/jobs/fraction_commands.h"
#include "control/jobs/job_access.h"
#include "control/jobs/job_commands.h"
#include "control/jobs/job_lifecycle.h"
#include "control/jobs/job_updates.h"
#include "control/jobs/run_adoption.h"
#include "control/jobs/run_tracker.h"
#include "control/jobs/scheduler_feed.h"
#include "control/jobs/submission_limits.h"
#include "control/jobs/submissions.h"
#include "control/jobs/sweeps.h"
#include "control/jobs/time_sharer.h"
#include "control/state/deadline_watch.h"
#include "control/state/dependency_table.h"
#include "control/state/effect_recorder.h"
#include "control/state/found_runs.h"
#include "control/state/fraction_planner.h"
#include "control/state/gang_launches.h"
#include "control/state/gpu_monitor.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "control/state/progress_tracker.h"
#include "control/state/reservation_planner.h"
#include "control/state/retry_delays.h"
#include "control/state/run_predictions.h"
#include "control/state/team_rules.h"
#include "engine/scheduler/explain.h"
#include "model/job_record.h"
#include "model/run_description.h"

namespace divvy {

class Controller {
 public:
  /// `seed`: for the random numbers of random placement; with the same seed and the same events, the same happens.
  Controller(Policy policy, Limits limits, std::uint64_t seed);
  // The owners refer to each other.
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  // --- Start ---------------------------------------------------------------------------------------------------

  void SetCapacity(NodeCapacity capacity) {
    nodes_.SetCapacity(std::move(capacity));
    gpus_.Refresh(kOwnNode);
  }
  /// Sets the display name of the controller's own machine.
  void SetOwnName(std::string name) { nodes_.SetOwnName(std::move(name)); }
  void SetOwnGpuSource(std::string source) { nodes_.SetOwnGpuSource(std::move(source)); }
  /// Sets the function that names array elements whose name contains "{": the names of parameters, which only the
  /// specification has. It is called within a step, when an element becomes a record of its own.
  void SetElementNames(std::function<std::string(const JobRecord& element)> name_of) {
    jobs_.SetElementNames(std::move(name_of));
  }
  /// Restores the state from the store. Active jobs stay active until OnExited or OnVanished reports their end.
  void Load(JobTable::Records live, const std::vector<std::pair<std::string, std::string>>& settings,
            std::uint64_t next_id, std::uint64_t jobs_total, const FindOutcome& outcome);

  /// Learns from jobs that ended before this start, oldest first. Call before Load.
  void LearnRunTimes(const std::vector<JobRecord>& finished) { predictions_.LearnRunTimes(finished); }

  // --- Commands ------------------------------------------------------------------------------------------------

  /// Submits a job. `elements`: the number of elements of the spec's array and sweep together; 0: a single job. The
  /// spec must be complete.
  Result<SubmitResult> Submit(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                              const FindOutcome& outcome);
  using Forecast = divvy::Forecast;
  /// Predicts what such a submission would lead to, without changing anything. Fails as Submit does.
  Result<Forecast> Foresee(JobSpec spec, std::uint64_t elements, const Caller& caller, Time now,
                           const FindOutcome& outcome) {
    if (const auto rule = Sweeps::RuleOf(spec, elements); !rule) return rule.error();
    return submissions_.Foresee(std::move(spec), elements, caller, now, outcome);
  }
  /// Undoes submissions that could not be made durable. Call before any of their effects are sent.
  void Withdraw(const std::vector<JobId>& ids, Time now) {
    for (const JobId id : ids) sweeps_.Withdraw(id);
    submissions_.Withdraw(ids, now);
  }

  // Each returns what was done ("cancelled", "stopping: SIGTERM now, SIGKILL after 30 s"), or an error.
  Result<std::string> Cancel(JobId id, int signal, Duration grace, const std::string& reason, const Caller& caller,
                             Time now) {
    return commands_.Cancel(id, signal, grace, reason, caller, now);
  }
  Result<std::string> Hold(JobId id, const Caller& caller, Time now) { return commands_.Hold(id, caller, now); }
  Result<std::string> Release(JobId id, Time at, const Caller& caller, Time now) {
    DIVVY_CHECK(sweeps_.CheckRelease(id));
    return commands_.Release(id, at, caller, now);
  }
  Result<std::string> Requeue(JobId id, RequeueAs as, const Caller& caller, Time now) {
    return commands_.Requeue(id, as, caller, now);
  }
  /// Requeues a job that has ended, under its own id. `spec` is its specification; `array` the record of its array if
  /// it is an element; `owner_groups` the Caller::groups of its owner, whoever the caller is. Dependencies are not
  /// re-evaluated, except singletons.
  Result<std::string> RequeueEnded(JobRecord ended, const JobSpec& spec, std::optional<JobRecord> array,
                                   std::vector<std::string> owner_groups, RequeueAs as, const Caller& caller,
                                   Time now) {
    return submissions_.RequeueEnded(std::move(ended), spec, std::move(array), std::move(owner_groups), as, caller,
                                     now);
  }
  Result<std::string> Pause(JobId id, const Caller& caller, Time now) { return commands_.Pause(id, caller, now); }
  Result<std::string> Resume(JobId id, const Caller& caller, Time now) { return commands_.Resume(id, caller, now); }
  Result<std::string> Signal(JobId id, int signal, SignalReach reach, const Caller& caller) {
    return commands_.Signal(id, signal, reach, caller);
  }
  /// Applies all of `changes` or none. For an array, they apply to all waiting elements, and to running ones as far as
  /// these may still change. Errors name the refused field. `changes.spec` applies only to job `id` itself.
  Result<std::string> Update(JobId id, const JobChanges& changes, const Caller& caller, Time now,
                             const FindOutcome& outcome) {
    return updates_.Update(id, changes, caller, now, outcome);
  }
  /// Returns true if the caller leads the job's team or an ancestor of it.
  bool Leads(const Caller& caller, const JobRecord& record) const { return access_.Leads(caller, record); }
  /// Checks that the caller may do this (`verb`) to the job; otherwise fails with kPermissionDenied. The owner and
  /// administrators may do anything, a lead of the job's team what CanLead allows.
  Status Authorise(const JobRecord& record, const Caller& caller, std::string_view verb) const {
    return access_.Authorise(record, caller, verb);
  }
  Result<std::string> SetGroupLimit(const std::string& group, int limit, const Caller& caller, Time now) {
    return commands_.SetGroupLimit(group, limit, caller, now);
  }

  /// Restricts new work on each of `nodes` (empty: the controller's own machine) to these GPUs; without a value, to all
  /// GPUs. Applies to all of the nodes or none. Returns the GPUs that new work may now use on the last of them.
  Result<GpuSet> Restrict(std::optional<GpuSet> allowed, const Caller& caller,
                          const std::vector<std::string>& nodes = {""}) {
    return gpus_.Restrict(allowed, caller, nodes);
  }
  /// Lets a process on a GPU not make the GPU unavailable, or ends that (`is_ignored` false). `process.node`: a known
  /// node, or empty for the controller's own machine. On another node, the process is found by its pid among those last
  /// seen on the node's GPUs.
  Result<std::string> Ignore(IgnoredProcess process, bool is_ignored, const Caller& caller) {
    return gpus_.Ignore(std::move(process), is_ignored, caller);
  }

  // --- GPU fractions ------------------------------------------------------------------

  /// Changes the request and limit, per GPU, of a job that has or waits for GPU fractions. A running job can grow only
  /// if the jobs that share its GPUs leave enough room.
  Result<std::string> ResizePortion(JobId id, const GpuPortion& portion, const Caller& caller, Time now,
                                    const FindOutcome& outcome) {
    return fraction_commands_.ResizePortion(id, portion, caller, now, outcome);
  }
  /// Returns the record of a running job with GPU fractions, if the caller may `verb` it: "park", "wake" or "move".
  Result<const JobRecord*> FindTenant(JobId id, const Caller& caller, std::string_view verb) const {
    return fraction_commands_.FindTenant(id, caller, verb);
  }
  using Tenant = FractionPlanner::Tenant;
  /// Sets which tenants of a node's shared GPUs cannot be migrated, and their GPUs. Call it after any change. Returns
  /// true if the set of these tenants has changed.
  bool OnTenants(const std::string& node, const std::vector<Tenant>& tenants) {
    return fractions_.OnTenants(node, tenants);
  }
  /// Sets which GPUs of the node take no new work because something on them cannot be removed, each with the reason.
  /// Call it with all such GPUs after any change.
  void OnStuckGpus(const std::string& node, const std::map<GpuIndex, std::string>& stuck) {
    gpus_.OnStuckGpus(node, stuck);
  }
  /// Requeues a job that uses borrowed GPU memory, because nothing else can return the memory that other jobs are
  /// guaranteed (docs/sharing.md). Ignored unless the job allows it (MayRequeueToRepay) and `attempt` is its current
  /// one.
  void OnRepay(JobId id, std::uint32_t attempt, const std::string& why, Time now) {
    fraction_commands_.OnRepay(id, attempt, why, now);
  }
  /// Records in the job's history that it was parked, woken or moved. Ignored for an old attempt.
  void OnShareEvent(JobId id, std::uint32_t attempt, const std::string& what, Time now) {
    fraction_commands_.OnShareEvent(id, attempt, what, now);
  }

  // --- Running elastic jobs ------------------------------------------------------------

  using Checkpointed = ElasticRuns::Checkpointed;
  /// Handles the report of an elastic job that it can change its GPUs now: those that it was asked to release are
  /// released. After its first report the job can be resized. `attempt`: the run that reports; 0: the current one.
  Result<Checkpointed> Checkpoint(JobId id, std::uint32_t attempt, const Caller& caller, Time now) {
    DIVVY_TRY(JobRecord * record, access_.FindReporter(id, attempt, caller));
    return elastic_.Checkpoint(*record, now);
  }

  // --- Progress and speeds ------------------------------------------------------------

  /// Records the progress of a running job; it becomes durable after at most ten seconds. `attempt`: as in Checkpoint.
  Result<Progress> ReportProgress(JobId id, std::uint32_t attempt, const ProgressReport& report, const Caller& caller,
                                  Time now) {
    DIVVY_TRY(JobRecord * record, access_.FindReporter(id, attempt, caller));
    return progress_.Report(*record, report, now);
  }
  /// Reported progress that is not durable yet; persist it when the daemon stops.
  Batch UnkeptProgress() const { return progress_.Unkept(); }
  const ThroughputModel& speeds() const { return predictions_.speeds(); }
  /// Returns how fast the job is on which GPUs, and how that is known: "A100 at 0.55 of the speed of H100, learned from
  /// 12 runs". Empty: unknown.
  std::string SpeedsOf(const JobRecord& record) const { return predictions_.SpeedsOf(record); }

  // --- Sweeps -------------------------------------------------------------------------

  /// Handles numbers that a job reports; they may arrive shortly after its end. The numbers of a sweep's trials decide
  /// which trials continue. Those of other jobs are ignored.
  void OnMetrics(JobId job, const Sweeps::Numbers& numbers, Time now) { sweeps_.OnMetrics(job, numbers, now); }
  /// Sets the parameters of the sweep's next trial, which may then start. `spec`: the newest specification of the
  /// sweep's array. Returns the trial's job.
  Result<JobId> TellSweep(JobId sweep, const std::map<std::string, std::string>& parameters,
                          const std::shared_ptr<const JobSpec>& spec, const Caller& caller, Time now) {
    return sweeps_.Tell(sweep, parameters, spec, caller, now);
  }
  const Sweeps& sweeps() const { return sweeps_; }

  // --- Teams -----------------------------------------------------------------------------

  /// Uses the teams of the configuration file. Call it before Load. Fails with a one-line message; the daemon then does
  /// not start.
  Status UseTeamsFile(const TeamsFile& file) { return teams_.UseTeamsFile(file); }
  // For administrators only, except that leads may lower a user's limits. Each returns what was done.
  Result<std::string> SetTeam(const TeamChange& change, const Caller& caller, Time now);
  Result<std::string> RemoveTeam(const std::string& name, const Caller& caller, Time now);
  Result<std::string> SetTeamUser(const UserChange& change, const Caller& caller, Time now);
  Result<std::string> SetQuotas(bool are_on, const Caller& caller, Time now);
  const TeamRegistry& teams() const { return teams_.registry(); }
  /// References to teams that do not exist, which Load has removed; one line of text each.
  const std::vector<std::string>& team_warnings() const { return teams_.warnings(); }
  /// The current load of a team (including its subtree) or a user, and its usage in its budget's period.
  using TeamLoad = TeamRules::TeamLoad;
  /// Returns the load and usage of all teams and users with settings, and of all users with jobs. Keys:
  /// UsageLedger::TeamKey and UserKey.
  std::map<std::string, TeamLoad> TeamLoads(Time now) const { return teams_.TeamLoads(now); }
  /// This month's usage of each user in each team, without the team's subtree; "" stands for no team.
  std::map<std::pair<std::string, std::string>, Used> MemberUsage(Time now) const {
    return teams_.budgets().MemberUsage(now);
  }

  // --- Pools -----------------------------------------------------------------------------

  /// Uses the configured pools. Call it after UseTeamsFile and before Load. Fails with a one-line message; the daemon
  /// then does not start.
  Status UsePools(std::vector<PoolRow> rows) { return pools_.UsePools(std::move(rows)); }
  const PoolRegistry& pools() const { return pools_.registry(); }
  /// Sets nodes that could be added on demand: jobs that fit there may be submitted. Null: none.
  void SetOffers(std::shared_ptr<const Scheduler> offers) { scheduler_.SetOffers(std::move(offers)); }
  /// For a waiting job that names several pools: returns why it cannot start in some of them now, one line for each
  /// such pool.
  std::vector<std::string> ClosedPools(const JobRecord& record) const { return pools_.ClosedPools(record); }
  using PoolLoad = PoolRules::PoolLoad;
  /// Returns the load of each pool by name, including pools that exist only as labels of nodes.
  std::map<std::string, PoolLoad> PoolLoads() const { return pools_.PoolLoads(); }

  // --- Reservations ---------------------------------------------------------------

  /// How far ahead resources are reserved for the occurrences of reservations.
  static constexpr Duration kReservationHorizon = ReservationPlanner::kReservationHorizon;
  /// Makes a reservation of GPUs; for administrators only. Fails if there is no room for an occurrence within
  /// kReservationHorizon, and names what is in the way.
  Result<GpuReservation> Reserve(GpuReservation asked, const Caller& caller, Time now) {
    return reservations_.Reserve(std::move(asked), caller, now);
  }
  /// Cancels the reservation with this number or name. Allowed for administrators and the user for whom the reservation
  /// is.
  Result<std::string> CancelReservation(const std::string& which, const Caller& caller, Time now) {
    return reservations_.CancelReservation(which, caller, now);
  }
  const ReservationRegistry& reservations() const { return reservations_.registry(); }
  std::vector<PlannedOccurrence> OccurrencesAhead(const GpuReservation& reservation, Time now) const {
    return reservations_.OccurrencesAhead(reservation, now);
  }
  /// Returns the number of the reservation that an advance reservation of the scheduling engine belongs to; nullopt if
  /// there is none.
  std::optional<std::uint64_t> NumberOfReservation(std::uint64_t advance) const {
    return reservations_.NumberOfReservation(advance);
  }

  // --- Runs that the store does not know -------------------------------------------------

  using Found = RunAdoption::Found;
  /// Handles a run that a node has found by its run record and that the controller did not list, or the end of such a
  /// run. `run.record.node`: that node.
  Found OnFound(RunDescription run, Time now, const FindOutcome& outcome) {
    return adoption_.OnFound(std::move(run), now, outcome);
  }
  /// Applies a line of the run journal: a launch or an end that the store may not know. Call after Load, in order.
  void Replay(const RunDescription& run, Time now) { adoption_.Replay(run, now); }
  /// Returns true if Replay may need the journal's line about this run.
  bool MayReplay(JobId job, std::uint32_t attempt) const { return adoption_.MayReplay(job, attempt); }
  /// Ensures that no id below this is assigned any more.
  void ReserveIds(std::uint64_t next_id) { adoption_.ReserveIds(next_id); }
  /// Takes over a found run as a job under its old id. Allowed for the run's owner and administrators. The job is never
  /// requeued, because its environment is unknown.
  Result<std::string> Adopt(JobId id, const Caller& caller, Time now) { return adoption_.Adopt(id, caller, now); }
  /// Ends a found run and forgets it. Allowed for its owner and administrators.
  Result<std::string> EndFound(JobId id, const Caller& caller) { return adoption_.EndFound(id, caller); }
  using FoundRun = divvy::FoundRun;
  const std::map<JobId, FoundRun>& found() const { return found_.all(); }

  // --- Facts ---------------------------------------------------------------------------------------------------

  // `node`: the reporting node; empty: the controller's own machine. Times `at` are the controller's.
  void OnStarted(JobId job, std::uint32_t attempt, Time at, const std::string& node = {}) {
    runs_.OnStarted(job, attempt, at, node);
  }
  /// Reports the end of a job's process tree. A report of an older attempt, or of an inactive job, only deletes the run
  /// record. May queue the job again (retry, requeue).
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at, Time now, const std::string& node = {}) {
    runs_.OnExited(job, attempt, exit, at, now, node);
  }
  using Vanished = RunTracker::Vanished;
  /// Handles a job of which neither a supervisor nor the way it ended was found.
  void OnVanished(JobId job, std::uint32_t attempt, Vanished how, Time now, const std::string& node = {}) {
    runs_.OnVanished(job, attempt, how, now, node);
  }
  /// Handles a node's report that a job on whole GPUs was parked (its GPU memory was moved to the host) or has its GPUs
  /// again, or that this failed. Only for jobs launched with LaunchCommand::is_parkable.
  void OnPresence(const PresenceReport& report, Time now, const std::string& node = {}) {
    time_sharer_.OnPresence(report, now, node);
  }
  void OnGpusObserved(const std::vector<GpuObservation>& observations) { gpus_.OnGpusObserved("", observations); }

  // --- Agent nodes, gangs ------------------------------------------

  /// All nodes of a gang must prepare their parts within this time; otherwise the launch is rolled back.
  static constexpr Duration kPrepareWithin = GangLaunches::kPrepareWithin;
  /// Sets the facts about a node that joined or has changed, including whether it takes work. Before Load, call it for
  /// each node in the store. The node takes no work before OnNodeReconciled.
  void OnNodeRow(const NodeRow& row);
  void OnNodeRemoved(const std::string& name);
  /// Call this when the node is connected and the controller knows all of its runs. From then on the node takes work.
  void OnNodeReconciled(const std::string& name) {
    if (nodes_.OnNodeReconciled(name)) gangs_.RepeatGo(name);
  }
  /// Call this when the connection to the node is lost, perhaps briefly. The node takes no new work until it is
  /// connected again.
  void OnNodeDisconnected(const std::string& name) { nodes_.OnNodeDisconnected(name); }
  /// Returns why the node is not connected: "node n1 is away: ...". Empty if it is connected, or there is no such node.
  std::string DisconnectReason(const std::string& name) const { return nodes_.DisconnectReason(name); }
  /// Returns why the jobs of the node will be stopped at a deadline, because the node is drained; empty if they will
  /// not.
  std::string DrainOf(const std::string& name) const { return nodes_.DrainOf(name); }
  /// Call this when nothing was heard from the node for long. Its jobs may still be running.
  void OnNodeLost(const std::string& name, Time now) { nodes_.OnNodeLost(name, now); }
  void OnNodeBack(const std::string& name) { nodes_.OnNodeBack(name); }
  /// Reports the problem that keeps the node from taking jobs, as found by the node itself; empty: none any more. Empty
  /// `name`: the controller's own machine.
  void OnNodeTrouble(const std::string& name, const std::string& what) { nodes_.OnNodeTrouble(name, what); }
  /// Returns the problem of OnNodeTrouble, or the one that kept the node from starting its last job: "its disk is full:
  /// ...". Empty if there is none.
  std::string NodeHealthProblem(const std::string& name) const { return nodes_.NodeHealthProblem(name); }
  /// Call this when the node has stopped its jobs because its lease expired, or an administrator has declared it gone.
  /// Its jobs may then run on other nodes.
  void OnNodeFenced(const std::string& name, Time now) { runs_.LoseRuns(name, Vanished::kFenced, now); }
  void OnNodeGone(const std::string& name, Time now) { runs_.LoseRuns(name, Vanished::kGone, now); }
  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& observations) {
    gpus_.OnGpusObserved(node, observations);
  }
  /// Handles a node's report that it has prepared its part of a job on several nodes. `port`: the port on which its
  /// step process listens for the other nodes; not 0.
  void OnPrepared(JobId job, std::uint32_t attempt, const std::string& node, std::uint16_t port, Time now) {
    gangs_.OnPrepared(job, attempt, node, port, now);
  }
  /// Handles a node's report that the start of a job is delayed there. `why` becomes the job's reason until it starts:
  /// "waits up to 10 s for directory ...".
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why, const std::string& node = "") {
    runs_.OnDelayed(job, attempt, why, node);
  }
  /// Returns the active jobs of which something still runs on the node, ascending.
  std::vector<JobId> RunsOn(const std::string& node) const { return nodes_.RunsOn(node); }
  /// Returns the node's name as in job records: empty for the controller's own machine.
  std::string NodeName(NodeIndex node) const { return nodes_.NodeName(node); }
  std::optional<NodeIndex> IndexOf(const std::string& node) const { return nodes_.IndexOf(node); }
  const std::vector<GpuObservation>& observations(NodeIndex node) const { return gpus_.observations(node); }

  /// Stores a setting of the daemon, durable together with the changes of this step.
  void KeepSetting(std::string_view key, std::string text) { effects_.KeepSetting(key, std::move(text)); }

  /// Adds an entry to the history and notifies watchers: "GPU 3 works again".
  void OnMachineEvent(const std::string& text, Time now) { effects_.AnnounceMachineEvent(text, now); }

  /// The recent usage of teams, so that it still counts after a restart (policy fair). Decide persists it periodically;
  /// the daemon persists it when it stops. Nothing if there was no usage.
  std::optional<std::pair<std::string, std::string>> TeamUsageSetting(Time now) const {
    return teams_.TeamUsageSetting(now);
  }

  /// Runs a scheduling cycle: starts the jobs that can start, and decides about preemption and reservations. Cheap if
  /// nothing has changed.
  void Decide(Time now);
  /// Returns when Decide must be called next even if nothing happens; kNever if it need not.
  Time next_wakeup() const { return effects_.next_wakeup(); }

  Effects TakeEffects() { return effects_.Take(); }

  // --- Views ---------------------------------------------------------------------------------------------------

  const Scheduler& scheduler() const { return scheduler_; }
  /// Time-sharing: running jobs on whole GPUs that are parked for other jobs and return.
  const TimeSharer& time_sharer() const { return time_sharer_; }
  const Policy& policy() const { return feed_.policy(); }
  const std::map<JobId, JobRecord>& live() const { return jobs_.live(); }
  const JobRecord* Find(JobId id) const { return jobs_.Find(id); }
  /// Returns the array that has the job `id` as an element without a record of its own; null if there is none.
  const JobRecord* ArrayOf(JobId id) const { return jobs_.ArrayOf(id); }
  /// Returns why this waiting job had not started as of the last scheduling cycle. It is the first reason that `divvy
  /// why` lists (start_reason.h).
  Reason WaitingReason(const JobRecord& record) const;
  /// Returns a function that gives the distribution of run times of jobs similar to a job, for estimates.
  core::SpreadOf run_spread() const { return predictions_.Spread(); }
  const RunTimes& run_times() const { return predictions_.run_times(); }
  const std::vector<IgnoredProcess>& ignored() const { return gpus_.ignored(); }
  const std::vector<GpuObservation>& observations() const { return gpus_.observations(kOwnNode); }
  /// Returns the GPUs of the node to which new work is restricted; nullopt if it may use all. Empty `node`: the
  /// controller's own machine.
  std::optional<GpuSet> restriction(const std::string& node = {}) const { return gpus_.restriction(node); }
  std::uint64_t jobs_total() const { return jobs_.ids().jobs_total; }
  /// Returns the job's specification if it was added or changed since the last TakeEffects; otherwise null.
  std::shared_ptr<const JobSpec> PendingSpec(JobId id) const { return effects_.PendingSpec(id); }

  std::string CheckInvariants() const;

 private:
  /// Lets the scheduler decide once and carries out the result. Returns when it must decide next.
  Time CarryOut(Time now);
  /// Applies a change of teams. Cost: O(jobs); only rare administrator actions call this.
  void FollowTeams(Time now);

  Scheduler scheduler_;
  JobTable jobs_;
  EffectRecorder effects_;
  FoundRuns found_;
  NodeTable nodes_{scheduler_, jobs_, effects_};
  GpuMonitor gpus_;
  DependencyTable dependencies_{jobs_};
  DeadlineWatch deadlines_;
  RunPredictions predictions_{scheduler_, jobs_, nodes_};
  ProgressTracker progress_{scheduler_, jobs_, effects_};
  FractionPlanner fractions_{scheduler_, jobs_, effects_, nodes_};
  RetryDelays retries_;
  GangLaunches gangs_{jobs_, effects_};
  TeamRules teams_{scheduler_, jobs_, effects_, nodes_};
  ReservationPlanner reservations_{scheduler_, effects_, nodes_, teams_.registry()};
  PoolRules pools_;
  SchedulerFeed feed_;
  JobLifecycle lifecycle_{scheduler_, jobs_,    effects_, dependencies_, predictions_,
                          deadlines_, retries_, gangs_,   fractions_,    feed_};
  TimeSharer time_sharer_{scheduler_, jobs_, effects_, nodes_, teams_.budgets(), feed_};
  RunTracker runs_{scheduler_, jobs_,  effects_,         nodes_, predictions_, fractions_,
                   retries_,   gangs_, teams_.budgets(), feed_,  lifecycle_,   time_sharer_};
  ElasticRuns elastic_{scheduler_, jobs_, effects_, nodes_, teams_.budgets()};
  JobAccess access_{jobs_, teams_.registry(), lifecycle_};
  SubmissionLimits limits_;
  Submissions submissions_{scheduler_,   jobs_,  effects_, nodes_, gpus_,      found_,  dependencies_,
                           predictions_, teams_, pools_,   feed_,  lifecycle_, access_, limits_};
  JobUpdates updates_{scheduler_, jobs_, effects_,   dependencies_, predictions_, teams_,
                      pools_,     feed_, lifecycle_, access_,       limits_};
  JobCommands commands_{jobs_, effects_, nodes_, feed_, lifecycle_, access_, updates_, time_sharer_};
  FractionCommands fraction_commands_{scheduler_, jobs_, effects_, fractions_, retries_, access_, updates_, commands_};
  Sweeps sweeps_{jobs_, effects_, feed_, lifecycle_, access_, commands_, time_sharer_};
  RunAdoption adoption_{scheduler_,   jobs_,  effects_, nodes_, gpus_,      found_, gangs_,
                        predictions_, teams_, pools_,   feed_,  lifecycle_, runs_,  access_};
};

}  // namespace divvy
