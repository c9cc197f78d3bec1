// The tests of the single-server engine, held against the engine for many nodes: every plan is made on a copy, from
// nothing but the facts.
#include "engine/port/test_clusters.h"

#define DIVVY_TEST_CLUSTER port::Cluster
#define DIVVY_TEST_DEVIATIONS port::kDeviations
#include "engine/scenario_test.cc"
