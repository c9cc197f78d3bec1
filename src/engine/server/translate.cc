#include "engine/server/translate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/result.h"
#include "engine/core/state.h"
#include "engine/gpu_type.h"

namespace divvy {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMebibyte = 1 << 20;

std::vector<std::uint8_t> Distinct(std::vector<std::uint8_t> kinds) {
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

}  // namespace

std::int32_t CpuMilli(int cpus) { return static_cast<std::int32_t>(std::min(std::int64_t{cpus} * 1000, kMost)); }

std::int32_t MebibytesUp(Bytes bytes) {
  const std::int64_t whole = bytes.count() / kMebibyte + (bytes.count() % kMebibyte > 0 ? 1 : 0);
  return static_cast<std::int32_t>(std::min(whole, kMost));
}

std::int32_t MebibytesDown(Bytes bytes) {
  return static_cast<std::int32_t>(std::min(bytes.count() / kMebibyte, kMost));
}

Kinds::Kinds(const std::vector<const NodeCapacity*>& nodes) {
  for (const NodeCapacity* node : nodes) {
    for (const GpuFacts& gpu : node->gpus) {
      const Kind kind{gpu.model, gpu.memory_total};
      if (std::find(kinds_.begin(), kinds_.end(), kind) == kinds_.end()) kinds_.push_back(kind);
    }
  }
  for (const NodeCapacity* node : nodes) {
    const std::vector<std::uint8_t> mixture = Distinct(KindsOf(*node));
    if (mixture.size() < 2) continue;
    if (std::find(mixtures_.begin(), mixtures_.end(), mixture) == mixtures_.end()) mixtures_.push_back(mixture);
  }
  DIVVY_ASSERT(kinds_.size() + mixtures_.size() <= static_cast<std::size_t>(placement::kMaxModels));
}

std::vector<std::uint8_t> Kinds::KindsOf(const NodeCapacity& capacity) const {
  std::vector<std::uint8_t> kinds;
  for (const GpuFacts& gpu : capacity.gpus) {
    const auto at = std::find(kinds_.begin(), kinds_.end(), Kind{gpu.model, gpu.memory_total});
    kinds.push_back(static_cast<std::uint8_t>(at - kinds_.begin()));
  }
  return kinds;
}

core::NodeFacts Kinds::FactsOf(const NodeCapacity& capacity) const {
  DIVVY_ASSERT(capacity.gpus.size() <= static_cast<std::size_t>(placement::kMaxGpus));
  core::NodeFacts facts;
  facts.cpu_milli = CpuMilli(capacity.cpus);
  facts.memory_mib = MebibytesDown(capacity.memory);
  facts.gpus = static_cast<int>(capacity.gpus.size());
  facts.topology = std::make_shared<const GpuTopology>(capacity.gpus);
  std::vector<std::uint8_t> kinds = KindsOf(capacity);
  const std::vector<std::uint8_t> mixture = Distinct(kinds);
  if (mixture.size() == 1) facts.kind = mixture.front();
  if (mixture.size() > 1) {
    const auto at = std::find(mixtures_.begin(), mixtures_.end(), mixture);
    facts.kind = static_cast<int>(kinds_.size()) + static_cast<int>(at - mixtures_.begin());
    facts.gpu_models.assign(kinds.begin(), kinds.end());
    facts.gpu_kinds = std::move(kinds);
  }
  facts.gpu_model = facts.kind;
  return facts;
}

placement::ModelSet Kinds::Accepted(const Request& request) const {
  placement::ModelSet accepted = 0;
  bool is_all = true;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    const auto& [model, memory] = kinds_[kind];
    const bool suits =
        memory >= request.gpu_memory && (request.gpu_type.empty() || MatchesGpuType(request.gpu_type, model));
    if (suits) accepted |= placement::ModelSet{1} << kind;
    is_all = is_all && suits;
  }
  return is_all ? placement::kAnyModel : WithMixtures(accepted);
}

// And the kinds of nodes that have one of them among others.
placement::ModelSet Kinds::WithMixtures(placement::ModelSet accepted) const {
  for (std::size_t i = 0; i < mixtures_.size(); ++i) {
    const bool has_one = std::any_of(mixtures_[i].begin(), mixtures_[i].end(),
                                     [&](std::uint8_t kind) { return ((accepted >> kind) & 1) != 0; });
    if (has_one) accepted |= placement::ModelSet{1} << (kinds_.size() + i);
  }
  return accepted;
}

std::optional<int> Kinds::SpeedOn(const Kind& kind, const Request& request,
                                  const std::vector<ModelSpeed>& learned) const {
  const auto& [model, memory] = kind;
  if (memory < request.gpu_memory || !MatchesGpuType(request.gpu_type, model)) return std::nullopt;
  if (learned.empty() || SaysSpeeds(request.gpu_type)) {
    int fastest = 0;
    for (const WeightedType& type : AlternativesOf(request.gpu_type)) {
      if (MatchesGpuType(type.terms, model)) fastest = std::max(fastest, type.speed);
    }
    return fastest;
  }
  const auto at =
      std::find_if(learned.begin(), learned.end(), [&](const ModelSpeed& one) { return one.model == model; });
  return at == learned.end() ? 0 : at->speed;
}

std::vector<Kinds::AtSpeed> Kinds::FastestFirst(const Request& request, const std::vector<ModelSpeed>& learned) const {
  std::map<int, placement::ModelSet, std::greater<>> by_speed;  // Not known, 0: last.
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    if (const auto speed = SpeedOn(kinds_[kind], request, learned)) by_speed[*speed] |= placement::ModelSet{1} << kind;
  }
  const auto known = static_cast<std::size_t>(by_speed.size() - by_speed.count(0));
  if (known < 2) return {{Accepted(request), 1000}};
  const int fastest = by_speed.begin()->first;
  const auto relative = [&](int speed) { return std::max(speed * 1000 / fastest, 1); };
  std::vector<AtSpeed> sets;
  int slowest = 1000;
  for (const auto& [speed, kinds] : by_speed) {
    if (speed > 0) slowest = relative(speed);
    sets.push_back({WithMixtures(kinds), speed > 0 ? slowest : 1000});
  }
  if (!SaysSpeeds(request.gpu_type) && request.gpus > 1) sets.push_back({Accepted(request), slowest});
  return sets;
}

core::Ask AskOf(const Kinds& kinds, const Request& request, PlacementStrategy placement, int gpus,
                const std::vector<ModelSpeed>& learned) {
  core::Shape shape;
  shape.cpu_milli = CpuMilli(request.cpus);
  shape.memory_mib = MebibytesUp(request.memory);
  shape.gpus = static_cast<std::int16_t>(std::min(gpus, std::int32_t{std::numeric_limits<std::int16_t>::max()}));
  core::Ask ask;
  ask.placement = placement;
  if (gpus > 0) {
    shape.parts = placement::kGpuParts;
    shape.models = kinds.Accepted(request);
    ask.topology = request.topology;
    ask.requires_topology = request.requires_topology && request.topology != TopologyNeed::kAny;
  }
  ask.groups.push_back({{shape}, 1, 1});
  if (gpus == 0 || request.is_elastic()) return ask;
  // Tasks of one job run as fast as its slowest GPU: it gets GPUs of one speed, the fastest there are.
  core::TaskGroup& group = ask.groups.front();
  group.alternatives.clear();
  for (const Kinds::AtSpeed& at : kinds.FastestFirst(request, learned)) {
    shape.models = at.models;
    group.alternatives.push_back(shape);
    group.speeds.push_back(static_cast<std::int16_t>(at.speed));
  }
  if (group.alternatives.size() < 2) group.speeds.clear();
  return ask;
}

std::uint8_t AlternativeOf(const core::Ask& ask, const std::vector<std::uint8_t>& kinds) {
  const std::vector<core::Shape>& alternatives = ask.groups.front().alternatives;
  const auto at = std::find_if(alternatives.begin(), alternatives.end(), [&](const core::Shape& shape) {
    return std::all_of(kinds.begin(), kinds.end(),
                       [&](std::uint8_t kind) { return ((shape.models >> kind) & 1) != 0; });
  });
  return at == alternatives.end() ? std::uint8_t{0} : static_cast<std::uint8_t>(at - alternatives.begin());
}

core::Rules RulesOf(const Policy& policy) {
  core::Rules rules;
  switch (policy.order) {
    case QueuePolicy::kSmallFirst:
      rules.order = core::Order::kSmallFirst;
      break;
    case QueuePolicy::kFifo:
      rules.order = core::Order::kFifo;
      break;
    case QueuePolicy::kFair:
      rules.order = core::Order::kFair;
      break;
    case QueuePolicy::kShortest:
      rules.order = core::Order::kShortest;
      break;
  }
  rules.escalate_after = policy.escalate_after;
  // A promise rests on time limits alone.
  rules.uses_predictions = false;
  rules.cpu_jobs_pass = true;
  rules.reclaims = policy.taking_back.reclaims;
  rules.preempts = policy.taking_back.preempts;
  rules.consolidates = policy.taking_back.consolidates;
  rules.least_run = policy.taking_back.least_run;
  rules.patience = policy.taking_back.patience;
  rules.grace = policy.taking_back.grace;
  return rules;
}

std::string CapText(const std::string& group) {
  for (std::string_view prefix : {"array ", "user ", "team "}) {
    if (group.starts_with(prefix)) return group;
  }
  return "group " + group;
}

GroupCaps::Slot& GroupCaps::SlotOf(core::Cluster& core, const std::string& name) {
  const auto [at, is_new] = slots_.try_emplace(name);
  if (!is_new) return at->second;
  if (free_.empty()) {
    at->second.index = core.AddCap(CapText(name), 0);
  } else {
    at->second.index = free_.back();
    free_.pop_back();
    core.state().caps[at->second.index].name = CapText(name);
  }
  return at->second;
}

void GroupCaps::ForgetIfUnused(std::map<std::string, Slot>::iterator at) {
  if (at->second.users > 0 || at->second.limits.any()) return;
  free_.push_back(at->second.index);
  slots_.erase(at);
}

core::CapIndex GroupCaps::Use(core::Cluster& core, const std::string& name) {
  Slot& slot = SlotOf(core, name);
  slot.users += 1;
  return slot.index;
}

void GroupCaps::Leave(const std::string& name) {
  const auto at = slots_.find(name);
  DIVVY_ASSERT(at != slots_.end() && at->second.users > 0);
  at->second.users -= 1;
  ForgetIfUnused(at);
}

void GroupCaps::SetLimits(core::Cluster& core, const std::string& name, GroupLimits limits) {
  Slot& slot = SlotOf(core, name);
  slot.limits = limits;
  core.SetCap(slot.index, slot.limits.jobs, std::int64_t{slot.limits.gpus} * placement::kGpuParts);
  ForgetIfUnused(slots_.find(name));
}

std::map<std::string, GroupLimits> GroupCaps::limits() const {
  std::map<std::string, GroupLimits> limits;
  for (const auto& [name, slot] : slots_) {
    if (slot.limits.any()) limits.emplace(name, slot.limits);
  }
  return limits;
}

}  // namespace divvy
