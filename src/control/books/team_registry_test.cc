#include "control/books/team_registry.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy {
namespace team_registry_test {

TeamChange Named(const std::string& name, std::optional<double> quota = {}, std::optional<double> limit = {}) {
  TeamChange change;
  change.name = name;
  change.is_new = true;
  change.quota = quota;
  change.limit = limit;
  return change;
}

TeamChange Below(const std::string& parent, TeamChange change) {
  change.parent = parent;
  return change;
}

TeamChange Again(TeamChange change) {
  change.is_new = false;
  return change;
}

TeamChange With(std::vector<std::string> users, TeamChange change) {
  change.add_users = std::move(users);
  return change;
}

std::string ErrorOf(const auto& result) { return result ? "" : result.error().message; }

TeamRegistry::Person Ada(std::vector<std::string> groups = {}) { return {"ada", std::move(groups), false}; }

TEST(TeamRegistry, ParentsComeBeforeTheirChildren) {
  TeamRegistry registry;
  ASSERT_EQ(ErrorOf(registry.Set(Named("zoo", 8))), "");
  ASSERT_EQ(ErrorOf(registry.Set(Below("zoo", Named("apes", 2, 4)))), "");
  ASSERT_EQ(ErrorOf(registry.Set(Named("bees"))), "");
  const auto specs = registry.Specs();
  ASSERT_EQ(specs.size(), 3u);
  EXPECT_EQ(specs[0].name, "bees");
  EXPECT_EQ(specs[0].quota_parts, kNoBound);
  EXPECT_EQ(specs[1].name, "zoo");
  EXPECT_EQ(specs[2].name, "apes");
  EXPECT_EQ(specs[2].parent, 2u);
  EXPECT_EQ(specs[2].quota_parts, 2 * placement::kGpuParts);
  EXPECT_EQ(specs[2].limit_parts, 4 * placement::kGpuParts);
  EXPECT_EQ(registry.IndexOf("apes"), 3u);
  EXPECT_EQ(registry.IndexOf("nobody"), core::kRootTeam);
}

TEST(TeamRegistry, EachInvalidFieldIsRefusedByName) {
  TeamRegistry registry;
  ASSERT_TRUE(registry.Set(Named("vision", 4, 6)));
  ASSERT_TRUE(registry.Set(Below("vision", Named("faces", 2))));
  const TeamRegistry before = registry;
  const std::vector<std::pair<TeamChange, std::string>> refused = {
      {Named("vision"), "there is a team vision already; divvy teams set changes it"},
      {Named("a b"), "'a b' is not a valid name of a team; write letters, digits, '.', '_' and '-', 64 at most"},
      {Named("nlp", 4, 2), "team nlp: its limit of 2 GPUs is below its quota of 4 GPUs"},
      {Named("nlp", -1), "a quota is a number from 0 to 1000000000"},
      {Below("sound", Named("nlp")), "team nlp: there is no team sound to be its parent; divvy teams lists them"},
      {Below("vision", Named("nlp", 5)), "team nlp: its quota of 5 GPUs is above the quota of vision, 4 GPUs"},
      {Below("faces", Again(Named("vision"))), "team vision would be its own ancestor: its parent faces is below it"},
      {Again(Named("vision", 1)), "team vision: team faces below it has more; lower the quota or limit there first"},
      {Again(Named("sound")), "there is no team sound; divvy teams add sound creates it"},
  };
  for (const auto& [change, message] : refused) EXPECT_EQ(ErrorOf(registry.Set(change)), message);
  EXPECT_EQ(registry.teams(), before.teams());
  EXPECT_EQ(ErrorOf(registry.Remove("vision")), "team vision has team faces below it; remove or move that first");
  EXPECT_EQ(ErrorOf(registry.Remove("sound")), "there is no team sound");
  EXPECT_EQ(ErrorOf(registry.Remove("faces")), "");
  EXPECT_EQ(ErrorOf(registry.Remove("vision")), "");
}

TEST(TeamRegistry, IsRestoredFromStoredTexts) {
  TeamRegistry registry;
  TeamChange change = With({"ada", "*"}, Named("vision", 4, 6.5));
  change.add_groups = {"cv"};
  change.weight = 3;
  change.priority = -2;
  change.caps.running = 5;
  change.caps.queued = 0;
  change.caps.gpu_hours = 100.25;
  change.caps.cost = 2000;
  change.caps.period = "week";
  const auto vision = registry.Set(change);
  const auto faces = registry.Set(Below("vision", Named("faces")));
  UserChange user;
  user.user = "ada";
  user.team = "faces";
  user.gpus = 3;
  user.caps.running = 2;
  const auto ada = registry.SetUser(user);
  const auto quotas = registry.SetQuotas(true);
  ASSERT_TRUE(vision && faces && ada && quotas);
  TeamRegistry again;
  for (const auto& [key, text] : {*faces, *ada, *quotas, *vision}) EXPECT_TRUE(again.LoadSetting(key, text));
  EXPECT_TRUE(again.Settle().empty());
  EXPECT_EQ(again.teams(), registry.teams());
  EXPECT_EQ(again.users(), registry.users());
  EXPECT_TRUE(again.are_quotas_on());
  EXPECT_EQ(again.IndexOf("faces"), 2u);
  EXPECT_FALSE(again.LoadSetting("group.sweep", "4"));
}

TEST(TeamRegistry, AUsersGpuCapIsAWholeNumber) {
  TeamRegistry registry;
  UserChange user;
  user.user = "ada";
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{1'000'001}}) {
    user.gpus = wrong;
    EXPECT_EQ(ErrorOf(registry.SetUser(user)),
              "the limit on GPUs at once is a whole number from 0 to 1000000; without one there is no limit");
  }
  EXPECT_TRUE(registry.users().empty());
  user.gpus = 4;
  ASSERT_EQ(ErrorOf(registry.SetUser(user)), "");
  EXPECT_EQ(registry.UserOf("ada")->gpus, 4);
  user.gpus.reset();
  user.clear = {"gpus"};
  ASSERT_EQ(ErrorOf(registry.SetUser(user)), "");
  EXPECT_EQ(registry.UserOf("ada")->gpus, std::nullopt);
}

TEST(TeamRegistry, ARowWhoseParentIsMissingBecomesATopLevelTeam) {
  TeamRegistry registry;
  registry.LoadSetting("team.faces", "parent vision\n");
  EXPECT_EQ(registry.Settle(),
            std::vector<std::string>{"team faces is a top-level team now: its parent vision is gone"});
  EXPECT_EQ(registry.Specs().size(), 1u);
}

TEST(TeamRegistry, WithoutTeamsATeamIsALabel) {
  const TeamRegistry registry;
  EXPECT_EQ(registry.TeamFor(Ada(), "anything").value(), "anything");
  EXPECT_EQ(registry.TeamFor(Ada(), "").value(), "");
}

TEST(TeamRegistry, AJobGoesToTheOnlyTeamOfItsUserOrToTheirDefault) {
  TeamRegistry registry;
  ASSERT_TRUE(registry.Set(With({"ada"}, Named("nlp"))));
  EXPECT_EQ(registry.TeamFor(Ada(), "").value(), "nlp");
  TeamChange vision = Named("vision");
  vision.add_groups = {"cv"};
  ASSERT_TRUE(registry.Set(vision));
  EXPECT_EQ(registry.TeamFor(Ada(), "").value(), "nlp");
  EXPECT_EQ(ErrorOf(registry.TeamFor(Ada({"cv"}), "")),
            "ada is in the teams nlp, vision; choose the team whose share this job uses: --team nlp");
  EXPECT_EQ(registry.TeamFor(Ada({"cv"}), "vision").value(), "vision");
  EXPECT_EQ(ErrorOf(registry.TeamFor(Ada(), "vision")), "ada is not in team vision; yours: nlp");
  EXPECT_EQ(ErrorOf(registry.TeamFor(Ada(), "visoin")), "there is no team visoin; yours: nlp");
  UserChange change;
  change.user = "ada";
  change.team = "vision";
  ASSERT_TRUE(registry.SetUser(change));
  EXPECT_EQ(registry.TeamFor(Ada(), "").value(), "vision");
  EXPECT_EQ(registry.TeamFor({"eve", {}, false}, "").value(), "") << "quotas are off";
  EXPECT_EQ(registry.TeamFor({"root", {}, true}, "nlp").value(), "nlp");
  EXPECT_EQ(ErrorOf(registry.Remove("vision")), "team vision is the default of user ada; change that first");
}

TEST(TeamRegistry, WithQuotasOnAMissingRowGivesNoAccessAndZeroBlocks) {
  TeamRegistry registry;
  ASSERT_TRUE(registry.Set(With({"ada"}, Named("none"))));
  ASSERT_TRUE(registry.Set(With({"ada"}, Named("zero", 0))));
  ASSERT_TRUE(registry.Set(With({"ada"}, Named("some", 4))));
  ASSERT_TRUE(registry.Set(Below("some", With({"ada"}, Named("inner")))));
  ASSERT_TRUE(registry.TeamFor(Ada(), "none"));
  EXPECT_EQ(registry.Specs()[0].limit_parts, kNoBound);
  ASSERT_TRUE(registry.SetQuotas(true));
  EXPECT_EQ(ErrorOf(registry.TeamFor(Ada(), "none")),
            "team none has no quota, and while quotas are on, teams without a quota have no access");
  EXPECT_EQ(ErrorOf(registry.TeamFor(Ada(), "zero")), "team zero is blocked: its quota is 0");
  EXPECT_EQ(registry.TeamFor(Ada(), "some").value(), "some");
  EXPECT_EQ(registry.TeamFor(Ada(), "inner").value(), "inner") << "it is within the quota above it";
  EXPECT_TRUE(
      ErrorOf(registry.TeamFor({"eve", {}, false}, "")).starts_with("eve is in no team, and while quotas are on"));
  ASSERT_TRUE(registry.Set(Named("above")));
  ASSERT_TRUE(registry.Set(Below("above", Named("below", 1))));
  EXPECT_NE(registry.BarOf("above"), "");
  EXPECT_EQ(registry.BarOf("below"), "");
  for (const core::TeamSpec& spec : registry.Specs()) {
    EXPECT_EQ(spec.limit_parts == 0, spec.name == "none" || spec.name == "zero") << spec.name;
  }
}

TEST(TeamRegistry, CommandsCannotChangeTeamsOfTheFile) {
  TeamsFile file;
  file.are_quotas_on = true;
  TeamRow row;
  row.name = "vision";
  row.quota_milli = 4000;
  file.teams = {row};
  UserRow ada;
  ada.user = "ada";
  ada.team = "vision";
  file.users = {ada};
  TeamRegistry registry;
  ASSERT_TRUE(registry.AddFile(file));
  registry.LoadSetting("team.vision", "quota_milli 1000\n");
  registry.LoadSetting("teams.quotas", "");
  registry.Settle();
  EXPECT_EQ(registry.Find("vision")->quota_milli, 4000);
  EXPECT_TRUE(registry.are_quotas_on());
  const std::string there = " is set in divvy.toml; change it there and restart the daemon";
  EXPECT_EQ(ErrorOf(registry.Set(Again(Named("vision", 2)))), "team vision" + there);
  EXPECT_EQ(ErrorOf(registry.Remove("vision")), "team vision" + there);
  EXPECT_EQ(ErrorOf(registry.SetQuotas(false)), "whether quotas are on" + there);
  UserChange change;
  change.user = "ada";
  EXPECT_EQ(ErrorOf(registry.SetUser(change)), "user ada" + there);
  EXPECT_TRUE(registry.Set(Below("vision", Named("faces", 2)))) << "below it, commands may add";
}

TEST(TeamRegistry, AFileWithAnErrorIsRefusedAsAWhole) {
  TeamsFile file;
  TeamRow good, bad;
  good.name = "good";
  bad.name = "bad";
  bad.parent = "gone";
  file.teams = {good, bad};
  TeamRegistry registry;
  EXPECT_EQ(ErrorOf(registry.AddFile(file)),
            "team bad: there is no team gone to be its parent; divvy teams lists them");
  EXPECT_TRUE(registry.empty());
}

TEST(TeamRegistry, TheLongestMatchingModelNameSetsThePrice) {
  TeamsFile file;
  file.prices = {{"", 1000}, {"h100", 2500}, {"H100 NVL", 3000}};
  TeamRegistry registry;
  ASSERT_TRUE(registry.AddFile(file));
  EXPECT_EQ(registry.PriceOf("NVIDIA H100 80GB HBM3"), 2500);
  EXPECT_EQ(registry.PriceOf("NVIDIA H100 NVL"), 3000);
  EXPECT_EQ(registry.PriceOf("Tesla V100"), 1000);
}

}  // namespace team_registry_test
}  // namespace divvy
