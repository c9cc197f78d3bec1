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

/// Returns the pool list of a component, or the job's if it has none. Requires: the component exists.
const std::string& PoolListOf(const Request& request, const std::string& pool_of_job, std::size_t component);

/// Returns the components that may run in this pool as a request of their own. Requires: there is at least one.
Request PartInPool(const Request& request, const std::string& pool_of_job, const std::string& pool);

/// Like PoolRegistry::AdmitsJob, for the pool's part only. `wish` describes the whole job.
Status AdmitsPart(const PoolRow& pool, const PoolRegistry::Wish& wish, const std::string& pool_of_job);

/// Returns the component's pools in which it may start now; if all pools that admit it are full, all of those.
std::vector<std::string> OpenPoolsOf(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record,
                                     std::size_t component);
/// Returns the components after the first, each restricted to its open pools; unchanged if none is open.
std::vector<Component> InOpenPools(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record);

/// Returns whether the job or one of its components names several pools.
bool NamesSeveralPools(const JobRecord& record);

/// Returns whether the pool exists: as a row, or as a node label.
bool HasPool(const PoolRegistry& pools, const Scheduler& cluster, const std::string& name);
/// The pools that are configured and those that nodes are labelled with, sorted.
std::vector<std::string> PoolNames(const PoolRegistry& pools, const Scheduler& cluster);
/// True if a pool is configured or a node is labelled with one. Cost: one step per node at most.
bool HasPools(const PoolRegistry& pools, const Scheduler& cluster);
/// True for a non-empty list of pools while there is no pool at all: such names have no effect on scheduling.
bool IsOnlyALabel(const PoolRegistry& pools, const Scheduler& cluster, const std::string& list);

/// Explains why no pool of the job's list exists any more, and how to fix that. Empty if one does.
std::string WhyNoPool(const PoolRegistry& pools, const Scheduler& cluster, const JobRecord& record);

/// All pool names in the job's lists, without duplicates.
std::vector<std::string> AllPoolsOf(const JobRecord& record);

}  // namespace divvy
