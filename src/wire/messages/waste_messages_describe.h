// The members of waste_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/waste_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(WasteFinding, (), (kind, since, gpus, text, remedy))
BOOST_DESCRIBE_STRUCT(WastefulJob, (),
                      (id, display_id, name, user, team, gpu_model, gpus, start_time, wasted_gpus, gpu_hours,
                       lost_gpu_hours, idle_gpu_hours, lost_cost, findings, action, action_text, action_time, warnings,
                       max_warnings))
constexpr std::array<RenamedField, 1> RenamedFields(const WastefulJob*) {
  return {{{"max_warnings", "warnings_most"}}};
}
BOOST_DESCRIBE_STRUCT(WasteAnswer, (), (time, is_on, wasted_gpus, jobs))
BOOST_DESCRIBE_STRUCT(JobWaste, (),
                      (id, display_id, has_ended, gpu_hours, lost_gpu_hours, idle_gpu_hours, lost_share, lost_cost,
                       is_small, findings))
BOOST_DESCRIBE_STRUCT(RowJob, (), (id, name, user, state))
BOOST_DESCRIBE_STRUCT(WasteRow, (),
                      (group, jobs, gpu_hours, lost_gpu_hours, idle_gpu_hours, lost_share, lost_cost, job, is_small,
                       findings))
BOOST_DESCRIBE_STRUCT(WasteReport, (),
                      (since, until, by, gpu_hours, lost_gpu_hours, idle_gpu_hours, lost_cost, is_cut, rows, now))
BOOST_DESCRIBE_STRUCT(KeptWaste, (), (attempt, told, warnings, next_at, is_done, requeues))
BOOST_DESCRIBE_STRUCT(KeptFindings, (), (ended, findings))
BOOST_DESCRIBE_STRUCT(EfficiencyRow, (),
                      (group, jobs, gpu_hours, utilization, memory_peak_bytes, cpu_cores, cpu_use, job))
BOOST_DESCRIBE_STRUCT(EfficiencyReport, (), (since, until, by, gpu_hours, utilization, is_cut, rows))

}  // namespace divvy::wire
