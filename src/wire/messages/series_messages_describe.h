// The fields of the messages of samples; see messages_describe.h.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/series_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(SeriesView, (), (of, node, gpu, instance, id, metric, unit, mean, min, max, step))
BOOST_DESCRIBE_STRUCT(SeriesAnswer, (), (step_s, begin, series))
BOOST_DESCRIBE_STRUCT(LatestProcess, (),
                      (pid, id, memory_bytes, utilization, cpu_cores, host_memory_bytes, read_bytes_per_second,
                       written_bytes_per_second))
BOOST_DESCRIBE_STRUCT(LatestGpu, (), (node, gpu, time, values, processes))
BOOST_DESCRIBE_STRUCT(LatestSlice, (), (node, gpu, instance, time, values))
BOOST_DESCRIBE_STRUCT(LatestNode, (), (node, time, values))
BOOST_DESCRIBE_STRUCT(LatestJob, (), (id, time, values, own))
BOOST_DESCRIBE_STRUCT(LatestAnswer, (), (time, is_on, gpus, slices, nodes, jobs, cluster))

BOOST_DESCRIBE_STRUCT(OwnMetricsRequest, (), (values, attempt, lines_left_out, names_left_out))

}  // namespace divvy::wire
