#include "engine/placement/mig.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace divvy::placement {
namespace mig_test {

using enum MigProfile;
using List = std::vector<MigProfile>;

bool Holds(const List& list) { return ArrangeMig({}, list).has_value(); }

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

TEST(Mig, ProfileNamesDependOnTheMemoryOfTheGpu) {
  EXPECT_EQ(MigProfileFromName("1g.5gb", 40), k1g);
  EXPECT_EQ(MigProfileFromName("nvidia.com/mig-1g.10gb", 40), k1gWide);
  EXPECT_EQ(MigProfileFromName("1g.10gb", 80), k1g);
  EXPECT_EQ(MigProfileFromName("3g.40gb", 80), k3g);
  EXPECT_EQ(MigProfileFromName("7g.80gb", 80), k7g);
  EXPECT_EQ(MigProfileFromName("5g.40gb", 80), std::nullopt);
  EXPECT_EQ(MigProfileFromName("1g.7gb", 80), std::nullopt);
  EXPECT_EQ(MigProfileFromName("large", 80), std::nullopt);
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

TEST(Mig, ArrangesExactlyWhatCanBeArranged) {
  // Compares all lists of up to four profiles with a search over all orders and starts.
  const std::function<bool(const MigCut&, List)> can = [&](const MigCut& cut, List list) {
    if (list.empty()) return true;
    const MigProfile profile = list.back();
    list.pop_back();
    for (int start = 0; start < kMigMemorySlices; ++start) {
      if (!MigFitsAt(cut, profile, start)) continue;
      MigCut after = cut;
      MigTake(after, profile, start);
      if (can(after, list)) return true;
    }
    return false;
  };
  for (int code = 0; code < 6 * 6 * 6 * 6; ++code) {
    List list;
    for (int rest = code, i = 0; i < 4; ++i, rest /= 6) list.push_back(static_cast<MigProfile>(rest % 6));
    for (List part = list; !part.empty(); part.pop_back()) {
      const auto starts = ArrangeMig({}, part);
      ASSERT_EQ(starts.has_value(), can({}, part));
      if (!starts) continue;
      MigCut cut;
      for (std::size_t i = 0; i < part.size(); ++i) {
        ASSERT_TRUE(MigFitsAt(cut, part[i], (*starts)[i]));
        MigTake(cut, part[i], (*starts)[i]);
      }
      for (std::size_t i = 0; i < part.size(); ++i) MigRelease(cut, part[i], (*starts)[i]);
      ASSERT_EQ(cut, MigCut{});
    }
  }
}

}  // namespace mig_test
}  // namespace divvy::placement
