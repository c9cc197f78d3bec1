#include "keeper/drivers/host_memory.h"

#include <gtest/gtest.h>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace host_memory_test {

struct Host {
  Host() {
    std::string name = testing::TempDir() + "host-XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  ~Host() { std::filesystem::remove_all(directory); }
  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(directory + path).parent_path());
    std::ofstream(directory + path) << text;
  }
  HostMemory memory() const { return HostMemory(directory + "/proc", directory + "/cgroup"); }
  std::string directory;
};

TEST(HostMemory, ATenthOfTheHostMemoryIsReserved) {
  const Host host;
  EXPECT_EQ(host.memory().Room(), std::nullopt);
  host.Write("/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:  1 kB\nMemAvailable:   33554432 kB\n");
  EXPECT_EQ(host.memory().Room(), Bytes((33'554'432LL - 6'710'886) * 1024));
  host.Write("/proc/meminfo", "MemTotal:       67108864 kB\nMemAvailable:   3355443 kB\n");
  EXPECT_EQ(host.memory().Room(), Bytes(0));
}

TEST(HostMemory, TheTightestCgroupLimitCounts) {
  const Host host;
  EXPECT_EQ(host.memory().RoomOf(7), std::nullopt);
  host.Write("/proc/7/cgroup", "0::/jobs/job-7\n");
  host.Write("/cgroup/jobs/job-7/memory.max", "max\n");
  host.Write("/cgroup/jobs/job-7/memory.current", "1000\n");
  EXPECT_EQ(host.memory().RoomOf(7), std::nullopt);
  host.Write("/cgroup/jobs/memory.max", "16000\n");
  host.Write("/cgroup/jobs/memory.current", "9000\n");
  host.Write("/cgroup/jobs/memory.stat", "anon 5000\ninactive_file 3000\n");
  EXPECT_EQ(host.memory().RoomOf(7), Bytes(10'000));
  host.Write("/cgroup/jobs/job-7/memory.max", "4000\n");
  EXPECT_EQ(host.memory().RoomOf(7), Bytes(3'000));
}

TEST(HostMemory, ReadsCgroupV1Limits) {
  const Host host;
  host.Write("/proc/7/cgroup", "7:memory:/divvy/7\n3:cpu,cpuacct:/divvy/7\n0::/init.scope\n");
  host.Write("/cgroup/memory/divvy/7/memory.limit_in_bytes", "9223372036854771712\n");
  host.Write("/cgroup/memory/divvy/7/memory.usage_in_bytes", "5\n");
  EXPECT_EQ(host.memory().RoomOf(7), std::nullopt);
  host.Write("/cgroup/memory/divvy/7/memory.limit_in_bytes", "105\n");
  EXPECT_EQ(host.memory().RoomOf(7), Bytes(100));
}

}  // namespace host_memory_test
}  // namespace divvy::keeper
