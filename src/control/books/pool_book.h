// The pools that an administrator made, and what each asks of a job that wants to run there.
//
// Pools that only labels of machines name (pool=NAME) have no row: everybody may use them, and they bound nothing.
//
// Invariants: names are unique; one pool at most is that of jobs that name none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/pool_row.h"
#include "model/job.h"
#include "model/team.h"

namespace divvy {

/// How the group of all jobs of a pool begins.
inline constexpr std::string_view kPoolGroup = "pool ";

class PoolBook {
 public:
  /// All pools anew. Fails with one line, and then nothing changes.
  Status Set(std::vector<PoolRow> rows);

  bool empty() const { return rows_.empty(); }
  const std::vector<PoolRow>& rows() const { return rows_; }
  const PoolRow* Find(std::string_view name) const;
  /// Of jobs that name none; null: they may go anywhere.
  const PoolRow* Default() const;

  /// What a pool looks at of a job.
  struct Wish {
    const Request& request;
    Duration time_limit{0};
    std::string user;
    std::vector<const TeamRow*> teams;  // On whose share it runs, and those above.
    bool is_admin = false;              // May use every pool.
  };
  /// Refuses who may not use the pool with kPermissionDenied.
  static Status AdmitsUser(const PoolRow& pool, const Wish& wish);
  /// Refuses what is too much or too little for it with kLimitExceeded. Each says what would do.
  static Status AdmitsJob(const PoolRow& pool, const Wish& wish);

 private:
  std::vector<PoolRow> rows_;
};

}  // namespace divvy
