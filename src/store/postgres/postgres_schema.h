// The schema of the database in PostgreSQL, and the migration of older databases. All tables are in the schema "divvy".
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "store/postgres/postgres_connection.h"
#include "store/store.h"

namespace divvy {

/// One step from version `to` - 1 to `to`. Never change a released step: a schema change is a new step.
struct PgMigration {
  std::int64_t to;
  const char* sql;
};

/// All steps, ascending from 1; an empty database has version 0.
std::span<const PgMigration> PgMigrations();

/// Migrates the database to the last version, all steps in one transaction. Fails with kFailedPrecondition for a newer
/// schema, or a schema "divvy" of another program, and leaves them unchanged.
Status MigratePostgres(PgConnection& connection, std::span<const PgMigration> migrations);
/// Changes nothing. Fails with kNotFound if the database has no store of divvy, and with kFailedPrecondition if its
/// schema is not of the last version, or another program's.
Status RequirePostgresSchema(PgConnection& connection, std::span<const PgMigration> migrations);
/// The version of the schema; 0 for a database without tables of divvy. Fails like MigratePostgres.
Result<std::int64_t> PgSchemaVersion(PgConnection& connection);

/// Makes an empty database that of the cluster `options.cluster`. kFailedPrecondition if it belongs to another one.
Status CheckCluster(PgConnection& connection, const PostgresOptions& options);

}  // namespace divvy
