// The pools that the administrator defined, and their admission rules.
//
// Pools that exist only as node labels (pool=NAME) have no row: everyone may use them, and they have no limits.
//
// Invariants: names are unique; at most one pool is the default.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/pool_row.h"
#include "model/job.h"
#include "model/team.h"

namespace divvy {

/// Prefix of the name of the group of all jobs of a pool.
inline constexpr std::string_view kPoolGroup = "pool ";

class PoolRegistry {
 public:
  /// Replaces all pools. On failure nothing changes; the message is one line.
  Status Set(std::vector<PoolRow> rows);

  bool empty() const { return rows_.empty(); }
  const std::vector<PoolRow>& rows() const { return rows_; }
  const PoolRow* Find(std::string_view name) const;
  /// Returns the pool of jobs that name no pool; null if such jobs may run on all nodes.
  const PoolRow* Default() const;

  /// The properties of a job that admission depends on.
  struct Wish {
    const Request& request;
    Duration time_limit{0};
    std::string user;
    std::vector<const TeamRow*> teams;  // The team whose share it runs on, and its ancestors.
    bool is_admin = false;              // May use every pool.
  };
  /// Fails with kPermissionDenied if the user may not use the pool.
  static Status AdmitsUser(const PoolRow& pool, const Wish& wish);
  /// Fails with kLimitExceeded if the request is too large or too small for the pool. Messages suggest a fix.
  static Status AdmitsJob(const PoolRow& pool, const Wish& wish);

 private:
  std::vector<PoolRow> rows_;
};

}  // namespace divvy
