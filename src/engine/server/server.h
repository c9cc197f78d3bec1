// One server: its GPUs, the jobs that wait and run on it, and who starts next. The engine for many nodes
// (engine/core) decides; this says to it what a controller knows, and tells its plans and answers in the words of one
// server: GPUs by index, limits by name, "8 of 64 CPUs are free".
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
#include <optional>
#include <string>
#include <vector>

#include "engine/core/cluster.h"
#include "engine/policy.h"
#include "engine/server/book.h"
#include "engine/server/plan.h"
#include "engine/server/translate.h"

namespace divvy {

class Server {
 public:
  /// GPUs that one server can have.
  static constexpr std::size_t kMostGpus = static_cast<std::size_t>(placement::kMaxGpus);
  /// How the next member of an entry is called once it runs. Asked once for each start, in the order of the starts.
  using NameMember = std::function<JobId(JobId entry)>;

  explicit Server(Duration usage_half_life = std::chrono::hours(24 * 7));

  // --- Facts ---------------------------------------------------------------------------------------------------

  /// Before anything else; may be called again with the same GPU count or more.
  void SetCapacity(NodeCapacity capacity);
  void SetAvailability(GpuIndex gpu, GpuAvailability availability);
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

  /// Keeps `gpus` GPUs for a team, or for one user, between two times; jobs that run over `from` keep what they have.
  /// Nothing when there is no room for it in that time. SetTeams forgets all bookings.
  std::optional<std::uint64_t> Book(int gpus, const std::string& team, const std::string& user, Time from, Time until,
                                    Time now);
  void Unbook(std::uint64_t booking);

  // --- Decisions -----------------------------------------------------------------------------------------------

  void SetPolicy(const Policy& policy);
  /// Who starts now; they run, and have left the queue, when this returns.
  Decided Decide(Time now, const NameMember& name);
  /// What Decide would say, without doing it: decides on a copy, and costs as much. For questions and tests.
  /// What keeps a waiting job back whatever is free, as its team counts: "team vision runs as much as its limit
  /// allows". Empty: nothing. Cheap.
  std::string TeamBar(JobId waiting) const;
  Plan WouldDecide(Time now) const;

  // --- Questions -----------------------------------------------------------------------------------------------

  const NodeCapacity& capacity() const { return book_.capacity(); }
  const GpuTopology& topology() const { return book_.topology(); }
  const GpuAvailability& availability(GpuIndex gpu) const { return book_.availability(gpu); }
  GpuSet usable() const { return book_.usable(); }  // Take new work, whether or not somebody holds them now.
  GpuSet free() const { return book_.usable() - book_.owned(); }
  std::optional<JobId> owner(GpuIndex gpu) const { return book_.owner(gpu); }
  const WaitingEntry* waiting(JobId id) const { return book_.waiting(id); }
  const RunningJob* running(JobId id) const { return book_.running(id); }
  const std::map<JobId, RunningJob>& running_jobs() const { return book_.running_jobs(); }
  std::uint64_t waiting_count() const { return book_.waiting_count(); }  // Members, not entries.
  int group_limit(const GroupName& group) const { return book_.group_limits(group).jobs; }
  int group_gpu_limit(const GroupName& group) const { return book_.group_limits(group).gpus; }
  int group_running(const GroupName& group) const { return book_.group_running(group); }
  int group_gpus(const GroupName& group) const { return book_.group_gpus(group); }
  int cpus_claimed() const { return book_.cpus_claimed(); }
  Bytes memory_claimed() const { return book_.memory_claimed(); }
  int cpu_jobs_running() const { return book_.cpu_jobs_running(); }
  const core::Teams& teams() const { return core_.teams(); }
  core::TeamIndex TeamOf(const std::string& name) const;

  /// Empty when all is well; else the first broken invariant. Expensive.
  std::string CheckInvariants() const;

  // For the files of this folder.
  const divvy::Book& book() const { return book_; }
  const core::Cluster& core() const { return core_; }
  const Kinds& kinds() const { return kinds_; }
  core::CapIndex cpu_jobs_cap() const { return cpu_jobs_cap_; }

 private:
  void Rebuild(core::Teams teams);
  core::Teams TakeTeams();
  void ForgetOldClasses();
  void ShowUsable();
  core::UserIndex UserOf(const std::string& name);
  core::Job JobOf(const WaitingEntry& entry);
  void PutInCore(const WaitingEntry& entry);
  void RemoveFromCore(const WaitingEntry& entry);
  void AdoptInCore(const RunningJob& job);
  void Enter(const Plan& plan, Time now);
  std::vector<core::CapIndex> UseCaps(std::vector<GroupName> groups, bool is_cpu_job);
  void LeaveCaps(std::vector<GroupName> groups);

  Duration usage_half_life_;
  divvy::Book book_;
  core::Cluster core_;
  Kinds kinds_;
  GroupCaps caps_;
  std::map<std::string, core::TeamIndex> teams_;
  std::map<std::string, core::UserIndex> users_;
  core::CapIndex cpu_jobs_cap_ = 0;
  int cpu_jobs_at_once_ = Policy().cpu_jobs_at_once;
  std::uint64_t last_booking_ = 0;
  bool is_overcommitted_ = false;  // Running jobs claim more CPUs or memory than there is; core knows what fits.
  Time now_ = kNoTime;             // Of the last decision.
};

}  // namespace divvy
