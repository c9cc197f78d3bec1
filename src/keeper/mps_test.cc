#include "keeper/mps.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace divvy::keeper {
namespace {

/// A control program that writes down what it was called with and told.
struct MpsWorld {
  MpsWorld() {
    char name[] = "/tmp/mps-XXXXXX";
    directory = ::mkdtemp(name);
    program = directory + "/control";
    std::ofstream(program) << "#!/bin/sh\n(echo \"$1 $CUDA_VISIBLE_DEVICES $CUDA_MPS_PIPE_DIRECTORY\"; cat) >> " +
                                  directory + "/calls\n[ ! -e " + directory + "/refuses ]\n";
    ::chmod(program.c_str(), 0755);
  }
  ~MpsWorld() { std::filesystem::remove_all(directory); }
  std::string Calls() const {
    std::ifstream file(directory + "/calls");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string directory;
  std::string program;
  sharing::Share share{.memory_request = 4_GiB,
                       .memory_limit = 8_GiB,
                       .compute_request = GpuShare(2500),
                       .compute_limit = GpuShare(5000)};
};

TEST(Mps, OneServerForAGpuAsLongAsItHasClients) {
  MpsWorld world;
  MpsServers servers(world.program, world.directory);
  const auto first = servers.Join({1, 1}, 3, "GPU-x", world.share);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, (std::vector<std::string>{"CUDA_MPS_PIPE_DIRECTORY=" + world.directory + "/mps.3",
                                              "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4096M",
                                              "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"}));
  ASSERT_TRUE(servers.Join({2, 1}, 3, "GPU-x", world.share));
  const std::string started = "-d GPU-x " + world.directory + "/mps.3\n";
  EXPECT_EQ(world.Calls(), started);
  servers.Leave({1, 1});
  EXPECT_EQ(world.Calls(), started);
  servers.Leave({2, 1});
  EXPECT_EQ(world.Calls(), started + "  " + world.directory + "/mps.3\nquit\n");
}

TEST(Mps, IsRefusedWhereItIsNot) {
  MpsWorld world;
  MpsServers none("", world.directory);
  EXPECT_EQ(none.Join({1, 1}, 0, "GPU-x", world.share).error().message,
            "nvidia-cuda-mps-control is not on this machine; leave --mps out, or install it");
  std::ofstream(world.directory + "/refuses") << "x";
  MpsServers refused(world.program, world.directory);
  EXPECT_NE(refused.Join({1, 1}, 0, "GPU-x", world.share).error().message.find("refused to start"), std::string::npos);
}

}  // namespace
}  // namespace divvy::keeper
