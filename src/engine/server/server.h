// The controller's own machine and those that agents brought in: their GPUs, the jobs that wait and run on them, and
// who starts next. The engine (engine/core) decides; this says to it what a controller knows, and tells its plans and
// answers in a controller's words: GPUs by machine and index, limits by name. Where there is but one machine, questions
// are answered in the words of one server: "8 of 64 CPUs are free".
//
// Two things are kept in step. The book has the facts as callers say them; the core decides. Every fact goes into both,
// and every decision of the core is entered in the book when Decide returns. It holds no clock: `now` is an argument,
// and the same facts at the same times give the same plans.
//
// Cost: a fact costs microseconds, however many jobs wait; a decision that of core::Cluster::Decide.
//
// Invariants (CheckInvariants): those of both; and both know the same jobs, waiting and running, on the same GPUs.
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
#include "engine/server/book.h"
#include "engine/server/plan.h"
#include "engine/server/translate.h"

namespace divvy {

class Server {
 public:
  /// How the next member of an entry is called once it runs. Asked once for each start, in the order of the starts.
  using NameMember = std::function<JobId(JobId entry)>;
  /// Submissions after which one counts half in what is usually asked for; and how many are seen before it counts.
  static constexpr double kDemandHalfLife = 2'000;
  static constexpr std::int64_t kFirstLesson = 32;

  explicit Server(Duration usage_half_life = std::chrono::hours(24 * 7));

  // --- Facts ---------------------------------------------------------------------------------------------------

  /// The controller's own machine. Before anything else; may be called again, with all GPUs that somebody holds.
  void SetCapacity(NodeCapacity capacity) { SetNode(kOwnNode, book_.node(kOwnNode).words, std::move(capacity)); }
  /// The machine of this number, or the next one. Requires: it has all GPUs that somebody holds. Cheap where it is new,
  /// or as it was but for its words; else everything is told to the core anew.
  void SetNode(NodeIndex node, NodeWords words, NodeCapacity capacity);
  /// `idle_reason`: why it takes no new work: "node n2 is cordoned: disk". What runs there stays.
  void SetTakesWork(NodeIndex node, bool takes_work, std::string idle_reason);
  void SetAvailability(NodeIndex node, GpuIndex gpu, GpuAvailability availability);
  void SetGroupLimits(const GroupName& group, GroupLimits limits);
  void SetGroupLimit(const GroupName& group, int jobs);  // One of them.
  void SetGroupGpuLimit(const GroupName& group, int gpus);
  /// All teams anew; a parent comes before its children. Jobs of teams that are not among them count as of none. What
  /// was used so far goes on to count for those of the same name.
  void SetTeams(std::vector<core::TeamSpec> teams, Time now);

  /// What each team used lately, decayed, in GPU-milli-seconds at the speeds of its jobs; and the same as it was at
  /// another time.
  std::map<std::string, double> TeamUsage(Time now) const;
  void SetTeamUsage(const std::string& team, double usage, Time at);

  /// Adds an entry, or replaces the one of the same id.
  void Put(WaitingEntry entry);
  void Remove(JobId waiting);
  /// Takes a running job in that was not waiting (adoption after a restart).
  void Adopt(RunningJob job);
  void SetKnownEnd(JobId running, Time end);
  /// When it will end by what is known of this one alone; until it is resized. Moves estimates, no promise.
  void SetPredictedEnd(JobId running, Time end);
  void SetName(JobId running, std::string name);
  /// It was told to end, for whatever reason: what it holds is about to be free.
  void SetLeaving(JobId running);
  void Finish(JobId running);
  /// An elastic job that runs takes part in being resized from now on.
  void SetResizable(JobId running);
  /// It has `gpus` from now on, all of them to keep; what it had beside them is free. Requires: the others are free.
  void Resize(JobId running, GpuSet gpus);
  /// It has this part of its GPUs from now on. kLimitExceeded, and nothing has changed, where others have what it
  /// would take. Requires: it has parts of GPUs, and goes on to.
  Status SetPortion(JobId running, const GpuPortion& portion);
  /// Its parts are counted on these GPUs of its machine from now on. Requires: the same number, with room for them.
  void SetPaper(JobId running, GpuSet gpus);

  /// Keeps `gpus` GPUs for a team, or for one user, between two times; jobs that run over `from` keep what they have.
  /// Nothing when there is no room for it in that time. SetTeams forgets all bookings.
  std::optional<std::uint64_t> Book(int gpus, const std::string& team, const std::string& user, Time from, Time until,
                                    Time now);
  /// The same as it was before, whoever is there now. Nothing where that machine has no such GPUs.
  std::optional<std::uint64_t> BookAt(const NodePlace& place, const std::string& team, const std::string& user,
                                      Time from, Time until);
  void Unbook(std::uint64_t booking);

  // --- Decisions -----------------------------------------------------------------------------------------------

  void SetPolicy(const Policy& policy);
  /// All pools anew. Machines are in those that name them, and in those of their own words.
  void SetPools(std::vector<PoolRow> pools);
  /// Who starts now; they run, and have left the queue, when this returns.
  Decided Decide(Time now, const NameMember& name);
  /// Its team's limit or quota keeps a waiting job back whatever is free. Cheap.
  bool IsBarredByTeam(JobId waiting) const;
  /// What Decide would say, without doing it: decides on a copy, and costs as much. For questions and tests.
  Plan WouldDecide(Time now) const;

  // --- Questions -----------------------------------------------------------------------------------------------

  const std::vector<BookNode>& nodes() const { return book_.nodes(); }
  const BookNode& node(NodeIndex node) const { return book_.node(node); }
  /// Agents have brought machines in.
  bool has_many() const { return book_.nodes().size() > 1; }
  std::optional<NodeIndex> FindNode(std::string_view name) const;
  std::vector<JobId> holders(NodeIndex node, GpuIndex gpu) const { return book_.holders(node, gpu); }
  int gpu_count() const;   // Of all machines.
  int free_count() const;  // GPUs that take new work and nobody holds, on all machines.
  // Of the controller's own machine.
  const NodeCapacity& capacity() const { return book_.node(kOwnNode).capacity; }
  const GpuTopology& topology() const { return book_.node(kOwnNode).topology; }
  GpuSet usable() const { return book_.node(kOwnNode).taking(); }  // Take new work, whether or not somebody holds them.
  GpuSet free() const { return book_.node(kOwnNode).free(); }
  int cpus_claimed() const { return book_.node(kOwnNode).cpus_claimed; }
  Bytes memory_claimed() const { return book_.node(kOwnNode).memory_claimed; }
  const WaitingEntry* waiting(JobId id) const { return book_.waiting(id); }
  const RunningJob* running(JobId id) const { return book_.running(id); }
  const std::map<JobId, RunningJob>& running_jobs() const { return book_.running_jobs(); }
  std::uint64_t waiting_count() const { return book_.waiting_count(); }  // Members, not entries.
  std::uint64_t waiting_of(const std::string& user) const { return book_.waiting_of(user); }
  int group_limit(const GroupName& group) const { return book_.group_limits(group).jobs; }
  int group_gpu_limit(const GroupName& group) const { return book_.group_limits(group).gpus; }
  int group_running(const GroupName& group) const { return book_.group_running(group); }
  int group_gpus(const GroupName& group) const { return book_.group_gpus(group); }
  int cpu_jobs_running() const { return book_.cpu_jobs_running(); }
  const core::Teams& teams() const { return core_.teams(); }
  core::TeamIndex TeamOf(const std::string& name) const;

  /// Empty when all is well; else the first broken invariant. Expensive.
  std::string CheckInvariants() const;

  /// All pools that a machine is in, ascending.
  const std::vector<std::string>& PoolsOf(NodeIndex node) const { return kinds_.PoolsOf(node); }

  /// The time of the last decision.
  Time decided_at() const { return now_; }

  // For the files of this folder.
  const divvy::Book& book() const { return book_; }
  const core::Cluster& core() const { return core_; }
  const Kinds& kinds() const { return kinds_; }
  /// What a request asks for, as of now: for questions. `why`: why it fits nowhere, where its words say nothing.
  core::Ask AskAbout(const Request& request, const std::string& pool, PlacementStrategy placement,
                     std::string* why = nullptr) const;
  core::CapIndex cpu_jobs_cap() const { return cpu_jobs_cap_; }

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
  core::Ask UseAsk(JobId id, core::Ask ask, const Request& request, const std::string& pool,
                   const std::vector<ModelSpeed>& speeds);
  void LeaveAsk(JobId id);
  /// The member `job` of `entry` uses the same filters; the entry itself does not any more where it `is_last`.
  void KeepAsk(JobId entry, JobId job, bool is_last);
  /// The core knows machines by the kinds that the book tells apart now.
  void FollowKinds() const;
  std::shared_ptr<const placement::Scorer> MakeScorer() const;
  void Learn(const core::Ask& ask, std::uint32_t count);
  void PutInCore(const WaitingEntry& entry);
  void RemoveFromCore(const WaitingEntry& entry);
  void AdoptInCore(const RunningJob& job);
  void KeepSlice(const NodePlace& place, core::Ask& ask) const;
  void FitHosts(const std::vector<NodePlace>& places, core::Ask& ask);
  std::vector<core::Piece> PiecesOf(const std::vector<NodePlace>& places, const core::Ask& ask) const;
  void Enter(const Plan& plan, Time now);
  std::vector<core::CapIndex> UseCaps(std::vector<GroupName> groups, bool is_cpu_job);
  void LeaveCaps(std::vector<GroupName> groups);

  Duration usage_half_life_;
  divvy::Book book_;
  Policy policy_;
  std::vector<PoolRow> pools_;  // The core's number of each is one more than its place here.
  // A question may tell machines apart that nobody has told apart before, which changes no decision.
  mutable core::Cluster core_;
  mutable Kinds kinds_;
  std::map<JobId, std::vector<core::FilterIndex>> filters_;  // In use by those that wait and run; of others none.
  placement::RunningDemand demand_{kDemandHalfLife};
  std::int64_t next_lesson_ = kFirstLesson;
  GroupCaps caps_;
  std::map<std::string, core::TeamIndex> teams_;
  std::map<std::string, core::UserIndex> users_;
  std::map<std::string, NodeIndex, std::less<>> nodes_;  // By name, once they have one.
  /// Racks and blocks by name; numbers count from 1, 0 is for those not known.
  std::map<std::string, std::uint32_t> racks_;
  std::map<std::string, std::uint32_t> blocks_;
  core::CapIndex cpu_jobs_cap_ = 0;
  int cpu_jobs_at_once_ = Policy().cpu_jobs_at_once;
  std::uint64_t last_booking_ = 0;
  bool is_overcommitted_ = false;  // Running jobs claim more CPUs or memory than there is; core knows what fits.
  Time now_ = kNoTime;             // Of the last decision.
};

}  // namespace divvy
