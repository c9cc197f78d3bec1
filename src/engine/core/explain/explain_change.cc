#include "engine/core/explain/explain_change.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/placer.h"

namespace divvy::core {
namespace {

/// Shorter time limits are not suggested.
constexpr Duration kShortestLimit = std::chrono::minutes(1);
/// Reductions go down to 1/kLeastPart of the request; anything smaller would be a different job.
constexpr int kLeastPart = 4;
/// The largest number of trials for one kind of change; each costs a look at every node.
constexpr int kMostTries = 8;

class Search {
 public:
  Search(const Cluster& cluster, const Seeker& seeker, Time now, const Names& names)
      : cluster_(cluster),
        state_(const_cast<ClusterState&>(cluster.state())),  // A JobPerspective restores what it removes.
        seeker_(seeker),
        now_(now),
        names_(names) {}

  std::optional<Change> Find() {
    // No change is suggested for a job with several components: an option could not say to which component it applies.
    if (IsHeterogeneous(seeker_.request)) return std::nullopt;
    // No change of the request helps against a limit on running jobs.
    for (const CapIndex index : seeker_.key.caps) {
      const Cap& cap = state_.caps[index];
      if (RefusesJobs(cap)) return std::nullopt;
      if (cap.parts_limit > 0) cap_room_ = std::min(cap_room_, cap.parts_limit - cap.parts);
    }
    if (cap_room_ <= 0 && WantsGpu(seeker_.request)) return std::nullopt;
    for (const auto attempt :
         {&Search::Preempt, &Search::TimeLimit, &Search::Apart, &Search::Topology, &Search::Host, &Search::Model,
          &Search::FewerGpus, &Search::FewerTasks, &Search::SmallerSlice, &Search::LessGpuMemory, &Search::Share}) {
      if (std::optional<Change> change = (this->*attempt)()) return change;
    }
    return std::nullopt;
  }

 private:
  Change Same(ChangeKind change) const {
    return {change, seeker_.request, seeker_.key.limit, seeker_.key.preemptible, ""};
  }

  const TaskGroup& group() const { return seeker_.request.groups.front(); }
  const Shape& shape() const { return group().alternatives.front(); }
  bool HasOneGroup() const { return seeker_.request.groups.size() == 1; }

  bool Helps(const Change& change) const { return TryChange(cluster_, seeker_, change, now_).starts; }

  // "GPUs 3 and 5 are free", "GPU 0 of n2 has 0.5 left", "there is room on n2"; "" if there is nothing to add.
  std::string RoomText(const Change& change, const ChangeTrial& trial) const {
    const bool has_many = state_.nodes.size() > 1;
    const std::int64_t tasks = LeastTasks(change.request);
    if (has_many && tasks > 1) return "there is room for " + Plural(tasks, "task");
    const GpuSet gpus = GpusOf(trial.placements);  // All on one node: there is only one node, or only one task.
    if (gpus.empty()) return has_many ? "there is room on " + state_.nodes[trial.node].facts.name : "";
    const Node& node = state_.nodes[trial.placements.front().node];
    const std::string which = GpusText(gpus) + (has_many ? " of " + node.facts.name : "");
    if (shape().slice) return which + " has room";
    std::int16_t least = placement::kGpuParts;
    for (const int gpu : gpus.ToVector()) least = std::min(least, placement::RoomOfGpu(node.state, gpu).free_parts);
    if (least == placement::kGpuParts) return which + " " + std::string(IsOrAre(gpus.size())) + " free";
    return which + (gpus.size() == 1 ? " has " : " have ") + GpuNumber(least) + " left";
  }

  // Returns the change with its text if the job would start with it.
  std::optional<Change> Try(Change change, const std::string& flags) {
    const ChangeTrial trial = TryChange(cluster_, seeker_, change, now_);
    if (!trial.starts) return std::nullopt;
    const std::string room =
        change.kind == ChangeKind::kHost && state_.nodes.size() == 1 ? "that much is free" : RoomText(change, trial);
    change.text = flags + (room.empty() ? "" : " (" + room + ")");
    return change;
  }

  std::optional<Change> Preempt() {
    if (seeker_.key.preemptible != Preemptible::kNever || !state_.teams.has_rules()) return std::nullopt;
    const std::int64_t parts = LeastGpuParts(seeker_.request);
    if (state_.teams.OverFirmQuota(seeker_.key.team, parts) == kRootTeam) return std::nullopt;
    Change change = Same(ChangeKind::kPreemptible);
    change.preemptible = Preemptible::kRequeue;
    return Try(std::move(change), "--preemptible requeue");
  }

  std::optional<Change> TimeLimit() {
    std::set<std::pair<Time, JobId>> begins;  // When reservations begin on nodes where the job would fit.
    {
      const JobPerspective perspective(state_, seeker_, now_);
      for (const NodeIndex index : state_.held) {
        std::int64_t room = 0;
        for (const TaskGroup& one : seeker_.request.groups) room += RoomOf(state_.nodes[index].state, one);
        if (room == 0) continue;
        for (const ReservedCapacity& reserved : state_.nodes[index].reserved) {
          if (perspective.Binds(reserved) && !reserved.drains && reserved.from > now_)
            begins.emplace(reserved.from, reserved.entry);
        }
      }
    }
    int tries = 0;
    Duration last{0};
    for (auto at = begins.rbegin(); at != begins.rend() && tries < kMostTries; ++at) {
      Duration limit = at->first - now_;
      // Rounds the suggested time limit down to whole minutes if it is longer than ten minutes, otherwise to seconds.
      limit -= limit % (limit > std::chrono::minutes(10) ? Duration(std::chrono::minutes(1))
                                                         : Duration(std::chrono::seconds(1)));
      if (limit < kShortestLimit || limit < seeker_.key.predicted || limit == last) continue;
      if (seeker_.key.limit > Duration(0) && limit >= seeker_.key.limit) continue;
      last = limit;
      ++tries;
      Change change = Same(ChangeKind::kTimeLimit);
      change.limit = limit;
      if (!Helps(change)) continue;
      const std::string what = at->second.is_set() ? "job " + ToString(at->second) + " starts" : "a reservation begins";
      change.text = "--time " + DurationFlag(limit) + " (it would end before " + what + " in " +
                    DurationText(at->first - now_) + ")";
      return change;
    }
    return std::nullopt;
  }

  std::optional<Change> Apart() {
    const ResourceRequest& request = seeker_.request;
    const Locality widest = WidestOf(request);
    if (widest == Locality::kAnywhere || LeastTasks(request) == 1) return std::nullopt;
    for (int level = static_cast<int>(widest) - 1; level > 0; --level) {
      Change change = Same(ChangeKind::kLocality);
      change.request.locality = static_cast<Locality>(level);
      change.request.requires_locality = true;
      change.request.widest = Locality::kAnywhere;
      const std::string name(LocalityName(change.request.locality));
      if (auto found = Try(std::move(change), "--topology " + name + ":required")) return found;
    }
    Change change = Same(ChangeKind::kLocality);
    change.request.locality = ClosestOf(request);
    change.request.requires_locality = false;
    change.request.widest = Locality::kAnywhere;
    return Try(std::move(change), "--topology " + std::string(LocalityName(change.request.locality)));
  }

  std::optional<Change> Topology() {
    if (!NeedsTopology(seeker_.request, shape())) return std::nullopt;
    Change change = Same(ChangeKind::kTopology);
    change.request.requires_topology = false;
    return Try(std::move(change), "--topology " + std::string(TopologyName(seeker_.request.topology)));
  }

  // --- Fewer CPUs or less memory ------------------------------------------------------------------------------------

  static bool IsEnough(std::int64_t less, std::int64_t asked) {
    return less * kLeastPart >= asked && (less > 0 || asked == 0);
  }

  std::optional<Change> TryHost(std::int32_t cpus, std::int32_t memory) {
    Change change = Same(ChangeKind::kHost);
    for (TaskGroup& one : change.request.groups) {
      for (Shape& alternative : one.alternatives) {
        alternative.cpu_milli = std::min(alternative.cpu_milli, cpus);
        alternative.memory_mib = std::min(alternative.memory_mib, memory);
      }
    }
    std::vector<std::string> flags;
    if (cpus < shape().cpu_milli) flags.push_back("--cpus " + CpusFlag(cpus));
    if (memory < shape().memory_mib) flags.push_back("--memory " + MibFlag(memory));
    return Try(std::move(change), Join(flags, " "));
  }

  // Rounds down to whole units (cores, GiB) if the value is more than one unit.
  static std::int32_t Rounded(std::int32_t value, std::int32_t unit) {
    return value > unit ? value - value % unit : value;
  }

  std::optional<Change> Host() {
    if (!HasOneGroup() || (shape().cpu_milli == 0 && shape().memory_mib == 0)) return std::nullopt;
    if (!IsSingle(seeker_.request)) {
      for (const int part : {2, kLeastPart}) {
        const std::int32_t cpus = Rounded(shape().cpu_milli / part, 1000);
        const std::int32_t memory = Rounded(shape().memory_mib / part, 1024);
        if (shape().cpu_milli > 0) {
          if (auto found = TryHost(cpus, shape().memory_mib)) return found;
        }
        if (shape().memory_mib > 0) {
          if (auto found = TryHost(shape().cpu_milli, memory)) return found;
        }
      }
      return std::nullopt;
    }
    // Nodes by the fraction of the request that they can serve, in negated thousandths.
    std::vector<std::pair<std::int64_t, NodeIndex>> near;
    Shape bare = shape();
    bare.cpu_milli = bare.memory_mib = 0;
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const NodeState& node = state_.nodes[index].state;
      if (!placement::Fits(node, bare) || placement::Fits(node, shape())) continue;
      if (!IsEnough(node.cpu_free, shape().cpu_milli) || !IsEnough(node.memory_free, shape().memory_mib)) continue;
      std::int64_t part = 1000;
      if (shape().cpu_milli > 0)
        part = std::min<std::int64_t>(part, std::int64_t{node.cpu_free} * 1000 / shape().cpu_milli);
      if (shape().memory_mib > 0)
        part = std::min<std::int64_t>(part, std::int64_t{node.memory_free} * 1000 / shape().memory_mib);
      near.emplace_back(-part, index);
    }
    const std::size_t most = std::min<std::size_t>(near.size(), 3);
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(most), near.end());
    for (std::size_t i = 0; i < most; ++i) {
      const NodeState& node = state_.nodes[near[i].second].state;
      const std::int32_t cpus = node.cpu_free < shape().cpu_milli ? Rounded(node.cpu_free, 1000) : shape().cpu_milli;
      const std::int32_t memory =
          node.memory_free < shape().memory_mib ? Rounded(node.memory_free, 1024) : shape().memory_mib;
      if (auto found = TryHost(cpus, memory)) return found;
    }
    return std::nullopt;
  }

  // --- Other GPUs, fewer, or less of one ----------------------------------------------------------------------------

  // The node classes of a shape that accepts GPUs of class `node_class`: also nodes that mix them with others
  // (NodeFacts::gpu_classes).
  placement::ModelSet Accepting(int node_class) const {
    placement::ModelSet node_classes = placement::ModelSet{1} << node_class;
    for (const Node& node : state_.nodes) {
      if (std::ranges::find(node.facts.gpu_classes, node_class) != node.facts.gpu_classes.end())
        node_classes |= placement::ModelSet{1} << node.facts.node_class;
    }
    return node_classes;
  }

  std::optional<Change> Model() {
    placement::ModelSet asked = 0;
    for (const TaskGroup& one : seeker_.request.groups) {
      for (const Shape& alternative : one.alternatives) {
        if (alternative.gpus > 0 || alternative.models != placement::kAnyModel) asked |= alternative.models;
      }
    }
    if (asked == 0 || asked == placement::kAnyModel) return std::nullopt;
    // Node classes in the order of their first node with room for a task.
    std::vector<int> node_classes;
    Shape any = shape();
    any.models = placement::kAnyModel;
    const auto consider = [&](const Node& node, int node_class) {
      if (((asked >> node_class) & 1) != 0 || node_classes.size() == kMostTries) return;
      if (std::find(node_classes.begin(), node_classes.end(), node_class) != node_classes.end()) return;
      any.models = Accepting(node_class);
      if (FitsNode(node, node.state, any)) node_classes.push_back(node_class);
    };
    for (const Node& node : state_.nodes) {
      if (node.facts.gpu_classes.empty()) consider(node, node.facts.node_class);
      for (const std::uint8_t node_class : node.facts.gpu_classes) consider(node, node_class);
    }
    for (const int node_class : node_classes) {
      Change change = Same(ChangeKind::kModel);
      for (TaskGroup& one : change.request.groups) {
        for (Shape& alternative : one.alternatives) alternative.models = Accepting(node_class);
        one.filters.clear();
      }
      const std::vector<FilterIndex>& filters = seeker_.request.groups.front().filters;
      const std::string name = names_.instead && !filters.empty() ? names_.instead(filters.front(), node_class)
                               : names_.gpu_type_option           ? names_.gpu_type_option(node_class)
                                                                  : "another --gpu-type";
      if (name.empty()) continue;
      if (auto found = Try(std::move(change), name)) return found;
    }
    return std::nullopt;
  }

  std::optional<Change> FewerGpus() {
    // For a job with fractions of several GPUs, no other number of GPUs is suggested.
    if (!HasOneGroup() || shape().gpus < 2 || !shape().is_whole()) return std::nullopt;
    int most = 0;
    for (const Node& node : state_.nodes) {
      if (!IsAccepted(node.facts, shape()) || node.state.cpu_free < shape().cpu_milli ||
          node.state.memory_free < shape().memory_mib) {
        continue;
      }
      most = std::max(most, FreeGpus(node.state, shape()));
    }
    most = std::min<int>(most, shape().gpus - 1);
    const std::int64_t in_caps = cap_room_ / std::max<std::int64_t>(std::int64_t{group().least} * shape().parts, 1);
    most = static_cast<int>(std::min<std::int64_t>(most, in_caps));
    for (int tries = 0; most > 0 && tries < kMostTries; --most, ++tries) {
      Change change = Same(ChangeKind::kFewerGpus);
      for (Shape& alternative : change.request.groups.front().alternatives) {
        alternative.gpus = std::min(alternative.gpus, static_cast<std::int16_t>(most));
      }
      const std::string flag = (IsSingle(seeker_.request) ? "--gpus " : "--gpus-per-task ") +
                               GpusFlag(change.request.groups.front().alternatives.front());
      if (auto found = Try(std::move(change), flag)) return found;
    }
    return std::nullopt;
  }

  std::optional<Change> FewerTasks() {
    if (!HasOneGroup() || group().least < 2) return std::nullopt;
    std::int64_t room = 0;
    for (const Node& node : state_.nodes) room += RoomOf(node.state, group());
    // The tasks of a job that is elastic on one node are its GPUs.
    const bool is_elastic = IsElastic(seeker_.request);
    const bool counts_gpus = seeker_.request.locality == Locality::kNode && shape().gpus == 1;
    const auto attempt = [&](std::int64_t tasks) {
      Change change = Same(ChangeKind::kFewerTasks);
      TaskGroup& changed = change.request.groups.front();
      changed.least = static_cast<std::int32_t>(tasks);
      if (!is_elastic) changed.most = changed.least;
      std::string flag = (counts_gpus             ? "--gpus "
                          : group().anti_affinity ? "--nodes "
                                                  : "--tasks ") +
                         std::to_string(tasks);
      if (is_elastic) flag += ".." + std::to_string(changed.most);
      return Try(std::move(change), flag);
    };
    // Bisects for the largest number of tasks that starts: a job that starts with more tasks also starts with fewer.
    std::int64_t good = 0;
    std::int64_t bad = std::min<std::int64_t>(room, group().least - 1) + 1;
    std::optional<Change> best;
    for (int tries = 0; bad - good > 1 && tries < 2 * kMostTries; ++tries) {
      const std::int64_t tasks = tries == 0 ? bad - 1 : good + (bad - good) / 2;
      if (auto found = attempt(tasks)) {
        best = std::move(found);
        good = tasks;
      } else {
        bad = tasks;
      }
    }
    return best;
  }

  std::optional<Change> Share() {
    if (!HasOneGroup() || shape().gpus != 1 || shape().slice) return std::nullopt;
    std::int16_t most = 0;
    for (const Node& node : state_.nodes) {
      if (!IsAccepted(node.facts, shape()) || node.state.cpu_free < shape().cpu_milli ||
          node.state.memory_free < shape().memory_mib) {
        continue;
      }
      most = std::max(most, std::min<std::int16_t>(node.state.most_free, placement::kGpuParts));
    }
    most = static_cast<std::int16_t>(std::min<std::int64_t>(most, cap_room_));
    if (most >= shape().parts || !IsEnough(most, shape().parts) || !IsSingle(seeker_.request)) return std::nullopt;
    Change change = Same(ChangeKind::kShare);
    for (Shape& alternative : change.request.groups.front().alternatives) {
      alternative.parts = std::min(alternative.parts, most);
    }
    const std::string flag = "--gpus " + GpusFlag(change.request.groups.front().alternatives.front());
    return Try(std::move(change), flag);
  }

  // The largest MIG instance smaller than the requested one with which the job starts.
  std::optional<Change> SmallerSlice() {
    if (!HasOneGroup() || !shape().slice) return std::nullopt;
    for (int i = static_cast<int>(*shape().slice) - 1; i >= 0; --i) {
      const auto profile = static_cast<placement::MigProfile>(i);
      Change change = Same(ChangeKind::kShare);
      for (Shape& alternative : change.request.groups.front().alternatives) {
        alternative.slice = profile;
        alternative.parts = placement::SliceShape(profile).parts;
      }
      if (auto found = Try(std::move(change), "--slice " + std::string(placement::MigProfileName(profile)))) {
        return found;
      }
    }
    return std::nullopt;
  }

  std::optional<Change> LessGpuMemory() {
    if (!HasOneGroup() || shape().gpu_memory_mib == 0) return std::nullopt;
    Shape bare = shape();
    bare.gpu_memory_mib = 0;
    std::int32_t most = 0;
    for (const Node& node : state_.nodes) {
      if (!FitsNode(node, node.state, bare)) continue;
      for (int gpu = 0; gpu < node.facts.gpus; ++gpu) {
        if (!placement::FitsGpu(node.state, gpu, bare)) continue;
        most = std::max(most, placement::RoomOfGpu(node.state, gpu).memory_free);
      }
    }
    if (!IsEnough(most, shape().gpu_memory_mib) || most >= shape().gpu_memory_mib) return std::nullopt;
    Change change = Same(ChangeKind::kShare);
    for (Shape& alternative : change.request.groups.front().alternatives) alternative.gpu_memory_mib = most;
    return Try(std::move(change), "--gpu-memory " + MibFlag(most));
  }

  const Cluster& cluster_;
  ClusterState& state_;
  const Seeker& seeker_;
  Time now_;
  const Names& names_;
  std::int64_t cap_room_ = kNoBound;  // Room under its limits, in ten-thousandths of GPUs.
};

}  // namespace

std::optional<NodeIndex> WouldStartWith(ClusterState& state, const Seeker& seeker, const Change& change, Time now) {
  Seeker changed = seeker;
  changed.request = change.request;
  changed.key.limit = change.limit;
  changed.key.preemptible = change.preemptible;
  // If the change moves the job back in the queue, it is not suggested: jobs that now wait behind the job's reservation
  // may take the room first.
  if (OrderOf(state, seeker, now) < OrderOf(state, changed, now)) return std::nullopt;
  return JobPerspective(state, std::move(changed), now).WouldStart();
}

std::optional<Change> FindChange(const Cluster& cluster, const Seeker& seeker, Time now, const Names& names) {
  return Search(cluster, seeker, now, names).Find();
}

ChangeTrial TryChange(const Cluster& cluster, const Seeker& seeker, const Change& change, Time now) {
  // A JobPerspective removes reserved capacity temporarily and restores it.
  auto& state = const_cast<ClusterState&>(cluster.state());
  const std::optional<NodeIndex> node = WouldStartWith(state, seeker, change, now);
  if (!node) return {};
  const std::size_t size = state.nodes.size() + state.waiting.size() + state.running.size() + state.classes.size();
  if (size > kMostCopied) return {true, *node, {}};
  Job job;
  job.id = seeker.place.id;
  job.count = state.waiting.at(job.id).count;
  job.team = seeker.key.team;
  job.user = seeker.key.user;
  job.priority = seeker.place.priority;
  job.queued_at = seeker.place.since;
  job.limit = change.limit;
  job.predicted = seeker.key.predicted;
  job.caps = seeker.key.caps;
  job.preemptible = change.preemptible;
  if (const auto draw = state.draws.find(job.id); draw != state.draws.end()) job.draw = draw->second;
  Cluster copy = cluster.Copy();
  job.request = copy.Know(change.request);
  copy.Put(std::move(job), now);
  // Ids that no job uses.
  std::uint64_t next = std::uint64_t{1} << 62;
  const Plan plan = copy.Decide(now, [&next](JobId) { return JobId(next++); });
  const auto start = std::find_if(plan.starts.begin(), plan.starts.end(),
                                  [&](const Start& one) { return one.entry == seeker.place.id; });
  if (start == plan.starts.end()) return {};
  return {true, *node, start->placements};
}

}  // namespace divvy::core
