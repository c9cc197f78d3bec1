#include "keeper/drivers/mps.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace divvy::keeper {
namespace mps_test {

/// A control program that logs its arguments and input, and does not end while a file "slow" exists.
struct MpsWorld {
  MpsWorld() {
    std::string name = testing::TempDir() + "mps-XXXXXX";
    directory = ::mkdtemp(name.data());
    program = directory + "/control";
    std::ofstream(program) << "#!/bin/sh\n(echo \"$1 $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY\"; cat) >> " +
                                  directory + "/calls\nwhile [ -e " + directory +
                                  "/slow ]; do sleep 0.01; done\n[ ! -e " + directory + "/refuses ]\n";
    ::chmod(program.c_str(), 0755);
    auto made = EventLoop::Make();
    EXPECT_TRUE(made) << made.error().message;
    loop = *std::move(made);
  }
  ~MpsWorld() {
    Remove("slow");
    // A control program outlives the keeper and writes into the directory.
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
    std::filesystem::remove_all(directory);
  }
  std::string Calls() const {
    std::ifstream file(directory + "/calls");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Touch(const std::string& name) const { std::ofstream(directory + "/" + name) << "x"; }
  void Remove(const std::string& name) const { std::filesystem::remove(directory + "/" + name); }
  /// Runs the loop until `is_so` returns true; returns false after 20 s.
  bool Until(const std::function<bool()>& is_so) {
    bool was_so = false;
    const Time end = loop->Now() + 20s;
    std::function<void()> look = [&] {
      was_so = is_so();
      if (was_so || loop->Now() > end) loop->Stop();
      else loop->After(1ms, look);
    };
    auto fresh = loop->After(0ms, look);
    loop->Run();
    loop->Cancel(fresh);
    return was_so;
  }
  using Answer = std::optional<Result<std::vector<std::string>>>;
  MpsServers::Joined Into(Answer& answer) {
    return [&answer](const Result<std::vector<std::string>>& said) { answer = said; };
  }

  std::string directory;
  std::string program;
  std::unique_ptr<EventLoop> loop;
  sharing::Share share{.memory_request = 4_GiB,
                       .memory_limit = 8_GiB,
                       .compute_request = GpuShare(2500),
                       .compute_limit = GpuShare(5000)};
};

TEST(Mps, OneServerPerGpuRunsWhileItHasClients) {
  MpsWorld world;
  MpsServers servers(*world.loop, world.program, world.directory);
  MpsWorld::Answer first;
  MpsWorld::Answer second;
  servers.Join({1, 1}, 3, "GPU-x", world.share, world.Into(first));
  ASSERT_TRUE(world.Until([&] { return first.has_value(); }));
  ASSERT_TRUE(*first) << first->error().message;
  EXPECT_EQ(**first, (std::vector<std::string>{"CUDA_MPS_PIPE_DIRECTORY=" + world.directory + "/mps.3",
                                               "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M",
                                               "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"}));
  servers.Join({2, 1}, 3, "GPU-x", world.share, world.Into(second));
  ASSERT_TRUE(second && *second) << "it is there, and nobody is waited for";
  const std::string started = "-d GPU-x " + world.directory + "/mps.3\n";
  EXPECT_EQ(world.Calls(), started);
  servers.Leave({1, 1});
  EXPECT_EQ(world.Calls(), started);
  servers.Leave({2, 1});
  EXPECT_TRUE(world.Until([&] { return world.Calls() == started + "  " + world.directory + "/mps.3\nquit\n"; }))
      << world.Calls();
}

TEST(Mps, OnlyItsClientsWaitForTheControlProgram) {
  MpsWorld world;
  MpsServers servers(*world.loop, world.program, world.directory);
  world.Touch("slow");
  MpsWorld::Answer first;
  MpsWorld::Answer second;
  MpsWorld::Answer gone;
  servers.Join({1, 1}, 0, "GPU-x", world.share, world.Into(first));
  servers.Join({2, 1}, 0, "GPU-x", world.share, world.Into(second));
  servers.Join({3, 1}, 0, "GPU-x", world.share, world.Into(gone));
  // The control program runs while the loop continues.
  ASSERT_TRUE(world.Until([&] { return !world.Calls().empty(); }));
  EXPECT_FALSE(first || second);
  servers.Leave({3, 1});
  ASSERT_TRUE(gone && !*gone);
  EXPECT_EQ(gone->error().message, "the job is over");
  world.Remove("slow");
  ASSERT_TRUE(world.Until([&] { return first && second; }));
  EXPECT_TRUE(*first && *second);
  EXPECT_EQ(world.Calls(), "-d GPU-x " + world.directory + "/mps.0\n") << "once for all";
  // While a server is ending, the next client waits for the end and is served afterwards.
  world.Touch("slow");
  servers.Leave({1, 1});
  servers.Leave({2, 1});
  first.reset();
  servers.Join({4, 1}, 0, "GPU-x", world.share, world.Into(first));
  ASSERT_TRUE(world.Until([&] { return world.Calls().ends_with("quit\n"); }));
  EXPECT_FALSE(first);
  world.Remove("slow");
  ASSERT_TRUE(world.Until([&] { return first.has_value(); }));
  EXPECT_TRUE(*first);
  EXPECT_TRUE(world.Calls().ends_with("quit\n-d GPU-x " + world.directory + "/mps.0\n")) << world.Calls();
}

TEST(Mps, AdoptsServerLeftByPreviousKeeper) {
  MpsWorld world;
  std::filesystem::create_directory(world.directory + "/mps.0");
  std::ifstream own("/proc/self/comm");
  std::string name;
  std::getline(own, name);
  std::filesystem::copy(world.program, world.directory + "/" + name);
  MpsServers next(*world.loop, world.directory + "/" + name, world.directory);
  std::ofstream(world.directory + "/mps.0/nvidia-cuda-mps-control.pid") << ::getpid() << "\n";
  MpsWorld::Answer answer;
  next.Join({1, 1}, 0, "GPU-x", world.share, world.Into(answer));
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(world.Calls(), "");
  next.Leave({1, 1});
  // The pid file names this test's process, which does not end. The end is requested once.
  EXPECT_TRUE(world.Until([] { return ::waitid(P_ALL, 0, nullptr, WEXITED | WNOHANG | WNOWAIT) != 0; }));
  EXPECT_EQ(world.Calls(), "  " + world.directory + "/mps.0\nquit\n");
}

TEST(Mps, IsRefusedWhereItIsNotInstalled) {
  MpsWorld world;
  MpsServers none(*world.loop, "", world.directory);
  MpsWorld::Answer answer;
  none.Join({1, 1}, 0, "GPU-x", world.share, world.Into(answer));
  ASSERT_TRUE(answer && !*answer);
  EXPECT_EQ(answer->error().message,
            "nvidia-cuda-mps-control is not installed on this node; remove --mps, or install it");
  world.Touch("refuses");
  MpsServers refused(*world.loop, world.program, world.directory);
  answer.reset();
  refused.Join({1, 1}, 0, "GPU-x", world.share, world.Into(answer));
  ASSERT_TRUE(world.Until([&] { return answer.has_value(); }));
  ASSERT_FALSE(*answer);
  EXPECT_NE(answer->error().message.find("refused to start"), std::string::npos) << answer->error().message;
  // After the cause is fixed, the next client gets a server.
  world.Remove("refuses");
  answer.reset();
  refused.Join({1, 1}, 0, "GPU-x", world.share, world.Into(answer));
  ASSERT_TRUE(world.Until([&] { return answer.has_value(); }));
  EXPECT_TRUE(*answer);
}

TEST(Mps, AnUnresponsiveServerIsEndedAndReported) {
  MpsWorld world;
  world.Touch("slow");
  MpsServers servers(*world.loop, world.program, world.directory, 1s);
  MpsWorld::Answer answer;
  servers.Join({1, 1}, 0, "GPU-x", world.share, world.Into(answer));
  ASSERT_TRUE(world.Until([&] { return answer.has_value(); }));
  ASSERT_FALSE(*answer);
  EXPECT_NE(answer->error().message.find("did not answer within 1 s"), std::string::npos) << answer->error().message;
}

}  // namespace mps_test
}  // namespace divvy::keeper
