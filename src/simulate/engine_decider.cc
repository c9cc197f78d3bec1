#include "simulate/engine_decider.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "engine/core/state/cluster.h"
#include "engine/placement/policy.h"

namespace divvy::simulate {
namespace {

using placement::kGpuParts;
using placement::ModelSet;
using placement::Shape;

constexpr double kHalfLife = 2000;  // In submissions, for the distribution of typical requests.
constexpr std::int64_t kMinDemandSamples = 16;
constexpr std::int64_t kMostBetweenLessons = 1024;
/// Some traces begin at 0, which the engine would interpret as "not set".
constexpr Duration kShift = std::chrono::hours(24);
/// Half of all predictions are wrong by more than a factor of two. So finer steps would only separate jobs that could
/// share a class.
constexpr double kStepsPerOctave = 2;

struct NamedPolicy {
  std::string_view name;
  QueuePolicy order;
};
constexpr std::array kPolicies = {NamedPolicy{"small-first", QueuePolicy::kSmallFirst},
                                  NamedPolicy{"fifo", QueuePolicy::kFifo}, NamedPolicy{"fair", QueuePolicy::kFair},
                                  NamedPolicy{"shortest", QueuePolicy::kShortest}};

Duration Rounded(Duration duration) {
  const double seconds = std::max(ToSeconds(duration), 1.0);
  return Duration(std::llround(std::exp2(std::round(std::log2(seconds) * kStepsPerOctave) / kStepsPerOctave) * 1e9));
}

std::int32_t MebibytesOf(Bytes bytes) {
  return static_cast<std::int32_t>(std::min<std::int64_t>(bytes.count() >> 20, 1 << 30));
}

class Engine : public EngineDecider {
 public:
  explicit Engine(const EngineRule& rule) : rule_(rule), cluster_(rule.rules), demand_(kHalfLife) {}

  Status Build(const TraceCluster& cluster) {
    for (const NodeGroup& group : cluster.groups) {
      if (group.gpus > GpuSet::kCapacity)
        return InvalidArgument("a node has " + std::to_string(group.gpus) + " GPUs; the limit is " +
                               std::to_string(GpuSet::kCapacity));
      // Requests for CPUs can be checked only if the trace gives the number of CPUs of all nodes.
      knows_cpus_ = knows_cpus_ && group.cpus > 0;
      knows_memory_ = knows_memory_ && group.memory.count() > 0;
    }
    for (const NodeGroup& group : cluster.groups) {
      const int node_class = AddKind(group);
      if (node_class >= placement::kMaxModels)
        return InvalidArgument("the nodes have more than " + std::to_string(placement::kMaxModels) +
                               " classes (combinations of GPU model and team)");
      for (int i = 0; i < group.count; ++i) AddNode(group, node_class, RackOf(group));
    }
    Learn();
    return {};
  }

  void Submit(JobIndex index, const TraceJob& trace_job, Time now) override {
    const core::ResourceRequest request = RequestOf(trace_job);
    if (request.groups.empty()) return;
    for (const core::TaskGroup& group : request.groups) {
      for (int task = 0; task < group.least; ++task) demand_.Add(group.alternatives.front());
    }
    if (demand_.seen() >= next_lesson_) Learn();
    core::Job job;
    job.id = JobId(std::uint64_t{index} + 1);
    job.request = cluster_.Know(request);
    job.team = TeamOf(trace_job.team);
    job.user = UserOf(trace_job.user);
    job.priority = trace_job.priority;
    job.queued_at = now + kShift;
    SetTimes(trace_job, job);
    cluster_.Put(job, now + kShift);
    jobs_[index] = {std::move(job), &trace_job, kNoTime};
    waiting_.insert(index);
  }

  void Ended(JobIndex index, Time now) override {
    cluster_.Finish(JobId(std::uint64_t{index} + 1), now + kShift);
    const auto known = jobs_.extract(index);
    if (rule_.predicting == Predicting::kHistory)
      run_times_.Add(ProfileOf(*known.mapped().trace_job), now + kShift - known.mapped().started);
  }

  Decision Decide(Time now) override {
    Decision decision;
    // Preempted GPUs are free at once: a simulated job needs no time to stop.
    for (bool has_taken = true; has_taken;) {
      const core::Plan plan = cluster_.Decide(now + kShift);
      wakeup_ = plan.next_wakeup == kNever ? kNever : plan.next_wakeup - kShift;
      for (const core::Start& start : plan.starts) decision.starts.push_back(StartedOf(start, now));
      has_taken = !plan.preemptions.empty();
      for (const core::Preemption& preemption : plan.preemptions) Preempt(preemption.job, now, decision);
    }
    return decision;
  }

  Time NextWakeup() const override { return wakeup_; }
  RunTimes::Accuracy accuracy() const override { return run_times_.accuracy(); }

  int ClassOf(const NodeGroup& group) const override { return static_cast<int>(FindKind(group)); }
  core::NodeIndex AddNode(const NodeGroup& group) override { return AddNode(group, ClassOf(group), RackOf(group)); }
  void SetAvailable(core::NodeIndex node, bool is_available) override {
    cluster_.SetUsable(node, is_available ? GpuSet::FirstN(cluster_.node(node).gpus) : GpuSet(), is_available);
  }
  std::size_t node_count() const override { return cluster_.node_count(); }
  const placement::NodeState& RoomOf(core::NodeIndex node) const override { return cluster_.state_of(node); }

  std::vector<WaitingJob> WaitingJobs() const override {
    std::vector<WaitingJob> waiting;
    for (const JobIndex index : waiting_) {
      const core::Job& job = jobs_.at(index).job;
      waiting.push_back({index, &cluster_.request(job.request), job.predicted, job.limit, job.queued_at - kShift});
    }
    return waiting;
  }

  std::vector<RunningTask> RunningTasks() const override {
    std::vector<RunningTask> tasks;
    for (const auto& [index, known] : jobs_) {
      if (known.started == kNoTime) continue;
      const core::Run& run = *cluster_.running(JobId(std::uint64_t{index} + 1));
      const core::ResourceRequest& request = cluster_.request(known.job.request);
      for (const core::TaskPlacement& placed : run.placements) {
        tasks.push_back({placed.node, &request.groups[placed.group].alternatives[placed.alternative], placed.place,
                         run.expected == kNever ? kNever : run.expected - kShift});
      }
    }
    return tasks;
  }

  void Withdraw(JobIndex job, Time now) override {
    cluster_.Remove(JobId(std::uint64_t{job} + 1), now + kShift);
    jobs_.erase(job);
    waiting_.erase(job);
  }

  void Requeue(JobIndex job, Time now) override {
    cluster_.Finish(JobId(std::uint64_t{job} + 1), now + kShift);
    Known& known = jobs_.at(job);
    known.started = kNoTime;
    cluster_.Put(known.job, now + kShift);
    waiting_.insert(job);
  }

 private:
  struct Known {
    core::Job job;
    const TraceJob* trace_job = nullptr;
    Time started = kNoTime;
  };
  struct SimulatedClass {
    std::string model;
    std::string team;
    int gpus = 0;  // GPUs of its largest node.
  };

  // --- The cluster

  std::size_t FindKind(const NodeGroup& group) const {
    const auto known = std::ranges::find_if(classes_, [&](const SimulatedClass& node_class) {
      return node_class.model == group.model && node_class.team == group.team;
    });
    return static_cast<std::size_t>(known - classes_.begin());
  }

  /// A group without nodes is one whose nodes are added later; it counts as one.
  int AddKind(const NodeGroup& group) {
    const std::size_t index = FindKind(group);
    if (index == classes_.size()) classes_.push_back({group.model, group.team, 0});
    classes_[index].gpus = std::max(classes_[index].gpus, group.gpus);
    capacity_parts_.resize(classes_.size());
    capacity_parts_[index] += std::int64_t{group.gpus} * std::max(group.count, 1) * kGpuParts;
    return static_cast<int>(index);
  }

  std::uint32_t RackOf(const NodeGroup& group) {
    return racks_.try_emplace(group.rack, static_cast<std::uint32_t>(racks_.size())).first->second;
  }

  core::NodeIndex AddNode(const NodeGroup& group, int node_class, std::uint32_t rack) {
    core::NodeFacts facts;
    facts.name = "n" + std::to_string(cluster_.node_count());
    facts.cpu_milli = knows_cpus_ ? group.cpus * 1000 : 0;
    facts.memory_mib = knows_memory_ ? MebibytesOf(group.memory) : 0;
    facts.gpus = group.gpus;
    facts.node_class = node_class;
    facts.gpu_model = models_.try_emplace(group.model, static_cast<int>(models_.size())).first->second;
    facts.rack = rack;
    return cluster_.AddNode(std::move(facts));
  }

  void Learn() {
    next_lesson_ =
        std::max(kMinDemandSamples, std::min(next_lesson_ + next_lesson_ / 4, next_lesson_ + kMostBetweenLessons));
    cluster_.SetScorer(placement::MakeScorer("default", demand_.Snapshot(), demand_.Requests(), capacity_parts_));
  }

  // --- Job requests

  /// The node classes on which the job may run, and the GPUs of the largest node.
  std::pair<ModelSet, int> ClassesFor(const TraceJob& job) const {
    const bool has_own = !job.team.empty() && std::ranges::any_of(classes_, [&](const SimulatedClass& node_class) {
      return node_class.team == job.team;
    });
    ModelSet models = 0;
    int most = 0;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      if (classes_[i].team != (has_own ? job.team : std::string())) continue;
      if (!job.gpu_type.empty()) {
        const auto types = Split(job.gpu_type, '|');
        if (std::ranges::find(types, std::string_view(classes_[i].model)) == types.end()) continue;
      }
      models |= ModelSet{1} << i;
      most = std::max(most, classes_[i].gpus);
    }
    return {models, most};
  }

  /// Without groups if no node could hold the job.
  core::ResourceRequest RequestOf(const TraceJob& job) const {
    core::ResourceRequest request;
    const auto [models, most] = ClassesFor(job);
    if (models == 0 || (job.gpus > 0 && most == 0)) return request;
    request.placement = rule_.placement;
    const int tasks = job.gpus > most ? job.gpus / most : 0;
    const int rest = job.gpus - tasks * most;
    const auto add = [&, models = models](int gpus, int count) {
      Shape shape;
      shape.gpus = static_cast<std::int16_t>(gpus);
      shape.parts = static_cast<std::int16_t>(gpus == 0 ? 0 : std::max(1, job.share.ten_thousandths()));
      shape.models = classes_.size() == 1 ? placement::kAnyModel : models;
      const double part = job.gpus > 0 ? static_cast<double>(gpus) / job.gpus : 1;
      if (knows_cpus_) shape.cpu_milli = static_cast<std::int32_t>(job.cpus * part * 1000);
      if (knows_memory_)
        shape.memory_mib = static_cast<std::int32_t>(static_cast<double>(MebibytesOf(job.memory)) * part);
      request.groups.push_back({{shape}, count, count});
    };
    if (tasks > 0) add(most, tasks);
    if (rest > 0 || tasks == 0) add(rest, 1);
    return request;
  }

  core::TeamIndex TeamOf(const std::string& name) {
    if (!rule_.uses_teams || name.empty()) return core::kRootTeam;
    const auto [at, is_new] = teams_.try_emplace(name, static_cast<core::TeamIndex>(teams_.size() + 1));
    if (is_new) {
      team_specs_.push_back({name});
      cluster_.teams().Reset(team_specs_);
      cluster_.RecountTeams(kNoTime);
    }
    return at->second;
  }

  core::UserIndex UserOf(const std::string& name) {
    if (rule_.rules.order != QueuePolicy::kFair || name.empty()) return 0;  // Keeps equal jobs in one class.
    return users_.try_emplace(name, static_cast<core::UserIndex>(users_.size() + 1)).first->second;
  }

  /// If a trace hides its users, teams are the best substitute.
  static RunProfile ProfileOf(const TraceJob& job) {
    return {job.user.empty() ? job.team : job.user, job.name, {}, job.gpus};
  }

  void SetTimes(const TraceJob& trace_job, core::Job& job) const {
    if (rule_.uses_limits) job.limit = trace_job.limit;
    switch (rule_.predicting) {
      case Predicting::kNone:
        return;
      case Predicting::kTrue:
        job.limit = job.predicted = std::max(trace_job.runtime, Duration(1));
        return;
      case Predicting::kHistory:
        break;
    }
    if (const auto estimate = run_times_.Predict(ProfileOf(trace_job))) job.predicted = Rounded(estimate->typical);
  }

  // --- Decisions

  Started StartedOf(const core::Start& start, Time now) {
    const auto index = static_cast<JobIndex>(start.entry.value() - 1);
    jobs_.at(index).started = now + kShift;
    waiting_.erase(index);
    Started started{index, {}, 1};
    for (const core::TaskPlacement& placed : start.placements)
      started.gpus.push_back({placed.node, placed.place.gpus.size()});
    return started;
  }

  void Preempt(JobId id, Time now, Decision& decision) {
    const auto index = static_cast<JobIndex>(id.value() - 1);
    Requeue(index, now);
    decision.stops.push_back({index, true});
  }

  EngineRule rule_;
  core::Cluster cluster_;
  placement::RunningDemand demand_;
  std::int64_t next_lesson_ = 0;
  std::vector<SimulatedClass> classes_;
  std::vector<std::int64_t> capacity_parts_;  // By node class.
  std::map<std::string, int> models_;
  bool knows_cpus_ = true;
  bool knows_memory_ = true;
  std::map<std::string, core::TeamIndex> teams_;
  std::vector<core::TeamSpec> team_specs_;
  std::map<std::string, core::UserIndex> users_;
  std::map<JobIndex, Known> jobs_;  // Jobs that wait or run.
  std::set<JobIndex> waiting_;
  std::map<std::string, std::uint32_t> racks_;
  RunTimes run_times_;
  Time wakeup_ = kNever;
};

}  // namespace

const std::vector<std::string_view>& EnginePolicyNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const NamedPolicy& named : kPolicies) all.push_back(named.name);
    return all;
  }();
  return names;
}

std::optional<QueuePolicy> EnginePolicyFromName(std::string_view name) {
  const auto known = std::ranges::find(kPolicies, name, &NamedPolicy::name);
  return known == kPolicies.end() ? std::nullopt : std::optional(known->order);
}

Result<std::unique_ptr<EngineDecider>> MakeEngineDecider(const TraceCluster& cluster, const EngineRule& rule) {
  auto engine = std::make_unique<Engine>(rule);
  DIVVY_CHECK(engine->Build(cluster));
  return std::unique_ptr<EngineDecider>(std::move(engine));
}

}  // namespace divvy::simulate
