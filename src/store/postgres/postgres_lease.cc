#include <thread>

#include "store/lease.h"
#include "store/postgres/postgres_connection.h"
#include "store/postgres/postgres_schema.h"
#include "store/postgres/postgres_writer.h"

namespace divvy {
namespace {

/// An operation may take half of the time of a lease. So if one connection hangs, there is time to renew the lease over
/// another one.
constexpr Duration kLeasePatience = kLeaseTime / 2;
constexpr std::int64_t kSchemaWithLease = 2;
constexpr Duration kReportEvery = std::chrono::seconds(1);
/// A controller that has reported within this time is alive, so its name is in use.
constexpr Duration kNameIsTaken = std::chrono::seconds(10);
/// Controllers that were not seen for this time are forgotten.
constexpr Duration kForgetController = std::chrono::hours(24 * 7);

/// The time in nanoseconds, by the database's clock.
const std::string kNowSql = "(extract(epoch FROM clock_timestamp()) * 1000000000)::bigint";

std::string Number(Duration duration) { return std::to_string(duration.count()); }

std::vector<PgStatement> LeaseStatements() {
  return {
      {"report",
       "INSERT INTO controllers (name, address, instance, version, certificate, seen, ahead) SELECT ?1, ?2, ?3, ?4, "
       "?5, now, ?6 - now FROM (SELECT " +
           kNowSql +
           " AS now) AS clock ON CONFLICT (name) DO UPDATE SET address = excluded.address, instance = "
           "excluded.instance, version = excluded.version, certificate = excluded.certificate, seen = excluded.seen, "
           "ahead = excluded.ahead WHERE controllers.instance = excluded.instance OR controllers.seen < excluded.seen "
           "- " +
           Number(kNameIsTaken) + " RETURNING 1::bigint",
       "tttttn"},
      {"renew", "UPDATE lease SET ends = " + kNowSql + " + " + Number(kLeaseTime) + " WHERE epoch = ?1 RETURNING epoch",
       "n"},
      {"lease", "SELECT epoch, name, address, instance, since, ends - " + kNowSql + " FROM lease", ""},
      {"controllers",
       "SELECT name, address, version, certificate, " + kNowSql + " - seen, ahead FROM controllers WHERE seen > " +
           kNowSql + " - " + Number(kForgetController) + " ORDER BY name",
       ""},
      // The new epoch must be greater than every epoch that agents have seen, because agents reject others.
      {"take",
       "UPDATE lease SET epoch = 1 + greatest(epoch, (SELECT max(value)::bigint FROM settings WHERE key = "
       "'controller.epoch' AND value ~ '^[0-9]{1,18}$')), name = ?1, address = ?2, instance = ?3, since = " +
           kNowSql + ", ends = " + kNowSql + " + " + Number(kLeaseTime) + " WHERE (ends < " + kNowSql +
           " OR instance = ?3) RETURNING epoch",
       "ttt"},
      {"release", "UPDATE lease SET ends = 0 WHERE epoch = ?1 AND instance = ?2", "nt"},
  };
}

std::int64_t WallClock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class PostgresLease final : public ControllerLease {
 public:
  PostgresLease(const PostgresOptions& options, ControllerSelf self) : options_(options), self_(std::move(self)) {}

  Status Open() { return Connect(); }
  Result<LeaseView> Beat(std::int64_t epoch) override;
  Result<std::int64_t> Take() override;
  Status Release(std::int64_t epoch) override;

 private:
  Status Connect();
  Status CreateTables();
  /// Runs a prepared statement, and drops a lost connection.
  Status Run(const std::string& statement, const PgParameters& parameters, const PgConnection::OnRow& on_row);

  PostgresOptions options_;
  ControllerSelf self_;
  std::unique_ptr<PgConnection> connection_;
  std::chrono::steady_clock::time_point reported_at_;
};

Status PostgresLease::Connect() {
  DIVVY_TRY(auto connection, PgConnection::Open({.url = options_.url,
                                                 .application = "divvy lease of " + self_.name,
                                                 .settings = kPgSettings,
                                                 .patience = kLeasePatience,
                                                 .connect_seconds = "2"}));
  connection_ = std::move(connection);
  Status done = CreateTables();
  if (done) done = CheckCluster(*connection_, options_);
  if (done) done = connection_->Prepare(LeaseStatements());
  if (!done) connection_.reset();
  return done;
}

// Creates or migrates the tables only if those of the lease are missing. Any other migration is left to the next
// leader, because the present leader may be of an earlier version.
Status PostgresLease::CreateTables() {
  DIVVY_TRY(const std::int64_t version, PgSchemaVersion(*connection_));
  if (version >= kSchemaWithLease) return {};
  DIVVY_CHECK(LockForWriting(*connection_, 0));
  DIVVY_CHECK(MigratePostgres(*connection_, PgMigrations()));
  DIVVY_CHECK(CheckCluster(*connection_, options_));
  return UnlockForWriting(*connection_);
}

Status PostgresLease::Run(const std::string& statement, const PgParameters& parameters,
                          const PgConnection::OnRow& on_row) {
  if (connection_ == nullptr) DIVVY_CHECK(Connect());
  Status done = connection_->Query(statement, parameters, on_row);
  if (connection_->is_lost()) connection_.reset();
  if (!done && done.error().code == ErrorCode::kLimitExceeded) return Unreachable(done.error().message);
  return done;
}

Result<LeaseView> PostgresLease::Beat(std::int64_t epoch) {
  LeaseView view;
  // Renews the lease first, so that the queries below do not delay it.
  if (epoch != 0) {
    DIVVY_CHECK(Run("renew", PgParameters::Of(epoch), [&](const Columns&) -> Status {
      view.is_renewed = true;
      return {};
    }));
  }
  DIVVY_CHECK(Run("lease", {}, [&](const Columns& row) -> Status {
    view.lease = {row.Integer(0),           std::string(row.Text(1)),       std::string(row.Text(2)),
                  std::string(row.Text(3)), Time(Duration(row.Integer(4))), Duration(row.Integer(5))};
    return {};
  }));
  // A standby calls this more often than it has to report that it lives.
  const auto now = std::chrono::steady_clock::now();
  view.is_reported = epoch == 0 && now - reported_at_ < kReportEvery;
  if (!view.is_reported)
    DIVVY_CHECK(
        Run("report",
            PgParameters::Of(self_.name, self_.address, self_.instance, self_.version, self_.certificate, WallClock()),
            [&](const Columns&) -> Status {
              view.is_reported = true;
              reported_at_ = now;
              return {};
            }));
  DIVVY_CHECK(Run("controllers", {}, [&](const Columns& row) -> Status {
    view.controllers.push_back({std::string(row.Text(0)), std::string(row.Text(1)), std::string(row.Text(2)),
                                std::string(row.Text(3)), Duration(row.Integer(4)), Duration(row.Integer(5))});
    return {};
  }));
  return view;
}

Result<std::int64_t> PostgresLease::Take() {
  if (connection_ == nullptr) DIVVY_CHECK(Connect());
  // Fails if the schema is newer, because a controller of this version cannot lead with it.
  DIVVY_CHECK(PgSchemaVersion(*connection_));
  std::int64_t epoch = 0;
  DIVVY_CHECK(
      Run("take", PgParameters::Of(self_.name, self_.address, self_.instance), [&](const Columns& row) -> Status {
        epoch = row.Integer(0);
        return {};
      }));
  return epoch;
}

Status PostgresLease::Release(std::int64_t epoch) {
  return Run("release", PgParameters::Of(epoch, self_.instance), {});
}

}  // namespace

Result<std::unique_ptr<ControllerLease>> OpenPostgresLease(const PostgresOptions& options, ControllerSelf self) {
  auto lease = std::make_unique<PostgresLease>(options, std::move(self));
  DIVVY_CHECK(lease->Open());
  return lease;
}

}  // namespace divvy
