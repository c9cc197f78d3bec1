// Kills the keeper and tenants with kill -9 at random moments of moves, parking and waking.
#include <gtest/gtest.h>

#include <random>

#include "keeper_real_world.h"
#include "wire/messages/share_codec.h"

namespace divvy::keeper {
namespace keeper_chaos_test {

TEST(KeeperChaos, AKeeperKilledAtAnyMomentIsReplaced) {
  RealWorld world("2xH100-80GB");
  std::mt19937 random(static_cast<unsigned>(Rounds(1)));
  const auto first = world.Add(KeeperWorld::Terms(1, 0, 0.5, 4 * kGiB, 8 * kGiB));
  auto steady = world.Burn(first, "steady",
                           {"--vram", "32M", "--check", "--gpu-seconds", "100000", "--kernel", "1ms", "--seed", "3"});
  ASSERT_TRUE(steady->Says("ready")) << steady->Output();
  const auto second = world.Add(KeeperWorld::Terms(2, 1, 0.5, 4 * kGiB, 8 * kGiB));
  std::unique_ptr<Program> fickle;
  const int rounds = Rounds(8);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    if (fickle == nullptr) {
      fickle = world.Burn(second, "fickle", {"--vram", "32M", "--gpu-seconds", "100000", "--kernel", "2ms"});
      ASSERT_TRUE(fickle->Says("ready")) << world.Told();
    }
    wire::KeeperRequest request;
    const int what = static_cast<int>(random() % 3);
    const auto state = world.node->StateOf(1);
    if (what == 0) request.park.emplace().job = JobId(1);
    if (what == 1 && !state.shares.empty()) request.move = wire::KeeperMove{JobId(1), {1 - state.shares[0].gpu}};
    if (what == 2) request.wake.emplace().job = JobId(1);
    world.node->Send(request);
    ::usleep(static_cast<unsigned>(random() % 60'000));
    if (random() % 4 == 0) fickle.reset();
    if (random() % 4 != 0) {
      world.keeper->End(SIGKILL);
      world.StartKeeper();
    }
    // The tenant is not stuck: it continues to compute, on whichever GPU it is.
    const double before = world.BusyOf(steady->pid());
    ASSERT_TRUE(Eventually([&] { return world.BusyOf(steady->pid()) > before + 0.005; }, 30s))
        << wire::EncodeShare(wire::KeeperLine{.state = world.node->State()}) << "\n"
        << world.Told();
    // No GPU has promised more memory than it has.
    std::map<int, Bytes> promised;
    for (const wire::KeptTenant& tenant : world.node->State().tenants) {
      for (const wire::KeptShare& share : tenant.shares) promised[share.gpu] += share.ceiling;
    }
    for (const auto& [gpu, bytes] : promised) EXPECT_LE(bytes, world.facts[static_cast<std::size_t>(gpu)].memory_total);
  }
  steady->End(SIGTERM);
  EXPECT_NE(steady->Output().find("errors=0"), std::string::npos) << steady->Output();
}

}  // namespace keeper_chaos_test
}  // namespace divvy::keeper
