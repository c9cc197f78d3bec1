#include "research/peer_cases_world.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

namespace divvy::research {
namespace {

using core::Shape;
using core::TaskPlacement;

constexpr std::size_t kNoGroup = std::numeric_limits<std::size_t>::max();
constexpr int kFirmFrom = 100;  // Jobs from this priority on are not preemptible.

bool IsFraction(const Shape& shape) { return shape.gpus > 0 && shape.parts < placement::kGpuParts; }

bool IsPreemptible(const PeerJob& job) { return job.is_preemptible.value_or(job.priority < kFirmFrom); }

/// Lists the sets of tasks in the order of the tree. Sets that the set above them can do without get a minimum of 0.
void Flatten(const PeerGroup& group, bool is_needed, const std::set<std::string>& running,
             std::vector<std::pair<std::string, int>>& out) {
  if (group.has_tasks) {
    out.emplace_back(group.name, is_needed ? group.least : 0);
    return;
  }
  // If only some children are needed: those that already run, then the first ones.
  std::vector<const PeerGroup*> order;
  for (const PeerGroup& child : group.children) order.push_back(&child);
  const auto runs = [&](const PeerGroup& child) {
    std::vector<std::pair<std::string, int>> sets;
    Flatten(child, true, running, sets);
    return std::ranges::any_of(sets, [&](const auto& set) { return running.contains(set.first); });
  };
  if (group.least > 0) {
    std::stable_sort(order.begin(), order.end(),
                     [&](const PeerGroup* a, const PeerGroup* b) { return runs(*a) && !runs(*b); });
    if (order.size() > static_cast<std::size_t>(group.least)) order.resize(static_cast<std::size_t>(group.least));
  }
  for (const PeerGroup& child : group.children) {
    const bool is_chosen = std::ranges::find(order, &child) != order.end();
    Flatten(child, is_needed && is_chosen, running, out);
  }
}

}  // namespace

// -------------------------------------------------------------------------------------------------------------

placement::ModelSet PeerWorld::Allowed(const PeerJob& job, const PeerTask& task, const std::string& mig) {
  placement::ModelSet set = 0;
  for (std::size_t index = 0; index < node_names_.size(); ++index) {
    const std::string& name = node_names_[index];
    const std::size_t bar = name.find('|');
    if (mig.empty() != (bar == std::string::npos)) continue;
    if (!mig.empty() && name.substr(bar + 1) != mig) continue;
    const auto node =
        std::ranges::find_if(case_.nodes, [&](const PeerNode& n) { return n.name == name.substr(0, bar); });
    const double gpus = task.gpus.value_or(job.gpus);
    const bool is_share = job.gpu_memory > 0 || gpus < 1;
    // Whole requests cannot use GPUs of a node that is cut into instances; fractions cannot use instances.
    if (mig.empty() &&
        (node->mig_strategy.ends_with("mixed") || (node->mig_strategy.ends_with("single") && is_share))) {
      continue;
    }
    const bool is_near =
        task.node_affinity.empty() || std::ranges::any_of(task.node_affinity, [&](const std::string& a) {
          return node->name == a ||
                 std::ranges::any_of(node->labels, [&](const auto& label) { return label.second == a; });
        });
    if (is_near) set |= placement::ModelSet{1} << index;
  }
  for (const std::string& name : task.claims) {
    const auto claim = case_.claims.find(name);
    const bool is_theirs =
        claim != case_.claims.end() && (claim->second.queue == "*" || claim->second.queue == job.queue);
    if (!is_theirs) set = 0;  // The claim belongs to no team or to another one.
  }
  return set;
}

Shape PeerWorld::ShapeOf(const PeerJob& job, const PeerTask& task) {
  Shape shape;
  shape.cpu_milli = PeerRounded(job.cpus);
  shape.memory_mib = PeerRounded(job.memory / memory_unit_);
  double gpus = task.gpus.value_or(job.gpus);
  for (const std::string& name : task.claims) {
    if (const auto claim = case_.claims.find(name); claim != case_.claims.end()) gpus += claim->second.gpus;
  }
  std::string mig;
  if (!task.mig.empty()) {
    mig = task.mig.begin()->first;
    gpus = task.mig.begin()->second;
    if (task.mig.size() > 1) obstacle_ = "tasks with MIG instances of several profiles";
  }
  if (job.gpu_memory > 0 && gpus == 0) {
    const double of = case_.nodes.empty() ? 100 : case_.nodes.front().gpu_memory;
    const bool is_even = std::ranges::all_of(case_.nodes, [&](const PeerNode& node) { return node.gpu_memory == of; });
    if (!is_even) obstacle_ = "GPU memory asked for where GPUs differ in it";
    gpus = job.gpu_memory / of;
  }
  if (gpus <= 0) return shape;
  if (gpus < 1) {
    shape.gpus = static_cast<std::int16_t>(job.devices);
    shape.parts = static_cast<std::int16_t>(PeerRounded(gpus * placement::kGpuParts));
  } else {
    shape.gpus = static_cast<std::int16_t>(std::min(gpus, 1000.0));
    shape.parts = placement::kGpuParts;
  }
  shape.models = Allowed(job, task, mig);
  return shape;
}

void PeerWorld::SetLocality(core::ResourceRequest& request, const PeerGroup& root) {
  const auto level = [&](const std::string& label) {
    return levels_.at(label) == 0 ? core::Locality::kBlock : core::Locality::kRack;
  };
  const PeerNearness& nearness = root.nearness;
  if (!nearness.required.empty() && levels_.contains(nearness.required)) {
    request.locality = request.widest = level(nearness.required);
  }
  if (!nearness.preferred.empty() && levels_.contains(nearness.preferred)) {
    request.locality = std::max(request.locality, level(nearness.preferred));
  }
}

// Equal tasks of one set are one group. Tasks that run count first for the minimum of their set, then by priority.
void PeerWorld::DescribeJob(std::size_t index) {
  Job& job = jobs_[index];
  const PeerJob& peer = *job.job;
  std::set<std::string> running;
  for (const PeerTask& task : peer.tasks) {
    if (task.state == PeerState::kRunning) running.insert(task.sub_group);
  }
  std::vector<std::pair<std::string, int>> sets;
  if (peer.root && !peer.root->children.empty()) {
    Flatten(*peer.root, true, running, sets);
  } else {
    sets.emplace_back("", static_cast<int>(peer.tasks.size()));
  }
  const bool is_one = sets.size() == 1;
  auto& of_task = group_of_[index];
  of_task.assign(peer.tasks.size(), kNoGroup);
  job.request.mixes_models = true;
  for (const auto& [name, least] : sets) {
    std::vector<std::size_t> order;
    int needed = least;
    for (std::size_t i = 0; i < peer.tasks.size(); ++i) {
      const PeerTask& task = peer.tasks[i];
      if (!is_one && task.sub_group != name) continue;
      if (task.state == PeerState::kSucceeded) --needed;
      if (task.state == PeerState::kSucceeded || task.state == PeerState::kFailed) continue;
      order.push_back(i);
    }
    const auto rank = [&](std::size_t i) {
      return std::tuple(peer.tasks[i].state != PeerState::kRunning, -peer.tasks[i].priority);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
    const std::size_t first_group = job.request.groups.size();
    int placed = 0;
    for (const std::size_t i : order) {
      const Shape shape = ShapeOf(peer, peer.tasks[i]);
      std::size_t group = first_group;
      while (group < job.request.groups.size() && job.request.groups[group].alternatives.front() != shape) ++group;
      if (group == job.request.groups.size()) {
        job.request.groups.push_back({{shape}, 0, 0});
        job.total.push_back(0);
      }
      job.request.groups[group].most += 1;
      job.total[group] += 1;
      if (placed++ < needed) job.request.groups[group].least += 1;
      of_task[i] = group;
    }
    if (placed < needed) job.is_broken = true;
  }
  if (peer.root) SetLocality(job.request, *peer.root);
  // A job without a minimum starts with one task.
  if (!job.request.groups.empty() && core::LeastTasks(job.request) == 0) job.request.groups.front().least = 1;
}

core::Job PeerWorld::Entry(const Job& job, JobId id, const core::ResourceRequest& request) {
  core::Job entry;
  entry.id = id;
  entry.request = cluster_.Know(request);
  entry.team = job.team;
  entry.priority = job.job->priority;
  entry.queued_at = job.queued_at;
  entry.preemptible = IsPreemptible(*job.job) ? Preemptible::kPause : Preemptible::kNever;
  return entry;
}

void PeerWorld::AddJobs() {
  for (const PeerJob& job : case_.jobs) {
    jobs_.emplace_back();
    jobs_.back().job = &job;
    const auto team = teams_.find(job.queue);
    if (team == teams_.end()) {
      obstacle_ = "a job of no team";
      return;
    }
    jobs_.back().team = team->second;
  }
  std::stable_sort(jobs_.begin(), jobs_.end(),
                   [](const Job& a, const Job& b) { return a.job->priority > b.job->priority; });
  group_of_.resize(jobs_.size());
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    Job& job = jobs_[i];
    job.id = JobId(next_id_++);
    job.queued_at = kPeerNow - std::chrono::seconds(PeerRounded(job.job->age_minutes * 60)) -
                    std::chrono::milliseconds(jobs_.size() - i);
    DescribeJob(i);
    if (!obstacle_.empty()) return;
  }
  // Occupies GPUs in the order of jobs_: highest priority first.
  for (std::size_t i = 0; i < jobs_.size() && obstacle_.empty(); ++i) Occupy(i);
}

// Returns the GPUs of a running task: those that the case names (names are per node), otherwise the last ones with
// room.
TaskPlacement PeerWorld::Fix(std::size_t index, const PeerTask& task, std::size_t group) {
  const Shape& shape = jobs_[index].request.groups[group].alternatives.front();
  TaskPlacement placed;
  placed.group = static_cast<std::uint8_t>(group);
  const auto is_it = [&](std::size_t at) {
    const std::string& name = node_names_[at];
    if (name.substr(0, name.find('|')) != task.node) return false;
    return shape.gpus == 0 || task.mig.empty() || name.ends_with("|" + task.mig.begin()->first);
  };
  std::size_t node = 0;
  while (node < node_names_.size() && !is_it(node)) ++node;
  if (node == node_names_.size()) {
    obstacle_ = "a task that runs on no node of the case";
    return placed;
  }
  placed.node = static_cast<core::NodeIndex>(node);
  const core::NodeState& state = cluster_.state_of(placed.node);
  Shape any = shape;
  any.models = placement::kAnyModel;
  const auto free = [&](int gpu) { return placement::RoomOfGpu(state, gpu).free_parts; };
  if (IsFraction(shape) && task.gpu_groups.size() == static_cast<std::size_t>(shape.gpus)) {
    for (const std::string& name : task.gpu_groups) {
      const auto known = gpu_of_group_.find({task.node, name});
      int gpu = known != gpu_of_group_.end() ? known->second : 0;
      if (known == gpu_of_group_.end()) {
        while (gpu < state.gpus && free(gpu) < placement::kGpuParts) ++gpu;
        gpu_of_group_[{task.node, name}] = gpu;
      }
      if (gpu >= state.gpus || free(gpu) < shape.parts) {
        obstacle_ = "more than the nodes have is in use at the start";
        return placed;
      }
      placed.place.gpus.Insert(gpu);
    }
  } else if (shape.gpus > 0) {
    if (!placement::Fits(state, any)) {
      obstacle_ = "more than the nodes have is in use at the start";
      return placed;
    }
    // Searches from the end, because named groups take GPUs from the start.
    for (int gpu = state.gpus - 1, left = shape.gpus; gpu >= 0 && left > 0; --gpu) {
      if (free(gpu) < shape.parts) continue;
      placed.place.gpus.Insert(gpu);
      --left;
    }
  }
  if (shape.cpu_milli > state.cpu_free || shape.memory_mib > state.memory_free) {
    obstacle_ = "more than the nodes have is in use at the start";
  }
  return placed;
}

void PeerWorld::Occupy(std::size_t index) {
  Job& job = jobs_[index];
  const PeerJob& peer = *job.job;
  std::vector<std::pair<const PeerTask*, std::size_t>> running;
  for (std::size_t i = 0; i < peer.tasks.size(); ++i) {
    const PeerTask& task = peer.tasks[i];
    const std::size_t group = group_of_[index][i];
    const bool has_ended = task.state == PeerState::kFailed || task.state == PeerState::kSucceeded;
    if (group == kNoGroup && !has_ended && task.state != PeerState::kPending) {
      obstacle_ = "a task of no part of its job";
      return;
    }
    if (has_ended) {
      job.ended.push_back(task.state);
    } else if (task.state == PeerState::kRunning) {
      running.emplace_back(&task, group);
    } else if (task.state == PeerState::kReleasing || task.state == PeerState::kStuck) {
      const TaskPlacement placed = Fix(index, task, group);
      if (!obstacle_.empty()) return;
      core::ResourceRequest one = job.request;
      one.groups = {{job.request.groups[group].alternatives, 1, 1}};
      TaskPlacement alone = placed;
      alone.group = 0;
      const JobId id(next_id_++);
      core::Job entry = Entry(job, id, one);
      entry.preemptible = Preemptible::kNever;  // The task is already leaving or cannot be stopped.
      cluster_.Adopt(entry, {alone}, kPeerNow - std::chrono::minutes(1), kPeerNow);
      const bool is_stuck = task.state == PeerState::kStuck;
      if (!is_stuck) cluster_.SetLeaving(id);
      job.held.push_back(id);
      job.is_stuck.push_back(is_stuck);
      // Once it has left, the task waits again. A stuck task never does.
      if (is_stuck) {
        core::TaskGroup& of = job.request.groups[group];
        of.most -= 1;
        of.least = std::min(of.least, of.most);
      }
    }
  }
  if (running.empty()) {
    const bool waits =
        std::ranges::any_of(peer.tasks, [](const PeerTask& task) { return task.state == PeerState::kPending; });
    if (waits) PutWhole(job);
    return;
  }
  core::ResourceRequest part = job.request;
  core::ResourceRequest rest = job.request;
  rest.groups.clear();
  std::vector<int> has(job.request.groups.size());
  std::vector<TaskPlacement> placements;
  // Pieces are adopted one by one, so that the next Fix() sees what is taken, and finally all together.
  const JobId probe(next_id_++);
  for (const auto& [task, group] : running) {
    const TaskPlacement placed = Fix(index, *task, group);
    if (!obstacle_.empty()) return;
    placements.push_back(placed);
    has[group] += 1;
    core::ResourceRequest all = job.request;
    for (std::size_t g = 0; g < all.groups.size(); ++g) all.groups[g].least = has[g];
    if (cluster_.running(probe) != nullptr) cluster_.Finish(probe, kPeerNow);
    cluster_.Adopt(Entry(job, probe, all), placements, kPeerNow, kPeerNow);
  }
  cluster_.Finish(probe, kPeerNow);
  for (std::size_t g = 0; g < job.request.groups.size(); ++g) {
    const int missing = job.request.groups[g].least - has[g];
    if (missing <= 0) continue;
    part.groups[g].least = has[g];
    part.groups[g].most -= missing;
    rest.groups.push_back({job.request.groups[g].alternatives, missing, missing});
    job.rest_groups.push_back(g);
  }
  cluster_.Adopt(Entry(job, job.id, part), placements, kPeerNow - std::chrono::minutes(1), kPeerNow);
  if (rest.groups.empty()) return;
  job.rest = JobId(next_id_++);
  cluster_.Put(Entry(job, job.rest, rest), kPeerNow);
}

}  // namespace divvy::research
