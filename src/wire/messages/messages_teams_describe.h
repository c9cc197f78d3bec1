// The fields of the messages of teams, reservations and reports; see messages_describe.h.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/messages_teams.h"

namespace divvy {

BOOST_DESCRIBE_STRUCT(CapsChange, (), (running, queued, gpu_hours, cost, period))
BOOST_DESCRIBE_STRUCT(TeamChange, (),
                      (name, is_new, parent, quota, limit, weight, priority, add_users, remove_users, add_groups,
                       remove_groups, add_leads, remove_leads, caps, clear))
constexpr std::array<RenamedField, 1> RenamedFields(const TeamChange*) { return {{{"limits", "caps"}}}; }
BOOST_DESCRIBE_STRUCT(UserChange, (), (user, team, gpus, caps, clear))
constexpr std::array<RenamedField, 1> RenamedFields(const UserChange*) { return {{{"limits", "caps"}}}; }

}  // namespace divvy

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(TeamView, (),
                      (name, parent, depth, quota, limit, weight, priority, users, groups, leads, team, gpu_limit,
                       running_limit, queued_limit, budget_gpu_hours, budget_cost, period, running, queued, gpus, share,
                       used_gpu_hours, used_cost, max_per_hour, max_per_month, nodes_per_hour, nodes_this_month,
                       blocker, is_from_file))
constexpr std::array<RenamedField, 4> RenamedFields(const TeamView*) {
  return {{{"gpu_limit", "most_gpus"},
           {"running_limit", "most_running"},
           {"queued_limit", "most_queued"},
           {"blocker", "barred"}}};
}
BOOST_DESCRIBE_STRUCT(TeamMemberView, (), (team, user, used_gpu_hours, used_cost))
BOOST_DESCRIBE_STRUCT(TeamsView, (), (are_quotas_on, teams, users, members))
BOOST_DESCRIBE_STRUCT(TeamName, (), (name))
BOOST_DESCRIBE_STRUCT(QuotasRequest, (), (are_on))
BOOST_DESCRIBE_STRUCT(MessageAnswer, (), (message))
BOOST_DESCRIBE_STRUCT(ReservationRequest, (), (name, gpus, user, team, start, duration_s, every, utc_offset_s))
BOOST_DESCRIBE_STRUCT(ReservedPlace, (), (node, gpus))
BOOST_DESCRIBE_STRUCT(OccurrenceView, (), (start, end, is_held, reason, places))
BOOST_DESCRIBE_STRUCT(ReservationView, (), (number, name, gpus, user, team, start, duration_s, every, by, occurrences))
constexpr std::array<RenamedField, 1> RenamedFields(const ReservationView*) { return {{{"occurrences", "turns"}}}; }
BOOST_DESCRIBE_STRUCT(ReservationName, (), (which))
BOOST_DESCRIBE_STRUCT(PredictionRow, (),
                      (group, user, is_all, predicted, unpredicted, median_ratio, within_factor_two, inside_interval))
BOOST_DESCRIBE_STRUCT(PredictionsReport, (), (jobs, since, until, by, is_cut, rows))
BOOST_DESCRIBE_STRUCT(SpeedRow, (), (user, name, command, gpus, model, speed, runs, by))
BOOST_DESCRIBE_STRUCT(SpeedsReport, (), (runs_needed, rows))

}  // namespace divvy::wire
