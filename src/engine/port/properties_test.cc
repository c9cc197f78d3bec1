// The tests of the single-server engine, held against the engine for many nodes: every plan is made on a copy, from
// nothing but the facts.
#include "engine/port/test_clusters.h"

// A plan is final only for who keeps the promises that it was made with (properties_deciding_test.cc).
#define DIVVY_TEST_FORGETS_PROMISES
// Explain still asks the planner of the single-server engine, which may see a start that this one does not.
#define DIVVY_TEST_EXPLAINS_OTHERWISE
#define DIVVY_TEST_CLUSTER port::Cluster
#include "engine/properties_test.cc"
