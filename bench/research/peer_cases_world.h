// One peer case as a core::Cluster: its nodes, teams and jobs, and the rounds of its authors' scheduler.
//
// In the scheduler that the cases come from, some tasks of a gang can run while others wait. In core::Cluster such a
// gang is two entries, the running tasks and the missing ones, until the missing ones start as well. If they cannot
// start, the whole job is queued again, as divvy's controller does with a broken gang.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/state/cluster.h"
#include "research/peer_cases.h"

namespace divvy::research {

/// Cases have no clock: everything happens at this moment.
inline constexpr Time kPeerNow(std::chrono::hours(24));

struct PeerPlace {
  PeerState state = PeerState::kPending;
  std::string node;
  friend bool operator==(const PeerPlace&, const PeerPlace&) = default;
  bool is_free_nomination = false;  // For kPlanned: the place needs no victim, so the task could start at once.
};

/// Rounds up to whole units. Values that are too large become the largest int32.
std::int32_t PeerRounded(double value);

class PeerWorld {
 public:
  explicit PeerWorld(const PeerCase& one);

  /// Why the case cannot be set up. Empty: it was set up.
  const std::string& obstacle() const { return obstacle_; }

  /// Runs one scheduling cycle. With `ends`, also completes its effects: jobs and tasks that are being stopped have
  /// then released their resources.
  void Round(bool ends);
  /// Returns the places of the tasks of job `index`, in no particular order.
  std::vector<PeerPlace> PlacesOf(std::size_t index) const;
  const core::Cluster& cluster() const { return cluster_; }
  /// GPU parts of one task (placement::kGpuParts make a GPU); the mean if the tasks differ.
  std::int64_t TaskParts(std::size_t index) const;
  core::TeamIndex TeamOf(std::size_t index) const { return JobOf(index).team; }

 private:
  /// A job of the case and its entries in the cluster.
  struct Job {
    const PeerJob* job = nullptr;
    core::ResourceRequest request;  // For all tasks of the job.
    std::vector<int> total;         // The number of tasks in each group.
    std::vector<PeerState> ended;   // The tasks that have failed or succeeded.
    int ended_well = 0;
    JobId id;
    JobId rest;  // Optional. The entry for the missing tasks of a gang that is below its minimum.
    std::vector<std::size_t> rest_groups;  // For each group of the entry `rest`: its index in `request`.
    std::vector<JobId> held;               // One entry for each task that is leaving or stuck.
    std::vector<bool> is_stuck;
    bool is_broken = false;
    bool is_evicted = false;  // Set during one round only.
    core::TeamIndex team = core::kRootTeam;
    Time queued_at = kNoTime;
  };
  const Job& JobOf(std::size_t index) const;
  void AddNodes();
  void AddTeams();
  void AddJobs();
  void DescribeJob(std::size_t index);
  void SetLocality(core::ResourceRequest& request, const PeerGroup& root);
  core::Shape ShapeOf(const PeerJob& job, const PeerTask& task);
  placement::ModelSet Allowed(const PeerJob& job, const PeerTask& task, const std::string& mig);
  void Occupy(std::size_t index);
  core::TaskPlacement Fix(std::size_t job, const PeerTask& task, std::size_t group);
  core::Job Entry(const Job& job, JobId id, const core::ResourceRequest& request);
  void PutWhole(Job& job);
  void EndRound();
  void Join(Job& job);
  core::Rules RulesOf() const;

  const PeerCase& case_;
  core::Cluster cluster_;
  std::set<JobId> preemptors_;  // Entries for which others were preempted or moved.
  std::string obstacle_;
  std::vector<std::string> node_names_;  // By node index.
  std::map<std::string, core::TeamIndex> teams_;
  std::vector<Job> jobs_;
  std::vector<std::vector<std::size_t>> group_of_;  // [job][task]: the index of its group; npos if the task needs none.
  std::map<std::pair<std::string, std::string>, int> gpu_of_group_;
  std::map<std::string, int> levels_;  // The level of each label: 0 is a block, 1 is a rack.
  double memory_unit_ = 1000;
  std::uint64_t next_id_ = 1;
};

}  // namespace divvy::research
