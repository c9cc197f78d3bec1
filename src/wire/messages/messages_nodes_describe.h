// The fields of the messages of nodes; see messages_describe.h.
#pragma once

#include <array>

#include <boost/describe/class.hpp>

#include "wire/json/json_type.h"
#include "wire/messages/messages_nodes.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(FoundView, (), (job, name, user, node, gpus, started, state, exit_code))
BOOST_DESCRIBE_STRUCT(FoundRequest, (), (job, ends))
BOOST_DESCRIBE_STRUCT(NodeView, (),
                      (name, state, reason, is_controller, gpus, gpus_free, jobs, gpu_model, gpu_source, cpus,
                       memory_bytes, version, address, last_contact, joined, deadline, labels, pools, gpu_uuids,
                       reason_since, gpus_restricted, gpus_reserved, exclusive_job))
constexpr std::array<RenamedField, 2> RenamedFields(const NodeView*) {
  return {{{"last_contact", "heard"}, {"exclusive_job", "alone"}}};
}
BOOST_DESCRIBE_STRUCT(PoolView, (),
                      (name, state, is_default, is_from_file, nodes, gpus, gpus_free, running, queued, gpus_held, users,
                       teams, max_time_s, default_time_s, min_gpus, max_gpus, max_nodes, running_limit, gpu_limit,
                       policy, placement, priority, is_exclusive, jobs_per_gpu, gpus_reserved))
constexpr std::array<RenamedField, 2> RenamedFields(const PoolView*) {
  return {{{"running_limit", "most_running"}, {"gpu_limit", "most_gpus"}}};
}
BOOST_DESCRIBE_STRUCT(NodeRequest, (), (names, reason, deadline_s, labels, is_lost))
constexpr std::array<RenamedField, 1> RenamedFields(const NodeRequest*) { return {{{"is_lost", "is_gone"}}}; }

}  // namespace divvy::wire
