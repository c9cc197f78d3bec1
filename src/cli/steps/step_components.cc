// A step of a heterogeneous job: in which components it runs, and which of its tasks run on this node. Ranks count
// through the nodes of its first part, then through those of the next.
#include <algorithm>
#include <set>
#include <utility>

#include "base/text.h"
#include "cli/steps/step_plan.h"

namespace divvy::cli {
namespace {

constexpr std::string_view kOfGroup = "_HET_GROUP_";

/// Variables of the node, not of a component.
constexpr std::string_view kStays[] = {"SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_CPUS_ON_NODE", "SLURM_JOB_ID"};

/// The tasks of one component on each node of the job.
std::vector<int> TasksOf(const GangFile& gang, std::size_t component) {
  std::vector<int> tasks(gang.members.size());
  for (std::size_t node_index = 0; node_index < gang.members.size(); ++node_index) {
    for (const ComponentAllocation& part : gang.members[node_index].parts) {
      if (static_cast<std::size_t>(part.component) == component) tasks[node_index] = part.tasks;
    }
  }
  return tasks;
}

/// The layout of one part on its component's nodes, with its nodes numbered as in the whole job.
Result<TaskLayout> WorkOutPart(const StepOptions& part, const GangFile& gang) {
  const std::vector<int> all = TasksOf(gang, part.component);
  std::vector<std::size_t> node_indices;
  std::vector<int> capacities;
  for (std::size_t node_index = 0; node_index < all.size(); ++node_index) {
    if (all[node_index] == 0) continue;
    node_indices.push_back(node_index);
    capacities.push_back(all[node_index]);
  }
  LayoutRequest ask = part.layout;
  ask.is_cyclic = false;
  DIVVY_CHECK(TakeMachines(part, gang, node_indices, "the nodes of component " + std::to_string(part.component), ask));
  ask.node_of_rank.clear();
  DIVVY_TRY(TaskLayout layout, LayTasks(ask, capacities));
  for (TaskLayout::Machine& machine : layout.machines) machine.node_index = node_indices[machine.node_index];
  return layout;
}

Result<TaskLayout> WorkOutComponents(const StepOptions& ask, const GangFile& gang) {
  TaskLayout layout;
  layout.has_parts = true;
  for (std::size_t i = 0; i < ask.parts.size(); ++i) {
    DIVVY_TRY(const TaskLayout part, WorkOutPart(ask.parts[i], gang));
    for (TaskLayout::Machine machine : part.machines) {
      machine.part = static_cast<int>(i);
      layout.machines.push_back(machine);
    }
  }
  return layout;
}

/// Reduces each part to its share of this node.
void TakeShares(StepOptions& ask, const TaskLayout& layout, const std::vector<std::vector<int>>& ranks,
                std::size_t own) {
  for (std::size_t i = 0; i < ask.parts.size(); ++i) {
    TaskLayout of_part;
    std::optional<std::size_t> here;
    ask.parts[i].ranks.clear();
    for (std::size_t at = 0; at < layout.machines.size(); ++at) {
      if (static_cast<std::size_t>(layout.machines[at].part) != i) continue;
      if (layout.machines[at].node_index == own) {
        here = of_part.machines.size();
        ask.parts[i].ranks.assign(ranks[at].begin(), ranks[at].end());
      }
      of_part.machines.push_back(layout.machines[at]);
    }
    TakeShare(ask.parts[i], of_part, here);
  }
}

/// Adds to plan.need the exclusive cores and GPUs that the step needs on this node. GPUs are taken from those of each
/// component.
void TakeNeed(const StepOptions& ask, const JobAround& around, const GangFile& gang, StepPlan& plan) {
  for (const StepOptions& part : ask.parts) {
    if (part.own_gpus && !part.ranks.empty()) {
      plan.need.from.push_back(
          {static_cast<std::size_t>(*part.own_gpus), PlacesOfComponent(around, gang, part.component)});
    }
    if (part.counts_cores) plan.need.cores += part.deal.tasks * std::max(part.deal.cpus_per_task, 1);
  }
}

}  // namespace

std::vector<std::string> EnvironmentOfComponent(std::vector<std::string> environment, std::size_t component) {
  const std::string own = std::string(kOfGroup) + std::to_string(component);
  std::set<std::string, std::less<>> told;
  std::vector<std::string> its;
  for (const std::string& entry : environment) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    const auto at = name.find(kOfGroup);
    if (at == std::string_view::npos) continue;
    const std::string_view plain = name.substr(0, at);
    if (std::ranges::find(kStays, plain) != std::end(kStays)) continue;
    told.emplace(plain);
    if (name.substr(at) == own) its.push_back(std::string(plain) + entry.substr(name.size()));
  }
  if (component == 0) return environment;
  std::erase_if(environment, [&](const std::string& entry) { return told.contains(entry.substr(0, entry.find('='))); });
  environment.insert(environment.end(), its.begin(), its.end());
  return environment;
}

Result<std::vector<std::size_t>> ReadComponentList(std::string_view text, std::size_t components) {
  std::vector<std::size_t> list;
  if (text == "all") {
    for (std::size_t i = 0; i < components; ++i) list.push_back(i);
    return list;
  }
  for (const std::string_view word : Split(text, ',')) {
    const auto dash = word.find('-');
    const auto first = ParseInteger(word.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseInteger(word.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first)
      return InvalidArgument("'" + std::string(text) + "' is not a list of components; write it like 0,2-3");
    if (static_cast<std::size_t>(*last) >= components) {
      return InvalidArgument("the job has no component " + std::to_string(*last) + "; it has " +
                             (components > 1 ? "0 to " + std::to_string(components - 1) : "only component 0"));
    }
    for (auto i = *first; i <= *last; ++i) list.push_back(static_cast<std::size_t>(i));
  }
  std::ranges::sort(list);
  if (std::ranges::adjacent_find(list) != list.end())
    return InvalidArgument("'" + std::string(text) + "' names a component twice");
  return list;
}

std::vector<std::size_t> PlacesOfComponent(const JobAround& around, const GangFile& gang, std::size_t component) {
  std::vector<std::size_t> places;
  for (const ComponentAllocation& part : gang.members[gang.own].parts) {
    if (static_cast<std::size_t>(part.component) != component) continue;
    for (std::size_t place = 0; place < around.gpus.size(); ++place) {
      const auto index = ParseInteger(around.gpus[place].physical);
      if (index && *index >= 0 && *index < static_cast<std::int64_t>(GpuSet::kCapacity) &&
          part.gpus.Contains(static_cast<GpuIndex>(*index)))
        places.push_back(place);
    }
  }
  return places;
}

Result<StepPlace> SpreadComponents(StepOptions& ask, const JobAround& around, const StepCall& call,
                                   const StepIdentity& identity, StepPlan& plan) {
  const GangFile& gang = *identity.gang;
  const auto failed = [&](const std::string& why) { return CannotStart(ask, around, why); };
  DIVVY_TRY(const TaskLayout layout, LayoutOf(ask, around, call, [&] { return WorkOutComponents(ask, gang); }));
  const bool is_known =
      layout.has_parts && !layout.machines.empty() &&
      std::ranges::all_of(layout.machines, [&](const TaskLayout::Machine& machine) {
        return machine.node_index < gang.members.size() && static_cast<std::size_t>(machine.part) < ask.parts.size();
      });
  if (!is_known) return failed("the nodes of the job disagree about the job's layout");
  const std::vector<std::vector<int>> ranks = layout.Ranks();
  const int all = layout.tasks();

  // The ranks on each node, by the node's index in the job.
  std::map<std::size_t, std::vector<std::size_t>> on;
  for (std::size_t i = 0; i < layout.machines.size(); ++i) {
    std::vector<std::size_t>& its = on[layout.machines[i].node_index];
    its.insert(its.end(), ranks[i].begin(), ranks[i].end());
  }
  StepPlace place;
  place.tasks = all;
  place.is_part = call.part.has_value();
  for (const auto& [node_index, its] : on) {
    if (node_index == gang.own) place.node = place.machines.size();
    if (node_index == gang.own) place.ranks = its;
    place.machines.push_back(NameOf(gang.members[node_index]));
    place.counts.push_back(static_cast<int>(its.size()));
    if (!call.part) plan.machines.push_back({node_index, place.counts.back(), {}});
  }
  place.master = gang.members[layout.machines.front().node_index].address.host;
  plan.tasks = static_cast<std::size_t>(all);
  const bool has_own = on.contains(gang.own);
  if (call.part && !has_own) return failed("the nodes of the job disagree about the job's layout");
  bool reserves = false;
  for (const StepOptions& part : ask.parts)
    reserves = reserves || part.own_gpus || part.own_gpus_on_machine || part.counts_cores;
  TakeShares(ask, layout, ranks, gang.own);
  TakeNeed(ask, around, gang, plan);
  ask.own_gpus.reset();
  ask.counts_cores = false;
  ask.deal.tasks = static_cast<int>(place.ranks.size());
  if (!call.part && !(on.size() == 1 && has_own)) {
    if (ask.has_terminal && (place.ranks.empty() || place.ranks.front() != 0))
      return failed("a terminal needs task 0 on this node, but task 0 runs on another node");
    SpreadPlan spread;
    spread.layout = LayoutText(layout);
    spread.has_own = has_own;
    const auto input = InputRank(ask, static_cast<std::size_t>(all));
    for (const auto& [node_index, its] : on) {
      if (node_index == gang.own) {
        spread.own_place = spread.others.size();
        continue;
      }
      if (input && std::ranges::find(its, *input) != its.end()) spread.input_rank = input;
      spread.others.push_back({NameOf(gang.members[node_index]), gang.members[node_index].address, its});
    }
    StepIdentity named = identity;
    named.node = place.node;
    PlaceFiles(ask, around, named, spread);
    spread.reserves = reserves && !ask.overlaps;
    place.spreads = true;
    plan.spread = std::move(spread);
  }
  if (call.part) ask.has_terminal = false;
  // Properties of the whole step apply to each part.
  for (StepOptions& part : ask.parts) {
    part.has_terminal = ask.has_terminal;
    part.directory = ask.directory;
    part.output = ask.output;
    part.error = ask.error;
    part.input = ask.input;
    part.appends = ask.appends;
    part.has_labels = ask.has_labels;
  }
  return place;
}

}  // namespace divvy::cli
