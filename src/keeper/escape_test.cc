// Processes of a tenant that use its GPU without the library. The node reports which processes belong to the job, so
// clearing the environment does not hide them.
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

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

TEST_F(Escape, MemoryOutsideTheLibraryIsExpectedOfNoOtherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs tenants of two users";
  const auto used = [&](std::uint64_t job) { return world_->node->StateOf(job).shares.at(0).used; };
  const auto add = [&](std::uint64_t job, std::int64_t uid) {
    wire::KeeperAdd terms = KeeperWorld::Terms(job, 0, 0.2, 4 * kGiB, 4 * kGiB);
    terms.uid = uid;
    return world_->Add(terms).folder;
  };
  FakeProcess first(add(1, 0));
  ASSERT_TRUE(Eventually([&] { return first.is_up(); }));
  const Bytes outside(kGiB);
  ASSERT_TRUE(gpu_->AddProcess(0, ::getpid(), outside));
  ASSERT_TRUE(Eventually([&] { return used(1) == outside; }));
  ASSERT_TRUE(gpu_->RemoveProcess(0, ::getpid()));
  FakeProcess same(add(2, 0));
  ASSERT_TRUE(Eventually([&] { return same.is_up(); }));
  EXPECT_GT(same.page->processes[same.slot].residual[0], std::uint64_t{kGiB});
  constexpr uid_t kOther = 65534;
  const std::string folder = add(3, kOther);
  ASSERT_EQ(::chmod(world_->directory.c_str(), 0711), 0);
  ASSERT_EQ(::chmod((folder + "/" + share::kLinkSocket).c_str(), 0666), 0);
  EXPECT_EQ(InChild([&] {
              // Otherwise its files in /proc belong to root, and the keeper on an older kernel takes it for root's.
              if (::setuid(kOther) != 0 || ::prctl(PR_SET_DUMPABLE, 1) != 0) return 2;
              FakeProcess other(folder);
              if (!Eventually([&] { return other.is_up(); })) return 3;
              return other.page->processes[other.slot].residual[0] == 0 ? 0 : 4;
            }),
            0);
}

}  // namespace escape_test
}  // namespace divvy::keeper
