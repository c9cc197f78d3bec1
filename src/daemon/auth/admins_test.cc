#include "daemon/auth/admins.h"

#include <gtest/gtest.h>

namespace divvy {
namespace admins_test {

/// A name service whose answers can change, and which counts its queries.
class World {
 public:
  Admins Make(Admins::Names names) {
    return Admins(std::move(names), [this](const User& user, const std::string& group) {
      ++asked_;
      return members_[group].contains(user.name);
    });
  }

  std::map<std::string, std::set<std::string>> members_;
  int asked_ = 0;
  Time now_ = Time(std::chrono::hours(500'000));
  User ada_{1000, 1000, "ada"};
  User bob_{1001, 1001, "bob"};
};

TEST(Admins, RootTheDaemonsUserAndNamedUsersNeedNoGroup) {
  World world;
  Admins admins = world.Make({{1000}, {"bob"}, {}});
  EXPECT_TRUE(admins.Contains({0, 0, "root"}, world.now_));
  EXPECT_TRUE(admins.Contains(world.ada_, world.now_));
  EXPECT_TRUE(admins.Contains(world.bob_, world.now_));
  EXPECT_FALSE(admins.Contains({1002, 1002, "eve"}, world.now_));
  EXPECT_EQ(world.asked_, 0);
}

TEST(Admins, MembersOfAnyAdministratorGroupAreAdministrators) {
  World world;
  world.members_["gpu-admins"] = {"ada"};
  Admins admins = world.Make({{}, {}, {"gpu-admins", "wheel"}});
  EXPECT_TRUE(admins.Contains(world.ada_, world.now_));
  EXPECT_FALSE(admins.Contains(world.bob_, world.now_));
}

TEST(Admins, AMembershipIsCachedForAWhile) {
  World world;
  world.members_["wheel"] = {"ada"};
  Admins admins = world.Make({{}, {}, {"wheel"}});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(admins.Contains(world.ada_, world.now_));
  EXPECT_EQ(world.asked_, 1);
  world.members_["wheel"] = {"bob"};
  world.now_ += std::chrono::minutes(1);
  EXPECT_FALSE(admins.Contains(world.ada_, world.now_));
  EXPECT_TRUE(admins.Contains(world.bob_, world.now_));
}

}  // namespace admins_test
}  // namespace divvy
