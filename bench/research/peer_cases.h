// Runs the scheduling test cases of another scheduler through divvy. A case is a small cluster with teams, running jobs
// and waiting jobs, and the state that its authors expect at the end. docs/peer-cases.md explains the cases, how
// results are compared, and which of them deviate and why.
//
// A case is JSON: Nodes, Queues (teams), Departments (teams above teams), Jobs with their tasks, and the expected state
// of jobs or tasks. A case for one action (named by "source") runs one round of that action alone. All other cases run
// all actions until the state is as expected, at most twice, and then five more rounds, which must change nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::research {

/// The state of a task, in the terms of the cases. kPlanned: the task has a place but waits until others leave it.
enum class PeerState { kPending, kPlanned, kRunning, kReleasing, kStuck, kFailed, kSucceeded };

struct PeerTask {
  std::string name;
  PeerState state = PeerState::kPending;
  bool is_planned_at_first = false;
  std::string node;
  std::string sub_group;
  std::optional<double> gpus;
  std::vector<std::string> gpu_groups;
  std::map<std::string, int> mig;
  std::vector<std::string> claims;
  std::vector<std::string> node_affinity;
  int priority = 0;
};

/// How close to each other the tasks of a group must be, as names of node labels.
struct PeerNearness {
  std::string topology;
  std::string required;
  std::string preferred;
  bool is_set() const { return !required.empty() || !preferred.empty(); }
};

/// A set of tasks, or a set of such sets.
struct PeerGroup {
  std::string name;
  bool has_tasks = false;
  int least = 0;  // The minimum number of tasks. For a set of sets: the minimum number of sets, where 0 means all.
  PeerNearness nearness;
  std::vector<PeerGroup> children;
};

struct PeerJob {
  std::string name;
  std::string queue;
  int priority = 0;
  std::optional<bool> is_preemptible;
  double gpus = 0;
  double cpus = 0;
  double memory = 0;
  double gpu_memory = 0;
  double devices = 1;  // GPUs per task, each with the fraction given above.
  double age_minutes = 0;
  double patience_minutes = 0;
  double stale_seconds = 0;
  double stale_grace_seconds = 60;
  bool is_deleted = false;
  std::optional<PeerGroup> root;
  std::vector<PeerTask> tasks;
};

struct PeerNode {
  std::string name;
  double gpus = 0;
  double cpus = 20'000;
  double memory = 20e9;
  double gpu_memory = 100;
  std::string mig_strategy;
  std::map<std::string, int> mig;
  std::map<std::string, std::string> labels;
};

struct PeerQueue {
  std::string name;
  std::string parent;
  double quota = 0;  // In GPUs; -1: unlimited.
  double limit = 0;  // In GPUs; 0: no limit.
  double weight = 0;
  int priority = 100;
};

struct PeerNomination {
  double gpus = 0;
  std::string queue;  // Empty: no queue is named. "*": any queue.
};

struct PeerExpectation {
  PeerState state = PeerState::kPending;
  std::string node;  // Empty: any node.
};

struct PeerCase {
  std::string id;
  std::string action;  // Empty: all actions.
  std::vector<PeerNode> nodes;
  std::vector<PeerQueue> queues;  // Includes departments. A parent may come after its children.
  std::vector<PeerJob> jobs;
  std::map<std::string, std::vector<std::string>> topologies;  // Labels, from the widest domain to the narrowest.
  std::map<std::string, PeerNomination> claims;
  std::vector<std::pair<std::string, PeerExpectation>> jobs_expected;
  std::vector<std::pair<std::string, PeerExpectation>> tasks_expected;
  bool spreads_nodes = false;
  /// Descriptions of the features that the case uses and divvy does not have.
  std::vector<std::string> foreign;
};

/// Fails if a file cannot be read or is malformed; the message names the file and the problem.
Result<std::vector<PeerCase>> ReadPeerCases(const std::string& path);

struct PeerOutcome {
  std::string id;
  bool is_passed = false;
  std::string deviation;   // The reason that justifies the difference. Empty: the case has failed.
  std::string difference;  // The first difference found.
};

PeerOutcome RunPeerCase(const PeerCase& one);

struct PeerReport {
  int passed = 0;
  std::vector<PeerOutcome> failed;
  std::vector<PeerOutcome> deviations;
};

Result<PeerReport> RunPeerFiles(const std::vector<std::string>& paths);
std::string PeerReportJson(const PeerReport& report);
std::string PeerReportText(const PeerReport& report);

}  // namespace divvy::research
