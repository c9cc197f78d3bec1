#include "engine/core/state/node_class_index.h"

#include <gtest/gtest.h>

#include "engine/core/explain/node_class_text.h"
#include "engine/core/state/compile_request.h"
#include "engine/core/state/test_world.h"
#include "engine/gpu_type.h"

namespace divvy::core {
namespace node_class_index_test {

NodeProperties Properties(std::string name, std::vector<std::string> features, std::vector<GpuProperties> gpus) {
  return {std::move(name), {}, std::move(features), std::move(gpus)};
}

std::vector<GpuProperties> Gpus(int count, const std::string& model = "h100") {
  return std::vector<GpuProperties>(static_cast<std::size_t>(count), GpuProperties{model, 81'920, 90});
}

NodeFilter Features(std::string_view text) {
  NodeFilter filter;
  filter.features = FeatureCondition::Of(ParseFeatures(text).value()).value();
  return filter;
}

NodeFilter Named(std::vector<std::string> names) {
  NodeFilter filter;
  filter.nodes = std::move(names);
  return filter;
}

NodeFacts FactsOf(const NodeClassIndex& class_index, NodeIndex node) {
  NodeFacts facts;
  class_index.Fill(node, facts);
  return facts;
}

bool Accepts(const NodeClassIndex& class_index, FilterIndex filter, NodeIndex node) {
  return ((class_index.Accepted(filter) >> FactsOf(class_index, node).node_class) & 1) != 0;
}

TEST(NodeClassIndex, DistinguishesNodesOnlyIfARequestNeedsIt) {
  NodeClassIndex class_index;
  ASSERT_TRUE(class_index.AddNode(Properties("n0", {"ib"}, Gpus(8))));
  ASSERT_TRUE(class_index.AddNode(Properties("n1", {}, Gpus(8))));
  ASSERT_TRUE(class_index.AddNode(Properties("n2", {}, Gpus(8, "a100"))));
  EXPECT_EQ(class_index.class_count(), 2);
  const FilterIndex ib = class_index.Use(Features("ib")).value();
  EXPECT_EQ(class_index.class_count(), 3);
  EXPECT_TRUE(Accepts(class_index, ib, 0));
  EXPECT_FALSE(Accepts(class_index, ib, 1));
  EXPECT_EQ(class_index.Use(Features("ib")).value(), ib);
  EXPECT_EQ(class_index.Use(NodeFilter{}).value(), kNoFilter);
  EXPECT_EQ(class_index.Use(Features("nvme")).value(), ib + 1);
  EXPECT_EQ(class_index.Accepted(ib + 1), 0u);
  EXPECT_EQ(class_index.class_count(), 3);
}

TEST(NodeClassIndex, ASplitReportsThePreviousClasses) {
  NodeClassIndex class_index;
  ASSERT_TRUE(class_index.AddNode(Properties("n0", {"ib"}, Gpus(8))));
  ASSERT_TRUE(class_index.AddNode(Properties("n1", {}, Gpus(8))));
  class_index.TakeChange();
  const placement::ModelSet both = placement::ModelSet{1} << FactsOf(class_index, 0).node_class;
  ASSERT_TRUE(class_index.Use(Features("ib")));
  const NodeClassChange change = class_index.TakeChange();
  EXPECT_EQ(change.renumbered, std::vector<NodeIndex>{0});
  EXPECT_TRUE(change.changed.empty());
  const placement::ModelSet now = change.Translate(both);
  for (NodeIndex node : {0u, 1u}) EXPECT_TRUE(((now >> FactsOf(class_index, node).node_class) & 1) != 0);
  EXPECT_TRUE(class_index.TakeChange().empty());
}

TEST(NodeClassIndex, DropsUnusedFiltersWhenItRunsOutOfClasses) {
  NodeClassIndex class_index;
  for (int i = 0; i < 80; ++i) ASSERT_TRUE(class_index.AddNode(Properties("n" + std::to_string(i), {}, Gpus(8))));
  std::vector<FilterIndex> used;
  while (true) {
    const auto filter = class_index.Use(Named({"n" + std::to_string(used.size())}));
    if (!filter) {
      EXPECT_EQ(filter.error().code, ErrorCode::kLimitExceeded);
      EXPECT_NE(filter.error().message.find("more than 64 "), std::string::npos);
      break;
    }
    used.push_back(*filter);
  }
  EXPECT_EQ(used.size(), 63u) << "and all others are of one kind";
  ASSERT_EQ(class_index.CheckInvariants(), "");
  class_index.Leave(used[5]);
  const auto later = class_index.Use(Named({"n70"}));
  ASSERT_TRUE(later);
  EXPECT_TRUE(Accepts(class_index, *later, 70));
  EXPECT_EQ(class_index.CheckInvariants(), "");
  EXPECT_FALSE(class_index.Use(Named({"n5"}))) << "its place was taken";
  class_index.Leave(*later);
  EXPECT_EQ(class_index.Use(Named({"n5"})).value(), used[5]) << "a filter keeps its index";
}

TEST(NodeClassIndex, ModelsThatNoRequestNamesShareAClass) {
  NodeClassIndex class_index;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(class_index.AddNode(Properties("n" + std::to_string(i), {}, Gpus(1, "model-" + std::to_string(i)))));
  }
  ASSERT_EQ(class_index.CheckInvariants(), "");
  NodeFilter filter;
  filter.gpu_type = "model-77";
  const FilterIndex index = class_index.Use(filter).value();
  for (NodeIndex node = 0; node < 100; ++node) EXPECT_EQ(Accepts(class_index, index, node), node == 77);
}

TEST(NodeClassIndex, AMixedNodeMatchesIfOneOfItsGpusDoes) {
  NodeClassIndex class_index;
  ASSERT_TRUE(class_index.AddNode(
      Properties("n0", {"ib"}, {{"a100", 40'960, 80}, {"h100", 81'920, 90}, {"a100", 40'960, 80}})));
  ASSERT_TRUE(class_index.AddNode(Properties("n1", {}, Gpus(2))));
  NodeFilter filter = Features("ib");
  filter.least_compute_capability = 90;
  const FilterIndex index = class_index.Use(filter).value();
  const NodeFacts facts = FactsOf(class_index, 0);
  EXPECT_TRUE(Accepts(class_index, index, 0));
  EXPECT_FALSE(Accepts(class_index, index, 1));
  ASSERT_EQ(facts.gpu_classes.size(), 3u);
  EXPECT_EQ((class_index.Accepted(index) >> facts.gpu_classes[0]) & 1, 0u);
  EXPECT_EQ((class_index.Accepted(index) >> facts.gpu_classes[1]) & 1, 1u);
  EXPECT_EQ(facts.gpu_classes[0], facts.gpu_classes[2]);
  EXPECT_EQ(facts.gpu_models[1], FactsOf(class_index, 1).gpu_model);
}

TEST(CompileRequest, ARefusedRequestAddsNoFilter) {
  NodeClassIndex class_index;
  ASSERT_TRUE(class_index.AddNode(Properties("n0", {"a"}, Gpus(8))));
  ASSERT_TRUE(class_index.AddNode(Properties("n1", {"b"}, Gpus(8))));
  NodeWishes wishes;
  wishes.features = ParseFeatureWish("a*2&b*2").value();
  const auto few = CompileRequest(class_index, GpuRequest(1, 3), wishes);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().message, "--constraint counts 4 nodes, but the job has 3 tasks; ask for --tasks 4");
  ResourceRequest apart = GpuRequest(1, 3);
  apart.groups.front().anti_affinity = true;
  EXPECT_EQ(CompileRequest(class_index, apart, wishes).error().message,
            "--constraint counts 4 nodes, but the job is on 3 nodes; ask for --nodes 4");
  EXPECT_EQ(CompileRequest(class_index, GpuRequest(1, 1), wishes).error().message,
            "--constraint counts 4 nodes, but the job is on 1 node; ask for --nodes 4");
  const auto elastic = CompileRequest(class_index, GpuRequest(1, 4, 8), wishes);
  EXPECT_FALSE(elastic);
  const auto request = CompileRequest(class_index, GpuRequest(1, 5), wishes);
  ASSERT_TRUE(request);
  ASSERT_EQ(request->groups.size(), 3u);
  EXPECT_EQ(request->groups[2].least, 1);
  EXPECT_EQ(request->groups[2].filters, std::vector<FilterIndex>{kNoFilter});
}

TEST(CompileRequest, FasterGpusComeFirstInEachAlternative) {
  NodeClassIndex class_index;
  ASSERT_TRUE(class_index.AddNode(Properties("n0", {"a"}, Gpus(8))));
  ASSERT_TRUE(class_index.AddNode(Properties("n1", {"b"}, Gpus(8, "a100"))));
  NodeWishes wishes;
  wishes.gpu_type = "a100*0.5|h100*1.0";
  wishes.features = ParseFeatureWish("[a|b]").value();
  const ResourceRequest request = CompileRequest(class_index, GpuRequest(1, 2), wishes).value();
  EXPECT_TRUE(request.alike);
  EXPECT_EQ(request.groups.front().speeds, (std::vector<std::int16_t>{1000, 500, 1000, 500}));
  EXPECT_EQ(class_index.filter(request.groups.front().filters[1]).gpu_type, "a100");
  EXPECT_EQ(FilterText(class_index, request.groups.front().filters),
            "of type a100 or h100 with feature a or of type a100 or h100 with feature b");
  EXPECT_FALSE(CompileRequest(class_index, GpuRequest(1), wishes)->alike) << "one task is alike";
}

// --- Against an oracle ----------------------------------------------------------------------------------------------

struct Random {
  explicit Random(std::uint64_t seed) : draws(seed) {}

  std::vector<std::string> Some(std::string_view prefix, int of, int one_in) {
    std::vector<std::string> list;
    for (int i = 0; i < of; ++i) {
      if (draws.Below(one_in) == 0) list.push_back(std::string(prefix) + std::to_string(i));
    }
    return list;
  }
  GpuProperties Gpu() {
    const int node_class = draws.Below(models);
    return {node_class == 0   ? "a100"
            : node_class == 1 ? "h100"
                              : "l40",
            node_class == 1 ? 81'920 : 40'960, node_class == 1 ? 90 : 80};
  }
  NodeProperties Node(int index, int gpus) {
    NodeProperties properties;
    properties.name = "n" + std::to_string(index);
    properties.features = Some("f", 4, 2);
    properties.pools = Some("p", 2, 2);
    const bool is_mixed = draws.Below(mixed_one_in) == 0;
    const GpuProperties first = Gpu();
    for (int gpu = 0; gpu < gpus; ++gpu) properties.gpus.push_back(is_mixed ? Gpu() : first);
    return properties;
  }
  NodeFilter Filter(int nodes) {
    NodeFilter filter;
    if (draws.Below(3) == 0) filter.gpu_type = draws.Below(2) == 0 ? "h100|l40" : "a100";
    if (draws.Below(5) == 0) filter.least_gpu_memory_mib = 50'000;
    if (draws.Below(5) == 0) filter.least_compute_capability = 90;
    if (draws.Below(2) == 0) {
      std::string text = "f" + std::to_string(draws.Below(4));
      while (draws.Below(2) == 0) text += (draws.Below(2) == 0 ? "&f" : "|f") + std::to_string(draws.Below(4));
      filter.features = Features(text).features;
    }
    if (draws.Below(6) == 0) filter.nodes = Some("n", nodes, 2);
    if (draws.Below(6) == 0) filter.excluded = Some("n", nodes, 4);
    if (draws.Below(6) == 0) filter.pool = "p0";
    return filter;
  }

  Draws draws;
  int models = 3;
  int mixed_one_in = 3;
};

bool OracleNode(const NodeFilter& filter, const NodeProperties& node) {
  const auto has = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto& options = filter.features.options();
  const bool has_features =
      options.empty() || std::any_of(options.begin(), options.end(), [&](const auto& option) {
        return std::all_of(option.begin(), option.end(), [&](const auto& one) { return has(node.features, one); });
      });
  return has_features && (filter.nodes.empty() || has(filter.nodes, node.name)) && !has(filter.excluded, node.name) &&
         (filter.pool.empty() || has(node.pools, filter.pool));
}

bool OracleGpu(const NodeFilter& filter, const NodeProperties& node, const GpuProperties& gpu) {
  return OracleNode(filter, node) && MatchesGpuType(filter.gpu_type, gpu.model) &&
         gpu.memory_mib >= filter.least_gpu_memory_mib && gpu.compute_capability >= filter.least_compute_capability;
}

TEST(NodeClassIndex, AgreesWithABruteForceMatch) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Random random(seed);
    NodeClassIndex class_index;
    std::vector<NodeProperties> nodes;
    std::vector<FilterIndex> used;
    int refused = 0;
    for (int step = 0; step < 60; ++step) {
      const int what = nodes.size() < 4 ? 0 : random.draws.Below(6);
      if (what == 0) {
        NodeProperties properties = random.Node(static_cast<int>(nodes.size()), 4);
        if (class_index.AddNode(properties)) nodes.push_back(properties);
      } else if (what == 1) {
        const auto index = static_cast<NodeIndex>(random.draws.Below(static_cast<int>(nodes.size())));
        NodeProperties properties = random.Node(static_cast<int>(index), 4);
        if (class_index.SetProperties(index, properties)) nodes[index] = properties;
      } else if (what == 2 && !used.empty()) {
        const auto at = used.begin() + random.draws.Below(static_cast<int>(used.size()));
        class_index.Leave(*at);
        used.erase(at);
      } else if (const auto filter = class_index.Use(random.Filter(static_cast<int>(nodes.size())))) {
        used.push_back(*filter);
      } else {
        refused += 1;
      }
      ASSERT_EQ(class_index.CheckInvariants(), "") << "seed " << seed << " step " << step;
      ASSERT_LE(class_index.class_count(), placement::kMaxModels);
      for (const FilterIndex filter : used) {
        if (filter == kNoFilter) continue;
        for (NodeIndex node = 0; node < nodes.size(); ++node) {
          const NodeFacts facts = FactsOf(class_index, node);
          bool has_any = false;
          for (std::size_t gpu = 0; gpu < nodes[node].gpus.size(); ++gpu) {
            const bool expected = OracleGpu(class_index.filter(filter), nodes[node], nodes[node].gpus[gpu]);
            const int node_class = facts.gpu_classes.empty() ? facts.node_class : facts.gpu_classes[gpu];
            ASSERT_EQ(((class_index.Accepted(filter) >> node_class) & 1) != 0, expected)
                << "seed " << seed << " step " << step;
            has_any = has_any || expected;
          }
          ASSERT_EQ(Accepts(class_index, filter, node), has_any) << "seed " << seed << " step " << step;
        }
      }
    }
  }
}

// --- A cluster that uses the index -----------------------------------------------------------------------------------

std::string TextOf(const std::vector<TaskPlacement>& placements) {
  std::string text;
  for (const TaskPlacement& placed : placements) {
    text += " " + std::to_string(placed.node) + ":" + std::to_string(placed.place.gpus.bits()) + "/" +
            std::to_string(placed.group) + "/" + std::to_string(placed.alternative);
  }
  return text;
}

std::string TextOf(const Plan& plan, const Cluster& cluster) {
  std::string text;
  for (const Start& start : plan.starts) text += "start " + ToString(start.job) + TextOf(start.placements) + "\n";
  for (const Preemption& preemption : plan.preemptions)
    text += "take " + ToString(preemption.job) + TextOf(preemption.placements) + "\n";
  for (const Move& move : plan.moves) text += "move " + ToString(move.job) + TextOf(move.to) + "\n";
  for (const Growth& growth : plan.growths) text += "grow " + ToString(growth.job) + TextOf(growth.placements) + "\n";
  for (const BackfillReservation& reservation : cluster.reservations()) {
    text += "reservation " + ToString(reservation.entry) + " " +
            std::to_string(reservation.start.time_since_epoch().count()) + TextOf(reservation.placements) + "\n";
  }
  return text;
}

/// A cluster and its index of node classes. The test applies the same events to two of these.
class Followed {
 public:
  explicit Followed(Rules rules, std::string scorer) : cluster(rules), scorer_(std::move(scorer)) {}

  void Add(const NodeProperties& properties) {
    ASSERT_TRUE(class_index.AddNode(properties));
    NodeFacts facts = PlainNode(static_cast<int>(cluster.node_count()), static_cast<int>(properties.gpus.size()));
    facts.rack = static_cast<std::uint32_t>(cluster.node_count() / 3);
    class_index.Fill(static_cast<NodeIndex>(cluster.node_count()), facts);
    cluster.AddNode(facts);
    Follow();
  }
  void Follow() {
    const NodeClassChange change = class_index.TakeChange();
    if (change.empty()) return;
    changes += 1;
    for (Shape& shape : asked_) shape.models = change.Translate(shape.models);
    cluster.SetNodeClasses(class_index, change, MakeScorer());
  }
  bool Submit(std::uint64_t id, const ResourceRequest& bare, const NodeWishes& wishes, Time now, Duration limit,
              Preemptible preemptible) {
    Result<ResourceRequest> request = CompileRequest(class_index, bare, wishes);
    Follow();
    if (!request) return false;
    Job job = MakeJob(cluster, id, *request, now, limit);
    job.preemptible = preemptible;
    cluster.Put(job, now);
    return true;
  }
  /// The usual demand: half of it for GPUs of one model.
  void Demand() {
    NodeFilter filter;
    filter.gpu_type = "h100";
    const FilterIndex h100 = class_index.Use(filter).value();
    asked_.push_back(asked_.front());
    asked_.back().models = class_index.Accepted(h100);
    cluster.SetScorer(MakeScorer());
    Follow();
  }
  /// Adds a filter that splits classes but that no job uses.
  void Distinguish(const NodeFilter& filter, bool stays) {
    const auto index = class_index.Use(filter);
    Follow();
    if (index && !stays) class_index.Leave(*index);
  }

  std::shared_ptr<const placement::Scorer> MakeScorer() const {
    if (scorer_ != "default") return placement::MakeSimpleScorer(scorer_);
    return placement::MakeScorer("default", placement::CountShapes(asked_), static_cast<double>(asked_.size()),
                                 class_index.CapacityParts(), class_index.Alike());
  }

  Cluster cluster;
  NodeClassIndex class_index;
  int changes = 0;

 private:
  std::string scorer_;
  std::vector<Shape> asked_ = {GpuRequest(1).groups.front().alternatives.front(),
                               GpuRequest(4).groups.front().alternatives.front()};
};

NodeWishes RandomWishes(Random& random, int nodes) {
  const NodeFilter filter = random.Filter(nodes);
  NodeWishes wishes;
  wishes.gpu_type = filter.gpu_type;
  wishes.features.all = filter.features;
  wishes.excluded = filter.excluded;
  if (random.draws.Below(3) == 0) wishes.features.alike = {FeatureCondition("f0"), FeatureCondition("f1")};
  return wishes;
}

// Both clusters get the same events, and `split` also gets unused filters. Their decisions must be identical, down to
// the GPUs. `apart`: counts how often these filters split classes.
void ExpectSplitsChangeNothing(std::uint64_t seed, const std::string& scorer, int& apart) {
  Random random(seed);
  random.models = 2;
  random.mixed_one_in = 6;
  Rules rules;
  rules.order = random.draws.Below(2) == 0 ? QueuePolicy::kFifo : QueuePolicy::kSmallFirst;
  rules.preempts = rules.consolidates = random.draws.Below(2) == 0;
  Followed plain(rules, scorer);
  Followed split(rules, scorer);
  constexpr int kNodes = 14;
  NodeProperties properties;
  for (int node = 0; node < kNodes; ++node) {
    // Each node has twins that differ only by name.
    if (node % 3 == 0) properties = random.Node(node, 4);
    properties.name = "n" + std::to_string(node);
    plain.Add(properties);
    split.Add(properties);
  }
  plain.Demand();
  split.Demand();
  std::vector<JobId> running;
  Time now = At(0);
  for (std::uint64_t step = 1; step <= 50; ++step) {
    now += std::chrono::minutes(random.draws.Below(30));
    const ResourceRequest bare =
        GpuRequest(random.draws.Below(5), 1 + random.draws.Below(3), random.draws.Below(4) == 0 ? 6 : 0);
    const NodeWishes wishes = random.draws.Below(2) == 0 ? RandomWishes(random, kNodes) : NodeWishes();
    const Duration limit = std::chrono::hours(random.draws.Below(4));
    const auto preemptible = random.draws.Below(2) == 0 ? Preemptible::kRequeue : Preemptible::kNever;
    if (random.draws.Below(2) == 0) split.Distinguish(random.Filter(kNodes), random.draws.Below(4) == 0);
    const bool is_in = plain.Submit(step, bare, wishes, now, limit, preemptible);
    ASSERT_EQ(split.Submit(step, bare, wishes, now, limit, preemptible), is_in);
    if (!running.empty() && random.draws.Below(2) == 0) {
      const auto at = running.begin() + random.draws.Below(static_cast<int>(running.size()));
      plain.cluster.Finish(*at, now);
      split.cluster.Finish(*at, now);
      running.erase(at);
    }
    if (random.draws.Below(2) == 0) split.Distinguish(random.Filter(kNodes), false);
    const Plan plan = plain.cluster.Decide(now);
    const Plan other = split.cluster.Decide(now);
    ASSERT_EQ(TextOf(plan, plain.cluster), TextOf(other, split.cluster)) << "seed " << seed << " step " << step;
    ASSERT_EQ(split.cluster.CheckInvariants(), "") << "seed " << seed << " step " << step;
    for (const Start& start : plan.starts) running.push_back(start.job);
    if (random.draws.Below(3) == 0) split.Distinguish(random.Filter(kNodes), false);
    ASSERT_EQ(split.cluster.CheckInvariants(), "") << "seed " << seed << " step " << step;
    ASSERT_TRUE(split.cluster.DecideAnew(now).starts.empty()) << "seed " << seed << " step " << step;
  }
  apart += split.changes - plain.changes;
}

TEST(NodeClassSplits, UnneededFiltersChangeNoPlan) {
  int apart = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    ExpectSplitsChangeNothing(seed, "pack", apart);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(apart, 100);
}

TEST(NodeClassSplits, UnneededFiltersChangeNoPlanWithScarcityPrices) {
  int apart = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ExpectSplitsChangeNothing(seed, "default", apart);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(apart, 50);
}

TEST(NodeClassSplits, AJobStartsOnANodeThatGetsItsFeature) {
  Followed world(Rules{}, "pack");
  world.Add(Properties("n0", {}, Gpus(4)));
  world.Add(Properties("n1", {"ib"}, Gpus(4)));
  NodeWishes wishes;
  wishes.features = ParseFeatureWish("ib").value();
  ASSERT_TRUE(world.Submit(1, GpuRequest(4), wishes, At(0), Duration(0), Preemptible::kNever));
  ASSERT_TRUE(world.Submit(2, GpuRequest(4), wishes, At(0), Duration(0), Preemptible::kNever));
  EXPECT_EQ(world.cluster.Decide(At(1)).starts.size(), 1u);
  ASSERT_TRUE(world.class_index.SetProperties(0, Properties("n0", {"ib"}, Gpus(4))));
  world.Follow();
  const Plan plan = world.cluster.Decide(At(2));
  ASSERT_EQ(plan.starts.size(), 1u);
  EXPECT_EQ(plan.starts.front().placements.front().node, 0u);
  world.Add(Properties("n2", {"ib"}, Gpus(4)));
  ASSERT_TRUE(world.Submit(3, GpuRequest(4), wishes, At(3), Duration(0), Preemptible::kNever));
  EXPECT_EQ(world.cluster.Decide(At(3)).starts.front().placements.front().node, 2u);
}

}  // namespace node_class_index_test
}  // namespace divvy::core
