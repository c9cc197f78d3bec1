// The fields of the messages of nodes; see messages_describe.h.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages_nodes.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(NodeView, (),
                      (name, state, reason, is_controller, gpus, gpus_free, jobs, gpu_model, gpu_source, cpus,
                       memory_bytes, version, address, heard, joined, deadline, labels, gpu_uuids))
BOOST_DESCRIBE_STRUCT(NodeRequest, (), (names, reason, deadline_s, labels))

}  // namespace divvy::wire
