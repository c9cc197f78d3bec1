// The messages of teams, reservations and reports; see messages.h for the conventions. The requests that change a team
// are TeamChange and UserChange (model/team.h). Amounts are in their own unit: GPUs, GPU-hours, the currency of the
// prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/team.h"

namespace divvy::wire {

/// A team, or a user. For a user, of the team fields only `team` is used: the user's default team.
struct TeamView {
  std::string name;
  std::string parent;
  std::int64_t depth = 0;  // 0: a top-level team.
  std::optional<double> quota;
  std::optional<double> limit;
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  std::vector<std::string> users;
  std::vector<std::string> groups;
  std::vector<std::string> leads;
  std::string team;
  std::optional<std::int64_t> gpu_limit;  // Only for users; teams have `limit`. This and the next four are limits;
                                          // absent: none.
  std::optional<std::int64_t> running_limit;
  std::optional<std::int64_t> queued_limit;
  std::optional<double> budget_gpu_hours;
  std::optional<double> budget_cost;
  std::string period;        // Budget period: "day", "week", "month"; UTC.
  std::int64_t running = 0;  // Number of running jobs.
  std::int64_t queued = 0;
  double gpus = 0;              // GPUs that its running jobs hold.
  std::optional<double> share;  // Its current fair share in GPUs: its quota, plus its part of the GPUs that others do
                                // not use.
  double used_gpu_hours = 0;    // In the current period.
  double used_cost = 0;
  std::optional<double> max_per_hour;  // Limits of the price of the nodes that providers have for its jobs.
  std::optional<double> max_per_month;
  double nodes_per_hour = 0;  // That price now, with the teams below it.
  double nodes_this_month = 0;
  std::string blocker;  // Why none of its jobs may start. Empty: they may.
  bool is_from_file = false;
};

/// The usage of a user in one team, without the teams below it.
struct TeamMemberView {
  std::string team;  // Empty: jobs without a team.
  std::string user;
  double used_gpu_hours = 0;  // This month, UTC.
  double used_cost = 0;
};

struct TeamsView {
  bool are_quotas_on = false;
  std::vector<TeamView> teams;  // In tree order: children after their parent.
  std::vector<TeamView> users;  // Users that have a row, or jobs.
  std::vector<TeamMemberView> members;
};

struct TeamName {
  std::string name;
};
struct QuotasRequest {
  bool are_on = false;
};
struct MessageAnswer {
  std::string message;
};

struct ReservationRequest {
  std::string name;
  std::int64_t gpus = 0;
  std::string user;  // One of user and team.
  std::string team;
  double start = 0;
  double duration_s = 0;
  std::string every = "once";  // "day", "weekday", "week".
  double utc_offset_s = 0;     // Decides which days are weekdays.
};
struct ReservedPlace {
  std::string node;  // Empty: the only node of a single-node server.
  std::vector<std::int64_t> gpus;
};
struct OccurrenceView {
  double start = 0;
  double end = 0;
  bool is_held = false;               // GPUs are reserved for it.
  std::string reason;                 // Why none are reserved.
  std::vector<ReservedPlace> places;  // The reserved GPUs. They may change until it begins.
};
struct ReservationView {
  std::int64_t number = 0;
  std::string name;
  std::int64_t gpus = 0;
  std::string user;
  std::string team;
  double start = 0;
  double duration_s = 0;
  std::string every;
  std::string by;
  std::vector<OccurrenceView> occurrences;  // Current and future ones of the next eight days.
};
struct ReservationName {
  std::string which;  // Number or name.
};

/// Accuracy of run-time predictions: each ended job is compared with a prediction from the jobs that ended before it.
struct PredictionRow {
  std::string group;  // A user, team, job name, GPU model, pool, or the hour of the end. Empty for all jobs.
  std::string user;   // Set only in reports by user: that user.
  bool is_all = false;
  std::int64_t predicted = 0;
  std::int64_t unpredicted = 0;  // Jobs without a prediction: no similar job had ended before.
  // Absent if no job was predicted.
  std::optional<double> median_ratio;       // Actual run time divided by the predicted one.
  std::optional<double> within_factor_two;  // Share of the predicted jobs, 0..1.
  std::optional<double> inside_interval;    // Share of jobs that ended within the interval that should cover 80 %.
};
struct PredictionsReport {
  std::int64_t jobs = 0;  // Jobs that ended in the period.
  double since = 0;       // If the request named none: the end of the first of these jobs.
  double until = 0;
  std::string by;
  bool is_cut = false;              // The period begins before the first job that was read. At most the latest 10,000
                                    // jobs are read.
  std::vector<PredictionRow> rows;  // The row of all jobs first, then one row per group.
};

/// How fast similar jobs run on one GPU model.
struct SpeedRow {
  std::string user;
  std::string name;
  std::string command;  // The command without numbers and values. Empty if the caller may not see it.
  std::int64_t gpus = 0;
  std::string model;
  double speed = 0;       // Relative to the fastest model. 0: not known yet.
  std::int64_t runs = 0;  // Number of runs that it is computed from.
  std::string by;         // Its source: "progress" (reported by the jobs), "run time".
};
struct SpeedsReport {
  std::int64_t runs_needed = 0;  // Runs needed on each of at least two models.
  std::vector<SpeedRow> rows;    // Jobs that ran on several models, grouped; in each group the fastest model first.
};

}  // namespace divvy::wire
