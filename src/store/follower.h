// The live jobs of a store in PostgreSQL, which a controller that stands by keeps ready. Follow reads only the rows
// that have changed since the last call: each row of a job has the number of the transaction that last changed it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "base/result.h"
#include "model/job_record.h"

namespace divvy {

struct PostgresOptions;

struct FollowedJobs {
  std::map<JobId, JobRecord> live;
  std::int64_t since = 0;    // All earlier transactions are included. 0: nothing was read.
  std::int64_t commits = 0;  // The writer's number of commits, at least. Less of them: the database has lost some.
};

/// Used by one thread, except Stop.
class StoreFollower {
 public:
  virtual ~StoreFollower() = default;
  /// Reads the changes since the last call; the first call reads all live jobs. After an error, the jobs that were read
  /// so far stay usable: the next call reads what is missing, and so does a store that is opened with them
  /// (PostgresOptions::followed).
  virtual Status Follow() = 0;
  /// Makes a running Follow return soon. May be called by any thread.
  virtual void Stop() = 0;
  virtual std::shared_ptr<FollowedJobs> jobs() const = 0;
};

/// Creates a follower. It connects in the first call of Follow, and connects again after it lost the connection.
std::unique_ptr<StoreFollower> FollowPostgresStore(const PostgresOptions& options);

class Store;
/// Opens a store for reading only, while another process writes to it: it takes no lock, and its commits fail.
/// kUnreachable if the server cannot be reached.
Result<std::unique_ptr<Store>> OpenPostgresReader(const PostgresOptions& options);

}  // namespace divvy
