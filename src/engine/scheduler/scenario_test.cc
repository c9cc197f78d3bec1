// Runs the scenarios of tests/scenarios that are not in a folder of another world, with the scheduler: what the
// controller uses, with the reasons that users read. tests/scenarios/README.md lists the commands.

#include "engine/core/cycle/scenario_test_world.h"
#include "engine/scheduler/explain.h"

namespace divvy {
namespace scenario_test {

using core::JobWords;
using core::Words;

/// The policy that gives these rules.
Policy PolicyOf(const core::RuleWords& rules) {
  Policy policy;
  policy.order = rules.order;
  policy.escalate_after = rules.escalate_after;
  policy.cpu_jobs_at_once = rules.cpu_jobs.value_or(policy.cpu_jobs_at_once);
  policy.preemption = {rules.reclaims,    rules.preempts,    rules.consolidates,
                       rules.min_runtime, rules.wait_before, rules.grace};
  return policy;
}

Bytes BytesOf(std::int32_t mib) { return Bytes(std::int64_t{mib} << 20); }

class SchedulerWorld : public core::ScenarioWorld {
 public:
  SchedulerWorld() {
    Add("restrict", &SchedulerWorld::SetAvailability);
    Add("unmanaged", &SchedulerWorld::SetAvailability);
    Add("fence", &SchedulerWorld::SetAvailability);
    Add("return", &SchedulerWorld::SetAvailability);
    Add("resizable", &SchedulerWorld::SetResizable);
    Add("met", &SchedulerWorld::MeetDependencies);
  }

 protected:
  // --- Facts --------------------------------------------------------------------------------------------------------

  const core::Cluster& cluster() const override { return scheduler_.core(); }
  std::string CheckInvariants() const override { return scheduler_.CheckInvariants(); }

  void AddNode(const std::string& name, const core::NodeAttributes& words) override {
    NodeCapacity capacity{core::GpusOf(words), words.cpu_milli / 1000, BytesOf(words.memory_mib)};
    for (GpuFacts& gpu : capacity.gpus) {
      if (gpu.memory_total == Bytes(0)) gpu.memory_total = 80_GiB;
    }
    NodeAttributes attributes;
    attributes.name = name;
    attributes.features = words.features;
    if (!words.pool.empty()) attributes.pools.push_back(words.pool);
    scheduler_.SetNode(nodes_++, std::move(attributes), std::move(capacity));
  }

  void SetRules(const Words& words) override {
    core::RuleWords rules{cluster().rules(), cpu_jobs_};
    ReadWords(core::RuleTable(), words, 1, rules);
    cpu_jobs_ = rules.cpu_jobs;
    scheduler_.SetPolicy(PolicyOf(rules));
    ASSERT_TRUE(cluster().rules() == rules) << "the scheduler has no such rule: " << words.text;
  }

  void SetCap(const std::string& name, int jobs, int gpus) override {
    scheduler_.SetGroupLimits(core::Spaced(name), {jobs, gpus});
  }

  void SetAvailability(const Words& words) {
    const std::string verb = words.Plain(0);
    const NodeIndex node = NodeOf(words.Plain(1));
    for (const int gpu : core::ReadGpus(words.Plain(2)).ToVector()) {
      GpuAvailability state;
      state.is_restricted = verb == "restrict";
      if (verb == "unmanaged") state.unmanaged = "pid 4711 of eve, 1.2 GiB, for 3 h";
      if (verb == "fence") state.fault = "XID 79 (fallen off the bus)";
      scheduler_.SetAvailability(node, static_cast<GpuIndex>(gpu), std::move(state));
    }
  }

  // --- Jobs ---------------------------------------------------------------------------------------------------------

  static Request RequestOf(const JobWords& job) {
    const core::TaskWords& task = job.groups.front();
    EXPECT_TRUE(job.groups.size() == 1 && task.tasks == 1 && task.types.size() < 2 && !task.shape.slice &&
                task.shape.parts % placement::kGpuParts == 0 &&
                job.request.locality == core::ResourceRequest().locality)
        << "the scheduler's scenarios have only jobs of one task, with whole GPUs of one type";
    Request request;
    request.gpus = task.has_gpus ? task.shape.gpus : 1;
    request.max_gpus = task.most;
    if (!task.types.empty()) request.gpu_type = task.types.front();
    request.gpu_memory = BytesOf(job.wishes.least_gpu_memory_mib);
    request.cpus = task.shape.cpu_milli / 1000;
    request.memory = BytesOf(task.shape.memory_mib);
    request.topology = job.request.topology;
    request.requires_topology = job.request.requires_topology;
    request.constraint = job.constraint;
    request.node_list = job.wishes.nodes;
    request.excluded_nodes = job.wishes.excluded;
    return request;
  }

  static std::vector<GroupName> GroupsOf(const JobWords& job) {
    std::vector<GroupName> groups;
    for (const std::string& cap : job.caps) groups.push_back(core::Spaced(cap));
    if (job.at_once > 0) groups.push_back("array " + ToString(job.job.id));
    return groups;
  }

  Status CheckFeasible(const JobWords& job) const override { return divvy::CheckFeasible(scheduler_, RequestOf(job)); }

  void Put(const JobWords& job) override {
    if (job.at_once > 0) scheduler_.SetGroupLimit("array " + ToString(job.job.id), job.at_once);
    WaitingEntry entry;
    entry.id = job.job.id;
    entry.count = job.job.count;
    entry.request = RequestOf(job);
    entry.priority = job.job.priority;
    entry.queued_at = job.job.queued_at;
    entry.time_limit = job.job.limit;
    entry.pool = job.groups.front().pool;
    entry.groups = GroupsOf(job);
    entry.placement = job.placement.value_or(Policy().placement);
    entry.placement_draw = job.job.draw;
    entry.user = job.user;
    entry.predicted = job.job.predicted;
    entry.preemptible = job.job.preemptible;
    entry.is_held = job.job.is_parked;
    entry.begin = job.job.begin;
    entry.unmet_dependencies = job.after;
    if (!job.ends.empty()) entry.waits_for = {IdOf(job.ends)};
    scheduler_.Put(std::move(entry));
  }

  void Adopt(const JobWords& words, std::vector<core::TaskPlacement> placements) override {
    ASSERT_EQ(placements.size(), 1u);
    RunningJob job;
    job.id = words.job.id;
    job.node = placements.front().node;
    job.gpus = placements.front().place.gpus;
    job.request = RequestOf(words);
    if (!words.groups.front().has_gpus) job.request.gpus = job.gpus.size();
    job.cpus = job.request.cpus;
    job.memory = job.request.memory;
    job.groups = GroupsOf(words);
    job.priority = words.job.priority;
    job.preemptible = words.job.preemptible;
    job.started = words.job.queued_at;
    if (words.job.limit > Duration(0)) job.known_end = job.started + words.job.limit;
    job.is_resizable = job.request.is_elastic();
    job.asked_back = words.asked_back;
    if (!job.asked_back.empty()) job.asked_at = now_;
    scheduler_.Adopt(std::move(job));
  }

  void Remove(JobId waiting) override { scheduler_.Remove(waiting); }
  void End(JobId running) override { scheduler_.Finish(running); }
  void GiveBack(JobId running, const std::vector<core::TaskPlacement>& placements) override {
    scheduler_.Resize(running, scheduler_.running(running)->gpus - core::GpusOf(placements));
  }

  void SetResizable(const Words& words) {
    ASSERT_TRUE(IsRunning(words.Plain(1))) << words.text;
    scheduler_.SetResizable(IdOf(words.Plain(1)));
  }

  void MeetDependencies(const Words& words) {
    ASSERT_TRUE(IsWaiting(words.Plain(1))) << words.text;
    JobWords& job = jobs_.at(IdOf(words.Plain(1)));
    job.after.clear();
    job.job.queued_at = now_;
    Put(job);
  }

  // --- Decisions ----------------------------------------------------------------------------------------------------

  Time DecideOnce() override {
    const Decided decided = scheduler_.Decide(now_, [this](JobId entry) {
      return jobs_.at(entry).job.count > 1 ? JobId(entry.value() + ++started_[entry]) : entry;
    });
    const Plan& plan = decided.plan;
    for (std::size_t i = 0; i < plan.starts.size(); ++i) {
      const JobId job = decided.jobs[i];
      Began(plan.starts[i].entry, job);
      Tell() << NameOf(job) << " starts on " << PlaceOf(job, cluster().running(job)->placements) << ": "
             << plan.starts[i].reason << "\n";
    }
    for (const Preemption& preemption : plan.preemptions) {
      BeginsToLeave(preemption.job);
      Tell() << NameOf(preemption.job) << " " << preemption.reason << "\n";
    }
    for (const Resizing& one : plan.resizings) {
      const std::string node = NodeName(scheduler_.running(one.job)->node);
      Tell() << NameOf(one.job) << " has " << node << " " << GpusText(one.gpus)
             << (one.asked_back.empty() ? "" : " and is to give back " + node + " " + GpusText(one.asked_back)) << ": "
             << one.reason << "\n";
    }
    return plan.next_wakeup;
  }

  void CheckFinal() const override {
    ScenarioWorld::CheckFinal();
    const Plan plan = scheduler_.WouldDecide(now_);
    ASSERT_TRUE(plan.starts.empty() && plan.preemptions.empty() && plan.resizings.empty())
        << "a further decision at the same time changes something";
  }

  /// All GPUs of a job together. A resized job may have several placements for its one task.
  std::string PlaceOf(JobId /*id*/, const std::vector<core::TaskPlacement>& placements) const override {
    const GpuSet gpus = core::GpusOf(placements);
    return NodeName(placements.front().node) + (gpus.empty() ? "" : " " + GpusText(gpus));
  }

  core::Explanation ExplainJob(JobId id) const override {
    core::Explanation answer = Explain(scheduler_, id, now_);
    if (!answer.is_waiting) return answer;
    const std::optional<core::Blocker> first = FirstBlockers(scheduler_, now_).Find(id);
    EXPECT_EQ(first ? first->text : "", answer.blockers.empty() ? "" : answer.blockers.front().text);
    return answer;
  }

 private:
  Scheduler scheduler_;
  NodeIndex nodes_ = 0;
  std::optional<int> cpu_jobs_;
  std::map<JobId, std::uint64_t> started_;  // Members of arrays.
};

class SchedulerScenarios : public ::testing::TestWithParam<std::string> {};

TEST_P(SchedulerScenarios, MatchTheirExpectedResults) {
  ShowScenario(GetParam(), [](const std::string& commands) { return SchedulerWorld().Execute(commands); });
}

INSTANTIATE_TEST_SUITE_P(, SchedulerScenarios, ::testing::ValuesIn(ScenarioFiles("scheduler")), ScenarioName);

}  // namespace scenario_test
}  // namespace divvy
