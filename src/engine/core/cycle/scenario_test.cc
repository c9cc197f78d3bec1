// Runs tests/scenarios/cluster/**.txt with the engine core. Each file shows one rule of a cluster;
// tests/scenarios/README.md lists the commands.

#include <set>

#include "engine/core/cycle/scenario_test_world.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/explain/node_class_text.h"

namespace divvy::core {
namespace scenario_test {

/// The node's properties that requests can name.
NodeProperties PropertiesOf(const NodeAttributes& words, std::string name) {
  NodeProperties properties;
  properties.name = std::move(name);
  if (!words.pool.empty()) properties.pools.push_back(words.pool);
  properties.features = words.features;
  for (int gpu = 0; gpu < words.gpus; ++gpu) {
    properties.gpus.push_back({words.Model(gpu), words.MemoryMib(gpu), words.compute});
  }
  return properties;
}

/// One task of a group, without node requirements.
TaskGroup GroupOf(const TaskWords& words) {
  TaskGroup group;
  group.least = words.tasks;
  group.most = std::max(words.most, words.tasks);
  Shape shape = words.shape;
  if (!words.has_gpus) {
    shape.gpus = 1;
    shape.parts = placement::kGpuParts;
  }
  if (shape.gpus == 0 && shape.cpu_milli == 0) shape.cpu_milli = 1000;
  group.alternatives.push_back(shape);
  return group;
}

/// Expands these groups by the types and pool of `words`, plus `wishes`. The types become alternatives, the first one
/// preferred.
Result<std::vector<TaskGroup>> PutOn(NodeClassIndex& reserve, const std::vector<TaskGroup>& groups,
                                     const TaskWords& words, NodeWishes wishes, bool* alike) {
  ResourceRequest bare;
  bare.groups = groups;
  wishes.pool = words.pool;
  std::vector<TaskGroup> made;
  const std::vector<std::string> any(1);
  for (const std::string& type : words.types.empty() ? any : words.types) {
    const std::size_t star = std::min(type.find('*'), type.size());
    wishes.gpu_type = Join(ReadList(type.substr(0, star), '+'), "|");
    DIVVY_TRY(ResourceRequest request, CompileRequest(reserve, bare, wishes));
    *alike = *alike || request.alike;
    if (made.empty()) made.resize(request.groups.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      TaskGroup& group = request.groups[i];
      const bool has_speed = star < type.size();
      const int speed = has_speed ? ReadDecimal(type.substr(star + 1), 1000) : 1000;
      group.speeds.assign(group.alternatives.size(), static_cast<std::int16_t>(speed));
      group.alternatives.insert(group.alternatives.begin(), made[i].alternatives.begin(), made[i].alternatives.end());
      group.filters.insert(group.filters.begin(), made[i].filters.begin(), made[i].filters.end());
      group.speeds.insert(group.speeds.begin(), made[i].speeds.begin(), made[i].speeds.end());
      made[i] = std::move(group);
    }
  }
  for (TaskGroup& group : made) {
    if (words.types.size() < 2) group.speeds.clear();
    // A later filter may have split the kinds of an earlier one.
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      group.alternatives[i].models = reserve.Accepted(group.filters[i]);
    }
  }
  return made;
}

/// Makes `job.request`; its filters are in use from then on.
Status MakeRequest(NodeClassIndex& reserve, JobWords& job) {
  DIVVY_TRY(job.wishes.features, ParseFeatureWish(job.constraint));
  std::vector<TaskGroup> groups;
  bool is_same = true;  // A constraint treats groups with equal node requirements as one.
  for (const TaskWords& words : job.groups) {
    groups.push_back(GroupOf(words));
    is_same = is_same && words.types == job.groups.front().types && words.pool == job.groups.front().pool;
  }
  if (is_same) {
    DIVVY_TRY(job.request.groups, PutOn(reserve, groups, job.groups.front(), job.wishes, &job.request.alike));
    return {};
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    DIVVY_TRY(std::vector<TaskGroup> made, PutOn(reserve, {groups[i]}, job.groups[i], job.wishes, &job.request.alike));
    job.request.groups.insert(job.request.groups.end(), made.begin(), made.end());
  }
  for (TaskGroup& group : job.request.groups) {
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      group.alternatives[i].models = reserve.Accepted(group.filters[i]);
    }
  }
  return {};
}

struct TeamWords {
  TeamSpec spec;
  std::string under;
  std::optional<Duration> used;  // In GPU time.
};

const WordTable<TeamWords>& TeamTable() {
  static const WordTable<TeamWords> table = {
      {"under", [](TeamWords& team, const std::string& text) { team.under = text; }},
      {"quota", [](TeamWords& team, const std::string& text) { team.spec.quota_parts = ReadParts(text); }},
      {"limit", [](TeamWords& team, const std::string& text) { team.spec.limit_parts = ReadParts(text); }},
      {"weight",
       [](TeamWords& team, const std::string& text) { team.spec.weight = static_cast<std::uint64_t>(ReadInt(text)); }},
      {"priority", [](TeamWords& team, const std::string& text) { team.spec.priority = ReadInt(text); }},
      {"used", [](TeamWords& team, const std::string& text) { team.used = ReadDuration(text); }},
  };
  return table;
}

struct ReserveWords {
  std::string gpus = "1";
  std::string tasks = "1";
  std::string user;
  std::string team;
  Duration from{0};
  Duration until{0};
};

const WordTable<ReserveWords>& ReserveTable() {
  static const WordTable<ReserveWords> table = {
      {"gpus", [](ReserveWords& reserve, const std::string& text) { reserve.gpus = text; }},
      {"tasks", [](ReserveWords& reserve, const std::string& text) { reserve.tasks = text; }},
      {"user", [](ReserveWords& reserve, const std::string& text) { reserve.user = text; }},
      {"team", [](ReserveWords& reserve, const std::string& text) { reserve.team = text; }},
      {"from", [](ReserveWords& reserve, const std::string& text) { reserve.from = ReadDuration(text); }},
      {"until", [](ReserveWords& reserve, const std::string& text) { reserve.until = ReadDuration(text); }},
  };
  return table;
}

class ClusterWorld : public ScenarioWorld {
 public:
  ClusterWorld() {
    Add("features", &ClusterWorld::SetFeatures);
    Add("demand", &ClusterWorld::SetDemand);
    Add("line", &ClusterWorld::AddLine);
    Add("team", &ClusterWorld::AddTeam);
    Add("book", &ClusterWorld::Reserve);
    Add("unbook", &ClusterWorld::Unbook);
    Add("usable", &ClusterWorld::SetUsable);
    Add("drain", &ClusterWorld::SetUsable);
    Add("return", &ClusterWorld::SetUsable);
  }

 protected:
  // --- Facts --------------------------------------------------------------------------------------------------------

  const Cluster& cluster() const override { return cluster_; }
  std::string CheckInvariants() const override {
    const std::string broken = class_index_.CheckInvariants();
    return broken.empty() ? cluster_.CheckInvariants() : broken;
  }

  void AddNode(const std::string& name, const NodeAttributes& node) override {
    NodeFacts facts;
    facts.name = name;
    facts.cpu_milli = node.cpu_milli;
    facts.memory_mib = node.memory_mib;
    facts.gpus = node.gpus;
    facts.rack = node.rack;
    facts.block = node.block;
    if (node.numa > 0 || node.nvlink > 0) facts.topology = std::make_shared<GpuTopology>(GpusOf(node));
    for (int gpu = 0; gpu < node.gpus && node.gpu_memory_mib > 0; ++gpu) {
      facts.gpu_memory_mib.push_back(node.MemoryMib(gpu));
    }
    if (node.has_mig) facts.sliceable = GpuSet::FirstN(node.gpus);
    properties_.push_back(PropertiesOf(node, name));
    const Status added = class_index_.AddNode(properties_.back());
    ASSERT_TRUE(added) << added.error().message;
    class_index_.Fill(static_cast<NodeIndex>(cluster_.node_count()), facts);
    cluster_.AddNode(facts);
    FollowNodeClasses();
    cluster_.SetScorer(ScorerOfDemand());
  }

  /// Replaces the features of the node.
  void SetFeatures(const Words& words) {
    const NodeIndex node = NodeOf(words.Plain(1));
    properties_[node].features = ReadList(words.Plain(2), ',');
    const Status set = class_index_.SetProperties(node, properties_[node]);
    ASSERT_TRUE(set) << set.error().message;
    FollowNodeClasses();
  }

  /// "6x1:4 2x0.5": recently six requests for a GPU and four CPUs, and two for half a GPU.
  void SetDemand(const Words& words) {
    demand_.clear();
    for (std::size_t i = 1; i < words.all.size(); ++i) {
      const std::string& word = words.all[i].first;
      const std::size_t colon = std::min(word.find(':'), word.size());
      const std::size_t x = word.find('x') + 1;
      TaskWords task;
      TaskTable().at("gpus")(task, word.substr(x, colon - x));
      if (colon < word.size()) TaskTable().at("cpus")(task, word.substr(colon + 1));
      demand_.insert(demand_.end(), static_cast<std::size_t>(ReadInt(word)), task.shape);
    }
    cluster_.SetScorer(ScorerOfDemand());
  }

  void SetRules(const Words& words) override {
    RuleWords rules{cluster_.rules(), {}};
    ReadWords(RuleTable(), words, 1, rules);
    cluster_.SetRules(rules);
  }

  /// Adds a pool with a queue and a policy of its own.
  void AddLine(const Words& words) {
    RuleWords rules;
    ReadWords(RuleTable(), words, 2, rules);
    lines_[words.Plain(1)] = cluster_.AddPool(rules);
  }

  void AddTeam(const Words& words) {
    TeamWords team;
    ReadWords(TeamTable(), words, 2, team);
    team.spec.name = words.Plain(1);
    team.spec.parent = TeamOf(team.under);
    specs_.push_back(team.spec);
    if (team.used) used_[static_cast<TeamIndex>(specs_.size())] = *team.used;
    cluster_.teams().Reset(specs_);
    for (const auto& [index, used] : used_) {
      cluster_.teams().SetUsage(index, std::chrono::duration<double>(used).count() * placement::kGpuParts, now_);
    }
    cluster_.RecountTeams(now_);
  }

  void SetCap(const std::string& name, int jobs, int gpus) override {
    const auto [at, is_new] = caps_.try_emplace(name);
    const std::int64_t parts = std::int64_t{gpus} * placement::kGpuParts;
    if (is_new) at->second = cluster_.AddCap("group " + Spaced(name), jobs, parts);
    else cluster_.SetCap(at->second, jobs, parts);
  }

  void Reserve(const Words& words) {
    ReserveWords reserve;
    ReadWords(ReserveTable(), words, 2, reserve);
    TaskWords task;
    TaskTable().at("gpus")(task, reserve.gpus);
    TaskTable().at("tasks")(task, reserve.tasks);
    ResourceRequest request;
    request.groups.push_back(GroupOf(task));
    AdvanceReservation wanted;
    wanted.id = ++last_reservation_;
    wanted.request = cluster_.Know(request);
    wanted.team = TeamOf(reserve.team);
    if (!reserve.user.empty()) wanted.user = UserOf(reserve.user);
    wanted.from = now_ + reserve.from;
    wanted.until = now_ + reserve.until;
    const std::optional<AdvanceReservation> reserved = cluster_.Reserve(wanted, now_);
    Tell() << words.Plain(1) << (reserved ? " keeps " + PlaceText(request, reserved->placements) : " finds no room")
           << "\n";
    if (reserved) reservations_[words.Plain(1)] = reserved->id;
  }
  void Unbook(const Words& words) {
    ASSERT_TRUE(reservations_.contains(words.Plain(1))) << words.text;
    cluster_.CancelReservation(reservations_[words.Plain(1)]);
  }

  void SetUsable(const Words& words) {
    const GpuSet all = GpuSet::FirstN(GpuSet::kCapacity);
    const GpuSet usable = words.Plain(0) == "usable" ? ReadGpus(words.Plain(2)) : all;
    cluster_.SetUsable(NodeOf(words.Plain(1)), usable, words.Plain(0) != "drain");
  }

  // --- Jobs ---------------------------------------------------------------------------------------------------------

  Status Prepare(JobWords& job) override {
    EXPECT_TRUE(job.after.empty() && job.asked_back.empty()) << "only the scheduler knows after= and asked=";
    DIVVY_CHECK(MakeRequest(class_index_, job));
    FollowNodeClasses();
    job.request.placement = job.placement.value_or(job.request.placement);
    if (!job.line.empty()) {
      EXPECT_TRUE(lines_.contains(job.line)) << "no such line: " << job.line;
      job.request.pool = lines_[job.line];
    }
    job.job.request = cluster_.Know(job.request);
    job.job.team = TeamOf(job.team);
    job.job.user = UserOf(job.user);
    for (const std::string& cap : job.caps) {
      EXPECT_TRUE(caps_.contains(cap)) << "no such cap: " << cap;
      job.job.caps.push_back(caps_[cap]);
    }
    if (job.at_once > 0) job.job.caps.push_back(cluster_.AddCap("array " + ToString(job.job.id), job.at_once));
    std::sort(job.job.caps.begin(), job.job.caps.end());
    return {};
  }
  Status CheckFeasible(const JobWords& job) const override {
    DIVVY_CHECK(Feasible(cluster_, job.request, NamesOf(class_index_)));
    return FeasibleForTeam(cluster_, job.request, job.job.team, job.job.preemptible);
  }
  void Put(const JobWords& job) override { cluster_.Put(job.job, now_); }
  void Adopt(const JobWords& job, std::vector<TaskPlacement> placements) override {
    ASSERT_EQ(placements.front().place.gpus.size(), job.request.groups.front().alternatives.front().gpus);
    cluster_.Adopt(job.job, std::move(placements), now_ - job.since, now_);
  }
  void Remove(JobId waiting) override { cluster_.Remove(waiting, now_); }
  void End(JobId running) override { cluster_.Finish(running, now_); }
  void GiveBack(JobId running, const std::vector<TaskPlacement>& placements) override {
    cluster_.GiveBack(running, placements, now_);
  }

  // --- Decisions ----------------------------------------------------------------------------------------------------

  Time DecideOnce() override {
    const Plan plan = cluster_.Decide(now_);
    for (const Start& start : plan.starts) Began(start.entry, start.job);
    for (const Carving& carving : plan.carvings) {
      Tell() << NodeName(carving.node) << " GPU " << carving.gpu << (carving.is_merge ? " is merged" : " is carved")
             << " for " << NameOf(carving.preemptor) << "\n";
    }
    for (const Start& start : plan.starts) {
      Tell() << NameOf(start.job) << " starts on " << PlaceOf(start.job, start.placements)
             << (start.is_backfilled ? ", passing " + NameOf(start.passed) : "") << "\n";
    }
    for (const Growth& growth : plan.growths) {
      Tell() << NameOf(growth.job) << " grows by " << PlaceOf(growth.job, growth.placements) << "\n";
    }
    for (const Preemption& preemption : plan.preemptions) {
      BeginsToLeave(preemption.job);
      Tell() << NameOf(preemption.job) << (preemption.is_all ? " makes room on " : " gives back ")
             << PlaceOf(preemption.job, preemption.placements) << " for " << NameOf(preemption.preemptor) << "\n";
    }
    for (const Move& move : plan.moves) {
      BeginsToLeave(move.job);
      Tell() << NameOf(move.job) << " moves from " << PlaceOf(move.job, move.from) << " to "
             << PlaceOf(move.job, move.to) << " for " << NameOf(move.preemptor) << "\n";
    }
    return plan.next_wakeup;
  }

  Explanation ExplainJob(JobId id) const override { return Explain(cluster_, id, now_, NamesOf(class_index_)); }

 private:
  TeamIndex TeamOf(const std::string& name) const {
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].name == name) return static_cast<TeamIndex>(i + 1);
    }
    EXPECT_EQ(name, "") << "no such team";
    return kRootTeam;
  }
  UserIndex UserOf(const std::string& name) {
    if (name.empty()) return 0;
    return users_.try_emplace(name, static_cast<UserIndex>(users_.size() + 1)).first->second;
  }

  std::shared_ptr<const placement::Scorer> ScorerOfDemand() const {
    return placement::MakeScorer("default", placement::CountShapes(demand_), static_cast<double>(demand_.size()),
                                 class_index_.CapacityParts(), class_index_.Alike());
  }

  // Node kinds change while jobs run and wait; this alone must change nothing for the jobs.
  void FollowNodeClasses() {
    const NodeClassChange change = class_index_.TakeChange();
    if (!change.empty()) cluster_.SetNodeClasses(class_index_, change, ScorerOfDemand());
  }

  Cluster cluster_{Rules{}};
  NodeClassIndex class_index_;
  std::vector<NodeProperties> properties_;
  std::map<std::string, PoolIndex> lines_;
  std::vector<Shape> demand_;
  std::vector<TeamSpec> specs_;
  std::map<TeamIndex, Duration> used_;
  std::map<std::string, CapIndex> caps_;
  std::map<std::string, UserIndex> users_;
  std::map<std::string, std::uint64_t> reservations_;
  std::uint64_t last_reservation_ = 0;
};

class ClusterScenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(ClusterScenarios, MatchTheirExpectedPlans) {
  ShowScenario(GetParam(), [](const std::string& commands) { return ClusterWorld().Execute(commands); });
}

INSTANTIATE_TEST_SUITE_P(, ClusterScenarios, ::testing::ValuesIn(ScenarioFiles("cluster")), ScenarioName);

}  // namespace scenario_test
}  // namespace divvy::core
