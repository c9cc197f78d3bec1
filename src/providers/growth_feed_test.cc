#include "providers/growth_feed.h"

#include <gtest/gtest.h>

#include <set>

#include "control/controller/controller_machines_test_world.h"
#include "engine/growth/growth_text.h"

namespace divvy::providers {
namespace {

Provider Cloud(int gpus, std::string model = "H100-80GB") {
  Provider provider;
  provider.name = "cloud";
  NodeShape shape;
  shape.name = "big";
  shape.gpu_model = std::move(model);
  shape.gpus = gpus;
  shape.cpus = 64;
  shape.memory = Bytes(std::int64_t{512} << 30);
  shape.hourly = Money(24'000'000);
  shape.startup = 3min;
  provider.shapes = {shape};
  provider.limits.nodes = 4;
  return provider;
}

// A controller without nodes of its own, and one provider.
struct Growing : Machines {
  explicit Growing(Provider provider, int nodes = 0) : Machines(nodes, 8), provisioner({provider}) {
    controller_.SetOffers(OfferedNodes({provider}, {}));
  }

  growth::GrowthDecision Decide() {
    Turn();
    for (const auto& [id, record] : controller_.live()) {
      if (!unread.contains(id)) wishes.try_emplace(id);
    }
    feed = CollectGrowth(controller_, provisioner, memory, unused, wishes, now_);
    growth::GrowthDecision decision = growth::DecideGrowth(feed.input);
    EXPECT_EQ(growth::CheckGrowth(feed.input, decision), "");
    return decision;
  }
  std::vector<std::string> Why(const growth::GrowthDecision& decision, JobId job) const {
    const std::size_t demand = feed.demand_of.at(job);
    std::vector<std::string> lines = growth::VerdictText(feed.input, decision, demand);
    for (const auto& blocker : growth::WhyNoNode(feed.input, decision, demand))
      lines.push_back(growth::BlockerText(feed.input, feed.input.demands[demand], blocker));
    return lines;
  }
  // Requests a node, and lets its agent join.
  void Grow() {
    const auto names = provisioner.Request(
        {{"cloud", "big"}}, [this] { return "t" + std::to_string(++tokens); }, [](const std::string&) { return false; },
        now_);
    ASSERT_TRUE(names);
    Come(names->front(), 8);
    provisioner.OnJoined(names->front(), "", now_);
  }

  Provisioner provisioner;
  std::map<std::string, NodeMemory> memory;
  std::map<JobId, Unused> unused;
  std::map<JobId, GrowthWishes> wishes;
  std::set<JobId> unread;  // Jobs that `wishes` does not list.
  GrowthFeed feed;
  int tokens = 0;
};

TEST(GrowthFeed, JobsThatOnlyAnOfferedNodeCanRunAreAcceptedAndGetOne) {
  Growing world(Cloud(8));
  const JobId job = world.Submit(1);
  world.Submit(1, 7);
  const auto decision = world.Decide();
  EXPECT_EQ(decision.requests.size(), 1U);
  EXPECT_EQ(world.Why(decision, job).front(),
            "8 jobs will fit on a node that is requested now (cloud: 8x H100-80GB, 24.00/h) in 3 min");
}

TEST(GrowthFeed, RefusesAtSubmissionWhatNoShapeCanRun) {
  Growing world(Cloud(8));
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 9;
  const auto refused = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("a node of a provider could not run it either: asks for 9 GPUs on one node"),
            std::string::npos)
      << refused.error().message;
  spec.request.gpus = 1;
  spec.request.gpu_type = "a100";
  EXPECT_FALSE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
  spec.request.gpu_type = "h100";
  EXPECT_TRUE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
}

TEST(GrowthFeed, AModelIsRecognizedByThePiecesOfItsName) {
  const auto is_one = [](const char* configured, const char* model, int gigabytes = 0) {
    GpuFacts gpu;
    gpu.model = model;
    gpu.memory_total = Bytes(std::int64_t{gigabytes} << 30);
    return IsGpuOfModel(configured, gpu);
  };
  EXPECT_TRUE(is_one("V100-16GB", "Tesla V100-SXM2-16GB"));
  EXPECT_TRUE(is_one("V100-SXM2-16GB", "Tesla V100-SXM2-16GB"));
  EXPECT_FALSE(is_one("V100-32GB", "Tesla V100-SXM2-16GB"));
  EXPECT_TRUE(is_one("A100-80GB", "NVIDIA A100-SXM4-80GB"));
  EXPECT_TRUE(is_one("H100-80GB", "NVIDIA H100 80GB HBM3"));
  EXPECT_FALSE(is_one("A10-24GB", "NVIDIA A100-SXM4-80GB"));
  EXPECT_TRUE(is_one("T4-16GB", "Tesla T4", 15)) << "the name has no size";
  EXPECT_TRUE(is_one("RTX4090-24GB", "NVIDIA GeForce RTX 4090", 24));
  EXPECT_FALSE(is_one("RTX4090-24GB", "NVIDIA GeForce RTX 4090", 48));
  EXPECT_FALSE(is_one("T4-16GB", "Tesla P4", 16));
}

// Such a job would be accepted because of the shape, and would not start on its nodes.
TEST(GrowthFeed, AModelThatNoGpuTypeMatchesOnTheNodeIsAProblem) {
  const auto problem = [](const char* configured, const char* model) {
    GpuFacts gpu;
    gpu.model = model;
    return ModelProblem(configured, gpu);
  };
  EXPECT_EQ(problem("H100-80GB", "NVIDIA H100 80GB HBM3"), "");
  EXPECT_EQ(problem("V100-SXM2-16GB", "Tesla V100-SXM2-16GB"), "");
  EXPECT_EQ(problem("V100-32GB", "Tesla V100-SXM2-16GB"), "has GPUs of model Tesla V100-SXM2-16GB, not V100-32GB");
  EXPECT_EQ(problem("V100-16GB", "Tesla V100-SXM2-16GB"),
            "has GPUs of model Tesla V100-SXM2-16GB, which --gpu-type V100-16GB does not match, so jobs with it never "
            "start there; write gpu_model = \"Tesla V100-SXM2-16GB\" or let jobs request a shorter name");
}

TEST(GrowthFeed, RequestsTheNodesOfAGangAsOneSet) {
  Growing world(Cloud(8));
  world.SubmitGang(2, 8);
  const auto decision = world.Decide();
  ASSERT_EQ(decision.requests.size(), 2U);
  EXPECT_EQ(decision.requests[0].set, decision.requests[1].set);
}

TEST(GrowthFeed, CountsNodesOnTheirWay) {
  Growing world(Cloud(8));
  const JobId job = world.Submit(1);
  ASSERT_TRUE(world.provisioner.Request(
      {{"cloud", "big"}}, [] { return "t"; }, [](const std::string&) { return false; }, world.now_));
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(world.Why(decision, job).front(), "1 job will fit on a node that is on its way in 3 min");
}

TEST(GrowthFeed, JobsOfOneClassMayHaveDifferentWishes) {
  Growing world(Cloud(8));
  const JobId none = world.Submit(8), cheap = world.Submit(8), elsewhere = world.Submit(8), any = world.Submit(8);
  world.wishes[none].may_grow = false;
  world.wishes[cheap].max_hourly = Money(5'000'000);
  world.wishes[elsewhere].providers = {"lab"};
  const auto decision = world.Decide();
  ASSERT_EQ(decision.requests.size(), 1U);
  EXPECT_EQ(world.feed.demand_of.at(any), decision.requests.front().demand);
  EXPECT_EQ(world.Why(decision, none).back(), "the job waits for existing nodes only (--no-grow)");
  EXPECT_EQ(world.Why(decision, cheap).back(),
            "provider cloud: 1 node of shape big costs 24.00 per hour, but the job allows 5.00 (--max-price)");
  EXPECT_EQ(world.Why(decision, elsewhere).back(), "provider cloud: the job names other providers (--provider lab)");
}

TEST(GrowthFeed, NoNodeIsRequestedForAJobWhoseWishesAreNotKnown) {
  Growing world(Cloud(8));
  const JobId unread = world.Submit(8);
  world.unread.insert(unread);
  EXPECT_TRUE(world.Decide().requests.empty());
  const JobId any = world.Submit(8);
  const auto decision = world.Decide();
  ASSERT_EQ(decision.requests.size(), 1U);
  EXPECT_EQ(world.feed.demand_of.at(any), decision.requests.front().demand);
  EXPECT_FALSE(world.feed.input.demands[world.feed.demand_of.at(unread)].may_grow);
  world.unread.clear();
  EXPECT_EQ(world.Decide().requests.size(), 2U);
}

TEST(GrowthFeed, PricesThatAllowTheSameShapesAreOneDemand) {
  Growing world(Cloud(8));
  for (int i = 1; i <= 20; ++i) world.wishes[world.Submit(8)].max_hourly = Money(i * 1'000'000);
  for (int i = 24; i <= 40; ++i) world.wishes[world.Submit(8)].max_hourly = Money(i * 1'000'000);
  const auto decision = world.Decide();
  EXPECT_EQ(world.feed.input.demands.size(), 2U);
  EXPECT_EQ(decision.requests.size(), 4U);  // The provider's limit.
}

TEST(GrowthFeed, PricesOfGangsAreRoundedDownToThreeDigits) {
  Growing world(Cloud(8));
  const auto gang = [&world](std::int64_t micros) {
    const JobId job = world.SubmitGang(2, 8);
    world.wishes[job].max_hourly = Money(micros);
    return job;
  };
  const JobId exact = gang(48'000'000);
  for (int i = 0; i < 50; ++i) gang(48'000'001 + i);
  const JobId less = gang(47'990'000);
  const auto decision = world.Decide();
  EXPECT_EQ(world.feed.input.demands.size(), 2U);
  EXPECT_EQ(decision.requests.size(), 4U);  // The provider's limit: two of those that 48.00 are enough for.
  EXPECT_EQ(world.feed.demand_of.at(exact), decision.requests.front().demand);
  EXPECT_EQ(world.Why(decision, less).back(),
            "provider cloud: 2 nodes of shape big cost 48.00 per hour, but the job allows 47.90 (--max-price)");
}

// vision and speech are below research, which pays for both.
struct TeamsThatPay : Growing {
  TeamsThatPay() : Growing(Cloud(8)) {
    TeamsFile file;
    const auto add = [&file](std::string name, std::string parent, std::optional<std::int64_t> hour,
                             std::optional<std::int64_t> month) {
      TeamRow row;
      row.name = std::move(name);
      row.parent = std::move(parent);
      row.users = {"*"};
      row.nodes_per_hour_milli = hour;
      row.nodes_per_month_milli = month;
      row.is_from_file = true;
      file.teams.push_back(std::move(row));
    };
    add("research", "", 50'000, 1'000'000);
    add("vision", "research", 30'000, std::nullopt);
    add("speech", "research", std::nullopt, std::nullopt);
    EXPECT_TRUE(registry.AddFile(file));
  }
  void Request(const std::string& team) {
    EXPECT_TRUE(provisioner.Request(
        {{"cloud", "big"}}, [this] { return "t" + std::to_string(++tokens); }, [](const std::string&) { return false; },
        now_, team));
  }
  std::optional<TeamMoney> Find(std::string_view team) const {
    return TeamMoneyLeft(registry, TeamSpending(registry, provisioner, now_), team);
  }
  std::optional<Money> Left(std::string_view team) const {
    const auto money = Find(team);
    return money ? std::optional(money->left) : std::nullopt;
  }
  TeamRegistry registry;
};

TEST(TeamMoney, LimitsOfATeamAndOfThoseAboveItHold) {
  TeamsThatPay world;
  EXPECT_EQ(world.Left("vision"), Money(30'000'000));
  EXPECT_EQ(world.Left("speech"), Money(50'000'000));
  EXPECT_EQ(world.Left("unknown"), std::nullopt);
  world.Request("vision");
  EXPECT_EQ(world.Left("vision"), Money(6'000'000));
  EXPECT_EQ(world.Find("vision")->team, "vision");
  EXPECT_EQ(world.Left("speech"), Money(26'000'000));
  world.Request("speech");
  EXPECT_EQ(world.Left("vision"), Money(2'000'000));
  EXPECT_EQ(world.Find("vision")->team, "research");
  const auto spending = TeamSpending(world.registry, world.provisioner, world.now_);
  EXPECT_EQ(spending.at("research").hourly, Money(48'000'000));
  EXPECT_EQ(spending.at("vision").hourly, Money(24'000'000));
}

TEST(TeamMoney, TheRestOfAMonthMustLastForAnHour) {
  TeamsThatPay world;
  const std::string month = std::to_string(MonthOf(world.now_));
  EXPECT_TRUE(world.provisioner.LoadSetting("providers.team_spent.speech", month + " 990000000"));
  EXPECT_EQ(world.Left("vision"), Money(10'000'000));
  EXPECT_TRUE(world.provisioner.LoadSetting("providers.team_spent.speech", "1 990000000"));
  EXPECT_EQ(world.Left("vision"), Money(30'000'000));
}

TEST(GrowthFeed, WishesAreReadFromLabels) {
  const GrowthWishes wishes =
      GrowthWishesIn({{"divvy.no-grow", "yes"}, {"divvy.provider", "a,b"}, {"divvy.max-price", "3.5"}, {"other", "x"}});
  EXPECT_FALSE(wishes.may_grow);
  EXPECT_EQ(wishes.providers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(wishes.max_hourly, Money(3'500'000));
  EXPECT_EQ(GrowthWishesIn({}), GrowthWishes());
  // A label from the API that is no price allows no node, rather than any.
  EXPECT_EQ(GrowthWishesIn({{"divvy.max-price", "cheap"}}).max_hourly, Money());
}

TEST(GrowthFeed, ImaginedJobIsTheLastDemand) {
  Growing world(Cloud(8));
  world.Submit(8);
  JobSpec spec;
  spec.request.gpus = 4;
  spec.labels[std::string(kMaxPriceLabel)] = "30";
  world.Decide();
  const GrowthFeed feed = CollectGrowth(world.controller_, world.provisioner, world.memory, world.unused, world.wishes,
                                        world.now_, Imagined{JobId(1000), &spec, 3});
  ASSERT_EQ(feed.input.demands.size(), 2U);
  EXPECT_EQ(feed.input.demands.back().jobs, 3U);
  const growth::GrowthDecision decision = growth::DecideGrowth(feed.input);
  EXPECT_EQ(growth::VerdictText(feed.input, decision, 1).front(),
            "3 jobs will fit on a node that is requested now (cloud: 8x H100-80GB, 24.00/h) in 3 min");
}

TEST(GrowthFeed, LeavesOutJobsThatANodeWouldNotHelp) {
  Growing world(Cloud(8));
  const JobId held = world.Submit(1);
  ASSERT_TRUE(world.controller_.Hold(held, world.ada_, world.now_));
  JobSpec spec;
  spec.command = {"true"};
  spec.request.gpus = 1;
  spec.begin = world.now_ + 1h;
  ASSERT_TRUE(world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory()));
  EXPECT_TRUE(world.Decide().requests.empty());
  EXPECT_TRUE(world.feed.input.demands.empty());
}

TEST(GrowthFeed, UsesFreeNodesFirstAndReturnsIdleOnes) {
  Growing world(Cloud(8), 1);
  world.Grow();
  world.memory["cloud-1"].idle_since = world.now_;
  world.now_ += 2h;
  auto decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(world.feed.nodes[decision.returns[0].node], "cloud-1");
  // Both nodes are in use now.
  world.Submit(8);
  world.Submit(8);
  world.memory["cloud-1"].idle_since = kNever;
  decision = world.Decide();
  EXPECT_TRUE(decision.returns.empty());
  EXPECT_TRUE(decision.requests.empty());
}

TEST(GrowthFeed, ReturnsANodeThatTakesNoWorkButDoesNotPlanJobsThere) {
  Growing world(Cloud(8));
  world.Grow();
  world.memory["cloud-1"].idle_since = world.now_;
  world.Turn();
  NodeRow row = MachineRow("cloud-1", 8);
  row.work = NodeWork::kCordoned;
  row.reason = "a fan";
  world.controller_.OnNodeRow(row);
  world.now_ += 1min;
  const JobId job = world.Submit(1);
  auto decision = world.Decide();
  EXPECT_EQ(decision.requests.size(), 1U) << world.Why(decision, job).front();
  EXPECT_TRUE(decision.returns.empty());
  world.now_ += 2h;
  decision = world.Decide();
  ASSERT_EQ(decision.returns.size(), 1U);
  EXPECT_EQ(world.feed.nodes[decision.returns[0].node], "cloud-1");
}

TEST(GrowthFeed, ANodeWhoseAgentIsAwayStillCountsAsCapacity) {
  Growing world(Cloud(8));
  world.Grow();
  world.Turn();
  world.controller_.OnNodeDisconnected("cloud-1");
  const JobId job = world.Submit(1);
  const auto decision = world.Decide();
  EXPECT_TRUE(decision.requests.empty());
  EXPECT_EQ(world.Why(decision, job).size(), 1U);
}

TEST(GrowthFeed, SaysWhyNoNodeIsRequested) {
  const auto why = [](Provider provider, bool is_disabled = false) {
    Growing world(provider);
    const ProviderMode mode = is_disabled ? ProviderMode::kDisabled : ProviderMode::kAsConfigured;
    EXPECT_TRUE(world.provisioner.SetMode("cloud", mode, world.now_));
    JobSpec spec;
    spec.command = {"true"};
    spec.request.gpus = 4;
    spec.queues_anyway = true;
    spec.is_run_once = true;
    const auto job = world.controller_.Submit(spec, 0, world.ada_, world.now_, World::NoHistory());
    EXPECT_TRUE(job);
    const auto decision = world.Decide();
    EXPECT_TRUE(decision.requests.empty());
    return world.Why(decision, job->id).front();
  };
  EXPECT_EQ(why(Cloud(2)),
            "provider cloud: no shape is large enough or has the right GPUs; the largest has 2x "
            "H100-80GB, 64 CPUs");
  EXPECT_EQ(why(Cloud(8), true), "provider cloud: it is disabled");
  Provider limited = Cloud(8);
  limited.limits.hourly = Money(20'000'000);
  EXPECT_EQ(why(limited),
            "provider cloud: 1 node of shape big costs 24.00 per hour, but its limit of 20.00 per hour leaves 20.00");
  limited = Cloud(8);
  limited.limits.nodes = 0;
  EXPECT_EQ(why(limited), "provider cloud: the job needs 1 node of shape big, but its limit of 0 leaves 0");
  limited = Cloud(8);
  limited.limits.gpus = 4;
  EXPECT_EQ(why(limited), "provider cloud: 1 node of shape big would add 8 GPUs, but its limit of 4 leaves 4");
  limited = Cloud(8);
  limited.limits.monthly = Money(10'000'000);
  EXPECT_EQ(why(limited),
            "provider cloud: 1 node of shape big would cost 24.00 in the next 1 h, but this month's "
            "limit of 10.00 leaves 10.00");
  limited = Cloud(8);
  limited.teams = {"vision"};
  EXPECT_EQ(why(limited), "provider cloud: only jobs of these teams may use it: vision");
  limited = Cloud(8);
  limited.shapes.front().is_spot = true;
  EXPECT_EQ(why(limited),
            "provider cloud: it may remove nodes of shape big at any time, and the job cannot be "
            "requeued");
  limited = Cloud(8);
  limited.shapes.front().max_lifetime = 1h;
  EXPECT_EQ(why(limited),
            "provider cloud: nodes of shape big exist for 1 h, and the job has no time limit and cannot "
            "be requeued");
}

TEST(GrowthFeed, SaysThatAFailingProviderIsTriedAgain) {
  Growing world(Cloud(8));
  const JobId job = world.Submit(1);
  const auto step = world.provisioner.TakeStep(world.now_);
  ASSERT_EQ(step.calls.size(), 1U);
  Answer failed;
  failed.error = "no credentials";
  world.provisioner.OnAnswer(step.calls.front().number, failed, world.now_);
  const auto decision = world.Decide();
  EXPECT_EQ(world.Why(decision, job).front(), "provider cloud: it failed, and is tried again in 2 min 5 s");
}

}  // namespace
}  // namespace divvy::providers
