// Tests, without root, what the launcher refuses and what it does for a right: jobs and files belong to our own user.
#include "platform/supervisor/root_errand.h"
#include "platform/os/process_tree.h"
#include "platform/users/user_identity.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace divvy {
namespace {

constexpr std::int64_t kDaemon = 700;

/// A launcher that does errands until the test closes the connection.
class RootErrandsTest : public testing::Test {
 protected:
  RootErrandsTest() {
    std::string pattern = testing::TempDir() + "divvy-errand-test.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::ranges::copy(Path("errands"), address.sun_path);
    listener_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
    EXPECT_EQ(0, ::listen(listener_.get(), 4));
    auto issuer = RightIssuer::Open(Path("key"));
    EXPECT_TRUE(issuer);
    issuer_.emplace(*std::move(issuer));
    setup_.run_directory = folder_;
    setup_.daemon_uid = setup_.daemon_gid = kDaemon;
    setup_.lowest_uid = 1000;
    setup_.runs_root_jobs = true;
    me_ = {::geteuid(), ::getegid(), issuer_->Issue(::geteuid(), ::getegid())};
    if (me_.uid != 0) setup_.lowest_uid = std::min<std::int64_t>(me_.uid, 1000);
    // Runs in its own process, because it forks and does not reap.
    auto controllers = RightIssuer::Open(Path("controllers"));
    EXPECT_TRUE(controllers);
    controllers_.emplace(*std::move(controllers));
    server_ = ::fork();
    if (server_ == 0) Serve();
  }
  ~RootErrandsTest() override {
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[noreturn]] void Serve() {
    ::signal(SIGCHLD, SIG_IGN);
    RightChecker checker(issuer_->public_key(), controllers_->public_key());
    RunningReads reads;
    while (true) {
      const Descriptor link(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      while (link.is_open() && DoErrand(link.get(), setup_, *issuer_, checker, reads)) {
      }
    }
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Why(const auto& refused) { return refused ? "it was done" : refused.error().message; }

  std::string folder_;
  Descriptor listener_;
  std::optional<RightIssuer> issuer_;
  std::optional<RightIssuer> controllers_;  // Belongs to the launcher on the controller's machine.
  ErrandSetup setup_;
  UserWithRight me_;
  pid_t server_ = -1;
};

TEST_F(RootErrandsTest, ReadsAPieceOfAFileWithARight) {
  std::ofstream(Path("log")) << "one\ntwo\nthree\n";
  RootErrands errands(Path("errands"));
  const auto read = [&](const LogRange& range) { return errands.ReadLog(me_, Path("log"), range); };
  const LogPiece all = read({});
  EXPECT_EQ("one\ntwo\nthree\n", all.text) << all.error << all.trouble;
  EXPECT_EQ(14, all.next);
  EXPECT_EQ(14, all.size);
  EXPECT_EQ("three\n", read({.last = 1}).text);
  EXPECT_EQ("two", read({.at = 4, .most = 3}).text);
  EXPECT_EQ("", read({.at = 14}).text);
  EXPECT_EQ("three\n", read({.at = 0, .most = 6, .newest = true}).text);
  EXPECT_EQ("one\ntwo\nthree\n", read({.at = 15, .newest = true}).text) << "a truncated log is read from its start";

  const auto error = [&](const std::string& path) { return errands.ReadLog(me_, path, {}).error; };
  EXPECT_EQ(ENOENT, error(Path("no log")));
  ASSERT_EQ(0, ::mkfifo(Path("pipe").c_str(), 0600));
  EXPECT_EQ(EINVAL, error(Path("pipe")));
  for (const std::string& path : {std::string("relative"), Path("log") + std::string(1, '\0') + "x", std::string()})
    EXPECT_EQ(EINVAL, error(path)) << path;

  std::ofstream(Path("large")) << std::string(kLogPieceBytes + 1, 'x');
  const LogPiece large = errands.ReadLog(me_, Path("large"), {.at = 0, .most = 2 * kLogPieceBytes});
  EXPECT_EQ(kLogPieceBytes, large.text.size()) << large.error;
}

TEST(RunningReads, OnlyAUserWithReadsThatDoNotEndGetsNoMore) {
  RunningReads reads;
  const auto now = std::chrono::steady_clock::now();
  const auto later = now + std::chrono::seconds(6);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      ::pause();
      ::_exit(0);
    }
    reads.Add(1001, children.back(), now);
  }
  EXPECT_EQ(reads.Refuses(1001, now), 0) << "they have just begun";
  EXPECT_EQ(reads.Refuses(1001, later), ETIMEDOUT);
  EXPECT_EQ(reads.Refuses(1002, later), 0);
  ::kill(children.back(), SIGKILL);
  EXPECT_EQ(children.back(), ::waitpid(children.back(), nullptr, 0));
  EXPECT_EQ(reads.Refuses(1001, later), 0);
  for (int i = 0; i < 61; ++i) reads.Add(1001, children.front(), now);
  EXPECT_EQ(reads.Refuses(1001, now), EAGAIN);
  for (const pid_t child : children) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

TEST_F(RootErrandsTest, ActingAsAUserNeedsThatUsersRight) {
  RootErrands errands(Path("errands"));
  UserWithRight other = me_;
  other.uid = 54'321;
  EXPECT_NE(std::string::npos, errands.ReadLog(other, Path("key"), {}).trouble.find("no right to act as uid 54321"));
  other = me_;
  other.gid += 1;
  EXPECT_NE(std::string::npos, errands.ReadLog(other, Path("key"), {}).trouble.find("no right to act as"));
  other.uid = 2;
  EXPECT_NE(std::string::npos, errands.ReadLog(other, Path("key"), {}).trouble.find("a system user"));
  for (const auto program : {UserProgram::kDeliver, UserProgram::kContainerRemoval})
    EXPECT_FALSE(errands.Start(other, program, "/x", -1));
  EXPECT_FALSE(errands.StageGang(other, JobId(1), "", false));
  // The daemon's own user may only send mail.
  EXPECT_FALSE(errands.Start({kDaemon, kDaemon, {}}, UserProgram::kContainerRemoval, "/x", -1));
  EXPECT_NE(0, errands.ReadLog({kDaemon, kDaemon, {}}, Path("key"), {}).error);
}

TEST_F(RootErrandsTest, ARightByNameFromTheControllersLauncherIsEnough) {
  const auto account = AccountNameOf(me_.uid);
  if (!account || account->gid != me_.gid) GTEST_SKIP() << "this user has no name, or is in another group";
  RootErrands errands(Path("errands"));
  std::ofstream(Path("log")) << "a line\n";
  UserWithRight by_name = me_;
  by_name.right = controllers_->IssueByName(account->name);
  EXPECT_EQ("a line\n", errands.ReadLog(by_name, Path("log"), {}).text);
  by_name.right = controllers_->IssueByName(account->name + "x");
  EXPECT_NE(std::string::npos, errands.ReadLog(by_name, Path("log"), {}).trouble.find("no right to act as"));
}

TEST_F(RootErrandsTest, ANameIsSignedForTheRightOfItsUid) {
  const auto account = AccountNameOf(me_.uid);
  if (!account) GTEST_SKIP() << "this user has no name";
  RootErrands errands(Path("errands"));
  UserWithRight other = me_;
  other.uid += 1;
  EXPECT_FALSE(errands.RightByName(other));
  other = me_;
  other.right = controllers_->IssueByName(account->name);
  EXPECT_FALSE(errands.RightByName(other)) << "a right of the controller's launcher is none to numbers here";
  const auto by_name = errands.RightByName(me_);
  ASSERT_TRUE(by_name) << by_name.error().message;
  EXPECT_TRUE(RightChecker("", issuer_->public_key()).IsGoodByName(me_.uid, account->gid, *by_name));
}

TEST_F(RootErrandsTest, ARightIsIssuedForAConnectionOnly) {
  RootErrands errands(Path("errands"));
  const Descriptor file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_NE(std::string::npos, Why(errands.RightOf(file.get())).find("not a connection of a user"));
}

TEST_F(RootErrandsTest, WithoutARunRecordNothingIsSignalled) {
  RootErrands errands(Path("errands"));
  for (const auto reach : {OrphanReach::kTree, OrphanReach::kFirst, OrphanReach::kLeftBehind})
    EXPECT_NE(std::string::npos, Why(errands.SignalOrphans(JobId(17), SIGKILL, reach)).find("no run record"));
  EXPECT_EQ(std::nullopt, errands.ExitOf(JobId(17)));
  EXPECT_EQ(std::nullopt, errands.RefusedDevices(JobId(17)));
}

TEST_F(RootErrandsTest, SignalsOnlyTheProcessOfTheRecord) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    ::execlp("sleep", "sleep", "600", nullptr);
    ::_exit(127);
  }
  while (::getsid(child) != child) std::this_thread::yield();
  const auto write = [&](std::uint64_t ticks) {
    std::ofstream(Path("17")) << "job=17\nattempt=1\nuid=0\nprocess=" << child << " " << ticks << "\n";
    ::chmod(Path("17").c_str(), 0600);
  };
  RootErrands errands(Path("errands"));
  const std::uint64_t ticks = IdentifyProcess(child).start_ticks;
  write(ticks + 1);
  const auto other = errands.SignalOrphans(JobId(17), SIGKILL, OrphanReach::kTree);
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(0, *other);
  EXPECT_EQ(0, ::waitpid(child, nullptr, WNOHANG)) << "another process of that number was killed";
  write(ticks);
  EXPECT_EQ(1, errands.SignalOrphans(JobId(17), SIGKILL, OrphanReach::kTree).value_or(-1));
  EXPECT_EQ(child, ::waitpid(child, nullptr, 0));
}

TEST_F(RootErrandsTest, WritesTheGpuListOfAnElasticJob) {
  RootErrands errands(Path("errands"));
  ASSERT_TRUE(errands.WriteGpus(JobId(17), GpuSet::Of({1, 3})));
  EXPECT_EQ(GpuSet::Of({1, 3}), ReadGpusFile(folder_, JobId(17)));
}

TEST_F(RootErrandsTest, ReadsIoCountersOfProcesses) {
  RootErrands errands(Path("errands"));
  const std::array<std::int64_t, 3> pids = {::getpid(), -1, 0};
  const auto counts = errands.ReadIo(pids);
  ASSERT_EQ(1U, counts.size());
  EXPECT_EQ(::getpid(), counts.front().pid);
}

TEST_F(RootErrandsTest, AnInvalidRequestIsDisconnected) {
  RootErrands errands(Path("errands"));
  const std::string far(200'000, 'x');
  EXPECT_NE(std::string::npos, errands.ReadLog(me_, far, {}).trouble.find("128 KiB"));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::ranges::copy(Path("errands"), address.sun_path);
  for (const std::string& bytes : {std::string(1, 'x'), std::string(5000, 'y')}) {
    const Descriptor link(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(0, ::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address));
    ASSERT_EQ(static_cast<ssize_t>(bytes.size()), ::send(link.get(), bytes.data(), bytes.size(), 0));
    char answer = 0;
    EXPECT_EQ(0, ::recv(link.get(), &answer, 1, 0));
  }
  EXPECT_TRUE(errands.WriteGpus(JobId(1), GpuSet())) << "the next one is served";
}

TEST_F(RootErrandsTest, AMissingLauncherIsReportedWithARemedy) {
  RootErrands errands(Path("nobody"));
  EXPECT_NE(std::string::npos, Why(errands.Isolation()).find("systemctl start divvy-launcher"));
}

TEST(LauncherRules, RefusesReservedUids) {
  EXPECT_TRUE(CheckUid(1000, 1000, false));
  EXPECT_TRUE(CheckUid(0, 1000, true));
  for (const std::int64_t uid : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{999}, std::int64_t{61'500},
                                 std::int64_t{65'534}, std::int64_t{0xFFFF'FFFF}})
    EXPECT_FALSE(CheckUid(uid, 1000, false)) << uid;
}

}  // namespace
}  // namespace divvy
