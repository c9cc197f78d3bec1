// A step of a job on several nodes: which of its tasks run on this node.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "cli/steps/step_plan.h"

namespace divvy::cli {

std::string ShortName(const std::string& name) {
  // IP addresses have no domain, so they are not shortened.
  const bool is_address = name.find_first_not_of("0123456789.:abcdef") == std::string::npos;
  return is_address ? name : name.substr(0, name.find('.'));
}

std::string NameOf(const GangMember& member) { return ShortName(member.name()); }

void TakeShare(StepOptions& ask, const TaskLayout& layout, std::optional<std::size_t> own) {
  const int all = layout.tasks();
  const int here = own ? layout.machines[*own].tasks : 0;
  const std::optional<int> in_all = ask.own_gpus;
  ask.deal.tasks = here;
  if (ask.own_gpus_on_machine) ask.own_gpus = ask.own_gpus_on_machine;
  else if (ask.own_gpus && ask.deal.gpus_per_task > 0) ask.own_gpus = here * ask.deal.gpus_per_task;
  else if (ask.own_gpus && own) {
    // Each node's share is in proportion to its tasks; the shares add up to the total. Of equal nodes the first ones
    // get one more, as in a job whose nodes have different numbers of GPUs.
    const int machines = static_cast<int>(layout.machines.size());
    int before = 0;
    for (std::size_t i = 0; i < *own; ++i) before += layout.machines[i].tasks;
    const auto upto = [&](int tasks) {
      return static_cast<int>(static_cast<std::int64_t>(*in_all) * tasks / std::max(all, 1));
    };
    if (std::ranges::all_of(layout.machines, [&](const auto& one) { return one.tasks == here; }))
      ask.own_gpus = *in_all / machines + (static_cast<int>(*own) < *in_all % machines ? 1 : 0);
    else ask.own_gpus = upto(before + here) - upto(before);
  }
  if (!own) ask.own_gpus.reset();
  if (!own) ask.counts_cores = false;
}

// See StreamPlacer.
void PlaceFiles(const StepOptions& ask, const JobAround& around, const StepIdentity& identity, SpreadPlan& spread) {
  const auto is_file = [](const std::string& name) {
    const bool is_rank = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    return !name.empty() && name != "all" && name != "none" && !is_rank && !NamesMachineOrTask(name);
  };
  const auto path = [&](const std::string& name) { return FillStepPattern(name, around, identity, 0); };
  if (is_file(ask.output)) spread.files[0] = {StepStream::Kind::kFile, path(ask.output), !ask.appends};
  if (!is_file(ask.error)) return;
  const bool is_same = is_file(ask.output) && path(ask.output) == path(ask.error);
  spread.files[1] = {StepStream::Kind::kFile, path(ask.error), !ask.appends && !is_same};
}

std::optional<std::size_t> InputRank(const StepOptions& ask, std::size_t tasks) {
  if (ask.input.empty() || ask.input == "all") return 0;
  const auto rank = ParseInteger(ask.input);
  if (!rank || *rank < 0 || static_cast<std::size_t>(*rank) >= tasks) return std::nullopt;
  return static_cast<std::size_t>(*rank);
}

namespace {

constexpr std::size_t kShown = 8;

std::vector<std::size_t> AllNodes(const GangFile& gang) {
  std::vector<std::size_t> node_indices(gang.members.size());
  std::iota(node_indices.begin(), node_indices.end(), std::size_t{0});
  return node_indices;
}

Result<TaskLayout> WorkOut(const StepOptions& ask, const GangFile& gang) {
  LayoutRequest layout = ask.layout;
  DIVVY_CHECK(TakeMachines(ask, gang, AllNodes(gang), "the job's nodes", layout));
  std::vector<int> capacities;
  for (const GangMember& member : gang.members) capacities.push_back(member.tasks);
  return LayTasks(layout, capacities);
}

SpreadPlan PlanOthers(const StepOptions& ask, const GangFile& gang, const TaskLayout& layout,
                      const std::vector<std::vector<int>>& ranks) {
  SpreadPlan spread;
  spread.layout = LayoutText(layout);
  spread.has_own = false;
  for (std::size_t i = 0; i < layout.machines.size(); ++i) {
    const std::size_t node_index = layout.machines[i].node_index;
    if (node_index == gang.own) {
      spread.has_own = true;
      spread.own_place = spread.others.size();
      continue;
    }
    PartPlan part{NameOf(gang.members[node_index]), gang.members[node_index].address, {}};
    part.ranks.assign(ranks[i].begin(), ranks[i].end());
    const auto input = InputRank(ask, static_cast<std::size_t>(layout.tasks()));
    if (input && std::ranges::find(part.ranks, *input) != part.ranks.end()) spread.input_rank = input;
    spread.others.push_back(std::move(part));
  }
  return spread;
}

}  // namespace

Status TakeMachines(const StepOptions& ask, const GangFile& gang, std::span<const std::size_t> node_indices,
                    const std::string& whose, LayoutRequest& layout) {
  const auto place_of = [&](const std::string& machine) -> std::optional<std::size_t> {
    const auto node_index = gang.Find(machine);
    const auto at = node_index ? std::ranges::find(node_indices, *node_index) : node_indices.end();
    if (at == node_indices.end()) return std::nullopt;
    return static_cast<std::size_t>(at - node_indices.begin());
  };
  const auto take = [&](const std::vector<std::string>& machines, std::vector<std::size_t>& places) -> Status {
    std::map<std::string_view, std::size_t> known;
    for (const std::string& machine : machines) {
      const auto before = known.find(machine);
      const auto place = before == known.end() ? place_of(machine) : before->second;
      if (!place) {
        std::vector<std::string> names;
        for (const std::size_t node_index : node_indices.first(std::min(node_indices.size(), kShown)))
          names.push_back(NameOf(gang.members[node_index]));
        return InvalidArgument("'" + machine + "' is not one of " + whose + ": " + Join(names, ", ") +
                               (node_indices.size() > kShown ? ", ..." : ""));
      }
      known.emplace(machine, *place);
      places.push_back(*place);
    }
    return {};
  };
  DIVVY_CHECK(take(ask.machines, layout.node_indices));
  DIVVY_CHECK(take(ask.task_hosts, layout.node_of_rank));
  for (const std::string& machine : ask.left_out) {
    if (const auto place = place_of(machine)) layout.left_out.push_back(*place);
  }
  if (ask.first_machine > 0 && ask.first_machine >= node_indices.size()) {
    return InvalidArgument("the step begins at node " + std::to_string(ask.first_machine) + " of " + whose +
                           ", but the last one is " + std::to_string(node_indices.size() - 1));
  }
  for (std::size_t place = 0; place < ask.first_machine; ++place) layout.left_out.push_back(place);
  return {};
}

Status CheckOnlyMachine(const StepOptions& ask, const std::string& node) {
  GangFile job;
  job.members.push_back({node, {node, 0}, {}, 1});
  LayoutRequest layout;
  layout.nodes = ask.layout.nodes;
  if (!ask.task_hosts.empty()) layout.tasks = ask.deal.tasks;
  DIVVY_CHECK(TakeMachines(ask, job, AllNodes(job), "the job's nodes", layout));
  const auto laid = LayTasks(layout, {1});
  return laid ? Status() : Status(laid.error());
}

bool NamesMachineOrTask(std::string_view pattern) {
  for (std::size_t at = 0; at + 1 < pattern.size(); ++at) {
    if (pattern[at] != '%') continue;
    ++at;
    while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9') ++at;
    if (at < pattern.size() && (pattern[at] == 't' || pattern[at] == 'n' || pattern[at] == 'N')) return true;
  }
  return false;
}

void MoveToMachine(StepCall& call, const std::vector<std::string>& own) {
  constexpr std::string_view kOfMachine[] = {
      "CUDA_VISIBLE_DEVICES",
      "CUDA_MPS_PIPE_DIRECTORY",
      "CUDA_MPS_LOG_DIRECTORY",
      "DIVVY_GPUS",
      "DIVVY_GPU_NUMA",
      "DIVVY_CUDA_INDICES",
      "DIVVY_GPUS_FILE",
      "DIVVY_CPUS",
      "SLURM_JOB_GPUS",
      "SLURM_STEP_GPUS",
      "SLURM_GPUS_ON_NODE",
      "SLURM_CPUS_ON_NODE",
      "SLURM_NODEID",
      "SLURMD_NODENAME",
      "HOSTNAME",
  };
  const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
  const auto is_of_machine = [&](std::string_view entry) {
    return std::ranges::find(kOfMachine, name_of(entry)) != std::end(kOfMachine);
  };
  const auto is_ours = [&](std::string_view entry) { return is_of_machine(entry) || entry.starts_with("DIVVY_"); };
  const std::string theirs = EnvironmentValue(call.environment, "DIVVY_STEPS");
  const std::string ours = EnvironmentValue(own, "DIVVY_STEPS");
  std::erase_if(call.environment, [&](const std::string& entry) {
    const bool is_known =
        std::ranges::any_of(own, [&](const std::string& one) { return name_of(one) == name_of(entry); });
    return is_of_machine(entry) || (is_known && is_ours(entry));
  });
  std::ranges::copy_if(own, std::back_inserter(call.environment), is_ours);
  // Paths of files next to the step list (platform/records/gang_files.h).
  if (theirs.empty() || theirs == ours) return;
  for (std::string& entry : call.environment) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos && entry.compare(equals + 1, theirs.size() + 1, theirs + ".") == 0)
      entry.replace(equals + 1, theirs.size(), ours);
  }
}

Error CannotStart(const StepOptions& ask, const JobAround& around, const std::string& why) {
  return InvalidArgument((ask.is_slurm ? "srun: error: Unable to create step for job " + around.id + ": "
                                       : "divvy: the step cannot be started: ") +
                         why);
}

Result<TaskLayout> LayoutOf(const StepOptions& ask, const JobAround& around, const StepCall& call,
                            const std::function<Result<TaskLayout>()>& work_out) {
  auto layout = call.part ? Result<TaskLayout>(ReadLayout(call.part->layout).value_or(TaskLayout())) : work_out();
  if (!layout) return CannotStart(ask, around, layout.error().message);
  return layout;
}

Result<StepPlace> SpreadStep(StepOptions& ask, const JobAround& around, const StepCall& call,
                             const StepIdentity& identity, StepPlan& plan) {
  const GangFile& gang = *identity.gang;
  const auto failed = [&](const std::string& why) { return CannotStart(ask, around, why); };
  DIVVY_TRY(const TaskLayout layout, LayoutOf(ask, around, call, [&] { return WorkOut(ask, gang); }));
  const auto own = layout.Find(gang.own);
  const bool is_known = !layout.machines.empty() && layout.machines.back().node_index < gang.members.size();
  if (!is_known || (call.part && !own)) return failed("the nodes of the job disagree about the job's layout");
  const std::vector<std::vector<int>> ranks = layout.Ranks();
  const int all = layout.tasks();
  if (ask.commands.size() > 1 && ask.commands.size() < static_cast<std::size_t>(all))
    return failed("there are " + std::to_string(ask.commands.size()) + " commands for " + Plural(all, "task"));
  ask.layout.is_cyclic = layout.is_cyclic;
  ask.layout.node_of_rank = layout.node_of_rank;

  StepPlace place;
  place.tasks = all;
  place.is_part = call.part.has_value();
  place.node = own.value_or(0);
  if (own) place.ranks.assign(ranks[*own].begin(), ranks[*own].end());
  for (const TaskLayout::Machine& machine : layout.machines) {
    place.machines.push_back(NameOf(gang.members[machine.node_index]));
    place.counts.push_back(machine.tasks);
  }
  place.master = gang.members[layout.machines.front().node_index].address.host;
  plan.tasks = static_cast<std::size_t>(all);
  for (const TaskLayout::Machine& machine : layout.machines) {
    if (!call.part) plan.machines.push_back({machine.node_index, machine.tasks, {}});
  }
  const bool is_alone = layout.machines.size() == 1 && own;
  if (!call.part && !is_alone) {
    SpreadPlan spread = PlanOthers(ask, gang, layout, ranks);
    if (ask.has_terminal && (!own || place.ranks.front() != 0))
      return failed("a terminal needs task 0 on this node, but task 0 runs on another node");
    StepIdentity named = identity;
    named.node = place.node;
    PlaceFiles(ask, around, named, spread);
    spread.reserves = (ask.own_gpus || ask.own_gpus_on_machine || ask.counts_cores) && !ask.overlaps;
    place.spreads = true;
    plan.spread = std::move(spread);
  }
  if (call.part) ask.has_terminal = false;
  TakeShare(ask, layout, own);
  return place;
}

}  // namespace divvy::cli
