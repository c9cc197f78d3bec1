#include "simulate/experiment.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "engine/gpu_type.h"
#include "simulate/traces/random.h"

namespace divvy::simulate {
namespace {

constexpr std::string_view kStrict = "-strict";
constexpr std::string_view kTimeSharing = "time-sharing";
constexpr Duration kMostShake = std::chrono::minutes(30);
constexpr std::int64_t kMostGpusMore = 1'000'000;
constexpr int kMostContractPercent = 1000;

struct NamedPredicting {
  std::string_view name;
  Predicting predicting;
};
constexpr std::array kPredictings = {NamedPredicting{"history", Predicting::kHistory},
                                     NamedPredicting{"true", Predicting::kTrue},
                                     NamedPredicting{"none", Predicting::kNone}};

/// The names that users write. "fifo" alone is divvy's own policy.
std::vector<std::string> ReferenceNames() {
  std::vector<std::string> names;
  for (const std::string_view name : HouseRuleNames())
    names.push_back(std::string(name) + (name.ends_with("-skip") ? "" : std::string(kStrict)));
  return names;
}

std::optional<HouseRule> ReferenceFromName(std::string_view name) {
  if (name.ends_with("-skip")) return HouseRuleFromName(name);
  if (!name.ends_with(kStrict) || name.ends_with(std::string("-skip") + std::string(kStrict))) return std::nullopt;
  return HouseRuleFromName(name.substr(0, name.size() - kStrict.size()));
}

Error UnknownPolicy(std::string_view name) {
  std::vector<std::string> names = ReferenceNames();
  for (const std::string_view order : EnginePolicyNames()) names.emplace_back(order);
  names.emplace_back(kTimeSharing);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = Nearest(name, views);
  return InvalidArgument("there is no policy '" + std::string(name) + "'" +
                         (near.empty() ? "" : "; did you mean " + std::string(near) + "?") +
                         " (policies: " + PolicyNames() + ")");
}

Error BadChange(std::string_view change) {
  return InvalidArgument(
      "'" + std::string(change) +
      "' is not a change of the cluster; expected \"+8 H100\", \"+2x8:H100\", \"-8\" or \"-8 H100\"");
}

/// The cluster's name for "H100": "NVIDIA H100 80GB HBM3". Only GPUs with the same name count as equal.
std::string NameInCluster(const TraceCluster& cluster, const std::string& model) {
  const auto is_it = [&](const NodeGroup& group) { return MatchesGpuType(model, group.model); };
  const auto known = std::ranges::find_if(cluster.groups, is_it);
  return known == cluster.groups.end() ? model : known->model;
}

/// Removes whole nodes from the end. A remainder makes one more node smaller.
Status Shrink(TraceCluster& cluster, std::int64_t gpus, const std::string& model, std::string_view change) {
  for (auto group = cluster.groups.rbegin(); group != cluster.groups.rend() && gpus > 0; ++group) {
    if (!model.empty() && !MatchesGpuType(model, group->model)) continue;
    const auto nodes = static_cast<int>(std::min<std::int64_t>(group->count, gpus / std::max(group->gpus, 1)));
    group->count -= nodes;
    gpus -= std::int64_t{nodes} * group->gpus;
    if (gpus == 0 || group->count == 0) continue;
    NodeGroup smaller = *group;
    smaller.count = 1;
    smaller.gpus -= static_cast<int>(gpus);
    group->count -= 1;
    gpus = 0;
    cluster.groups.insert(group.base(), smaller);
    break;
  }
  std::erase_if(cluster.groups, [](const NodeGroup& group) { return group.count == 0; });
  if (gpus > 0 || cluster.groups.empty())
    return InvalidArgument("--what-if '" + std::string(change) + "': the cluster has fewer GPUs" +
                           (model.empty() ? "" : " of model " + model));
  return {};
}

}  // namespace

std::optional<Predicting> PredictingFromName(std::string_view name) {
  const auto known = std::ranges::find(kPredictings, name, &NamedPredicting::name);
  return known == kPredictings.end() ? std::nullopt : std::optional(known->predicting);
}

std::string PolicyNames() {
  std::string names;
  for (const std::string_view order : EnginePolicyNames()) names += (names.empty() ? "" : ", ") + std::string(order);
  names += ", " + std::string(kTimeSharing);
  for (const std::string& reference : ReferenceNames()) names += ", " + reference;
  return names;
}

Result<std::optional<double>> ParseContract(std::string_view text) {
  if (text == "none") return std::optional<double>();
  const auto percent = text.ends_with('%') ? ParseNumber(text.substr(0, text.size() - 1)) : std::nullopt;
  if (!percent || !(*percent >= 0 && *percent <= kMostContractPercent))
    return InvalidArgument("'" + std::string(text) + "' is not a contract: expected 0% to " +
                           std::to_string(kMostContractPercent) + "%, or none");
  return std::optional(*percent / 100);
}

Result<PolicyChoice> ParsePolicy(std::string_view text, const PolicyDefaults& defaults) {
  PolicyChoice choice;
  choice.label = text;
  choice.engine = defaults.engine;
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (name == kTimeSharing) {
    choice.time_sharing = defaults.time_sharing;
    if (colon != std::string_view::npos) {
      const auto contract = ParseContract(text.substr(colon + 1));
      if (!contract) return InvalidArgument("'" + std::string(text) + "': " + contract.error().message);
      choice.time_sharing->options.at_most = *contract;
    }
    return choice;
  }
  choice.reference = ReferenceFromName(name);
  const auto order = EnginePolicyFromName(name);
  if (!choice.reference && !order) return UnknownPolicy(name);
  if (order) choice.engine.rules.order = *order;
  if (colon == std::string_view::npos) return choice;
  const auto predicting = PredictingFromName(text.substr(colon + 1));
  if (!predicting || choice.reference)
    return InvalidArgument("'" + std::string(text) + "': " +
                           (choice.reference
                                ? "a baseline policy already knows the true run times; use " + std::string(name)
                                : "invalid run times: expected history, true or none"));
  choice.engine.predicting = *predicting;
  return choice;
}

Result<TraceCluster> WhatIf(const TraceCluster& cluster, std::string_view change) {
  const std::string_view text = Trim(change);
  if (text.size() < 2 || (text[0] != '+' && text[0] != '-')) return BadChange(change);
  const std::string_view what = text.substr(1);
  TraceCluster changed = cluster;
  const std::string first_model = cluster.groups.empty() ? std::string() : cluster.groups.front().model;
  if (text[0] == '+' && what.find('x') < what.find_first_of(": ")) {
    auto more = ParseCluster(what);
    if (!more) return BadChange(change);
    for (NodeGroup& group : more->groups) {
      group.model = group.model.empty() ? first_model : NameInCluster(cluster, group.model);
      changed.groups.push_back(std::move(group));
    }
    return changed;
  }
  const std::size_t space = std::min(what.find(' '), what.size());
  const auto gpus = ParseInteger(what.substr(0, space));
  if (!gpus || *gpus < 1 || *gpus > kMostGpusMore) return BadChange(change);
  const std::string model(Trim(what.substr(space)));
  if (text[0] == '-') {
    DIVVY_CHECK(Shrink(changed, *gpus, model, change));
    return changed;
  }
  std::int64_t size = 1;
  for (const NodeGroup& group : cluster.groups) size = std::max<std::int64_t>(size, group.gpus);
  NodeGroup group = cluster.groups.empty() ? NodeGroup() : cluster.groups.front();
  group.team.clear();
  group.model = model.empty() ? first_model : NameInCluster(cluster, model);
  group.gpus = static_cast<int>(size);
  group.count = static_cast<int>(*gpus / size);
  if (group.count > 0) changed.groups.push_back(group);
  group.count = 1;
  group.gpus = static_cast<int>(*gpus % size);
  if (group.gpus > 0) changed.groups.push_back(group);
  return changed;
}

Workload Shaken(const Workload& workload, std::uint64_t seed) {
  Workload shaken = workload;
  Random random(seed);
  const auto span = static_cast<std::uint64_t>(2 * kMostShake.count());
  for (TraceJob& job : shaken.jobs)
    job.submit += Duration(static_cast<std::int64_t>(random.Next() % span)) - kMostShake;
  Arrange(shaken);
  return shaken;
}

namespace {

Result<PolicyRun> RunOne(const PlannedRun& planned, const std::function<void(double)>& on_progress) {
  std::unique_ptr<Decider> decider;
  const GrowthDecider* growing = nullptr;
  if (planned.growth) {
    if (planned.policy.reference || planned.policy.time_sharing)
      return InvalidArgument("providers need a queue policy of divvy's, not " + planned.policy.label +
                             "; use --policy small-first");
    GrowthSetup setup = *planned.growth;
    setup.engine = planned.policy.engine;
    DIVVY_TRY(std::unique_ptr<GrowthDecider> made, MakeGrowthDecider(planned.cluster, setup));
    growing = made.get();
    decider = std::move(made);
  } else if (planned.policy.reference) {
    DIVVY_TRY(decider, MakeHouseRules(planned.cluster, *planned.policy.reference));
  } else if (planned.policy.time_sharing) {
    decider = MakeTimeSharing(planned.cluster, *planned.policy.time_sharing);
  } else {
    DIVVY_TRY(decider, MakeEngineDecider(planned.cluster, planned.policy.engine));
  }
  ReplayOptions options;
  options.on_progress = on_progress;
  DIVVY_TRY(Replayed replayed, Replay(*planned.workload, *decider, options));
  RunMetrics metrics = Measure(*planned.workload, planned.cluster, replayed);
  PolicyRun run{planned.label, planned.workload, planned.cluster, std::move(replayed), std::move(metrics)};
  if (growing != nullptr) run.growth = growing->Totals();
  return run;
}

}  // namespace

Result<std::vector<PolicyRun>> RunAll(const std::vector<PlannedRun>& plan, unsigned threads,
                                      const std::function<void(double)>& on_progress) {
  std::vector<std::optional<Result<PolicyRun>>> done(plan.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<double> shares(plan.size(), 0);
  const auto work = [&] {
    for (std::size_t i = next++; i < plan.size(); i = next++) {
      done[i] = RunOne(plan[i], [&, i](double share) {
        if (!on_progress) return;
        const std::lock_guard lock(mutex);
        shares[i] = share;
        double sum = 0;
        for (const double one : shares) sum += one;
        on_progress(sum / static_cast<double>(plan.size()));
      });
    }
  };
  {
    std::vector<std::jthread> workers;
    for (unsigned i = 1; i < std::min<std::size_t>(std::max(threads, 1U), plan.size()); ++i) workers.emplace_back(work);
    work();
  }
  std::vector<PolicyRun> runs;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (!*done[i]) return Error{done[i]->error().code, plan[i].label + ": " + done[i]->error().message};
    runs.push_back(std::move(**done[i]));
  }
  return runs;
}

}  // namespace divvy::simulate
