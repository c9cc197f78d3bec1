// The scenarios again, with the cluster that applies its plans by itself and keeps its promises between them.
#include "engine/port/test_clusters.h"

#define DIVVY_TEST_CLUSTER port::DecidingCluster
#define DIVVY_TEST_DEVIATIONS port::kDecidingDeviations
#define Scenarios ScenariosDecided
#include "engine/scenario_test.cc"
