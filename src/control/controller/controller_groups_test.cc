// Groups with a limit on how many of their jobs run at once. Each user has groups of their own.
#include <gtest/gtest.h>

#include "control/books/record_parts.h"
#include "control/controller/controller_test_world.h"

namespace divvy {
namespace controller_groups_test {

class Groups : public testing::Test {
 protected:
  Groups() {
    bo_.user = {1001, 1001, "bo"};
    admin_.user = {0, 0, "root"};
    admin_.is_admin = true;
  }
  JobId Submit(const Caller& caller, const std::string& group, int limit = 0) {
    JobSpec spec;
    spec.command = {"true"};
    spec.name = "job";
    spec.request.gpus = 1;
    spec.group = group;
    spec.group_limit = limit;
    const auto made = world_.controller_.Submit(std::move(spec), 0, caller, world_.now_, World::NoHistory());
    EXPECT_TRUE(made);
    return made ? made->id : JobId();
  }
  std::string SetLimit(const std::string& group, int limit, const Caller& caller) {
    const auto done = world_.controller_.SetGroupLimit(group, limit, caller, world_.now_);
    return done ? *done : done.error().message;
  }
  int LimitOf(const std::string& group, const std::string& user) {
    return world_.controller_.scheduler().group_limit(GroupNameOf(group, user));
  }
  JobState StateOf(JobId job) { return world_.controller_.Find(job)->state; }

  World world_{4};
  Caller bo_, admin_;
};

TEST_F(Groups, AnotherUsersGroupOfTheSameNameIsAnotherGroup) {
  const JobId first = Submit(world_.ada_, "nightly", 2), second = Submit(world_.ada_, "nightly");
  const JobId other = Submit(bo_, "nightly", 1), waits = Submit(bo_, "nightly");
  world_.Turn();
  EXPECT_TRUE(IsActive(StateOf(first)));
  EXPECT_TRUE(IsActive(StateOf(second))) << "bo's limit and bo's jobs do not count for ada";
  EXPECT_TRUE(IsActive(StateOf(other)));
  EXPECT_EQ(StateOf(waits), JobState::kQueued);
  EXPECT_EQ(SetLimit("nightly", 3, bo_), "at most 3 at once");
  EXPECT_EQ(LimitOf("nightly", "ada"), 2);
  EXPECT_EQ(LimitOf("nightly", "bo"), 3);
}

TEST_F(Groups, AUserCannotLimitTheGroupOfAnother) {
  Submit(world_.ada_, "nightly", 2);
  EXPECT_EQ(SetLimit("nightly", 1, bo_),
            "no queued or running job of yours is in group 'nightly'; divvy queue --group NAME lists those of a group");
  EXPECT_EQ(LimitOf("nightly", "ada"), 2);
}

TEST_F(Groups, AnAdministratorLimitsTheGroupsOfAllUsers) {
  Submit(world_.ada_, "nightly");
  EXPECT_EQ(SetLimit("nightly", 4, admin_), "at most 4 at once");
  Submit(bo_, "nightly");
  EXPECT_EQ(SetLimit("nightly", 2, admin_), "at most 2 at once, for each of ada and bo");
  EXPECT_EQ(LimitOf("nightly", "ada"), 2);
  EXPECT_EQ(LimitOf("nightly", "bo"), 2);
}

TEST_F(Groups, LimitsOfAnOlderReleaseBelongToTheUsersWithJobs) {
  Submit(world_.ada_, "nightly");
  Submit(bo_, "other");
  World again(4);
  again.controller_.Load(world_.controller_.live(), {{"group.nightly", "2"}, {"group.gone", "3"}}, 10, 2,
                         World::NoHistory());
  EXPECT_EQ(again.controller_.scheduler().group_limit(GroupNameOf("nightly", "ada")), 2);
  EXPECT_EQ(again.controller_.scheduler().group_limit(GroupNameOf("nightly", "bo")), 0);
  std::map<std::string, std::string> kept;
  for (const auto& [key, text] : again.Turn().batch.settings) kept[key] = text;
  EXPECT_EQ(kept.at("group of user.nightly of ada"), "2") << "and is stored so from now on";
  EXPECT_EQ(kept.at("group.nightly"), "");
  EXPECT_EQ(kept.at("group.gone"), "");
}

}  // namespace controller_groups_test
}  // namespace divvy
