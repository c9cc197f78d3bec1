// The controller's view of the cluster: its own node and those that agents added, their GPUs, the waiting and running
// jobs, and the jobs that start next. The core (engine/core) decides. This class passes the controller's facts to the
// core and translates its plans and answers back: GPUs by node and index, limits by name. With a single node, texts are
// worded for one server: "8 of 64 CPUs are free".
//
// Two members are kept in step: `facts_` stores the facts as callers report them, and `core_` decides. Every fact goes
// into both, and every decision of the core is entered in `facts_` before Decide returns. There is no clock: `now` is
// an argument, and the same facts at the same times give the same plans.
//
// Cost: a fact takes microseconds, however many jobs wait; a decision costs as much as core::Cluster::Decide.
//
// Invariants (CheckInvariants): those of both members; and both have the same waiting and running jobs on the same
// GPUs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/state/cluster.h"
#include "engine/placement/demand.h"
#include "engine/policy.h"
#include "engine/scheduler/group_caps.h"
#include "engine/scheduler/node_classifier.h"
#include "engine/scheduler/plan.h"
#include "engine/scheduler/scheduler_facts.h"
#include "engine/scheduler/translate.h"

namespace divvy {

class Scheduler {
 public:
  /// Function that returns the job id of the next array element (or the job itself) of a waiting entry that starts.
  /// Called once for each start, in start order.
  using NameMember = std::function<JobId(JobId entry)>;
  /// Half-life of a submission in the demand statistics, in submissions; and the number of submissions that must be
  /// recorded before the statistics are used.
  static constexpr double kDemandHalfLife = 2'000;
  static constexpr std::int64_t kMinDemandSamples = 32;

  explicit Scheduler(Duration usage_half_life = std::chrono::hours(24 * 7));

  // --- Facts ---------------------------------------------------------------------------------------------------

  /// Sets the capacity of the controller's own node. Call it first; it may be called again with a capacity that
  /// includes all GPUs that jobs hold.
  void SetCapacity(NodeCapacity capacity) { SetNode(kOwnNode, facts_.node(kOwnNode).attributes, std::move(capacity)); }
  /// Sets an existing node, or adds the node of the next number. Requires: `capacity` includes all GPUs that jobs hold.
  /// Usually cheap for a new node, and if only its name, features or pools change. If its capacity, rack or block
  /// changes, the scheduler's internal state is built again from all facts.
  void SetNode(NodeIndex node, NodeAttributes attributes, NodeCapacity capacity);
  /// Sets whether the node takes new work. `idle_reason`: why it takes none, such as "node n2 is cordoned: disk".
  /// Running jobs stay.
  void SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason);
  void SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimits(const GroupName& group, GroupLimits limits);
  void SetGroupLimit(const GroupName& group, int jobs);  // Sets the limit on running jobs only.
  void SetGroupGpuLimit(const GroupName& group, int gpus);
  /// Replaces all teams; a parent comes before its children. Jobs of other teams count as jobs without a team. A team
  /// keeps the usage recorded so far under its name.
  void SetTeams(std::vector<core::TeamSpec> teams, Time now);

  /// The decayed recent usage of each team in thousandths of GPU-seconds, weighted with the speeds of its jobs.
  /// SetTeamUsage restores a value that was read at the time `at`.
  std::map<std::string, double> TeamUsage(Time now) const;
  void SetTeamUsage(const std::string& team, double usage, Time at);

  /// Adds a waiting job or array, or replaces the one with the same id.
  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// Adds a running job that was not waiting (adoption after a restart).
  void Adopt(RunningJob job);
  void SetKnownEnd(JobId running, Time end);
  /// Sets the end that is predicted for this job from its own progress. Valid until the job is resized. It affects only
  /// estimates, not reservations.
  void SetPredictedEnd(JobId running, Time end);
  void SetName(JobId running, std::string name);
  /// Records that the job was told to end, for whatever reason, so that its resources will be free soon.
  void SetLeaving(JobId running);
  void Finish(JobId running);
  /// Records that the running elastic job accepts changes of its GPUs from now on.
  void SetResizable(JobId running);
  /// Records that the job holds exactly `gpus` from now on, and is not asked to release any of them. Other GPUs that it
  /// had become free. Requires: GPUs in `gpus` that it did not have are free.
  void Resize(JobId running, GpuSet gpus);
  /// Sets the running jobs that may be parked now; replaces the earlier ones. Each decision parks some of them if a
  /// newcomer (WaitingEntry::is_newcomer) then starts.
  void SetParkCandidates(std::vector<ParkCandidate> candidates) { facts_.SetParkCandidates(std::move(candidates)); }
  /// Records the result of parking a job. `gpus`: empty if it has left its GPUs; its own GPUs if it could not be
  /// parked; or those to which it returns. `memory`: all host memory that it holds from now on. Requires: GPUs in
  /// `gpus` that it does not have are free, and the job is on one node.
  void SetDisplaced(JobId running, GpuSet gpus, Bytes memory, bool is_displaced);
  /// Returns the GPUs of the node that running jobs were told to leave for a waiting job, which starts on them once
  /// they are free.
  GpuSet NominatedOn(NodeIndex node) const;
  /// Whether GPUs were nominated for the waiting job (NominatedOn). Put and Remove end that.
  bool IsNominated(JobId waiting) const;
  /// GPUs that active advance reservations keep for other teams and users than the running job's.
  GpuSet ClosedTo(JobId running, NodeIndex node, Time now) const;
  /// Sets the fraction that the job has of each of its GPUs. Returns kLimitExceeded and changes nothing if other
  /// tenants leave too little room. Requires: the job has GPU fractions, and `portion` is one.
  Status SetPortion(JobId running, const GpuPortion& portion);
  /// Sets the GPUs of its node on which the job's GPU fractions are counted from now on. Requires: as many GPUs as
  /// before, with room for the fractions.
  void SetPlannedGpus(JobId running, GpuSet gpus);

  /// Keeps `gpus` GPUs for a team, or for one user, between two times; jobs that run over `from` keep what they have.
  /// Returns nothing if there is no room for it in that time. SetTeams removes all advance reservations.
  std::optional<std::uint64_t> Reserve(int gpus, const std::string& team, const std::string& user, Time from,
                                       Time until, Time now);
  /// Restores an advance reservation on given GPUs, even if jobs run there now. Returns nothing if the node does not
  /// have these GPUs, or if they are reserved already.
  std::optional<std::uint64_t> ReserveAt(const NodeResources& place, const std::string& team, const std::string& user,
                                         Time from, Time until);
  /// Ends an advance reservation. `advance`: the id that Reserve or ReserveAt returned.
  void CancelReservation(std::uint64_t advance);

  // --- Decisions -----------------------------------------------------------------------------------------------

  void SetPolicy(const Policy& policy);
  /// Replaces all pools. A node is in the pools that name it or match its attributes, and in those that it names
  /// itself.
  void SetPools(std::vector<PoolRow> pools);
  /// Sets nodes that could be added on demand. A request that fits there is not impossible (CheckFeasible). Null: none.
  void SetOffers(std::shared_ptr<const Scheduler> offers) { offers_ = std::move(offers); }
  const Scheduler* offers() const { return offers_.get(); }
  /// Decides which jobs start now. When this returns, they have left the queue and count as running.
  Decided Decide(Time now, const NameMember& name);
  /// Returns true if the limit or quota of its team blocks the waiting job, whatever is free. Cheap.
  bool IsBarredByTeam(JobId waiting) const;
  /// Returns what Decide would return, without applying it: decides on a copy, and costs as much. For queries and
  /// tests.
  Plan WouldDecide(Time now) const;

  // --- Questions -----------------------------------------------------------------------------------------------

  const std::vector<NodeUsage>& nodes() const { return facts_.nodes(); }
  const NodeUsage& node(NodeIndex node) const { return facts_.node(node); }
  /// Returns true if there are more nodes than the controller's own.
  bool has_many() const { return facts_.nodes().size() > 1; }
  std::optional<NodeIndex> FindNode(std::string_view name) const;
  std::vector<JobId> holders(NodeIndex node, GpuIndex gpu) const { return facts_.holders(node, gpu); }
  int gpu_count() const;   // On all nodes.
  int free_count() const;  // GPUs on all nodes that take new work and that no job holds.
  // The following are about the controller's own node.
  const NodeCapacity& capacity() const { return facts_.node(kOwnNode).capacity; }
  const GpuTopology& topology() const { return facts_.node(kOwnNode).topology; }
  GpuSet usable() const { return facts_.node(kOwnNode).taking(); }  // GPUs that take new work, held or not.
  GpuSet free() const { return facts_.node(kOwnNode).free(); }
  int cpus_claimed() const { return facts_.node(kOwnNode).cpus_claimed; }
  Bytes memory_claimed() const { return facts_.node(kOwnNode).memory_claimed; }
  const WaitingEntry* waiting(JobId id) const { return facts_.waiting(id); }
  const RunningJob* running(JobId id) const { return facts_.running(id); }
  const std::map<JobId, RunningJob>& running_jobs() const { return facts_.running_jobs(); }
  std::uint64_t waiting_count() const { return facts_.waiting_count(); }  // Members, not entries.
  std::uint64_t waiting_of(const std::string& user) const { return facts_.waiting_of(user); }
  int group_limit(const GroupName& group) const { return facts_.group_limits(group).jobs; }
  int group_gpu_limit(const GroupName& group) const { return facts_.group_limits(group).gpus; }
  int group_running(const GroupName& group) const { return facts_.group_running(group); }
  int group_gpus(const GroupName& group) const { return facts_.group_gpus(group); }
  int cpu_jobs_running() const { return facts_.cpu_jobs_running(); }
  const core::Teams& teams() const { return core_.teams(); }
  core::TeamIndex TeamOf(const std::string& name) const;

  /// Returns the first broken invariant, or "" if all hold. Expensive.
  std::string CheckInvariants() const;

  /// All pools that a node is in, in ascending order.
  const std::vector<std::string>& PoolsOf(NodeIndex node) const { return classifier_.PoolsOf(node); }

  /// The time of the last decision.
  Time decided_at() const { return now_; }

  // For the files of this folder.
  const SchedulerFacts& facts() const { return facts_; }
  const core::Cluster& core() const { return core_; }
  const NodeClassifier& classifier() const { return classifier_; }
  /// Compiles a job's request into a resource request as of now, for queries. `why` receives the reason if it cannot be
  /// compiled and therefore fits no node.
  core::ResourceRequest AskAbout(const Request& request, const std::string& pool, PlacementStrategy placement,
                                 std::string* why = nullptr) const;

 private:
  void Rebuild(core::Teams teams);
  core::Teams TakeTeams();
  void ForgetOldClasses();
  void ShowUsable(NodeIndex node);
  core::NodeFacts FactsOf(NodeIndex node);
  void CountGpus();
  core::UserIndex UserOf(const std::string& name);
  core::PoolIndex LineOf(const std::string& pools) const;
  core::Job JobOf(const WaitingEntry& entry);
  core::ResourceRequest UseRequest(JobId id, core::ResourceRequest resources, const Request& request,
                                   const std::string& pool, const std::vector<ModelSpeed>& speeds);
  void LeaveRequest(JobId id);
  /// Counts the node filters of the waiting `entry` as used by its started member `job`, too. If that `is_last`, the
  /// entry itself no longer uses them.
  void KeepRequest(JobId entry, JobId job, bool is_last);
  /// Passes changes of the node classes on from `classifier_` to the core of the engine.
  void FollowNodeClasses() const;
  std::shared_ptr<const placement::Scorer> MakeScorer() const;
  void RecordDemand(const core::ResourceRequest& resources, std::uint32_t count);
  void PutInCore(const WaitingEntry& entry);
  void RemoveFromCore(const WaitingEntry& entry);
  void AdoptInCore(const RunningJob& job);
  void KeepSlice(const NodeResources& place, core::ResourceRequest& resources) const;
  void FitHosts(const std::vector<NodeResources>& places, core::ResourceRequest& resources);
  std::vector<core::TaskPlacement> PlacementsOf(const std::vector<NodeResources>& places,
                                                const core::ResourceRequest& resources) const;
  void Enter(const Plan& plan, Time now);
  std::vector<core::CapIndex> UseCaps(std::vector<GroupName> groups, bool is_cpu_job);
  void LeaveCaps(std::vector<GroupName> groups);

  Duration usage_half_life_;
  SchedulerFacts facts_;
  Policy policy_;
  std::vector<PoolRow> pools_;  // The core's number of a pool is its index here plus one.
  // A query may split a node class, which does not affect decisions.
  mutable core::Cluster core_;
  mutable NodeClassifier classifier_;
  std::map<JobId, std::vector<core::FilterIndex>> filters_;  // Filters in use, by waiting entry or running job.
  placement::RunningDemand demand_{kDemandHalfLife};
  std::int64_t next_lesson_ = kMinDemandSamples;
  GroupCaps caps_;
  std::map<std::string, core::TeamIndex> teams_;
  std::map<std::string, core::UserIndex> users_;
  std::map<std::string, NodeIndex, std::less<>> nodes_;  // By name; nodes without a name are missing.
  /// Numbers of racks and blocks by name, from 1.
  std::map<std::string, std::uint32_t> racks_;
  std::map<std::string, std::uint32_t> blocks_;
  core::CapIndex cpu_jobs_cap_ = 0;
  int cpu_jobs_at_once_ = Policy().cpu_jobs_at_once;
  std::shared_ptr<const Scheduler> offers_;
  std::uint64_t last_reservation_ = 0;
  bool is_overcommitted_ = false;  // Running jobs claim more CPUs or memory than exist; the core counts what fits.
  Time now_ = kNoTime;             // The time of the last decision.
};

}  // namespace divvy
