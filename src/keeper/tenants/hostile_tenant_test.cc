// A job that tampers with its own page and link harms only itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "keeper/keeper_test_world.h"

namespace divvy::keeper {
namespace hostile_tenant_test {

/// A second tenant on the same GPU, which must not be affected.
struct Beside : KeeperWorld {
  Beside() : KeeperWorld(1) {
    hostile_folder = Add(Terms(1, 0, 0.5, 4 * kGiB, 16 * kGiB)).folder;
    hostile = std::make_unique<FakeProcess>(hostile_folder);
    good = std::make_unique<FakeProcess>(Add(Terms(2, 0, 0.5, 8 * kGiB, 8 * kGiB)).folder);
    EXPECT_TRUE(Eventually([&] { return hostile->is_up() && good->is_up(); }));
  }
  void ExpectGoodIsServed() {
    EXPECT_TRUE(good->Allocate(8 * kGiB));
    std::atomic<bool> is_over{false};
    std::thread worker([&] { good->Work(1ms, is_over); });
    EXPECT_TRUE(Eventually([&] { return good->worked > 50'000'000; }));
    is_over = true;
    worker.join();
    good->Free(8 * kGiB);
  }
  std::string hostile_folder;
  std::unique_ptr<FakeProcess> hostile;
  std::unique_ptr<FakeProcess> good;
};

TEST(HostileTenant, ATruncatedPageCrashesNoKeeper) {
  Beside world;
  ASSERT_EQ(::truncate((world.hostile_folder + "/page").c_str(), 0), 0);
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).unmovable == "its shared memory page was overwritten"; }));
  world.ExpectGoodIsServed();
  EXPECT_EQ(world.Command(1, "remove"), "");
  // This test's process must not touch the truncated mapping.
  ::mmap(world.hostile->page, sizeof(share::Page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
         0);
}

TEST(HostileTenant, ImpossibleNumbersAreIgnored) {
  Beside world;
  share::PageProcess& words = world.hostile->page->processes[world.hostile->slot];
  words.used[0] = ~std::uint64_t{0};
  words.residual[0] = ~std::uint64_t{0};
  world.hostile->page->devices[0].ceiling = ~std::uint64_t{0};
  world.hostile->page->device_count = 4'000'000;
  world.hostile->Say(share::Word::kWant, 0, ~std::uint64_t{0}, 9);
  world.ExpectGoodIsServed();
  EXPECT_LE(world.node->StateOf(1).shares.at(0).used, Bytes(8 * kGiB));
}

TEST(HostileTenant, ALockThatIsNeverReleasedBlocksNoOther) {
  Beside world;
  ASSERT_TRUE(world.hostile->Allocate(10 * kGiB));
  world.hostile->Free(10 * kGiB);
  ASSERT_EQ(share::LockPage(*world.hostile->page, share::LockedBySlot(world.hostile->slot)), 0);
  world.ExpectGoodIsServed();
}

TEST(HostileTenant, InvalidMessagesCloseOnlyTheirConnection) {
  Beside world;
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const Descriptor link(Dial(world.hostile_folder + "/link", SOCK_SEQPACKET));
    ASSERT_TRUE(link.is_open());
    share::Message hello{};
    hello.word = round % 3 == 0 ? static_cast<share::Word>(random()) : share::Word::kHello;
    hello.process = static_cast<std::uint32_t>(random());
    ::send(link.get(), &hello, sizeof hello, MSG_NOSIGNAL);
    for (int i = 0; i < 20; ++i) {
      share::Message message{};
      for (std::size_t at = 0; at < sizeof message; ++at)
        reinterpret_cast<unsigned char*>(&message)[at] = static_cast<unsigned char>(random());
      message.word = static_cast<share::Word>(random() % 40);
      message.device = static_cast<std::uint32_t>(random() % 3);
      ::send(link.get(), &message, random() % 8 == 0 ? 7 : sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  world.ExpectGoodIsServed();
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes <= 1; }));
}

/// A link of a process that never reads.
Descriptor MuteLink(const std::string& folder) {
  Descriptor link(Dial(folder + "/link", SOCK_SEQPACKET));
  share::Message message{};
  message.word = share::Word::kHello;
  message.process = share::kNoSlot;
  ::send(link.get(), &message, sizeof message, MSG_NOSIGNAL);
  return link;
}

TEST(HostileTenant, AClientThatSendsMuchAndReadsNothingIsDropped) {
  Beside world;
  const Descriptor link = MuteLink(world.hostile_folder);
  ASSERT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 2; }));
  share::Message message{};
  message.word = share::Word::kWant;
  message.bytes = 1;
  bool is_dropped = false;
  for (int i = 0; i < 200'000 && !is_dropped; ++i)
    is_dropped = ::send(link.get(), &message, sizeof message, MSG_NOSIGNAL) < 0;
  EXPECT_TRUE(is_dropped);
  EXPECT_TRUE(Eventually([&] { return world.node->StateOf(1).processes == 1; }));
  world.ExpectGoodIsServed();
}

TEST(HostileTenant, EachLoopIterationHandlesALimitedNumberOfMessages) {
  std::string name = testing::TempDir() + "keeper-XXXXXX";
  const std::string directory = ::mkdtemp(name.data());
  FolderRemover remover;
  const std::unique_ptr<EventLoop> loop = *EventLoop::Make();
  std::vector<TenantDevice> devices(1);
  const std::unique_ptr<Tenant> tenant =
      *Tenant::Create(*loop, remover, directory, {1, 1}, ::getuid(), ::getgid(), devices);
  int came = 0;
  int heard_now = 0;
  int heard_at_most = 0;
  int heard = 0;
  tenant->Listen({[&](Slot) { ++came; }, [&](Slot, const share::Message&) { ++heard_now; }, [](Slot) {}});
  std::vector<Descriptor> links;
  int said = 0;
  for (int i = 0; i < 50; ++i) links.push_back(MuteLink(tenant->folder()));
  loop->Run([&] {
    tenant->BeginTurn();
    if (came == 50) loop->Stop();
  });
  share::Message message{};
  message.word = share::Word::kWake;
  for (const Descriptor& link : links) {
    while (::send(link.get(), &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) ++said;
  }
  ASSERT_GT(said, 300);
  loop->Run([&] {
    tenant->BeginTurn();
    heard += heard_now;
    heard_at_most = std::max(heard_at_most, std::exchange(heard_now, 0));
    if (heard == said) loop->Stop();
  });
  EXPECT_EQ(heard_at_most, 64);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
}

TEST(HostileTenant, GarbageInThePageIsTolerated) {
  Beside world;
  std::mt19937_64 random(11);
  auto* bytes = reinterpret_cast<unsigned char*>(world.hostile->page);
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 2'000; ++i) bytes[random() % sizeof(share::Page)] = static_cast<unsigned char>(random());
    world.hostile->Say(share::Word::kAsk);
    world.hostile->Say(share::Word::kWant, 0, random(), random());
  }
  world.ExpectGoodIsServed();
}

}  // namespace hostile_tenant_test
}  // namespace divvy::keeper
