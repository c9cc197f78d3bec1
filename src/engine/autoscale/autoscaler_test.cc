#include "engine/autoscale/autoscaler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

namespace divvy::autoscale {
namespace autoscaler_test {

using std::chrono::seconds;

/// A service whose replicas are ready `start_time` after they were wanted. One observation every two seconds.
class ServiceWorld {
 public:
  explicit ServiceWorld(const Settings& settings, int ready = 0, Duration start_time = seconds(10))
      : scaler_(settings), ready_(ready), start_time_(start_time) {
    EXPECT_TRUE(CheckSettings(settings));
  }
  Decision Observe(std::optional<double> load) {
    now_ += seconds(2);
    while (!starts_.empty() && *starts_.begin() <= now_) {
      starts_.erase(starts_.begin());
      ++ready_;
    }
    const Decision decision = scaler_.Observe({now_, load, ready_, static_cast<int>(starts_.size())});
    for (int present = replicas(); present < decision.replicas; ++present) starts_.insert(now_ + start_time_);
    for (int present = replicas(); present > decision.replicas; --present) {
      if (!starts_.empty()) starts_.erase(std::prev(starts_.end()));
      else --ready_;
    }
    if (!decision.reason.empty()) ++changes_;
    return decision;
  }
  /// The decision after `duration` of the same load.
  Decision Hold(double load, Duration duration) {
    Decision last;
    for (const Time end = now_ + duration; now_ < end;) last = Observe(load);
    return last;
  }
  int replicas() const { return ready_ + static_cast<int>(starts_.size()); }
  int ready() const { return ready_; }
  int changes() const { return changes_; }

 private:
  Autoscaler scaler_;
  int ready_;
  Duration start_time_;
  std::multiset<Time> starts_;
  Time now_ = Time(std::chrono::hours(500'000));
  int changes_ = 0;
};

Settings Usual() {
  Settings settings;
  settings.target = 4;
  settings.max = 20;
  return settings;
}

TEST(Autoscaler, TheFirstRequestStartsOneReplicaAtOnce) {
  ServiceWorld world(Usual());
  world.Hold(0, seconds(60));
  EXPECT_EQ(world.replicas(), 0);
  Settings slow = Usual();
  slow.up_delay = seconds(30);
  ServiceWorld delayed(slow);
  const Decision first = delayed.Observe(1);
  EXPECT_EQ(first.replicas, 1);
  EXPECT_EQ(first.reason, "0 -> 1: load 1 over 60 s, target 4");
}

TEST(Autoscaler, FollowsASteadyLoad) {
  ServiceWorld world(Usual(), 1);
  EXPECT_EQ(world.Hold(22, seconds(120)).replicas, 6);
}

TEST(Autoscaler, ExactMultiplesDoNotFlap) {
  ServiceWorld world(Usual(), 4);
  for (int i = 0; i < 600; ++i) world.Observe(16 + (i % 2 == 0 ? 0.1 : -0.1));
  EXPECT_EQ(world.replicas(), 4);
  EXPECT_EQ(world.changes(), 0);
}

TEST(Autoscaler, ABurstPanicsAndNothingShrinksUntilItIsOver) {
  ServiceWorld world(Usual(), 2);
  world.Hold(6, seconds(120));
  Decision burst;
  for (int i = 0; i < 3; ++i) burst = world.Observe(60);
  EXPECT_TRUE(burst.is_panicking);
  EXPECT_EQ(burst.replicas, 15);
  EXPECT_TRUE(world.Hold(4, seconds(50)).is_panicking);
  EXPECT_EQ(world.replicas(), 15);
  EXPECT_FALSE(world.Hold(4, seconds(30)).is_panicking);
}

TEST(Autoscaler, ALowerLoadMustLastBeforeReplicasStopByHalves) {
  ServiceWorld world(Usual(), 16);
  world.Hold(64, seconds(400));
  EXPECT_EQ(world.Hold(4, seconds(280)).replicas, 16);
  world.Hold(4, seconds(80));
  EXPECT_LT(world.replicas(), 16);
  EXPECT_GE(world.replicas(), 8) << "one decision stops at most half";
  world.Hold(4, seconds(2400));
  EXPECT_EQ(world.replicas(), 1);
}

TEST(Autoscaler, AShortDipStopsNothing) {
  ServiceWorld world(Usual(), 8);
  world.Hold(32, seconds(400));
  world.Hold(0, seconds(120));
  EXPECT_EQ(world.Hold(32, seconds(120)).replicas, 8);
  EXPECT_EQ(world.changes(), 0);
}

TEST(Autoscaler, TheLastReplicaStopsAfterTenMinutesWithoutLoad) {
  ServiceWorld world(Usual(), 1);
  world.Observe(1);
  EXPECT_EQ(world.Hold(0, seconds(590)).replicas, 1);
  EXPECT_EQ(world.Hold(0, seconds(20)).replicas, 0);
  Settings kept = Usual();
  kept.min = 1;
  ServiceWorld minimum(kept, 1);
  EXPECT_EQ(minimum.Hold(0, seconds(3600)).replicas, 1);
}

TEST(Autoscaler, WithoutAnObservationNothingChanges) {
  ServiceWorld world(Usual(), 3);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(world.Observe(std::nullopt).replicas, 3);
  EXPECT_EQ(world.Observe(std::nan("")).replicas, 3);
  EXPECT_EQ(world.Observe(-1).replicas, 3);
}

TEST(Autoscaler, StaysWithinItsBounds) {
  Settings settings = Usual();
  settings.min = 2;
  settings.max = 5;
  ServiceWorld world(settings);
  const Decision least = world.Observe(0);
  EXPECT_EQ(least.replicas, 2);
  EXPECT_EQ(least.reason, "0 -> 2: at least 2");
  EXPECT_EQ(world.Hold(1000, seconds(60)).replicas, 5);
}

TEST(Autoscaler, AnUpDelayWaitsUnlessThereIsABurst) {
  Settings settings = Usual();
  settings.up_delay = seconds(30);
  ServiceWorld world(settings, 4);
  world.Hold(16, seconds(120));
  EXPECT_EQ(world.Hold(24, seconds(20)).replicas, 4);
  EXPECT_GE(world.Hold(24, seconds(90)).replicas, 5);
}

TEST(Autoscaler, WrongSettingsAreRefusedInOneSentence) {
  Settings settings = Usual();
  settings.min = 9;
  settings.max = 8;
  EXPECT_EQ(CheckSettings(settings).error().message,
            "replicas 9..8 are not allowed: use MIN..MAX with 0 <= MIN <= MAX <= 10000, such as --replicas 0..8");
  settings = Usual();
  settings.target = 0;
  EXPECT_FALSE(CheckSettings(settings));
  settings = Usual();
  settings.panic_window = seconds(90);
  EXPECT_FALSE(CheckSettings(settings));
}

/// A day in two hours: a factor of 20 between night and peak, with sudden rises by half. The capacity is short only in
/// the seconds after a rise, and the number of replicas changes seldom.
TEST(Autoscaler, FollowsATraceWithAFactorOfTwenty) {
  Settings settings = Usual();
  settings.max = 40;
  settings.down_delay = seconds(120);
  ServiceWorld world(settings, 1, seconds(4));
  int short_of = 0, ticks = 0;
  double used = 0, needed = 0;
  std::uint64_t state = 1;
  for (int second = 0; second < 7200; second += 2, ++ticks) {
    const double day = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * second / 7200);
    double load = 5 + 95 * day;
    if (second % 1800 >= 900 && second % 1800 < 1020) load *= 1.5;
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    load *= 0.9 + 0.2 * static_cast<double>(state >> 33) / static_cast<double>(1ULL << 31);
    world.Observe(load);
    if (world.ready() * settings.target < load * 0.8) ++short_of;
    used += world.ready();
    needed += load / settings.target;
  }
  EXPECT_LT(short_of, ticks / 50) << "of " << ticks;
  EXPECT_LT(used / needed, 1.6) << "replicas beside those that the load needs";
  EXPECT_LT(world.changes(), 250);
}

}  // namespace autoscaler_test
}  // namespace divvy::autoscale
