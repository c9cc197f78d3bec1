#include "cli/shims/slurm_look/slurm_teams.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy::cli::slurm {
namespace slurm_teams_test {

wire::TeamsView SomeTeams() {
  wire::TeamsView view;
  wire::TeamView vision;
  vision.name = "vision";
  vision.weight = 3;
  vision.limit = 6;
  vision.users = {"ada", "grace"};
  vision.budget_gpu_hours = 100;
  vision.used_gpu_hours = 2;
  wire::TeamView faces;
  faces.name = "faces";
  faces.parent = "vision";
  faces.depth = 1;
  faces.groups = {"faces-people"};
  view.teams = {vision, faces};
  wire::TeamView ada;
  ada.name = "ada";
  ada.gpu_limit = 4;
  ada.running_limit = 8;
  ada.used_gpu_hours = 2;
  view.users = {ada};
  view.members = {{"vision", "ada", 1.5, 0}, {"faces", "ada", 0.5, 0}, {"", "linus", 1, 0}};
  return view;
}

const TeamScene kLinus = {.user = "linus", .groups = {"faces-people"}, .owner = "root", .host = "box"};

std::string Show(TeamEntity entity, const std::string& fields, const wire::TeamsView& teams = SomeTeams()) {
  std::vector<std::string> names;
  for (const std::string_view name : Split(fields, ',')) names.emplace_back(name);
  const auto text = FormatTeams(TeamRows(entity, teams, kLinus), names, {.delimiter = "|", .has_header = false});
  return text ? *text : "ERROR " + text.error().message;
}

TEST(Sacctmgr, TeamsAreAccountsAndTheirMembersAssociations) {
  EXPECT_EQ(Show(TeamEntity::kAccount, "account,org"), "root|root\nvision|vision\nfaces|vision\n");
  EXPECT_EQ(Show(TeamEntity::kAssociation, "Cluster,Account,User,Share,GrpTRES,MaxJobs,parent"),
            "divvy|root||1|||\n"
            "divvy|root|root|1|||\n"
            "divvy|vision||3|gres/gpu=6||root\n"
            "divvy|vision|ada|1|gres/gpu=4|8|\n"
            "divvy|vision|grace|1|||\n"
            "divvy|faces||1|||vision\n"
            "divvy|faces|linus|1|||\n");
  EXPECT_EQ(Show(TeamEntity::kUser, "user,defaulta,admin"),
            "ada|vision|None\ngrace|vision|None\nlinus|faces|None\nroot|root|Administrator\n");
}

TEST(Sacctmgr, WithoutTeamsEveryUserBelongsToTheRootAccount) {
  EXPECT_EQ(Show(TeamEntity::kAssociation, "account,user,qos", {}),
            "root||normal\nroot|linus|normal\nroot|root|normal\n");
  EXPECT_EQ(Show(TeamEntity::kCluster, "cluster,controlhost", {}), "divvy|box\n");
  EXPECT_EQ(Show(TeamEntity::kQos, "name", {}), "normal\n");
}

TEST(Sacctmgr, DefaultFieldsAreKnownAndUnknownFieldsRefused) {
  for (const TeamEntity entity : {TeamEntity::kUser, TeamEntity::kAccount, TeamEntity::kAssociation,
                                  TeamEntity::kCluster, TeamEntity::kQos, TeamEntity::kTres}) {
    EXPECT_FALSE(Show(entity, std::string(TeamFieldsOf(entity, true))).starts_with("ERROR"));
  }
  EXPECT_EQ(Show(TeamEntity::kUser, "nonsense"), "ERROR Unknown field 'nonsense'");
  const auto table = FormatTeams(TeamRows(TeamEntity::kUser, {}, kLinus), {"user%6", "admin"}, {});
  ASSERT_TRUE(table);
  EXPECT_EQ(*table, "  User     Admin \n------ --------- \n linus      None \n  root Administ+ \n");
  EXPECT_TRUE(TeamEntityOf("assoc"));
  EXPECT_FALSE(TeamEntityOf("wckey"));
}

TEST(Sshare, SharesAndUsageOfSiblingsAddUp) {
  const auto text = FormatShares(ShareRows(SomeTeams(), kLinus),
                                 {"account", "user", "rawshares", "normshares", "rawusage", "fairshare"},
                                 {.delimiter = "|", .has_header = false});
  ASSERT_TRUE(text);
  EXPECT_EQ(*text,
            "root|||0.000000|10800|\n"
            " root|linus|1|0.500000|3600|0.629961\n"
            " root|root|1|0.500000|0|1.000000\n"
            " vision||3|1.000000|7200|\n"
            "  vision|ada|1|0.500000|5400|0.500000\n"
            "  vision|grace|1|0.500000|0|1.000000\n"
            "  faces||1|1.000000|1800|\n"
            "   faces|ada|1|0.500000|1800|0.793701\n"
            "   faces|linus|1|0.500000|0|1.000000\n");
}

}  // namespace slurm_teams_test
}  // namespace divvy::cli::slurm
