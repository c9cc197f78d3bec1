// The store in PostgreSQL when something is wrong: lost connections with an unknown outcome, servers that die or are
// read-only, second writers, databases of others, and URLs with secrets.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "store/postgres/postgres_connection.h"
#include "store/postgres/postgres_schema.h"
#include "store/postgres/postgres_test_server.h"
#include "store/postgres/postgres_url.h"
#include "store/postgres/postgres_writer.h"

namespace divvy {
namespace postgres_store_test {

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Postgres : public testing::Test {
 protected:
  static void TearDownTestSuite() { server_.reset(); }
  void SetUp() override {
    if (const std::string missing = TestServer::Missing(); !missing.empty()) GTEST_SKIP() << missing;
    if (server_ == nullptr) server_ = std::make_unique<TestServer>();
    static int databases = 0;
    database_ = "test" + std::to_string(++databases);
    url_ = server_->Url(database_);
  }
  PostgresOptions Options() { return {.url = url_, .cluster = "a", .cluster_file = "/state/cluster-id"}; }
  std::unique_ptr<Store> MustOpen() { return Must(OpenPostgresStore(Options())); }
  std::string Refusal(const PostgresOptions& options) {
    const auto store = OpenPostgresStore(options);
    return store ? "" : store.error().message;
  }

  inline static std::unique_ptr<TestServer> server_;
  std::string database_;
  std::string url_;
};

/// Forwards connections to the server, and cuts one of them after a number of bytes.
class Proxy {
 public:
  static constexpr std::int64_t kUncut = INT64_MAX;

  Proxy(const std::string& folder, std::string server) : server_(std::move(server)) {
    ::mkdir(folder.c_str(), 0700);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address(folder + "/.s.PGSQL.5432");
    DIVVY_ASSERT(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    DIVVY_ASSERT(::listen(listener_, 16) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Proxy() {
    is_ending_ = true;
    thread_.join();
    ::close(listener_);
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// The connection that transfers these bytes next is cut after them; the others continue.
  std::atomic<std::int64_t> to_client = kUncut;
  std::atomic<std::int64_t> to_server = kUncut;
  std::atomic<std::int64_t> sent_to_client = 0;
  std::atomic<std::int64_t> sent_to_server = 0;

 private:
  struct Pair {
    int client = -1;
    int server = -1;
  };
  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }
  /// False: the connection is over.
  static bool Forward(int from, int to, std::atomic<std::int64_t>& budget, std::atomic<std::int64_t>& sent) {
    char buffer[65'536];
    const ssize_t got = ::recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    const std::int64_t allowed = std::min<std::int64_t>(got, budget);
    (void)!::send(to, buffer, static_cast<std::size_t>(allowed), MSG_NOSIGNAL);
    sent += allowed;
    if (allowed < got) {
      budget = kUncut;
      return false;
    }
    if (budget != kUncut) budget -= allowed;
    return true;
  }
  void Run() {
    std::vector<Pair> pairs;
    while (!is_ending_) {
      std::vector<pollfd> polls = {{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs) {
        polls.push_back({pair.client, POLLIN, 0});
        polls.push_back({pair.server, POLLIN, 0});
      }
      ::poll(polls.data(), polls.size(), 20);
      std::vector<Pair> kept;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        bool lives = true;
        if (polls[1 + 2 * i].revents != 0) lives = Forward(pairs[i].client, pairs[i].server, to_server, sent_to_server);
        if (lives && polls[2 + 2 * i].revents != 0)
          lives = Forward(pairs[i].server, pairs[i].client, to_client, sent_to_client);
        if (lives) {
          kept.push_back(pairs[i]);
        } else {
          ::close(pairs[i].client);
          ::close(pairs[i].server);
        }
      }
      if (polls[0].revents != 0) {
        const Pair pair = {::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC),
                           ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        const sockaddr_un address = Address(server_);
        (void)!::connect(pair.server, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        kept.push_back(pair);
      }
      pairs = std::move(kept);
    }
    for (const Pair& pair : pairs) {
      ::close(pair.client);
      ::close(pair.server);
    }
  }

  std::string server_;
  int listener_ = -1;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

TEST_F(Postgres, ACommitWhoseConnectionIsCutAnywhereHappensExactlyOnce) {
  TemporaryFolder folder;
  Proxy proxy(folder.File("proxy"), server_->File("socket/.s.PGSQL.5432"));
  PostgresOptions options = Options();
  options.url = "postgresql://divvy@/" + database_ + "?host=" + folder.File("proxy");
  const auto store = Must(OpenPostgresStore(options));
  std::uint64_t id = 0;
  const auto commit = [&] {
    Batch batch = Insert({Job(id + 1), Job(id + 2)});
    batch.history = {{JobId(id + 1), kNoon, "queued"}};
    batch.next_id = id + 3;
    id += 2;
    return store->Commit({batch});
  };
  ASSERT_TRUE(commit());
  const std::int64_t to_client = proxy.sent_to_client;
  const std::int64_t to_server = proxy.sent_to_server;
  ASSERT_TRUE(commit());
  const std::int64_t answer = proxy.sent_to_client - to_client;
  const std::int64_t request = proxy.sent_to_server - to_server;
  constexpr int kCuts = 40;
  for (int cut = 0; cut < kCuts; ++cut) {
    proxy.to_client = answer * cut / kCuts;
    const Status first = commit();
    ASSERT_TRUE(first) << first.error().message;
    proxy.to_client = Proxy::kUncut;
    proxy.to_server = request * cut / kCuts;
    const Status second = commit();
    ASSERT_TRUE(second) << second.error().message;
    proxy.to_server = Proxy::kUncut;
    EXPECT_EQ(Must(store->HistoryOf(JobId(id - 1))).size(), 1u) << "cut " << cut;
    EXPECT_EQ(Must(store->HistoryOf(JobId(id - 3))).size(), 1u) << "cut " << cut;
  }
  const auto loaded = Must(store->Load());
  EXPECT_EQ(loaded.live.size(), id);
  EXPECT_EQ(loaded.jobs_total, id);
  EXPECT_EQ(loaded.next_id, id + 1);
}

TEST_F(Postgres, ACrashOfTheServerLosesNothingAcknowledged) {
  auto store = MustOpen();
  std::atomic<bool> is_over = false;
  std::vector<std::uint64_t> acknowledged;
  std::vector<std::uint64_t> refused;
  std::atomic<std::size_t> count = 0;
  std::thread committer([&] {
    for (std::uint64_t id = 1; !is_over; id += 2) {
      Batch batch = Insert({Job(id), Job(id + 1)});
      batch.history = {{JobId(id), kNoon, "queued"}};
      const Status done = store->Commit({batch});
      if (!done) {
        ASSERT_EQ(done.error().code, ErrorCode::kLimitExceeded) << done.error().message;
      }
      (done ? acknowledged : refused).push_back(id);
      ++count;
    }
  });
  for (const int signal : {SIGKILL, SIGQUIT, SIGKILL, SIGINT}) {
    const std::size_t before = count;
    while (count < before + 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_->Kill(signal);
    server_->Run();
  }
  is_over = true;
  committer.join();
  store.reset();
  store = MustOpen();
  std::vector<std::uint64_t> found;
  for (const std::uint64_t id : Ids(Must(store->Load()).live)) {
    if (id % 2 == 1) found.push_back(id);
    else EXPECT_EQ(found.back(), id - 1) << "half a commit was kept";
  }
  EXPECT_EQ(found, acknowledged);
  EXPECT_GE(acknowledged.size(), 80u);
}

TEST_F(Postgres, ASecondWriterIsRefusedAndTheFirstOneIsNamed) {
  auto first = MustOpen();
  const std::string refusal = Refusal(Options());
  EXPECT_TRUE(Contains(refusal, "in use by another divvy (\"divvy on ")) << refusal;
  EXPECT_TRUE(Contains(refusal, "pid " + std::to_string(::getpid()))) << refusal;
  MustCommit(*first, {Insert({Job(1)})});
  first.reset();
  MustCommit(*MustOpen(), {Insert({Job(2)})});
}

TEST_F(Postgres, AWriterThatWasReplacedWritesNothing) {
  auto store = MustOpen();
  MustCommit(*store, {Insert({Job(1)})});
  ASSERT_TRUE(server_->Execute(database_, "UPDATE divvy.writer SET epoch = epoch + 1, holder = 'another'"));
  const Status late = store->Commit({Insert({Job(2)})});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_FALSE(store->PruneStep(kNever));
  // Not after it has connected again, either.
  ASSERT_TRUE(server_->Execute(database_,
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                               "WHERE application_name LIKE 'divvy on%'"));
  EXPECT_EQ(store->Commit({Insert({Job(3)})}).error().code, ErrorCode::kFailedPrecondition);
  store.reset();
  EXPECT_EQ(Ids(Must(MustOpen()->Load()).live), std::vector<std::uint64_t>{1});
}

TEST_F(Postgres, AServerThatLostAcknowledgedCommitsIsNoticed) {
  const auto store = MustOpen();
  MustCommit(*store, {Insert({Job(1)})});
  MustCommit(*store, {Insert({Job(2)})});
  ASSERT_TRUE(server_->Execute(database_, "UPDATE divvy.writer SET commits = commits - 1"));
  ASSERT_TRUE(server_->Execute(database_,
                               "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                               "WHERE application_name LIKE 'divvy on%' AND datname = current_database()"));
  const Status next = store->Commit({Insert({Job(3)})});
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(Contains(next.error().message, "lost commits")) << next.error().message;
}

TEST_F(Postgres, ADatabaseOfAnotherClusterIsRefused) {
  MustOpen();
  PostgresOptions other = Options();
  other.cluster = "b";
  EXPECT_EQ(Refusal(other), "postgresql://divvy@/" + database_ + "?host=" + server_->File("socket") +
                                " belongs to another cluster (a; this one is b): use another database, or, if this "
                                "daemon belongs to that cluster, write a into /state/cluster-id");
}

TEST_F(Postgres, ANewerSchemaIsRefusedNamingBothVersions) {
  MustOpen();
  const std::int64_t newest = PgMigrations().back().to;
  ASSERT_TRUE(server_->Execute(database_, "UPDATE divvy.meta SET value = 99 WHERE key = 'schema_version'"));
  EXPECT_TRUE(Contains(Refusal(Options()), "schema version 99, this divvy supports up to " + std::to_string(newest)));
}

TEST_F(Postgres, AnOlderSchemaIsUpgradedWithItsRowsAndAFailingStepChangesNothing) {
  MustCommit(*MustOpen(), {Insert({Job(1)})});
  const auto connection = Must(PgConnection::Open({url_, "test", kPgSettings, std::chrono::seconds(30)}));
  std::vector<PgMigration> steps(PgMigrations().begin(), PgMigrations().end());
  const std::int64_t newest = steps.back().to;
  steps.push_back({newest + 1, "ALTER TABLE jobs ADD COLUMN more BIGINT NOT NULL DEFAULT 7"});
  steps.push_back({newest + 2, "ALTER TABLE none ADD COLUMN more BIGINT"});
  EXPECT_FALSE(MigratePostgres(*connection, steps));
  EXPECT_EQ(Must(connection->QueryInteger("SELECT value FROM meta WHERE key = 'schema_version'")), newest);
  steps.pop_back();
  ASSERT_TRUE(MigratePostgres(*connection, steps));
  EXPECT_EQ(Must(connection->QueryInteger("SELECT value FROM meta WHERE key = 'schema_version'")), newest + 1);
  EXPECT_EQ(Must(connection->QueryInteger("SELECT more FROM jobs WHERE id = 1")), 7);
}

TEST_F(Postgres, ASchemaOfAnotherProgramIsRefusedUnchanged) {
  ASSERT_TRUE(server_->Execute(database_, "CREATE SCHEMA divvy; CREATE TABLE divvy.jobs (theirs int)"));
  EXPECT_TRUE(Contains(Refusal(Options()), "of another program"));
  EXPECT_TRUE(server_->Execute(database_, "SELECT theirs FROM divvy.jobs"));
}

TEST_F(Postgres, AReadOnlyServerRefusesCommitsUntilItIsWritableAgain) {
  auto store = MustOpen();
  MustCommit(*store, {Insert({Job(1)})});
  ASSERT_TRUE(server_->Execute(database_, "ALTER SYSTEM SET default_transaction_read_only = on"));
  ASSERT_TRUE(server_->Execute(database_, "SELECT pg_reload_conf()"));
  Status done;
  std::uint64_t id = 1;
  for (int i = 0; i < 1'000 && done; ++i) {
    done = store->Commit({Insert({Job(++id)})});
    if (done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kLimitExceeded) << done.error().message;
  EXPECT_EQ(Must(store->Find(JobId(1))).id, JobId(1));
  ASSERT_TRUE(server_->Execute(database_, "SET default_transaction_read_only = off"));
  ASSERT_TRUE(server_->Execute("postgres", "BEGIN READ WRITE; COMMIT"));
  server_->Kill(SIGINT);
  std::filesystem::resize_file(server_->File("data/postgresql.auto.conf"), 0);
  server_->Run();
  Status again = store->Commit({Insert({Job(id)})});
  for (int i = 0; i < 100 && !again; ++i) again = store->Commit({Insert({Job(id)})});
  EXPECT_TRUE(again) << again.error().message;
  EXPECT_EQ(Must(store->Load()).jobs_total, id);
}

// The server reports a full disk with this code, whichever of its files cannot grow.
TEST_F(Postgres, AFullDiskRefusesCommitsUntilThereIsRoom) {
  auto store = MustOpen();
  MustCommit(*store, {Insert({Job(1)})});
  ASSERT_TRUE(server_->Execute(
      database_,
      "CREATE FUNCTION divvy.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''could not extend "
      "file'' USING ERRCODE = ''disk_full''; END'; CREATE TRIGGER no_room BEFORE INSERT ON divvy.jobs FOR EACH ROW "
      "EXECUTE FUNCTION divvy.fail()"));
  const Status refused = store->Commit({Insert({Job(2)})});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLimitExceeded);
  EXPECT_TRUE(Contains(refused.error().message, "the disk is full")) << refused.error().message;
  EXPECT_EQ(store->Find(JobId(2)).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(server_->Execute(database_, "DROP TRIGGER no_room ON divvy.jobs"));
  MustCommit(*store, {Insert({Job(2)})});
}

TEST_F(Postgres, AServerThatIsAwayRefusesCommitsAndReadsComeBackByThemselves) {
  auto store = MustOpen();
  MustCommit(*store, {Insert({Job(1)})});
  server_->Kill(SIGINT);
  EXPECT_EQ(store->Find(JobId(1)).error().code, ErrorCode::kUnreachable);
  // Nothing of the commit was sent, so its outcome is known at once.
  const Status next = store->Commit({Insert({Job(2)})});
  EXPECT_EQ(next.error().code, ErrorCode::kLimitExceeded) << next.error().message;
  server_->Run();
  auto found = store->Find(JobId(1));
  for (int i = 0; i < 1'000 && !found; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    found = store->Find(JobId(1));
  }
  EXPECT_EQ(Must(found).id, JobId(1));
  MustCommit(*store, {Insert({Job(2)})});
}

TEST_F(Postgres, ACommitThatTheServerDoesNotAnswerInTimeHappensExactlyOnce) {
  PostgresOptions options = Options();
  options.patience = std::chrono::seconds(1);
  const auto store = Must(OpenPostgresStore(options));
  MustCommit(*store, {Insert({Job(1)})});
  const auto connection = Must(PgConnection::Open({url_, "test", "", std::chrono::seconds(30)}));
  const std::int64_t writer =
      Must(connection->QueryInteger("SELECT pid::bigint FROM pg_stat_activity WHERE application_name LIKE 'divvy on%' "
                                    "AND datname = current_database()"));
  ASSERT_EQ(::kill(static_cast<pid_t>(writer), SIGSTOP), 0);
  std::thread waker([&] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    ::kill(static_cast<pid_t>(writer), SIGCONT);
  });
  Batch batch = Insert({Job(2)});
  batch.history = {{JobId(2), kNoon, "queued"}};
  const Status done = store->Commit({batch});
  waker.join();
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_EQ(Must(store->HistoryOf(JobId(2))).size(), 1u);
  EXPECT_EQ(Must(store->Load()).jobs_total, 2u);
}

TEST_F(Postgres, TextsKeepBytesThatAreNoUtf8) {
  JobRecord job = Job(1, std::string("caf\xE9 \0 \xF4\x8F\xB8\x80 na\xC3\xAFve", 18));
  job.comment = "\xFF\xFE";
  auto spec = Spec("true");
  spec->capture.environment = {"A=é"};
  Batch batch;
  batch.inserts = {{job, spec}};
  batch.history = {{JobId(1), kNoon, "\xC0"}};
  const auto store = MustOpen();
  MustCommit(*store, {batch});
  EXPECT_EQ(Must(store->Find(JobId(1))), job);
  EXPECT_EQ(Must(store->Named(job.name, "")), std::vector{JobId(1)});
  EXPECT_EQ(Must(store->HistoryOf(JobId(1))).front().text, "\xC0");
  EXPECT_EQ(Must(store->Spec(JobId(1))).capture, spec->capture);
}

TEST_F(Postgres, CapturesAreStoredOncePerContentAndRemovedWithTheirLastJob) {
  const auto with = [](const std::string& variable) {
    auto spec = Spec();
    spec->capture.environment = {variable};
    return spec;
  };
  auto store = MustOpen();
  Batch batch;
  batch.inserts = {{Job(1), with("A=1")}, {Job(2), with("A=1")}, {Job(3), with("A=2")}};
  MustCommit(*store, {batch});
  store.reset();
  store = MustOpen();
  batch.inserts = {{Job(4), with("A=2")}};
  MustCommit(*store, {batch});
  const auto connection = Must(PgConnection::Open({url_, "test", kPgSettings, std::chrono::seconds(30)}));
  EXPECT_EQ(Must(connection->QueryInteger("SELECT count(*) FROM captures")), 2);
  MustCommit(*store, {Update({Ended(Job(1), kNoon), Ended(Job(2), kNoon)})});
  ASSERT_TRUE(store->Prune(kNever));
  EXPECT_EQ(Must(connection->QueryInteger("SELECT count(*) FROM captures")), 1);
  batch.inserts = {{Job(5), with("A=1")}};
  MustCommit(*store, {batch});
  EXPECT_EQ(Must(store->Spec(JobId(5))), *with("A=1"));
}

TEST_F(Postgres, NoMessageContainsAPassword) {
  PostgresOptions options = Options();
  const std::string rest = "@/none?host=" + server_->File("socket");
  for (const std::string& url :
       {"postgresql://divvy:s3cr%40t" + rest, "postgresql://divvy:s3cr@t/x" + rest,
        "postgresql://divvy:s3cr@t" + rest + "&connect_timeout=none", std::string("postgresql://divvy:s3cr@t:x@h/d"),
        std::string("postgresql://h/d?sslpassword=s3cr@t&sslmode=none")}) {
    options.url = url;
    const std::string refusal = Refusal(options);
    EXPECT_FALSE(refusal.empty());
    EXPECT_FALSE(Contains(refusal, "s3cr")) << refusal;
  }
}

TEST(PostgresUrl, PasswordsAreFoundAndMasked) {
  EXPECT_TRUE(IsPostgresUrl("postgres://h"));
  EXPECT_FALSE(IsPostgresUrl("/var/lib/divvy/divvy.db"));
  EXPECT_FALSE(HasPassword("postgresql://divvy@a,b:5433/divvy?passfile=/p&target_session_attrs=read-write"));
  EXPECT_FALSE(HasPassword("postgresql://h/d?options=-c%20x@y"));
  EXPECT_FALSE(HasPassword("postgresql://h:5432,i:5433/d?options=-c%20x@y"));
  EXPECT_FALSE(HasPassword("postgresql://[::1]:5432/d?options=-c%20x@y"));
  EXPECT_EQ(WithoutPassword("postgresql://divvy:pw@h/d?sslmode=require"), "postgresql://divvy:***@h/d?sslmode=require");
  EXPECT_EQ(WithoutPassword("postgresql://divvy:p@w/?x@h/d"), "postgresql://divvy:***@h/d");
  EXPECT_EQ(WithoutPassword("postgresql://h/d?password=pw&user=u&sslpassword=x"),
            "postgresql://h/d?password=***&user=u&sslpassword=***");
  EXPECT_EQ(WithoutPassword("postgresql://h/d?p%61ssword=pw&oauth_client_secret=x"),
            "postgresql://h/d?p%61ssword=***&oauth_client_secret=***");
}

TEST(PgText, EscapingIsReversible) {
  for (const std::string& text : {std::string(), std::string("naïve"), std::string("\0", 1), std::string("\xFF\x80 a"),
                                  std::string("\xF4\x8F\xB8\x80"), std::string("\xF4\x8F"), std::string("\uFFFD")}) {
    const std::string escaped = EscapeText(text);
    EXPECT_TRUE(escaped == text || !IsPlainText(text));
    EXPECT_EQ(escaped.find('\0'), std::string::npos);
    EXPECT_EQ(UnescapeText(escaped), text);
  }
}

}  // namespace postgres_store_test
}  // namespace divvy
