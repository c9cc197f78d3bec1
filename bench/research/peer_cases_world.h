// One peer case as a core::Cluster: its nodes, teams and jobs, and the rounds that its authors' scheduler makes.
//
// What a gang that lost a task is to the other scheduler (some tasks run, others wait) is two entries here, what runs
// and what is missing, until they are together again; if they do not come together, the job is queued again as a whole,
// which is what divvy's control does with a broken gang.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/state/cluster.h"
#include "research/peer_cases.h"

namespace divvy::research {

/// Cases have no clock: everything is at one moment.
inline constexpr Time kPeerNow(std::chrono::hours(24));

struct PeerPlace {
  PeerState state = PeerState::kPending;
  std::string node;
  friend bool operator==(const PeerPlace&, const PeerPlace&) = default;
  bool is_free_claim = false;  // kPlanned, but nothing was taken for it: it would start there anyway.
};

/// Up to whole units; what is too large for them is the largest.
std::int32_t PeerRounded(double value);

class PeerWorld {
 public:
  explicit PeerWorld(const PeerCase& one);

  /// Empty; else why the case cannot be set up.
  const std::string& obstacle() const { return obstacle_; }

  /// One decision, and what follows of it by the end of the cycle where there is one. `ends`: those who leave have
  /// left.
  void Round(bool ends);
  /// Where the tasks of job `index` are, in no order.
  std::vector<PeerPlace> PlacesOf(std::size_t index) const;
  const core::Cluster& cluster() const { return cluster_; }
  /// GPUs of one task, in parts; the mean where tasks differ.
  std::int64_t TaskParts(std::size_t index) const;
  core::TeamIndex TeamOf(std::size_t index) const { return JobOf(index).team; }

 private:
  /// A task's share of a job: which group of its ask it is in.
  struct Job {
    const PeerJob* job = nullptr;
    core::Ask ask;                 // Whole.
    std::vector<int> total;        // Tasks of each group.
    std::vector<PeerState> ended;  // Tasks that have failed or succeeded.
    int ended_well = 0;
    JobId id;
    JobId rest;                            // What it misses of its least, while it does.
    std::vector<std::size_t> rest_groups;  // Of the rest's ask: which of the whole.
    std::vector<JobId> held;               // Tasks that leave or are stuck, one by one.
    std::vector<bool> is_stuck;
    bool is_broken = false;
    bool is_evicted = false;  // In this round.
    core::TeamIndex team = core::kRootTeam;
    Time queued_at = kNoTime;
  };
  struct Part {
    core::NodeIndex index = 0;
    std::string name;
  };

  const Job& JobOf(std::size_t index) const;
  void AddNodes();
  void AddTeams();
  void AddJobs();
  void DescribeJob(std::size_t index);
  void SetTogether(core::Ask& ask, const PeerGroup& root);
  core::Shape ShapeOf(const PeerJob& job, const PeerTask& task);
  placement::ModelSet Allowed(const PeerJob& job, const PeerTask& task, const std::string& mig);
  void Occupy(std::size_t index);
  core::Piece Fix(std::size_t job, const PeerTask& task, std::size_t group);
  core::Job Entry(const Job& job, JobId id, const core::Ask& ask);
  void PutWhole(Job& job);
  void EndRound();
  void EvictBroken(Job& job);
  void Join(Job& job);
  core::Rules RulesOf() const;

  const PeerCase& case_;
  core::Cluster cluster_;
  std::set<JobId> takers_;  // For whom something was taken.
  std::string obstacle_;
  std::vector<std::string> node_names_;  // By index.
  std::map<std::string, core::TeamIndex> teams_;
  std::vector<Job> jobs_;
  std::vector<std::vector<std::size_t>> group_of_;  // Of job, of task: its group; npos: it needs none.
  std::map<std::pair<std::string, std::string>, int> gpu_of_group_;
  std::map<std::string, int> levels_;  // Label to 0 block, 1 rack.
  double memory_unit_ = 1000;
  std::uint64_t next_id_ = 1;
};

}  // namespace divvy::research
