#include "providers/provisioner.h"

#include <algorithm>
#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace divvy::providers {
namespace {

constexpr int kMostNodes = 5;

Provider OneProvider() {
  Provider provider;
  provider.name = "cloud";
  provider.command = {"/bin/true"};
  provider.limits.nodes = kMostNodes;
  NodeShape shape;
  shape.name = "big";
  shape.gpu_model = "H100";
  shape.gpus = 8;
  shape.cpus = 64;
  shape.memory = 64_GiB;
  shape.hourly = Money(24'000'000);
  shape.startup = 1min;
  provider.shapes = {shape};
  return provider;
}

struct Faults {
  bool are_on = true;    // Calls fail, hang and take effect late.
  bool lies = false;     // Lists lack nodes, and have nodes that nobody requested.
  bool is_dead = false;  // Every call fails.
};

// A provider with bad manners. It creates at most one node for a token, as the protocol demands.
class FakeCloud {
 public:
  FakeCloud(std::uint64_t seed, Faults* faults) : random_(seed), faults_(faults) {}

  Time ends_at = kNever;  // Lists say so of all nodes.

  struct Pending {
    Time at;
    std::uint64_t call = 0;
    Answer answer;
  };

  void Perform(const Call& call, Time now) {
    const int luck = faults_->are_on ? static_cast<int>(random_() % 8) : 7;
    Answer answer;
    Time at = now + std::chrono::seconds(random_() % 20);
    if (faults_->is_dead) {
      answer.error = "down";
    } else if (call.kind == Call::Kind::kList) {
      answer = List();
      if (luck == 0) answer.error = "the list failed";
    } else if (luck == 0) {
      answer.error = "refused";
    } else if (luck == 1) {
      answer.error = "timed out";
      effects_.push_back({now + std::chrono::seconds(random_() % 119), [this, call] { Apply(call); }});
    } else if (luck == 2) {
      Apply(call);
      answer.error = "prints garbage";
    } else if (luck == 3 && call.kind == Call::Kind::kDestroy) {
      effects_.push_back({now + 20s, [this, call] { Apply(call); }});
    } else {
      answer.instance = Apply(call);
    }
    pending_.push_back({at, call.number, std::move(answer)});
  }

  void Advance(Time now, Provisioner& provisioner) {
    for (std::size_t i = 0; i < effects_.size();) {
      if (effects_[i].first > now) {
        ++i;
        continue;
      }
      effects_[i].second();
      effects_.erase(effects_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    std::vector<Pending> due;
    for (std::size_t i = 0; i < pending_.size();) {
      if (pending_[i].at > now) {
        ++i;
        continue;
      }
      due.push_back(std::move(pending_[i]));
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const Pending& pending : due) provisioner.OnAnswer(pending.call, pending.answer, now);
  }
  // The caller was killed: nobody hears the answers.
  void LoseAnswers() { pending_.clear(); }

  const std::map<std::string, std::string>& nodes() const { return nodes_; }  // Instance to token.
  void Remove(const std::string& instance) { nodes_.erase(instance); }
  std::string Invent(const std::string& token) {
    const std::string instance = "i-" + std::to_string(++next_);
    nodes_[instance] = token;
    return instance;
  }

 private:
  std::string Apply(const Call& call) {
    if (call.kind == Call::Kind::kDestroy) {
      std::erase_if(nodes_, [&](const auto& node) {
        return call.instance.empty() ? node.second == call.token : node.first == call.instance;
      });
      return "";
    }
    for (const auto& [instance, token] : nodes_) {
      if (token == call.token) return instance;
    }
    return Invent(call.token);
  }

  Answer List() {
    Answer answer;
    for (const auto& [instance, token] : nodes_) {
      if (faults_->lies && random_() % 6 == 0) continue;
      answer.nodes.push_back({token, instance, false, ends_at});
      if (faults_->are_on && random_() % 4 == 0) answer.nodes.push_back(answer.nodes.back());
    }
    if (faults_->lies && random_() % 4 == 0)
      answer.nodes.push_back({"nobody", "i-lie" + std::to_string(random_() % 3)});
    return answer;
  }

  std::mt19937_64 random_;
  Faults* faults_;
  std::map<std::string, std::string> nodes_;
  std::vector<std::pair<Time, std::function<void()>>> effects_;
  std::vector<Pending> pending_;
  int next_ = 0;
};

// A controller with a durable store, which may be killed at any point.
struct ProvisionerWorld {
  explicit ProvisionerWorld(std::uint64_t seed, Provider provider = OneProvider())
      : random(seed), config(std::move(provider)), cloud(seed, &faults) {
    Restart();
  }

  void Restart() {
    cloud.LoseAnswers();
    provisioner = std::make_unique<Provisioner>(std::vector<Provider>{config});
    for (const auto& [key, text] : store) EXPECT_TRUE(provisioner->LoadSetting(key, text));
  }

  // One iteration of the controller's loop. `kill_at`: killed after so many of its operations; negative: not.
  // Returns the number of operations.
  int Turn(int kill_at = -1) {
    int done = 0;
    const auto is_killed = [&] { return done++ == kill_at; };
    cloud.Advance(now, *provisioner);
    std::set<std::string> connected;
    for (const auto& [token, request] : provisioner->requests()) {
      const bool exists = std::ranges::any_of(cloud.nodes(), [&](const auto& node) { return node.second == token; });
      if (exists && !mute.contains(token) && request.state != NodeState::kDestroying) connected.insert(request.node);
    }
    for (const std::string& node : connected) provisioner->OnJoined(node, "", now);
    provisioner->OnNodes(connected, busy, now);
    const Provisioner::Step step = provisioner->TakeStep(now);
    EXPECT_EQ(provisioner->CheckInvariants(), "");
    if (is_killed()) return Restart(), done;
    for (const auto& [key, text] : step.rows) {
      if (text.empty()) store.erase(key);
      else store[key] = text;
    }
    if (is_killed()) return Restart(), done;
    for (const NodeAct& act : step.acts) {
      acts.push_back(act);
      provisioner->OnActed(act.node);
      if (act.kind == NodeAct::Kind::kEmpty) busy.erase(act.node);
    }
    for (const Call& call : step.calls) {
      const bool is_durable = store.contains(std::string(kRequestPrefix) + call.token);
      EXPECT_TRUE(call.kind != Call::Kind::kCreate || is_durable) << "create before the row is durable";
      cloud.Perform(call, now);
      if (is_killed()) return Restart(), done;
    }
    Check();
    return done;
  }

  void Check() const {
    std::map<std::string, int> per_token;
    for (const auto& [instance, token] : cloud.nodes()) ++per_token[token];
    for (const auto& [token, count] : per_token) EXPECT_LE(count, 1) << "two nodes for one token";
    const std::size_t most = faults.lies ? cloud.nodes().size() : kMostNodes;
    EXPECT_LE(cloud.nodes().size(), most) << "above the ceiling";
  }

  int active() const {
    return static_cast<int>(std::ranges::count_if(provisioner->requests(), [](const auto& entry) {
      return entry.second.state != NodeState::kDestroying && entry.second.state != NodeState::kDraining;
    }));
  }
  Result<std::vector<std::string>> Request(std::size_t nodes = 1, const std::string& team = "") {
    return provisioner->Request(
        Provisioner::Shapes(nodes, {"cloud", "big"}), [this] { return "t" + std::to_string(++tokens); },
        [](const std::string&) { return false; }, now, team);
  }
  void ReturnAll() {
    std::vector<std::string> nodes;
    for (const auto& [token, request] : provisioner->requests()) nodes.push_back(request.node);
    for (const std::string& node : nodes) provisioner->Return(node, "idle", false, now);
  }
  // Until nothing is left, with a provider that works.
  void Settle() {
    faults = {false, false, false};
    ReturnAll();
    for (int i = 0; i < 400; ++i, now += 5s) Turn();
    EXPECT_TRUE(provisioner->requests().empty());
    EXPECT_TRUE(std::ranges::all_of(store, [](const auto& row) {
      return row.first.find("spent.") != std::string::npos || row.first.starts_with(kPastPrefix);
    }));
    EXPECT_TRUE(cloud.nodes().empty()) << "leaked";
  }
  void Run(Duration span) {
    for (const Time end = now + span; now < end; now += 1s) Turn();
  }
  NodeState state_of(const std::string& node) const { return provisioner->FindNode(node)->state; }

  std::mt19937_64 random;
  Provider config;
  Faults faults;
  FakeCloud cloud;
  std::map<std::string, std::string> store;
  std::unique_ptr<Provisioner> provisioner;
  std::set<std::string> busy;
  std::set<std::string> mute;  // Tokens of nodes whose agents never join.
  std::vector<NodeAct> acts;
  int tokens = 0;
  Time now{std::chrono::hours(500'000)};
};

void RunRandomly(std::uint64_t seed, bool lies) {
  ProvisionerWorld world(seed);
  world.faults.lies = lies;
  int wanted = 0;
  for (int turn = 0; turn < 300; ++turn) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", turn " + std::to_string(turn));
    if (world.random() % 20 == 0) wanted = static_cast<int>(world.random() % (kMostNodes + 2));
    if (world.active() < wanted) static_cast<void>(world.Request());
    if (world.active() > wanted) {
      for (const auto& [token, request] : world.provisioner->requests()) {
        if (request.state == NodeState::kDestroying || request.state == NodeState::kDraining) continue;
        world.provisioner->Return(std::string(request.node), "idle", world.random() % 2 == 0, world.now);
        break;
      }
    }
    for (const auto& [instance, token] : world.cloud.nodes()) {
      if (world.random() % 200 == 0) world.mute.insert(token);
    }
    // The provider takes a node away.
    if (!world.cloud.nodes().empty() && world.random() % 60 == 0)
      world.cloud.Remove(std::string(world.cloud.nodes().begin()->first));
    world.Turn(world.random() % 6 == 0 ? static_cast<int>(world.random() % 5) : -1);
    world.now += std::chrono::seconds(world.random() % 10);
    if (testing::Test::HasFailure()) return;
  }
  world.Settle();
}

TEST(Provisioner, NeverLeaksDoublesOrExceedsWhateverFailsAndWheneverItIsKilled) {
  for (std::uint64_t seed = 1; seed <= 300 && !testing::Test::HasFailure(); ++seed) RunRandomly(seed, false);
}

TEST(Provisioner, LeaksNothingIfListsLie) {
  for (std::uint64_t seed = 1; seed <= 150 && !testing::Test::HasFailure(); ++seed) RunRandomly(seed, true);
}

TEST(Provisioner, SurvivesAKillAtEveryStep) {
  for (int at = 0; at < 60; ++at) {
    SCOPED_TRACE("killed at operation " + std::to_string(at));
    ProvisionerWorld world(7);
    world.faults.are_on = false;
    static_cast<void>(world.Request(2));
    for (int left = at, turn = 0; turn < 60; ++turn, world.now += 2s) {
      if (turn == 20) world.ReturnAll();
      const int done = world.Turn(left);
      left = left < 0 ? left : left - done;
      // A request that was not durable yet is lost with the controller.
      if (turn < 20 && world.provisioner->requests().empty()) static_cast<void>(world.Request(2));
    }
    EXPECT_LE(world.cloud.nodes().size(), 2U);
    world.Settle();
  }
}

TEST(Provisioner, RequestsNothingBeforeTheFirstList) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  const std::string stranger = world.cloud.Invent("forgotten");
  for (int i = 0; i < kMostNodes; ++i) ASSERT_TRUE(world.Request());
  world.Run(2min);
  // The stranger counts until it is gone.
  EXPECT_FALSE(world.cloud.nodes().contains(stranger));
  EXPECT_LE(world.cloud.nodes().size(), std::size_t{kMostNodes});
}

TEST(Provisioner, RefusesASetThatExceedsALimitAsAWhole) {
  ProvisionerWorld world(1);
  const auto refused = world.Request(kMostNodes + 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "provider cloud: 6 nodes would exceed max_nodes = 5");
  EXPECT_TRUE(world.provisioner->requests().empty());
}

TEST(Provisioner, CountsMoneyOfTheMonthAgainstItsLimit) {
  Provider provider = OneProvider();
  provider.limits.monthly = Money(100'000'000);
  ProvisionerWorld world(1, provider);
  world.faults.are_on = false;
  world.now = StartOfMonth(MonthOf(world.now)) + 24h;
  ASSERT_TRUE(world.Request());
  for (int i = 0; i < 4 * 60; ++i, world.now += 1min) world.Turn();
  EXPECT_NEAR(world.provisioner->ViewOf("cloud", world.now).spent_this_month.units(), 96, 1);
  EXPECT_EQ(world.Request().error().message, "provider cloud: 120.00 this month would exceed max_per_month = 100.00");
  world.Settle();
  world.Restart();
  EXPECT_NEAR(world.provisioner->ViewOf("cloud", world.now).spent_this_month.units(), 96, 2);
  EXPECT_EQ(world.provisioner->ViewOf("cloud", world.now + 31 * 24h).spent_this_month.units(), 0);
}

TEST(Provisioner, TeamsPayForTheirNodesAlsoAfterARestart) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  world.now = StartOfMonth(MonthOf(world.now)) + 24h;
  ASSERT_TRUE(world.Request(1, "vision"));
  ASSERT_TRUE(world.Request(2, "speech"));
  for (int i = 0; i < 60; ++i, world.now += 1min) world.Turn();
  world.Restart();
  EXPECT_EQ(world.provisioner->TeamSpending(world.now).at("speech").hourly, Money(48'000'000));
  EXPECT_NEAR(world.provisioner->TeamSpending(world.now).at("vision").this_month.units(), 24, 0.5);
  world.Settle();
  world.Restart();
  EXPECT_EQ(world.provisioner->TeamSpending(world.now).at("speech").hourly, Money());
  EXPECT_NEAR(world.provisioner->TeamSpending(world.now).at("speech").this_month.units(), 48, 2);
  EXPECT_TRUE(world.provisioner->TeamSpending(world.now + 31 * 24h).empty());
}

TEST(Provisioner, ANodeThatIsAboutToBeRemovedIsEmptiedTwoMinutesBefore) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  world.busy = {"cloud-1"};
  world.cloud.ends_at = world.now + 10min;
  world.Run(7min);
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  EXPECT_TRUE(world.acts.empty());
  world.Run(70s);
  ASSERT_FALSE(world.acts.empty());
  EXPECT_EQ(world.acts.front().kind, NodeAct::Kind::kEmpty);
  EXPECT_EQ(world.acts.front().why, "its provider is about to remove it");
  world.Settle();
}

TEST(Provisioner, DestroysTheWholeSetIfOneNodeNeverJoins) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request(2));
  world.mute = {"t1", "t2"};
  world.Run(1min);
  world.mute = {"t2"};
  world.Run(10min);
  // The first joined in time and stays until the decision returns it; the second is gone.
  ASSERT_EQ(world.provisioner->requests().size(), 1U);
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  EXPECT_EQ(world.provisioner->ViewOf("cloud", world.now).last_error,
            "node cloud-2 (instance i-2): it did not join within 180 s");
}

TEST(Provisioner, CancelsNodesOnTheirWayIfOneOfTheirSetIsNotComing) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request(2));
  world.mute = {"t1", "t2"};
  world.Run(1min);
  ASSERT_EQ(world.state_of("cloud-2"), NodeState::kBooting);
  world.provisioner->Return("cloud-1", "not wanted", false, world.now);
  EXPECT_EQ(world.state_of("cloud-2"), NodeState::kDestroying);
  EXPECT_EQ(world.provisioner->FindNode("cloud-2")->why, "node cloud-1 of the same set is not coming");
  world.Settle();
}

TEST(Provisioner, DestroysNodesWithoutARowOnlyWhenTheyAreListedTwice) {
  Provisioner provisioner({OneProvider()});
  Time now{std::chrono::hours(500'000)};
  Answer list;
  list.nodes = {{"forgotten", "i-1"}};
  for (const std::size_t calls : {0U, 1U}) {
    const Provisioner::Step step = provisioner.TakeStep(now);
    ASSERT_EQ(step.calls.size(), 1U);
    provisioner.OnAnswer(step.calls.front().number, list, now);
    EXPECT_EQ(provisioner.TakeStep(now).calls.size(), calls);
    EXPECT_EQ(provisioner.ViewOf("cloud", now).strangers, 1);
    now += 5s;
  }
}

TEST(Provisioner, KeepsNodesOfAnotherProviderWithTheSameAccount) {
  Provider other = OneProvider();
  other.name = "other";
  Faults faults{false, false, false};
  FakeCloud account(1, &faults);
  Provisioner provisioner({OneProvider(), other});
  int tokens = 0, destroyed = 0;
  Time now{std::chrono::hours(500'000)};
  const auto draw = [&] { return "t" + std::to_string(++tokens); };
  const auto is_taken = [](const std::string&) { return false; };
  ASSERT_TRUE(provisioner.Request({{"cloud", "big"}}, draw, is_taken, now));
  ASSERT_TRUE(provisioner.Request({{"other", "big"}}, draw, is_taken, now));
  for (int i = 0; i < 170; ++i, now += 1s) {
    account.Advance(now, provisioner);
    for (const Call& call : provisioner.TakeStep(now).calls) {
      account.Perform(call, now);
      destroyed += call.kind == Call::Kind::kDestroy ? 1 : 0;
    }
  }
  EXPECT_EQ(account.nodes().size(), 2U);
  EXPECT_EQ(destroyed, 0);
  for (const char* name : {"cloud", "other"}) {
    EXPECT_EQ(provisioner.ViewOf(name, now).nodes, 1);
    EXPECT_EQ(provisioner.ViewOf(name, now).strangers, 0);
  }
  // A node without a row is destroyed, whichever of them lists it.
  account.Invent("forgotten");
  for (int i = 0; i < 900; ++i, now += 1s) {
    account.Advance(now, provisioner);
    for (const char* node : {"cloud-1", "other-1"}) provisioner.OnJoined(node, "", now);
    provisioner.OnNodes({"cloud-1", "other-1"}, {}, now);
    for (const Call& call : provisioner.TakeStep(now).calls) account.Perform(call, now);
  }
  EXPECT_EQ(account.nodes().size(), 2U);
}

TEST(Provisioner, KeepsABusyNodeUntilItsJobsHaveEnded) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  world.busy = {"cloud-1"};
  world.Turn();
  world.ReturnAll();
  world.Run(5min);
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kDraining);
  EXPECT_EQ(world.cloud.nodes().size(), 1U);
  world.busy.clear();
  world.Settle();
  EXPECT_EQ(world.acts.front().kind, NodeAct::Kind::kCordon);
  EXPECT_EQ(world.acts.back().kind, NodeAct::Kind::kRemove);
}

TEST(Provisioner, DestroysAForcedNodeWhoseAgentIsSilentAlthoughItsJobsHaveNotEnded) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  world.Turn();
  world.mute = {"t1"};  // Nobody hears that its jobs are to stop.
  world.provisioner->Return("cloud-1", "its agent is away", true, world.now);
  const std::set<std::string> nobody, busy = {"cloud-1"};
  int acts = 0;
  const auto step = [&] {
    world.provisioner->OnNodes(nobody, busy, world.now);
    for (const NodeAct& act : world.provisioner->TakeStep(world.now).acts) {
      acts += act.kind == NodeAct::Kind::kEmpty ? 1 : 0;
      world.provisioner->OnActed(act.node);
    }
  };
  step();
  world.now += 1s;
  step();
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kDraining) << "its agent may come back";
  world.now += 1min;
  step();
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kDestroying);
  EXPECT_EQ(acts, 1);
}

TEST(Provisioner, AForcedReturnIsStillForcedAfterARestart) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  world.busy = {"cloud-1"};
  world.provisioner->Return("cloud-1", "its lifetime ends", true, world.now);
  // Killed after the row was stored, and before the act.
  world.Turn(1);
  ASSERT_TRUE(world.acts.empty());
  world.Run(10s);
  ASSERT_FALSE(world.acts.empty());
  EXPECT_EQ(world.acts.front().kind, NodeAct::Kind::kEmpty);
}

TEST(Provisioner, ANodeThatWasNeverKnownToExistCostsNothingAndShowsNoTextOfTheProgram) {
  Provider provider = OneProvider();
  provider.billing_period = 1h;
  ProvisionerWorld world(1, provider);
  world.faults = {false, false, false};
  world.Run(10s);
  world.faults.is_dead = true;
  ASSERT_TRUE(world.Request());
  std::set<std::string> reasons;
  for (int i = 0; i < 600; ++i, world.now += 1s) {
    world.Turn();
    for (const auto& [token, request] : world.provisioner->requests()) reasons.insert(request.why);
  }
  EXPECT_EQ(reasons, (std::set<std::string>{"", "it could not be created; divvy providers has the error"}));
  world.Settle();
  EXPECT_EQ(world.provisioner->ViewOf("cloud", world.now).spent_this_month, Money());
}

TEST(Provisioner, KeepsALivingNodeThatListsNameDifferently) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  world.cloud.Remove("i-1");
  const std::string other = world.cloud.Invent("t1");
  world.Run(5min);
  EXPECT_TRUE(world.cloud.nodes().contains(other));
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  EXPECT_EQ(world.provisioner->ViewOf("cloud", world.now).last_error,
            "list has instance " + other + " for node cloud-1, which is instance i-1; the node is kept");
  world.Settle();
}

TEST(Provisioner, ANodeThatWaitsAtTheProviderNeedNotJoinYet) {
  Provisioner provisioner({OneProvider()});
  Time now{std::chrono::hours(500'000)};
  ASSERT_TRUE(provisioner.Request(
      {{"cloud", "big"}}, [] { return "t1"; }, [](const std::string&) { return false; }, now));
  bool is_pending = true;
  const auto run = [&](Duration span) {
    for (const Time end = now + span; now < end; now += 5s) {
      for (const Call& call : provisioner.TakeStep(now).calls) {
        Answer answer;
        if (call.kind == Call::Kind::kCreate) answer.instance = "7";
        if (call.kind == Call::Kind::kList && provisioner.FindNode("cloud-1") != nullptr &&
            !provisioner.FindNode("cloud-1")->instance.empty())
          answer.nodes = {{"t1", "7", is_pending}};
        provisioner.OnAnswer(call.number, answer, now);
      }
    }
  };
  run(2h);
  ASSERT_NE(provisioner.FindNode("cloud-1"), nullptr);
  EXPECT_EQ(provisioner.FindNode("cloud-1")->state, NodeState::kBooting);
  is_pending = false;
  run(4min);
  EXPECT_EQ(provisioner.FindNode("cloud-1")->why, "it did not join within 180 s");
}

TEST(Provisioner, KeepsTheRequestOfANodeThatIsStillRegistered) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.mute = {"t1"};
  world.Run(20s);
  world.provisioner->Return("cloud-1", "not wanted", false, world.now);
  const auto run = [&](const std::set<std::string>& registered) {
    for (int i = 0; i < 300; ++i, world.now += 1s) {
      world.cloud.Advance(world.now, *world.provisioner);
      world.provisioner->OnNodes({}, {}, world.now, registered);
      for (const Call& call : world.provisioner->TakeStep(world.now).calls) world.cloud.Perform(call, world.now);
    }
  };
  run({"cloud-1"});
  EXPECT_TRUE(world.cloud.nodes().empty());
  EXPECT_NE(world.provisioner->FindNode("cloud-1"), nullptr);
  run({});
  EXPECT_EQ(world.provisioner->FindNode("cloud-1"), nullptr);
}

TEST(Provisioner, ANodeIsNotGoneBecauseOfTwoListsAtAlmostTheSameTime) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(2min);
  ASSERT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  const std::set<std::string> nobody;
  const auto list = [&] {
    world.provisioner->ListSoon("cloud");
    for (const Call& call : world.provisioner->TakeStep(world.now).calls)
      if (call.kind == Call::Kind::kList) world.provisioner->OnAnswer(call.number, Answer(), world.now);
  };
  // The answers of earlier calls.
  world.now += 1min;
  world.Turn();
  world.now += 1min;
  world.cloud.Advance(world.now, *world.provisioner);
  world.provisioner->OnNodes(nobody, nobody, world.now);
  for (int i = 0; i < 5; ++i, world.now += 1s) list();
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kJoined);
  world.now += 30s;
  list();
  EXPECT_EQ(world.state_of("cloud-1"), NodeState::kDestroying);
}

TEST(Provisioner, CountsANodeThatTheProviderRemovedAsLost) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_EQ(world.cloud.nodes().size(), 1U);
  world.cloud.Remove("i-1");
  world.Run(3min);
  EXPECT_TRUE(world.provisioner->requests().empty());
  EXPECT_EQ(world.acts.back().kind, NodeAct::Kind::kRemove);
}

TEST(Provisioner, ADeadProviderDelaysOnlyItsOwnNodes) {
  Provider other = OneProvider();
  other.name = "other";
  Faults faults{false, false, false};
  Faults dead{false, false, true};
  FakeCloud good(1, &faults), bad(2, &dead);
  Provisioner provisioner({OneProvider(), other});
  int tokens = 0;
  Time now{std::chrono::hours(500'000)};
  const auto draw = [&] { return "t" + std::to_string(++tokens); };
  const auto is_taken = [](const std::string&) { return false; };
  ASSERT_TRUE(provisioner.Request({{"cloud", "big"}}, draw, is_taken, now));
  ASSERT_TRUE(provisioner.Request({{"other", "big"}}, draw, is_taken, now));
  for (int i = 0; i < 170; ++i, now += 1s) {
    good.Advance(now, provisioner);
    bad.Advance(now, provisioner);
    for (const Call& call : provisioner.TakeStep(now).calls) (call.provider == "cloud" ? good : bad).Perform(call, now);
  }
  EXPECT_EQ(good.nodes().size(), 1U);
  EXPECT_EQ(provisioner.ViewOf("cloud", now).last_error, "");
  // Its request is given up, so that the job can get a node elsewhere.
  EXPECT_EQ(provisioner.ViewOf("other", now).last_error, "list: down");
  EXPECT_EQ(provisioner.ViewOf("other", now).nodes, 0);
  EXPECT_GT(provisioner.ViewOf("other", now).down_until, now);
}

TEST(Provisioner, RejectsAnInstanceThatAnotherNodeHas) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  ASSERT_TRUE(world.Request());
  world.Run(1min);
  ASSERT_TRUE(world.Request());
  std::uint64_t create = 0;
  while (create == 0) {
    for (const Call& call : world.provisioner->TakeStep(world.now).calls) {
      if (call.kind == Call::Kind::kCreate) create = call.number;
    }
    world.now += 1s;
  }
  Answer lie;
  lie.instance = "i-1";
  world.provisioner->OnAnswer(create, lie, world.now);
  EXPECT_EQ(world.provisioner->ViewOf("cloud", world.now).last_error,
            "create: create answered with instance i-1, which is node cloud-1");
  EXPECT_EQ(world.state_of("cloud-2"), NodeState::kRequested);
}

// Reports about money need what nodes cost that are gone, also after a restart.
TEST(Provisioner, KeepsWhatNodesCostThatAreGone) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  const Time began = world.now;
  ASSERT_TRUE(world.Request(1, "vision"));
  for (int i = 0; i < 60; ++i, world.now += 1min) world.Turn();
  const auto nodes_since = [&](Time since) { return world.provisioner->NodesBetween(since, kNever); };
  const auto rows = [&] {
    return std::ranges::count_if(world.store, [](const auto& row) { return row.first.starts_with(kPastPrefix); });
  };
  ASSERT_EQ(nodes_since(began).size(), 1u);
  EXPECT_EQ(nodes_since(began).front().gone, kNever);
  EXPECT_TRUE(world.provisioner->NodesBetween(began - 1h, began).empty());
  world.Settle();
  ASSERT_TRUE(world.provisioner->requests().empty());
  world.Restart();
  const std::vector<PricedNode> nodes = nodes_since(began);
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes.front().node, "cloud-1");
  EXPECT_EQ(nodes.front().cpus, 64);
  EXPECT_EQ(nodes.front().requested, began);
  EXPECT_NEAR(CostBetween(nodes.front(), began, kNever).units(), 24, 2);
  EXPECT_TRUE(nodes_since(nodes.front().gone + 1s).empty());
  EXPECT_EQ(rows(), 1);
  // The rows of older nodes are removed when another node goes.
  world.now += Provisioner::kPastKept;
  ASSERT_TRUE(world.Request(1, "vision"));
  for (int i = 0; i < 60; ++i, world.now += 1min) world.Turn();
  world.Settle();
  world.Restart();
  EXPECT_EQ(nodes_since(began).size(), 1u);
  EXPECT_EQ(rows(), 1) << "the other one has left the store too";
}

TEST(Provisioner, KeepsWhatTheLatestNodesCostAndNoMore) {
  ProvisionerWorld world(1);
  world.faults.are_on = false;
  NodeRequest past;
  past.node = "cloud-0";
  past.provider = "cloud";
  past.state = NodeState::kDestroying;
  const Time first = world.now - 24h;
  for (std::size_t i = 0; i < Provisioner::kMostPast; ++i) {
    past.requested = past.gone = first + std::chrono::seconds(i);
    world.store[std::string(kPastPrefix) + "p" + std::to_string(i)] = FormatRequest(past);
  }
  world.Restart();
  ASSERT_EQ(world.provisioner->NodesBetween(kNoTime, kNever).size(), Provisioner::kMostPast);
  ASSERT_TRUE(world.Request());
  world.Run(2min);
  world.Settle();
  world.Restart();
  const std::vector<PricedNode> nodes = world.provisioner->NodesBetween(kNoTime, kNever);
  EXPECT_EQ(nodes.size(), Provisioner::kMostPast);
  EXPECT_EQ(nodes.front().requested, first + 1s) << "the oldest one is dropped";
  EXPECT_FALSE(world.store.contains(std::string(kPastPrefix) + "p0")) << "and has left the store";
}

TEST(Provisioner, ARowWithoutCoresHasThoseOfItsShape) {
  NodeRequest old;
  old.token = "00ff";
  old.node = "cloud-1";
  old.provider = "cloud";
  old.shape = "big";
  Provisioner provisioner({OneProvider()});
  ASSERT_TRUE(provisioner.LoadSetting(std::string(kRequestPrefix) + old.token, FormatRequest(old)));
  EXPECT_EQ(provisioner.FindNode("cloud-1")->cpus, 64);
}

TEST(NodeRequest, RoundTripsAndSkipsWhatIsUnreadable) {
  NodeRequest request;
  request.token = "00ff";
  request.node = "cloud-1";
  request.provider = "cloud";
  request.shape = "big";
  request.gpus = 8;
  request.cpus = 64;
  request.hourly = Money(123);
  request.billing_period = 1h;
  request.set = "00ff";
  request.state = NodeState::kDraining;
  request.instance = "i 1";
  request.join_tokens = {"aa", "bb"};
  request.requested = Time(1s);
  request.booting = Time(2s);
  request.joined = Time(3s);
  request.gone = Time(5s);
  request.unsure_until = Time(4s);
  request.was_used = request.is_forced = true;
  request.why = "idle";
  EXPECT_EQ(ParseRequest("00ff", FormatRequest(request)), request);
  EXPECT_EQ(ParseRequest("00ff", "state flying\nnode a\nprovider b\n"), std::nullopt);
  EXPECT_EQ(ParseRequest("00ff", ""), std::nullopt);
}

TEST(NodeRequest, BillsWholePeriods) {
  NodeRequest request;
  request.hourly = Money(6'000'000);
  request.requested = Time(100h);
  request.billing_period = 1h;
  EXPECT_EQ(CostBetween(request, Time(0s), Time(100h) + 1s), Money(6'000'000));
  EXPECT_EQ(CostBetween(request, Time(0s), Time(101h) + 1s), Money(12'000'000));
  EXPECT_EQ(CostBetween(request, Time(101h), Time(102h)), Money(6'000'000));
  request.billing_period = Duration(0);
  EXPECT_EQ(CostBetween(request, Time(100h), Time(100h) + 30min), Money(3'000'000));
  request.gone = Time(100h) + 15min;
  EXPECT_EQ(CostBetween(request, Time(100h), Time(200h)), Money(1'500'000)) << "until it was gone";
  EXPECT_EQ(CostBetween(request, Time(101h), Time(200h)), Money());
}

TEST(Months, FollowTheCalendar) {
  const Time may(
      std::chrono::sys_days(std::chrono::year_month_day{std::chrono::year(2026), std::chrono::May, std::chrono::day(1)})
          .time_since_epoch());
  EXPECT_EQ(MonthOf(may) - 1, MonthOf(may - 1s));
  EXPECT_EQ(StartOfMonth(MonthOf(may + 24h * 30)), may);
}

}  // namespace
}  // namespace divvy::providers
