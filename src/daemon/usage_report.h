// Reports over a stretch of time, made of runs: who had how many GPU-hours, who waited how long, and how even it was.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "model/job_record.h"
#include "wire/messages_reports.h"

namespace divvy {

/// What the rows of a report are about.
enum class ReportBy { kUser, kTeam, kName, kModel, kPool, kNode, kHour };
/// "user"; nullopt for other words.
std::optional<ReportBy> ReportByFromName(std::string_view name);
/// "user, team, name, model, pool, node or hour".
std::string ReportByNames();

/// "user".
std::string ReportByName(ReportBy by);

/// One run of a job, or what it had on one of its machines, as a report sees it.
struct ReportedRun {
  JobId id;
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
  Time started = kNoTime;  // kNoTime: never.
  Time ended = kNoTime;    // kNoTime: it runs still, or waits.
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

struct ReportStretch {
  Time since = kNoTime;
  Time until = kNoTime;
};

/// GPU-hours are what lies in the stretch; waiting is of runs that started there. A job that ran several times is one
/// job, and has failed where its last run has. Requires: since < until.
wire::UsageReport ReportUsage(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch);

/// Of runs that started in the stretch. `by` is a user or a team. Jain, Chiu, Hawe 1984: (sum x)^2 / (n sum x^2).
wire::FairnessReport ReportFairness(const std::vector<ReportedRun>& runs, ReportBy by, const ReportStretch& stretch);

}  // namespace divvy
