// The tests of the single-server engine, held against the engine for many nodes: every plan is made on a copy, from
// nothing but the facts.
#include "engine/port/test_clusters.h"

#define DIVVY_TEST_CLUSTER port::Cluster
// As large_job_is_not_starved in test_clusters.h: of two that drain, the second is promised nothing.
#define DIVVY_TEST_MOST_DIFFERENCES 10
#include "engine/oracle_test.cc"
