// The shape of the database and how an older one is brought up to it.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "store/sqlite.h"

namespace divvy {

/// One step from version `to` - 1 to `to`. Never edited once released: a change of the schema is a new step.
struct Migration {
  std::int64_t to;
  const char* sql;
};

/// All steps, ascending from 1; an empty file has version 0.
std::span<const Migration> Migrations();

/// Brings the open database up to the last step, all steps in one transaction: it is at the old or the new version,
/// never between. Fails with kFailedPrecondition for a newer schema or another program's database, which stays as is.
Status MigrateSchema(Connection& connection, std::span<const Migration> migrations);

}  // namespace divvy
