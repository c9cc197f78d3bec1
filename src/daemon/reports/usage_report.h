// Reports over a period, computed from runs: GPU-hours, waiting times and fairness per group.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job_record.h"
#include "providers/node_request.h"
#include "wire/messages/messages_reports.h"

namespace divvy {

/// The meaning of a report's rows.
enum class ReportBy { kUser, kTeam, kName, kModel, kPool, kNode, kHour, kJob };
/// Parses "user" and so on; nullopt for other words.
std::optional<ReportBy> ReportByFromName(std::string_view name);
/// Formats a list for messages: "user, team or hour".
std::string ReportByNames(std::span<const ReportBy> which);

// The possible rows of each report. The first entry is the default.
inline constexpr std::array kUsageIsBy = {ReportBy::kUser, ReportBy::kTeam, ReportBy::kName, ReportBy::kModel,
                                          ReportBy::kPool, ReportBy::kNode, ReportBy::kHour, ReportBy::kJob};
/// Without kHour, because time is the other axis of these reports.
inline constexpr std::array kSharesAreBy = {ReportBy::kUser,  ReportBy::kTeam, ReportBy::kName,
                                            ReportBy::kModel, ReportBy::kPool, ReportBy::kNode};
/// For the waste and efficiency reports.
inline constexpr std::array kUsesAreBy = {ReportBy::kUser, ReportBy::kTeam, ReportBy::kName, ReportBy::kModel,
                                          ReportBy::kPool, ReportBy::kNode, ReportBy::kHour, ReportBy::kJob};
/// For the fairness and prediction reports. Jobs wait for a pool and a model, but not for a certain node.
inline constexpr std::array kWaitingIsBy = {ReportBy::kUser,  ReportBy::kTeam, ReportBy::kName,
                                            ReportBy::kModel, ReportBy::kPool, ReportBy::kHour};

/// Returns "user" and so on.
std::string ReportByName(ReportBy by);

/// Returns the hour of `at` in UTC: "2026-03-01T16".
std::string HourName(Time at);

/// The cost of a run on one node of a provider: its part of the node's price, as long as both exist.
struct RunCost {
  Time from = kNoTime;
  Time until = kNever;
  Money hourly;       // The run's part.
  Money node_hourly;  // The whole node.
};

/// The GPUs and cores of a run on one node.
struct RunPlace {
  std::string node;  // Empty: the controller's own node.
  int gpus = 0;      // GPUs that it holds wholly or in part.
  int cpus = 0;      // Requested cores. 0: none requested.
};

/// One run of a job, or its allocation on one node, as used by reports.
struct ReportedRun {
  JobId id;
  std::string display_id;
  std::string user;
  std::string team;
  std::string name;
  std::string model;
  std::string pool;
  std::string node;
  double gpus = 0;    // Whole GPUs plus fractions.
  int gpu_count = 0;  // The number of GPUs that it holds wholly or in part.
  int cpus = 0;       // Requested cores on all its nodes; 0: none requested.
  double part = 1;    // The fraction of the job's CPU work that belongs to this entry.
  double share = 1;   // The share of each of its GPUs; below 1 for a GPU fraction.
  Time queued = kNoTime;
  Time started = kNoTime;              // kNoTime: never started.
  Time ended = kNoTime;                // kNoTime: still running, or waiting.
  JobState state = JobState::kQueued;  // The job's state.
  bool has_failed = false;
  bool is_past = false;          // The job was started again after this run.
  std::vector<RunPlace> places;  // Empty: never started.
  std::vector<RunCost> costs;    // For each node of a provider that it runs on (AddCosts).
};
/// Adds the job's present or last run as one entry; by node, one entry for each of its nodes. `own_node` is the name of
/// the controller's own node.
void AddRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs);
/// Adds an earlier run of a job (Store::PastRuns) in the same way.
void AddPastRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs);
/// Fills in the costs of `runs`. `nodes`: the nodes of providers, ascending by name and then by `gone`. A run's part of
/// a node is that of its GPUs; on a node without GPUs, that of its requested cores.
void AddCosts(std::span<const providers::PricedNode> nodes, std::span<ReportedRun> runs);
/// Returns the name of the row to which the run belongs, such as its user. Requires: `by` is not kHour.
const std::string& GroupOf(const ReportedRun& run, ReportBy by);

/// Returns the job of the run's row, if the rows of the report are jobs; otherwise nullopt.
std::optional<wire::RowJob> RowJobOf(const ReportedRun& run, ReportBy by);
/// The limit on rows by job; the rows with the largest values are kept. All jobs count in the sums.
inline constexpr std::size_t kMostJobRows = 1000;

struct ReportStretch {
  Time since = kNoTime;
  Time until = kNoTime;
};

/// Counts GPU-hours inside the period, and the waiting times of runs that started in it. A job that ran several times
/// counts as one job; it has failed if its last run has. `nodes`: the nodes of providers, for the cost; without any,
/// the report has no costs. Their cost is that of the billing periods that begin in the period, but at least that of
/// the time in it. Requires: since < until.
wire::UsageReport ReportUsage(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch,
                              std::span<const providers::PricedNode> nodes = {});

/// Reports how fairly waiting times were distributed among runs that started in the period. `by` must be in
/// kWaitingIsBy. The measure is the fairness index (sum x)^2 / (n sum x^2) of Jain, Chiu and Hawe, 1984.
wire::FairnessReport ReportFairness(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch);

}  // namespace divvy
