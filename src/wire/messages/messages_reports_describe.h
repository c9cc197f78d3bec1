// The members of messages_reports.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/messages_reports.h"
#include "wire/messages/waste_messages_describe.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(UsageRow, (),
                      (group, jobs, running, failed, gpu_hours, failed_gpu_hours, share, wait_mean_s, wait_median_s,
                       wait_p95_s, job, nodes_cost, nodes_share))
BOOST_DESCRIBE_STRUCT(UsageReport, (),
                      (since, until, by, gpu_hours, capacity_gpu_hours, is_cut, nodes_cost, unused_nodes_cost, rows))
BOOST_DESCRIBE_STRUCT(FairnessRow, (),
                      (group, jobs, gpu_hours, share, wait_median_s, wait_longest_s, slowdown_median, slowdown_p95))
BOOST_DESCRIBE_STRUCT(FairnessReport, (), (since, until, by, evenness_of_share, evenness_of_slowdown, is_cut, rows))

}  // namespace divvy::wire
