// The schema of the database, and the migration of older databases.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "store/sqlite.h"

namespace divvy {

/// One step from version `to` - 1 to `to`. Never change a released step: a schema change is a new step.
struct Migration {
  std::int64_t to;
  const char* sql;
};

/// Returns all steps of the migration, ascending from version 1; an empty file has version 0.
std::span<const Migration> Migrations();

/// Migrates the open database to the last version, all steps in one transaction. So it has the old or the new version,
/// never something between. Fails with kFailedPrecondition for a newer schema or another program's database, and leaves
/// them unchanged.
Status MigrateSchema(Connection& connection, std::span<const Migration> migrations);

}  // namespace divvy
