// The members of service_messages.h, for JSON and the OpenAPI document.
#pragma once

#include <boost/describe/class.hpp>

#include "wire/services/service_messages.h"

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(ServiceSettings, (),
                      (name, port, min_replicas, max_replicas, concurrency, target, requests_per_second, metric, health,
                       idle_s, up_delay_s, down_delay_s, ready_within_s, wait_s, answer_within_s, wake_within_s,
                       max_body_bytes, parks))
BOOST_DESCRIBE_STRUCT(ServiceRevision, (), (number, spec, made, was_healthy, note, was_withdrawn))
BOOST_DESCRIBE_STRUCT(ServiceSecrets, (), (certificate, tokens, makes_token, removes_certificate, removes_tokens))
BOOST_DESCRIBE_STRUCT(ServiceDefinition, (), (settings, spec, secrets, canary, keeps_same))
BOOST_DESCRIBE_STRUCT(ServiceReplica, (), (job, number, revision, port, slot, state, since))
BOOST_DESCRIBE_STRUCT(KeptService, (),
                      (user, settings, revisions, target_revision, canary_revision, canary_share, next_replica,
                       replicas, token_hashes, certificate, sealed_certificate, is_deleted))
BOOST_DESCRIBE_STRUCT(ServiceReplicaView, (), (job, number, revision, state, address, in_flight, since, note))
BOOST_DESCRIBE_STRUCT(ServiceEvent, (), (at, text))
BOOST_DESCRIBE_STRUCT(ServiceRevisionView, (), (number, state, command, made, note))
BOOST_DESCRIBE_STRUCT(ServiceCanaryView, (),
                      (revision, share, hot, starting, requests, errors, recent_requests, latency_p50_s, latency_p95_s,
                       latency_p99_s))
BOOST_DESCRIBE_STRUCT(ServiceView, (),
                      (name, user, state, url, settings, revision, canary, hot, starting, parked, draining, has_tls,
                       tokens, in_flight, queued, requests_per_second, requests, errors, metric, queue_time_s,
                       answer_time_s, recent_requests, latency_p50_s, latency_p95_s, latency_p99_s, first_byte_p50_s,
                       first_byte_p95_s, first_byte_p99_s, gpus, gpus_used, cost_per_hour, cost_per_1000_requests,
                       last_wake_s, scaled, note))
BOOST_DESCRIBE_STRUCT(ServiceDetail, (ServiceView), (replicas, revisions, events))
BOOST_DESCRIBE_STRUCT(ServiceScale, (), (min_replicas, max_replicas))
BOOST_DESCRIBE_STRUCT(ServiceRollback, (), (revision))

}  // namespace divvy::wire
