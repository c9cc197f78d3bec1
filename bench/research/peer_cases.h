// Scheduling cases of another scheduler, run through this one: small clusters with teams, running and waiting jobs, and
// the state that its authors expect at the end. docs/peer-cases.md says what the cases mean, how ours are compared with
// them, and which deviate and why.
//
// A case is JSON: Nodes, Queues (teams), Departments (teams above teams), Jobs with their tasks, and what is expected
// of each job or task. Cases of one action ("source" says which) run one round of that action alone; all others run all
// of them until the state is as expected, at most twice, and then five times more, which must change nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace divvy::research {

/// Where a task is, as the cases have it. kPlanned: it has a place, but waits for others to leave it.
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

/// How close the tasks of a group must be: labels of nodes.
struct PeerNearness {
  std::string topology;
  std::string required;
  std::string preferred;
  bool is_set() const { return !required.empty() || !preferred.empty(); }
};

/// A set of tasks, or of such sets.
struct PeerGroup {
  std::string name;
  bool has_tasks = false;
  int least = 0;  // Tasks; of a set of sets: sets, 0: all.
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
  double devices = 1;  // GPUs that each task has that share of.
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
  double quota = 0;  // GPUs; -1: none.
  double limit = 0;  // 0: none.
  double weight = 0;
  int priority = 100;
};

struct PeerClaim {
  double gpus = 0;
  std::string queue;  // Empty: it names none.
};

struct PeerExpectation {
  PeerState state = PeerState::kPending;
  std::string node;  // Empty: any.
};

struct PeerCase {
  std::string id;
  std::string action;  // Empty: all.
  std::vector<PeerNode> nodes;
  std::vector<PeerQueue> queues;  // With departments; a parent may come after its children.
  std::vector<PeerJob> jobs;
  std::map<std::string, std::vector<std::string>> topologies;  // Labels, wide to near.
  std::map<std::string, PeerClaim> claims;
  std::vector<std::pair<std::string, PeerExpectation>> jobs_expected;
  std::vector<std::pair<std::string, PeerExpectation>> tasks_expected;
  bool spreads_nodes = false;
  /// What it uses and divvy has no such thing for, in words.
  std::vector<std::string> foreign;
};

/// Fails with the file and what is wrong in it.
Result<std::vector<PeerCase>> ReadPeerCases(const std::string& path);

struct PeerOutcome {
  std::string id;
  bool is_passed = false;
  std::string deviation;   // Why it differs and may; empty: it may not.
  std::string difference;  // The first one.
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
