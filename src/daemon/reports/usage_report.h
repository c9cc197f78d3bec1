// Reports over a stretch of time, made of runs: who had how many GPU-hours, who waited how long, and how even it was.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job_record.h"
#include "wire/messages/messages_reports.h"

namespace divvy {

/// What the rows of a report are about.
enum class ReportBy { kUser, kTeam, kName, kModel, kPool, kNode, kHour, kJob };
/// "user"; nullopt for other words.
std::optional<ReportBy> ReportByFromName(std::string_view name);
/// "user, team or hour".
std::string ReportByNames(std::span<const ReportBy> which);

// What rows of each report may be about; the first of them unless said otherwise.
inline constexpr std::array kUsageIsBy = {ReportBy::kUser, ReportBy::kTeam, ReportBy::kName, ReportBy::kModel,
                                          ReportBy::kPool, ReportBy::kNode, ReportBy::kHour, ReportBy::kJob};
/// Time is the other direction of these.
inline constexpr std::array kSharesAreBy = {ReportBy::kUser,  ReportBy::kTeam, ReportBy::kName,
                                            ReportBy::kModel, ReportBy::kPool, ReportBy::kNode};
/// Of waste and efficiency.
inline constexpr std::array kUsesAreBy = {ReportBy::kUser, ReportBy::kTeam, ReportBy::kName, ReportBy::kModel,
                                          ReportBy::kPool, ReportBy::kNode, ReportBy::kHour, ReportBy::kJob};
/// Of fairness and predictions: jobs wait for a pool and a model, but for no machine of theirs.
inline constexpr std::array kWaitingIsBy = {ReportBy::kUser,  ReportBy::kTeam, ReportBy::kName,
                                            ReportBy::kModel, ReportBy::kPool, ReportBy::kHour};

/// "user".
std::string ReportByName(ReportBy by);

/// "2026-03-01T16", of the hour in which it lies (UTC).
std::string HourName(Time at);

/// One run of a job, or what it had on one of its machines, as a report sees it.
struct ReportedRun {
  JobId id;
  std::string display_id;
  std::string user;
  std::string team;
  std::string name;
  std::string model;
  std::string pool;
  std::string node;
  double gpus = 0;    // In whole GPUs and parts of them.
  int gpu_count = 0;  // GPUs that it has, or has parts of.
  int cpus = 0;       // Cores that it asked for, on all its machines; 0: it named none.
  double part = 1;    // Of what the job's processors did, what belongs here.
  double share = 1;   // Of each GPU that it has: below 1, a part of it.
  Time queued = kNoTime;
  Time started = kNoTime;              // kNoTime: never.
  Time ended = kNoTime;                // kNoTime: it runs still, or waits.
  JobState state = JobState::kQueued;  // Of the job.
  bool has_failed = false;
  bool is_past = false;  // The job was started again after it.
};
/// Adds it as one run; by machine, one on several machines as one on each. `own_node`: what the controller's own
/// machine is called.
void AddRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs);
/// One of before (Store::PastRuns).
void AddPastRunOf(const JobRecord& record, ReportBy by, const std::string& own_node, std::vector<ReportedRun>& runs);
/// The row that it belongs to. Requires: `by` is no hour.
const std::string& GroupOf(const ReportedRun& run, ReportBy by);

/// The job that a row is of; nothing unless rows are of jobs.
std::optional<wire::RowJob> RowJobOf(const ReportedRun& run, ReportBy by);
/// Rows by job: so many, the worst first; all of them count in the sums.
inline constexpr std::size_t kMostJobRows = 1000;

struct ReportStretch {
  Time since = kNoTime;
  Time until = kNoTime;
};

/// GPU-hours are what lies in the stretch; waiting is of runs that started there. A job that ran several times is one
/// job, and has failed where its last run has. Requires: since < until.
wire::UsageReport ReportUsage(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch);

/// Of runs that started in the stretch, by what kWaitingIsBy has. Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2).
wire::FairnessReport ReportFairness(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch);

}  // namespace divvy
