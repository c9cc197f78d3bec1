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

/// Returns all steps of the migration, ascending from version 1; an empty database has version 0.
std::span<const PgMigration> PgMigrations();

/// Migrates the database to the last version, all steps in one transaction. Fails with kFailedPrecondition for a newer
/// schema, or a schema "divvy" of another program, and leaves them unchanged.
Status MigratePostgres(PgConnection& connection, std::span<const PgMigration> migrations);
/// Checks that the database has divvy's schema in the last version, and changes nothing. Fails with kNotFound if the
/// database has no store of divvy, and with kFailedPrecondition if the schema has another version or belongs to another
/// program.
Status RequirePostgresSchema(PgConnection& connection, std::span<const PgMigration> migrations);
/// The version of the schema; 0 for a database without tables of divvy. Fails like MigratePostgres.
Result<std::int64_t> PgSchemaVersion(PgConnection& connection);

/// Checks that the database belongs to the cluster `options.cluster`. A database that belongs to no cluster yet is
/// assigned to this one. kFailedPrecondition if the database belongs to another cluster.
Status CheckCluster(PgConnection& connection, const PostgresOptions& options);

}  // namespace divvy
