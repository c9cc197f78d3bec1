// The database of several controllers in a chaos run: the lease, the table `writer`, and the store in memory. Each
// function is one statement or transaction, as in store/postgres (postgres_lease.cc, postgres_writer.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulate/chaos/chaos_trace.h"
#include "simulate/controllers/controllers_chaos.h"
#include "store/lease.h"
#include "store/store_fake.h"

namespace divvy::simulate {

class ModelledDatabase {
 public:
  ModelledDatabase(const ChaosClock& clock, ControllersMutation mutation) : clock_(clock), mutation_(mutation) {}

  // --- Its state ---------------------------------------------------------------------------------------------------
  bool is_away() const { return is_away_; }
  void SetAway(bool is_away);
  /// Simulates a fail-over: a synchronous standby becomes the primary. No commit is lost, every session ends, and the
  /// new primary's clock differs by `skew`.
  void FailOver(Duration skew);
  MemoryStore& store() { return store_; }
  std::int64_t epoch() const { return lease_.epoch; }

  // --- The lease ---------------------------------------------------------------------------------------------------
  LeaseView Beat(const ControllerSelf& self, std::int64_t epoch);
  std::int64_t Take(const ControllerSelf& self);
  void Release(std::int64_t epoch);

  // --- The writer's session -----------------------------------------------------------------------------------------
  /// Opens a session. Returns its id.
  std::uint64_t Connect();
  bool IsAlive(std::uint64_t session) const { return sessions_.contains(session); }
  void End(std::uint64_t session);
  /// Tries to take the lock that only one writer can hold. `before`: an earlier session of the caller, which is ended.
  /// If the lock's holder no longer leads, its session is ended too, so that the next try succeeds.
  bool Lock(std::uint64_t session, std::uint64_t before, std::int64_t lease);
  struct Taken {
    std::int64_t epoch = 0;
    std::int64_t commits = 0;
  };
  /// Gives the caller a new epoch (the number of a leader's term). `known`: the caller's epoch so far; 0: none. Returns
  /// nullopt if another writer has written since then, or leads. Requires: the session has not ended.
  std::optional<Taken> TakeEpoch(std::int64_t known, std::size_t holder, std::int64_t lease);
  struct Write {
    std::int64_t epoch = 0;
    std::int64_t number = 0;
    std::int64_t lease = 0;
    std::vector<Batch> batches;
  };
  /// Commits a write. Returns kFailedPrecondition if the writer's epoch is no longer the newest one.
  Status Commit(const Write& write);
  /// Called with each write after it was committed.
  std::function<void(const Write&)> on_committed;

 private:
  Duration Now() const { return clock_.true_time.time_since_epoch() + skew_; }
  bool HasLease(std::int64_t lease) const {
    return mutation_ == ControllersMutation::kSkipsEpochCheck || lease == lease_.epoch;
  }

  const ChaosClock& clock_;
  const ControllersMutation mutation_;
  Duration skew_{0};
  bool is_away_ = false;
  LeaseRow lease_;
  Duration ends_{0};
  std::map<std::string, std::pair<ControllerRow, Duration>> controllers_;  // And when they reported.
  std::map<std::uint64_t, bool> sessions_;
  std::uint64_t last_session_ = 0;
  std::uint64_t lock_ = 0;  // The session that holds it. 0: none.
  Taken writer_;
  std::size_t holder_ = 0;
  MemoryStore store_;
};

}  // namespace divvy::simulate
