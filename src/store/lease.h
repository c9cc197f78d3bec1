// The lease by which several controllers on one database of PostgreSQL agree who leads. Each leader has an epoch, and
// each later leader a greater one. The database's clock says when a lease has ended; no other clock matters.
//
// Every commit of a leader checks the epoch in its transaction (PostgresOptions::lease). So the lease decides when the
// next controller may begin, and the epoch makes sure that an earlier one can no longer write, however late it wakes
// up.
//
// Used by one thread. Has a connection of its own, so a renewal never waits for a commit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "store/store.h"

namespace divvy {

/// How long a lease lasts after it was renewed.
inline constexpr Duration kLeaseTime = std::chrono::seconds(3);

/// How a controller describes itself to the others.
struct ControllerSelf {
  std::string name;         // Unique among the controllers.
  std::string address;      // "gpu1.lab:7433"; empty: runs alone, and no other controller may stand by.
  std::string instance;     // Unique to this state folder on this boot of this machine; survives the process.
  std::string version;      // Of divvy.
  std::string certificate;  // The fingerprint of its TLS certificate.
};

struct LeaseRow {
  std::int64_t epoch = 0;  // 0: no controller has led yet.
  std::string name;
  std::string address;
  std::string instance;
  Time since = kNoTime;  // By the database's clock.
  Duration left{0};      // Negative: it has ended.
};

struct ControllerRow {
  std::string name;
  std::string address;
  std::string version;
  std::string certificate;
  Duration silent{0};  // The time since its last report.
  Duration ahead{0};   // By how much its clock is ahead of the database's.
};

struct LeaseView {
  LeaseRow lease;
  bool is_renewed = false;                 // The lease still had the caller's epoch, and was renewed.
  bool is_reported = false;                // False: another live controller has the caller's name.
  std::vector<ControllerRow> controllers;  // Ascending by name.
};

class ControllerLease {
 public:
  virtual ~ControllerLease() = default;

  /// Reports that this controller lives, and reads the lease and the state of all controllers. `epoch` is 0 if the
  /// caller does not lead. Otherwise the lease is also renewed if it still has this epoch. That is safe even after its
  /// end, because no other controller has led since. kUnreachable: the database does not answer; try again.
  virtual Result<LeaseView> Beat(std::int64_t epoch) = 0;
  /// Takes the lease if it has ended, or if this instance held it. Returns the new epoch, which is greater than every
  /// epoch that agents have seen; 0: another controller holds the lease. kFailedPrecondition if the schema is newer.
  virtual Result<std::int64_t> Take() = 0;
  /// Ends the lease of this epoch now, so that another controller can take it at once.
  virtual Status Release(std::int64_t epoch) = 0;
};

/// Opens the lease in the database of `options`, and creates divvy's tables in an empty database. Fails like
/// OpenPostgresStore, but not if another controller leads.
Result<std::unique_ptr<ControllerLease>> OpenPostgresLease(const PostgresOptions& options, ControllerSelf self);

}  // namespace divvy
