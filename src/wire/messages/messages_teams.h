// The messages of teams, reservations and reports; see messages.h for the conventions. What changes a team is
// TeamChange and UserChange (model/team.h). Amounts are in their own unit: GPUs, GPU-hours, the currency of the prices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/team.h"

namespace divvy::wire {

/// A team, or a user (then of the team's fields only `team` is used: their default).
struct TeamView {
  std::string name;
  std::string parent;
  std::int64_t depth = 0;  // 0: at the top.
  std::optional<double> quota;
  std::optional<double> limit;
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  std::vector<std::string> users;
  std::vector<std::string> groups;
  std::vector<std::string> leads;
  std::string team;
  std::optional<std::int64_t> most_gpus;  // Caps; nothing: none. Of a user: a team has a limit.
  std::optional<std::int64_t> most_running;
  std::optional<std::int64_t> most_queued;
  std::optional<double> budget_gpu_hours;
  std::optional<double> budget_cost;
  std::string period;        // Of the budget: "day", "week", "month"; UTC.
  std::int64_t running = 0;  // Jobs.
  std::int64_t queued = 0;
  double gpus = 0;              // That its running jobs hold.
  std::optional<double> share;  // GPUs that are its own as things are: quota, and its part of what others leave.
  double used_gpu_hours = 0;    // In the period.
  double used_cost = 0;
  std::string barred;  // Why none of its jobs may start; empty: they may.
  bool is_from_file = false;
};

/// The usage of a user in one team itself, without the teams below it.
struct TeamMemberView {
  std::string team;  // Empty: in no team.
  std::string user;
  double used_gpu_hours = 0;  // This month, UTC.
  double used_cost = 0;
};

struct TeamsView {
  bool are_quotas_on = false;
  std::vector<TeamView> teams;  // As a tree: children behind their parent.
  std::vector<TeamView> users;  // That have a row, or jobs.
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
  double utc_offset_s = 0;     // Says which days are weekdays.
};
struct ReservedPlace {
  std::string node;  // Empty: the machine of a server that is alone.
  std::vector<std::int64_t> gpus;
};
struct ReservationTurn {
  double start = 0;
  double end = 0;
  bool is_held = false;               // GPUs are kept for it.
  std::string reason;                 // Why not.
  std::vector<ReservedPlace> places;  // Which; before it begins they may still become others.
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
  std::vector<ReservationTurn> turns;  // Those that lie ahead, or are now, for eight days.
};
struct ReservationName {
  std::string which;  // Number or name.
};

/// How good predictions of run times would have been, had each job been predicted when it ended the one before.
struct PredictionRow {
  std::string group;  // A user, team, job name, GPU model, pool, or the hour of the end; empty of all.
  std::string user;   // By user that one.
  bool is_all = false;
  std::int64_t predicted = 0;
  std::int64_t unpredicted = 0;  // Nothing of the like had run before.
  // Where none was predicted there are none of these.
  std::optional<double> median_ratio;       // Actual to predicted.
  std::optional<double> within_factor_two;  // Share, 0..1.
  std::optional<double> inside_interval;    // Share that ended within the interval in which 8 of 10 should.
};
struct PredictionsReport {
  std::int64_t jobs = 0;  // That ended in the stretch.
  double since = 0;       // Where none was asked for, the end of the first of them.
  double until = 0;
  std::string by;
  bool is_cut = false;              // The stretch begins before the first of those that are read, the latest 10,000.
  std::vector<PredictionRow> rows;  // All first, then by what was asked for.
};

/// How fast jobs of one kind are on one GPU model.
struct SpeedRow {
  std::string user;
  std::string name;
  std::string command;  // Without numbers and values; empty where the caller may not see it.
  std::int64_t gpus = 0;
  std::string model;
  double speed = 0;       // Of the fastest model's; 0: not known yet.
  std::int64_t runs = 0;  // That it comes from.
  std::string by;         // "progress" (as they reported it), "run time".
};
struct SpeedsReport {
  std::int64_t runs_needed = 0;  // On each of two models at least.
  std::vector<SpeedRow> rows;    // Kinds of jobs that ran on several models; of each the fastest first.
};

}  // namespace divvy::wire
