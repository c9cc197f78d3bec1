// The members of provider_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/messages/provider_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(ProviderOrderShape, (),
                      (name, gpu_model, gpus, cpus, memory_bytes, labels, max_lifetime_s, is_spot, options))
BOOST_DESCRIBE_STRUCT(ProviderOrder, (), (version, cluster, provider, options, token, instance, name, join, shape))
BOOST_DESCRIBE_STRUCT(ProviderCreated, (), (instance))
BOOST_DESCRIBE_STRUCT(ProviderListed, (), (cluster, token, instance, ends_at, state))
BOOST_DESCRIBE_STRUCT(ProviderList, (), (nodes))
BOOST_DESCRIBE_STRUCT(ProviderNodeView, (),
                      (node, shape, state, instance, requested, joined, expected, hourly, cost, why))
BOOST_DESCRIBE_STRUCT(ProviderView, (),
                      (name, kind, state, nodes, gpus, unrequested, hourly, this_month, max_nodes, max_gpus,
                       max_per_hour, max_per_month, last_error, last_error_at, next_try, list))
BOOST_DESCRIBE_STRUCT(ProviderRequest, (), (name, action))

}  // namespace divvy::wire
