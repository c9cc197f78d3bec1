#include "engine/placement/mig.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace divvy::placement {
namespace mig_test {

using enum MigProfile;
using List = std::vector<MigProfile>;

// Tries all starts of the last profile, then of the one before it, and so on.
bool Holds(List list, const MigCut& cut = {}) {
  if (list.empty()) return true;
  const MigProfile profile = list.back();
  list.pop_back();
  for (int start = 0; start < kMigMemorySlices; ++start) {
    if (!MigFitsAt(cut, profile, start)) continue;
    MigCut after = cut;
    MigTake(after, profile, start);
    if (Holds(list, after)) return true;
    MigRelease(after, profile, start);
    EXPECT_EQ(after, cut);
  }
  return false;
}

TEST(Mig, AllowsTheCombinationsThatTheVendorLists) {
  EXPECT_TRUE(Holds(List(7, k1g)));
  EXPECT_FALSE(Holds(List(8, k1g)));
  EXPECT_TRUE(Holds({k2g, k2g, k2g, k1g}));
  EXPECT_FALSE(Holds({k2g, k2g, k2g, k2g}));
  EXPECT_TRUE(Holds({k3g, k3g}));
  EXPECT_FALSE(Holds({k3g, k3g, k1g}));  // Compute slices are left, memory slices are not.
  EXPECT_TRUE(Holds({k4g, k3g}));
  EXPECT_FALSE(Holds({k4g, k4g}));
  EXPECT_TRUE(Holds({k4g, k2g, k1g}));
  EXPECT_TRUE(Holds(List(4, k1gWide)));
  EXPECT_FALSE(Holds(List(5, k1gWide)));
  EXPECT_TRUE(Holds({k7g}));
  EXPECT_FALSE(Holds({k7g, k1g}));
}

// Visits every state that a sequence of valid cuts reaches.
void ForEachCut(const std::function<void(const MigCut&)>& look) {
  std::set<std::pair<int, int>> seen;
  std::vector<MigCut> open{MigCut{}};
  while (!open.empty()) {
    const MigCut cut = open.back();
    open.pop_back();
    if (!seen.emplace(cut.memory, cut.compute).second) continue;
    look(cut);
    for (int i = 0; i < kMigProfiles; ++i) {
      for (int start = 0; start < kMigMemorySlices; ++start) {
        const auto profile = static_cast<MigProfile>(i);
        if (!MigFitsAt(cut, profile, start)) continue;
        MigCut after = cut;
        MigTake(after, profile, start);
        open.push_back(after);
      }
    }
  }
}

int MostByTrying(const MigCut& cut, MigProfile profile) {
  int most = 0;
  for (int start = 0; start < kMigMemorySlices; ++start) {
    if (!MigFitsAt(cut, profile, start)) continue;
    MigCut after = cut;
    MigTake(after, profile, start);
    most = std::max(most, 1 + MostByTrying(after, profile));
  }
  return most;
}

TEST(Mig, RoomIsThatOfTheBestArrangementInEveryState) {
  int states = 0;
  ForEachCut([&](const MigCut& cut) {
    ++states;
    for (int i = 0; i < kMigProfiles; ++i) {
      EXPECT_EQ(MigRoom(cut, static_cast<MigProfile>(i)), MostByTrying(cut, static_cast<MigProfile>(i)));
    }
  });
  EXPECT_GT(states, 100);
}

TEST(Mig, NoInstanceBlocksALargerOneThatAnotherPlaceWouldAllow) {
  ForEachCut([](const MigCut& cut) {
    for (int i = 0; i < kMigProfiles; ++i) {
      const auto profile = static_cast<MigProfile>(i);
      const std::optional<int> chosen = ChooseMigStart(cut, profile);
      EXPECT_EQ(chosen.has_value(), MigRoom(cut, profile) > 0);
      if (!chosen) continue;
      MigCut after = cut;
      MigTake(after, profile, *chosen);
      for (int start = 0; start < kMigMemorySlices; ++start) {
        if (!MigFitsAt(cut, profile, start)) continue;
        MigCut other = cut;
        MigTake(other, profile, start);
        // From the largest profile down: the first difference in room decides.
        for (int larger = kMigProfiles - 1; larger >= 0; --larger) {
          const int ours = MigRoom(after, static_cast<MigProfile>(larger));
          const int theirs = MigRoom(other, static_cast<MigProfile>(larger));
          if (ours == theirs) continue;
          EXPECT_GT(ours, theirs) << "profile " << i << " at " << *chosen << " or " << start;
          break;
        }
      }
    }
  });
}

}  // namespace mig_test
}  // namespace divvy::placement
