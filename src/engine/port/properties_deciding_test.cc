// The properties again, with the cluster that applies its plans by itself and keeps its promises between them.
#include "engine/port/test_clusters.h"

// Explain still asks the planner of the single-server engine, which may see a start that this one does not.
#define DIVVY_TEST_EXPLAINS_OTHERWISE
#define DIVVY_TEST_CLUSTER port::DecidingCluster
#define DIVVY_TEST_KEEPS_PROMISES
#define Properties PropertiesDecided
#include "engine/properties_test.cc"
