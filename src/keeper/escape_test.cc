// Processes of a tenant that use its GPU without the library. The node reports which processes belong to the job, so
// clearing the environment does not hide them.
#include "keeper/drivers/slices_test_world.h"
#include "platform/os/process_tree.h"

namespace divvy::keeper {
namespace escape_test {

struct Escape : KeptSlices {
  static wire::KeeperRequest Seen(const std::vector<wire::KeeperProcess>& processes) {
    wire::KeeperRequest request;
    request.processes = wire::KeeperProcesses{processes};
    return request;
  }
  std::vector<std::int64_t> Escaped() { return world_->node->StateOf(1).escaped; }
};

TEST_F(Escape, IsDetectedByTheProcessTreeWhateverTheEnvironmentSays) {
  world_->Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 4 * kGiB));
  // Not a descendant of a process that has said hello, and without tenant variables in its environment.
  const pid_t pid = ::getpid();
  ASSERT_TRUE(gpu_->AddProcess(0, pid, Bytes(10 * kGiB)));
  const std::uint64_t start = IdentifyProcess(pid).start_ticks;
  EXPECT_EQ(world_->node->Ask(Seen({{pid, start, JobId(1), 1}})), "");
  EXPECT_TRUE(Eventually([&] { return Escaped() == std::vector<std::int64_t>{pid}; }));
  const wire::KeptTenant shown = world_->node->StateOf(1);
  EXPECT_EQ(shown.mechanism, "advisory");
  EXPECT_EQ(shown.unmovable, "process " + std::to_string(pid) + " uses the GPU without the sharing library");
  // Now the pid belongs to another process; then to another attempt of the job.
  EXPECT_EQ(world_->node->Ask(Seen({{pid, start + 1, JobId(1), 1}})), "");
  EXPECT_TRUE(Eventually([&] { return Escaped().empty(); }));
  EXPECT_EQ(world_->node->Ask(Seen({{pid, start, JobId(1), 1}})), "");
  EXPECT_TRUE(Eventually([&] { return !Escaped().empty(); }));
  EXPECT_EQ(world_->node->Ask(Seen({{pid, start, JobId(1), 2}})), "");
  EXPECT_TRUE(Eventually([&] { return Escaped().empty(); }));
  EXPECT_EQ(world_->node->StateOf(1).mechanism, "enforced by interposer");
}

// Another job would get the GPU with the memory of this process.
TEST_F(Escape, AJobWithAWholeGpuIsNotDisplacedWhileAProcessWithoutTheLibraryIsThere) {
  wire::KeeperAdd terms = KeeperWorld::Terms(1, 0, 1, 16 * kGiB, 16 * kGiB);
  terms.is_whole = true;
  world_->Add(terms);
  const pid_t pid = ::getpid();
  ASSERT_TRUE(gpu_->AddProcess(0, pid, Bytes(10 * kGiB)));
  EXPECT_EQ(world_->node->Ask(Seen({{pid, IdentifyProcess(pid).start_ticks, JobId(1), 1}})), "");
  EXPECT_TRUE(Eventually([&] { return !world_->node->StateOf(1).unparkable.empty(); }))
      << "before it counts as escaped";
  wire::KeeperRequest displace;
  displace.displace = wire::KeeperDisplace{JobId(1), 1};
  const std::string why = world_->node->Ask(displace);
  EXPECT_TRUE(why.starts_with("job 1 cannot be parked: process " + std::to_string(pid) + " uses the GPU")) << why;
  EXPECT_FALSE(world_->node->StateOf(1).is_displaced);
}

}  // namespace escape_test
}  // namespace divvy::keeper
