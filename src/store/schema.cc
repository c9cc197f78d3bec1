#include "store/schema.h"

#include <array>

namespace divvy {
namespace {

// "divv": lets file(1) and other programs identify the database.
constexpr std::int64_t kApplicationId = 0x64697676;

// The numbers of states are in row.cc; 6 is the first final one. Times and durations are nanoseconds; memory is bytes.
constexpr char kVersion1[] = R"sql(
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', 1), ('next_id', 1), ('jobs_total', 0);

CREATE TABLE jobs (
  id INTEGER PRIMARY KEY,
  spec_of INTEGER NOT NULL,
  state INTEGER NOT NULL,
  user TEXT NOT NULL,
  uid INTEGER NOT NULL,
  gid INTEGER NOT NULL,
  name TEXT NOT NULL,
  request_gpus INTEGER NOT NULL,
  gpu_type TEXT NOT NULL,
  gpu_memory INTEGER NOT NULL,
  cpus INTEGER NOT NULL,
  memory INTEGER NOT NULL,
  tasks INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  submitted INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  begin_at INTEGER NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  time_limit INTEGER NOT NULL,
  gpus INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  restarts INTEGER NOT NULL,
  retries_used INTEGER NOT NULL,
  exit_code INTEGER,
  exit_signal INTEGER,
  exit_oom_killed INTEGER,
  exit_hit_time_limit INTEGER,
  exit_is_known INTEGER,
  exit_failure TEXT,
  exit_cpu_time INTEGER,
  exit_memory_peak INTEGER,
  reason TEXT NOT NULL,
  start_reason TEXT NOT NULL,
  project TEXT NOT NULL,
  comment TEXT NOT NULL,
  job_group TEXT NOT NULL,
  dialect INTEGER NOT NULL,
  dependencies TEXT NOT NULL,
  needs_any_dependency INTEGER NOT NULL,
  keeps_waiting INTEGER NOT NULL,
  is_held INTEGER NOT NULL,
  stop_intent INTEGER NOT NULL,
  is_foreground INTEGER NOT NULL,
  wants_pty INTEGER NOT NULL,
  requeues_after_reboot INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  retry_delay INTEGER NOT NULL,
  placement INTEGER NOT NULL,
  is_placement_set INTEGER NOT NULL,
  array_id INTEGER NOT NULL,
  array_index INTEGER NOT NULL,
  array_ordinal INTEGER NOT NULL,
  array_count INTEGER NOT NULL,
  array_at_once INTEGER NOT NULL,
  array_succeeded INTEGER NOT NULL,
  array_failed INTEGER NOT NULL,
  array_cancelled INTEGER NOT NULL,
  array_exit_code INTEGER NOT NULL,
  array_waiting TEXT NOT NULL,
  array_indices TEXT NOT NULL,
  has_own_name INTEGER NOT NULL
);
CREATE INDEX jobs_live ON jobs (id) WHERE state < 6;
CREATE INDEX jobs_ended ON jobs (ended) WHERE state >= 6;
CREATE INDEX jobs_of_user ON jobs (uid) WHERE array_id = 0;
CREATE INDEX jobs_named ON jobs (name) WHERE has_own_name = 1;
CREATE INDEX jobs_of_array ON jobs (array_id) WHERE array_id > 0;

CREATE TABLE captures (
  id INTEGER PRIMARY KEY,
  hash INTEGER NOT NULL,
  body TEXT NOT NULL
);
CREATE INDEX captures_hash ON captures (hash);

CREATE TABLE specs (
  job INTEGER PRIMARY KEY,
  capture INTEGER NOT NULL,
  spec TEXT NOT NULL
);
CREATE INDEX specs_capture ON specs (capture) WHERE capture > 0;

CREATE TABLE history (
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  text TEXT NOT NULL
);
CREATE INDEX history_job ON history (job);

CREATE TABLE settings (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- For people with a sqlite3 shell; divvy itself does not read it.
CREATE VIEW job_list AS
SELECT id,
       CASE WHEN array_id > 0 THEN array_id || '_' || array_index ELSE '' || id END AS display_id,
       name, user,
       CASE state WHEN 0 THEN 'held' WHEN 1 THEN 'queued' WHEN 2 THEN 'starting' WHEN 3 THEN 'running'
                  WHEN 4 THEN 'paused' WHEN 5 THEN 'stopping' WHEN 6 THEN 'succeeded' WHEN 7 THEN 'failed'
                  WHEN 8 THEN 'cancelled' WHEN 9 THEN 'timed_out' WHEN 10 THEN 'lost' END AS state,
       request_gpus AS gpus,
       CASE WHEN submitted > 0 THEN datetime(submitted / 1000000000, 'unixepoch') END AS submitted_utc,
       CASE WHEN started > 0 THEN datetime(started / 1000000000, 'unixepoch') END AS started_utc,
       CASE WHEN ended > 0 THEN datetime(ended / 1000000000, 'unixepoch') END AS ended_utc,
       exit_code, reason
FROM jobs;
)sql";

constexpr char kVersion2[] = R"sql(
ALTER TABLE jobs ADD COLUMN team TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN preemptible INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN is_preemptible_set INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN gpus_most INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN topology INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN requires_topology INTEGER NOT NULL DEFAULT 0;
)sql";

constexpr char kVersion3[] = R"sql(
ALTER TABLE jobs ADD COLUMN takes_resizes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN gpus_asked_back INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN asked_back_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN gpus_used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN gpus_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN grown_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN shape TEXT NOT NULL DEFAULT '';
)sql";

// `progress_done` is in billionths of the work.
constexpr char kVersion4[] = R"sql(
ALTER TABLE jobs ADD COLUMN gpu_model TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN progress_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_done INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_step INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_done_since INTEGER NOT NULL DEFAULT 0;
)sql";

// `gang`: the node allocations of a job on several nodes, as JSON.
constexpr char kVersion5[] = R"sql(
ALTER TABLE jobs ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN gang TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN was_let_go INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN pool TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN nodes INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN spreads_tasks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN node_constraint TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN node_list TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN excluded_nodes TEXT NOT NULL DEFAULT '';
)sql";

// `pool_of_run`: the pool in which the job runs. `exit_steps`: the stored text of its steps (model/steps/step_list.h).
constexpr char kVersion6[] = R"sql(
ALTER TABLE jobs ADD COLUMN pool_of_run TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN exit_steps TEXT;
)sql";

// `others`: the components of a heterogeneous job after the first, as JSON.
constexpr char kVersion7[] = R"sql(
ALTER TABLE jobs ADD COLUMN others TEXT NOT NULL DEFAULT '';
)sql";

// `portion`: the requested fraction of each GPU, as JSON. `gpu_parts`: ten-thousandths of each GPU that it has.
constexpr char kVersion8[] = R"sql(
ALTER TABLE jobs ADD COLUMN portion TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN slice TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN gpu_parts INTEGER NOT NULL DEFAULT 10000;
)sql";

// `gpu_slice`: the job's MIG instance, as JSON.
constexpr char kVersion9[] = R"sql(
ALTER TABLE jobs ADD COLUMN gpu_slice TEXT NOT NULL DEFAULT '';
)sql";

// `is_run_once`: the job is never requeued once it has started.
constexpr char kVersion10[] = R"sql(
ALTER TABLE jobs ADD COLUMN is_run_once INTEGER NOT NULL DEFAULT 0;
)sql";

// `runs`: earlier runs of jobs that were started again; the last run is in the job's own row. `jobs.waits_since`:
// needed because queued_at is the queue position and survives preemption.
constexpr char kVersion11[] = R"sql(
ALTER TABLE jobs ADD COLUMN waits_since INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET waits_since = queued_at;
CREATE TABLE runs (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  state INTEGER NOT NULL,
  waits_since INTEGER NOT NULL,
  begin_at INTEGER NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  node TEXT NOT NULL,
  gang TEXT NOT NULL,
  gpu_model TEXT NOT NULL,
  gpu_parts INTEGER NOT NULL,
  gpu_slice TEXT NOT NULL,
  pool_of_run TEXT NOT NULL,
  gpus INTEGER NOT NULL
);
CREATE INDEX runs_job ON runs (job);
CREATE INDEX runs_ended ON runs (ended);
)sql";

// Adds the deadlines of jobs.
constexpr char kVersion12[] = R"sql(
ALTER TABLE jobs ADD COLUMN end_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN full_limit INTEGER NOT NULL DEFAULT -1;
)sql";

// The columns are unchanged, but older versions cannot parse a status in the text of `dependencies`.
constexpr char kVersion13[] = "";

// `stale_grace`: in nanoseconds; negative: without end. `gang` may have lost parts of a gang that continues.
constexpr char kVersion14[] = R"sql(
ALTER TABLE jobs ADD COLUMN stale_grace INTEGER NOT NULL DEFAULT 0;
)sql";

// Jobs with uneven numbers of GPUs on their nodes.
constexpr char kVersion15[] = R"sql(
ALTER TABLE jobs ADD COLUMN short_nodes INTEGER NOT NULL DEFAULT 0;
)sql";

constexpr std::array kMigrations = {Migration{1, kVersion1},   Migration{2, kVersion2},   Migration{3, kVersion3},
                                    Migration{4, kVersion4},   Migration{5, kVersion5},   Migration{6, kVersion6},
                                    Migration{7, kVersion7},   Migration{8, kVersion8},   Migration{9, kVersion9},
                                    Migration{10, kVersion10}, Migration{11, kVersion11}, Migration{12, kVersion12},
                                    Migration{13, kVersion13}, Migration{14, kVersion14}, Migration{15, kVersion15}};

// Returns the schema version of the database; 0 for an empty file.
Result<std::int64_t> VersionOf(Connection& connection) {
  DIVVY_TRY(const std::int64_t objects, connection.QueryInteger("SELECT count(*) FROM sqlite_schema"));
  DIVVY_TRY(const std::int64_t application, connection.QueryInteger("PRAGMA application_id"));
  if (objects == 0 && application == 0) return 0;
  if (application != kApplicationId) {
    return FailedPrecondition(connection.path() +
                              " is the database of another program and was not changed; use another file for divvy");
  }
  return connection.QueryInteger("SELECT value FROM meta WHERE key = 'schema_version'");
}

Status RunSteps(Connection& connection, std::span<const Migration> migrations, std::int64_t version) {
  DIVVY_CHECK(connection.Execute("PRAGMA application_id = 1684633206"));
  static_assert(kApplicationId == 1684633206);
  for (const Migration& step : migrations) {
    if (step.to > version) DIVVY_CHECK(connection.Execute(step.sql));
  }
  DIVVY_TRY(Statement write, connection.Prepare("UPDATE meta SET value = ?1 WHERE key = 'schema_version'"));
  write.Bind(1, migrations.back().to);
  DIVVY_CHECK(write.Run());
  return connection.Execute("COMMIT");
}

}  // namespace

std::span<const Migration> Migrations() { return kMigrations; }

Status MigrateSchema(Connection& connection, std::span<const Migration> migrations) {
  const std::int64_t newest = migrations.back().to;
  DIVVY_TRY(const std::int64_t version, VersionOf(connection));
  if (version > newest) {
    return FailedPrecondition(connection.path() + " was written by a newer divvy (schema version " +
                              std::to_string(version) + ", this divvy supports up to " + std::to_string(newest) +
                              "): it was not changed; start the newer divvy, or move the file away");
  }
  if (version == newest) return {};
  DIVVY_CHECK(connection.Execute("BEGIN IMMEDIATE"));
  Status done = RunSteps(connection, migrations, version);
  if (!done && connection.is_in_transaction()) (void)connection.Execute("ROLLBACK");
  return done;
}

}  // namespace divvy
