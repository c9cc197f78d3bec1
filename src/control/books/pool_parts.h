// What of a heterogeneous job is each pool's: its components that name the pool, and, for the job's own, those that
// name none. Of any other job it is all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/pool_book.h"
#include "engine/server/server.h"
#include "model/job.h"
#include "model/job_record.h"

namespace divvy {

/// The list that a component names, else the job's. Requires: there is such a component.
const std::string& PoolListOf(const Request& request, const std::string& pool_of_job, std::size_t component);

/// The components that may lie in this pool, as a request of their own. Requires: one may.
Request PartInPool(const Request& request, const std::string& pool_of_job, const std::string& pool);

/// As PoolBook::AdmitsJob, of what is the pool's. `wish`: of the whole job.
Status AdmitsPart(const PoolRow& pool, const PoolBook::Wish& wish, const std::string& pool_of_job);

/// Of the pools of a component those in which it may start, as things are; all that admit it where all of them are
/// full.
std::vector<std::string> OpenPoolsOf(const PoolBook& pools, const Server& cluster, const JobRecord& record,
                                     std::size_t component);
/// The components beyond the first, each in those of its pools that are open; in all where none is.
std::vector<Component> InOpenPools(const PoolBook& pools, const Server& cluster, const JobRecord& record);

/// The job or one of its components names several.
bool NamesSeveralPools(const JobRecord& record);

/// There is such a pool: a row of the book, or a label of a machine.
bool HasPool(const PoolBook& pools, const Server& cluster, const std::string& name);

/// Why the job has no pool to wait in, with the repair: there is none of its list any more. Empty: it has.
std::string WhyNoPool(const PoolBook& pools, const Server& cluster, const JobRecord& record);

/// All names in its lists, each once.
std::vector<std::string> AllPoolsOf(const JobRecord& record);

}  // namespace divvy
