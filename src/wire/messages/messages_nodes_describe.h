// The fields of the messages of nodes; see messages_describe.h.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/messages_nodes.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(FoundView, (), (job, name, user, node, gpus, started, state, exit_code))
BOOST_DESCRIBE_STRUCT(FoundRequest, (), (job, ends))
BOOST_DESCRIBE_STRUCT(NodeView, (),
                      (name, state, reason, is_controller, gpus, gpus_free, jobs, gpu_model, gpu_source, cpus,
                       memory_bytes, version, address, heard, joined, deadline, labels, pools, gpu_uuids, reason_since,
                       gpus_restricted, gpus_reserved, alone))
BOOST_DESCRIBE_STRUCT(PoolView, (),
                      (name, state, is_default, is_from_file, nodes, gpus, gpus_free, running, queued, gpus_held, users,
                       teams, max_time_s, default_time_s, min_gpus, max_gpus, max_nodes, most_running, most_gpus,
                       policy, placement, priority, is_exclusive, jobs_per_gpu, gpus_reserved))
BOOST_DESCRIBE_STRUCT(NodeRequest, (), (names, reason, deadline_s, labels, is_gone))

}  // namespace divvy::wire
