// The parts of a heterogeneous job that belong to each pool: the components that name the pool and, for the job's own
// pool, those that name none. Any other job belongs to its pool as a whole.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/pool_registry.h"
#include "engine/scheduler/scheduler.h"
#include "model/job.h"
#include "model/job_record.h"

namespace divvy {

/// Returns the pools that a component of the job names, or those that the job names if the component names none.
/// Requires: the component exists.
const std::string& PoolListOf(const Request& request, const std::string& pool_of_job, std::size_t component);

/// Returns a request of only those components of the job that may run in this pool. Requires: there is at least one.
Request PartInPool(const Request& request, const std::string& pool_of_job, const std::string& pool);

/// Checks that the components of the job that may run in this pool keep to the pool's limits (see
/// PoolRegistry::AdmitsJob). `wish` describes the whole job.
Status AdmitsPart(const PoolRow& pool, const PoolRegistry::Wish& wish, const std::string& pool_of_job);

/// Returns those of the component's pools in which it may start now. If all pools that accept it have reached their
/// limits, returns all that accept it.
std::vector<std::string> OpenPoolsOf(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record,
                                     std::size_t component);
/// Returns the components after the first, each with only the pools in which it may start (OpenPoolsOf); unchanged if
/// there are none.
std::vector<Component> InOpenPools(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record);

/// Returns whether the job or one of its components names several pools.
bool NamesSeveralPools(const JobRecord& record);

/// Returns true if the pool exists: because it is configured, or because a node is labelled with it.
bool HasPool(const PoolRegistry& pools, const Scheduler& cluster, const std::string& name);
/// Returns the names of the pools that are configured or that nodes are labelled with, sorted.
std::vector<std::string> PoolNames(const PoolRegistry& pools, const Scheduler& cluster);
/// Returns true if a pool is configured or a node is labelled with one. Cost: one step per node at most.
bool HasPools(const PoolRegistry& pools, const Scheduler& cluster);
/// Returns true if `list` names pools but no pool exists at all. The names then have no effect on scheduling.
bool IsOnlyALabel(const PoolRegistry& pools, const Scheduler& cluster, const std::string& list);

/// If none of the pools that the job names exists any more, returns a text that says so, and how to fix it. Otherwise
/// "".
std::string WhyNoPool(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record);

/// Returns all pools that the job and its components name, without duplicates.
std::vector<std::string> AllPoolsOf(const JobRecord& record);

}  // namespace divvy
