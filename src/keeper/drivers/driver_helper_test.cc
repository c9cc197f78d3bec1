#include "keeper/drivers/driver_helper.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace divvy::keeper {
namespace driver_helper_test {

/// Helpers whose answers come from a shell script.
struct World {
  explicit World(const std::string& script) : loop(*EventLoop::Make()), helpers(*loop, {"/bin/sh", "-c", script}) {}
  std::unique_ptr<EventLoop> loop;
  DriverHelpers helpers;
};

// Reads calls from standard input, which is the socket, and answers there.
constexpr const char* kEcho = "while read -r a b c; do echo \"ok $a $b $c\" >&0; done";

TEST(DriverHelpers, ReportsTheDriversCapabilities) {
  for (const auto& [answer, can_map] : {std::pair("ok map", true), std::pair("ok", false)}) {
    World world(std::string("read -r a; echo '") + answer + "' >&0");
    DriverAbilities can;
    world.helpers.Probe([&](const DriverAbilities& abilities) {
      can = abilities;
      world.loop->Stop();
    });
    world.loop->Run();
    EXPECT_TRUE(can.can_checkpoint);
    EXPECT_EQ(can.can_map, can_map);
    EXPECT_EQ(can.reason.empty(), can_map);
  }
}

TEST(DriverHelpers, ADriverErrorIsReportedForTheProcess) {
  World world("read -r a; echo 'error invalid argument (1)' >&0");
  Status ended;
  world.helpers.Restore(4711, {{"GPU-a", "GPU-b"}}, 0, [&](const Status& status) {
    ended = status;
    world.loop->Stop();
  });
  world.loop->Run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "process 4711: invalid argument (1)");
}

TEST(DriverHelpers, RefusesNamesThatCouldBeOtherArguments) {
  World world(kEcho);
  for (const std::string name : {"GPU-b\nlock 1 0", "GPU-b GPU-c=GPU-d", "GPU-b=GPU-c", ""}) {
    Status ended;
    world.helpers.Restore(4711, {{"GPU-a", name}}, 0, [&](const Status& status) {
      ended = status;
      world.loop->Stop();
    });
    world.loop->Run();
    EXPECT_EQ(ended ? ErrorCode::kInternal : ended.error().code, ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(world.helpers.started(), 0);
}

TEST(DriverHelpers, AHelperThatDiesIsReplaced) {
  World world("read -r a; exit 0");
  std::vector<std::string> errors;
  const auto ended = [&](const Status& status) {
    errors.push_back(status ? "" : status.error().message);
    if (errors.size() == 2) world.loop->Stop();
  };
  world.helpers.Unlock(1, [&](const Status& status) {
    ended(status);
    world.helpers.Unlock(2, ended);
  });
  world.loop->Run();
  EXPECT_EQ(errors, (std::vector<std::string>{"process 1: the driver ended the process that called it",
                                              "process 2: the driver ended the process that called it"}));
  EXPECT_EQ(world.helpers.started(), 2);
}

TEST(DriverHelpers, AHelperThatHangsIsKilledAndOthersContinue) {
  World world("read -r a; case $a in lock*) exec sleep 1000;; *) echo ok >&0; read -r b;; esac");
  std::vector<std::string> errors;
  // The timeout adds 10 s to this, so 0.1 s remain.
  world.helpers.Lock(7, Duration(-9'900'000'000), [&](const Status& status) {
    errors.push_back(status ? "" : status.error().message);
    world.loop->Stop();
  });
  world.helpers.Unlock(8, [&](const Status& status) { errors.push_back(status ? "fine" : status.error().message); });
  world.loop->Run();
  EXPECT_EQ(errors, (std::vector<std::string>{"fine", "process 7: the driver did not answer within 0 s"}));
}

TEST(DriverHelpers, TimeoutsCoverTheLargestGpuOnTheSlowestPath) {
  constexpr std::uint64_t kB200 = 192'000'000'000;
  EXPECT_GT(DriverHelpers::TimeoutFor(kB200), 2 * 76s);
  EXPECT_LT(DriverHelpers::TimeoutFor(0), 60s);
}

TEST(DriverHelpers, CallsBeyondTheHelperCountAreQueued) {
  World world(kEcho);
  int ended = 0;
  for (int i = 1; i <= 20; ++i) {
    world.helpers.Checkpoint(i, 0, [&](const Status& status) {
      EXPECT_TRUE(status);
      if (++ended == 20) world.loop->Stop();
    });
  }
  world.loop->Run();
  EXPECT_EQ(ended, 20);
  EXPECT_LE(world.helpers.started(), static_cast<int>(DriverHelpers::kMostHelpers));
}

// The effect of a killed keeper's call is known only after the call has ended.
TEST(DriverHelpers, ACallOfAnEarlierKeeperIsWaitedFor) {
  const std::string folder = testing::TempDir() + "/helpers-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::string place = folder + "/helpers";
  std::ofstream(folder + "/hold").close();
  const pid_t killed = ::fork();
  if (killed == 0) {
    const auto loop = *EventLoop::Make();
    DriverHelpers helpers(
        *loop,
        {"/bin/sh", "-c", "cd " + folder + "; read -r a; while [ -e hold ]; do sleep 0.01; done; echo first >> order"},
        place);
    helpers.Lock(4711, 10s, [](const Status&) {});
    ::_exit(0);
  }
  ::waitpid(killed, nullptr, 0);
  const auto loop = *EventLoop::Make();
  DriverHelpers helpers(
      *loop, {"/bin/sh", "-c", "cd " + folder + "; while read -r a; do echo second >> order; echo ok 0 >&0; done"},
      place);
  helpers.Ask(4711, [&](const Result<DriverState>& state) {
    EXPECT_TRUE(state && *state == DriverState::kRunning);
    loop->Stop();
  });
  loop->After(300ms, [&] { std::filesystem::remove(folder + "/hold"); });
  loop->Run();
  std::ifstream order(folder + "/order");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(order), {}), "first\nsecond\n");
  std::filesystem::remove_all(folder);
}

}  // namespace driver_helper_test
}  // namespace divvy::keeper
