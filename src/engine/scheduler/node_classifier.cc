#include "engine/scheduler/node_classifier.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <optional>

#include "base/text.h"
#include "engine/core/state/state.h"
#include "engine/gpu_type.h"
#include "engine/scheduler/translate.h"
#include "model/gpus/slice_counts.h"

namespace divvy {
namespace {

// Adds the words of a GPU model's name to the node's features: "h100", "80gb".
void AddModelWords(const std::string& model, std::vector<std::string>& features) {
  std::string word;
  for (const char c : model + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (!word.empty()) features.push_back(word);
    word.clear();
  }
}

void SortOnce(std::vector<std::string>& words) {
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
}

std::vector<std::string> FeaturesOf(const NodeUsage& node) {
  std::vector<std::string> features = node.attributes.features;
  for (const std::string& pool : node.attributes.pools) features.push_back("pool=" + pool);
  for (const GpuFacts& gpu : node.capacity.gpus) AddModelWords(gpu.model, features);
  SortOnce(features);
  return features;
}

// With exclusive pools each node gets this much extra CPU, in thousandths of a CPU. A job with exclusive nodes takes
// all CPUs and the extra; every other job takes at least one thousandth of a CPU. So an exclusive job never shares a
// node, and up to 999 jobs without CPUs fit on one besides jobs that use all of its CPUs.
constexpr std::int32_t kSpareMilli = 999;

// Returns the feature that stands for nodes with this many CPUs. No label of a user has such a name, because it begins
// with '='.
std::string SizeFeature(int cpus) { return "=cpus=" + std::to_string(cpus); }

}  // namespace

std::vector<std::string> NodeClassifier::FindPools(const NodeUsage& node) const {
  std::vector<std::string> pools = node.attributes.pools;
  if (pools_.empty()) return pools;
  const std::vector<std::string> features = FeaturesOf(node);
  for (const PoolRow& pool : pools_) {
    const bool is_named = std::find(pool.nodes.begin(), pool.nodes.end(), node.attributes.name) != pool.nodes.end();
    const bool is_such = !pool.condition.is_any() && pool.condition.Holds(features);
    if (pool.has_all || is_named || is_such) pools.push_back(pool.name);
  }
  SortOnce(pools);
  return pools;
}

bool NodeClassifier::IsExclusive(const std::string& name) const {
  return std::any_of(pools_.begin(), pools_.end(),
                     [&](const PoolRow& pool) { return pool.is_exclusive && pool.name == name; });
}

bool NodeClassifier::has_exclusive() const {
  return std::any_of(pools_.begin(), pools_.end(), [](const PoolRow& pool) { return pool.is_exclusive; });
}

std::size_t NodeClassifier::exclusive_sizes() const {
  std::size_t sizes = 0;
  for (const auto& [pool, cpus] : exclusive_cpus_) sizes += cpus.size();
  return sizes;
}

std::size_t NodeClassifier::told_apart() const {
  std::size_t count = exclusive_sizes();
  for (const auto& [model, profiles] : slices_) count += profiles.size();
  return count;
}

core::NodeProperties NodeClassifier::PropertiesOf(NodeIndex node, const NodeUsage& now) const {
  core::NodeProperties properties;
  properties.name = now.attributes.name;
  properties.pools = PoolsOf(node);
  properties.features = FeaturesOf(now);
  if (has_exclusive()) properties.features.push_back(SizeFeature(now.capacity.cpus));
  for (const GpuFacts& gpu : now.capacity.gpus)
    properties.gpus.push_back({gpu.model, MebibytesDown(gpu.memory_total), gpu.compute_capability});
  SortOnce(properties.features);
  return properties;
}

void NodeClassifier::Know(NodeIndex node, const NodeUsage& now) {
  for (const GpuFacts& gpu : now.capacity.gpus) {
    models_[{gpu.model, gpu.memory_total}] += 1;
    if (gpu.slices.empty()) continue;
    // Driver releases differ in the names and sizes of profiles.
    std::vector<SliceProfile>& known = slices_[gpu.model];
    for (const SliceProfile& profile : gpu.slices) {
      if (std::ranges::find(known, profile) == known.end()) known.push_back(profile);
    }
  }
  if (!has_exclusive() || now.capacity.cpus == 0) return;
  for (const std::string& pool : PoolsOf(node)) {
    if (IsExclusive(pool)) exclusive_cpus_[pool].insert(now.capacity.cpus);
  }
}

bool NodeClassifier::Add(const NodeUsage& node) {
  const auto index = static_cast<NodeIndex>(pools_of_.size());
  pools_of_.push_back(FindPools(node));
  core::NodeProperties properties = PropertiesOf(index, node);
  const std::string name = properties.name;
  Know(index, node);
  if (class_index_.AddNode(std::move(properties))) return true;
  const Status bare = class_index_.AddNode({name, {}, {}, {}});
  DIVVY_ASSERT(bare);
  return false;
}

bool NodeClassifier::Change(NodeIndex node, const NodeUsage& now) {
  pools_of_[node] = FindPools(now);
  Know(node, now);
  return static_cast<bool>(class_index_.SetProperties(node, PropertiesOf(node, now)));
}

core::NodeFacts NodeClassifier::FactsOf(NodeIndex node, const NodeCapacity& capacity) const {
  DIVVY_ASSERT(capacity.gpus.size() <= static_cast<std::size_t>(GpuSet::kCapacity));
  core::NodeFacts facts;
  facts.cpu_milli = CpuMilli(capacity.cpus) + (has_exclusive() && capacity.cpus > 0 ? kSpareMilli : 0);
  facts.memory_mib = MebibytesDown(capacity.memory);
  // A removed node gets negative CPUs, so that nothing fits on it.
  if (capacity == NodeCapacity() && node != 0) facts.cpu_milli = -1;
  facts.gpus = static_cast<int>(capacity.gpus.size());
  for (const GpuFacts& gpu : capacity.gpus) {
    if (!gpu.slices.empty()) facts.sliceable.Insert(gpu.index);
    if (gpu.is_only_sliced) facts.only_sliced.Insert(gpu.index);
  }
  facts.topology = std::make_shared<const GpuTopology>(capacity.gpus);
  class_index_.Fill(node, facts);
  return facts;
}

std::vector<core::AtSpeed> NodeClassifier::FastestFirst(const Request& request,
                                                        const std::vector<ModelSpeed>& learned) const {
  const bool by_hand = SaysSpeeds(request.gpu_type);
  if (!by_hand && learned.empty()) return {};
  const auto speed_on = [&](const std::string& model) {
    if (by_hand) {
      int fastest = 0;
      for (const WeightedType& type : AlternativesOf(request.gpu_type)) {
        if (MatchesGpuType(type.terms, model)) fastest = std::max(fastest, type.speed);
      }
      return fastest;
    }
    const auto at =
        std::find_if(learned.begin(), learned.end(), [&](const ModelSpeed& one) { return one.model == model; });
    return at == learned.end() ? 0 : at->speed;
  };
  std::map<int, std::vector<std::string>, std::greater<>> by_speed;  // Speed 0 (not known) comes last.
  for (const auto& [kind, count] : models_) {
    const auto& [model, memory] = kind;
    if (memory < request.gpu_memory || !MatchesGpuType(request.gpu_type, model)) continue;
    std::vector<std::string>& models = by_speed[speed_on(model)];
    if (models.empty() || models.back() != model) models.push_back(model);
  }
  if (by_speed.size() - by_speed.count(0) < 2) return {};
  const int fastest = by_speed.begin()->first;
  std::vector<core::AtSpeed> sets;
  std::int16_t slowest = 1000;
  for (const auto& [speed, models] : by_speed) {
    if (speed > 0) slowest = static_cast<std::int16_t>(std::max(speed * 1000 / fastest, 1));
    sets.push_back({Join(models, "|"), speed > 0 ? slowest : std::int16_t{1000}});
  }
  if (!by_hand && request.gpus > 1) sets.push_back({request.gpu_type, slowest});
  return sets;
}

// A memory size is a different fraction of each size of GPU. The smallest sufficient GPU comes first; it wastes least.
std::vector<core::AtSpeed> NodeClassifier::BySize(const Request& request) const {
  std::map<std::int32_t, std::set<std::string>, std::greater<>> by_parts;
  for (const auto& [kind, count] : models_) {
    const auto& [model, memory] = kind;
    const std::int32_t parts = PartsOf(request.portion, memory).ten_thousandths();
    if (parts <= GpuShare::kWhole && MatchesGpuType(request.gpu_type, model)) by_parts[parts].insert(model);
  }
  std::vector<core::AtSpeed> sets;
  for (const auto& [parts, models] : by_parts) {
    sets.push_back(
        {Join(std::vector<std::string>(models.begin(), models.end()), "|"), 1000, static_cast<std::int16_t>(parts)});
  }
  return sets;
}

// An exclusive pool yields one wish for each CPU count of its nodes.
// Takes the smallest profile of each model and sorts models by it, the smallest first.
std::vector<core::AtSpeed> NodeClassifier::BySlice(const Request& request) const {
  std::map<std::pair<int, int>, std::vector<std::string>> by_size;
  for (const auto& [model, profiles] : slices_) {
    if (!MatchesGpuType(request.gpu_type, model)) continue;
    std::optional<std::pair<int, int>> smallest;
    for (const SliceProfile& profile : profiles) {
      if (!IsSuchSlice(profile, request.slice) || !placement::MigProfileOf(profile.compute, profile.size)) continue;
      const std::pair size(profile.size, profile.compute);
      if (!smallest || size < *smallest) smallest = size;
    }
    if (smallest) by_size[*smallest].push_back(model);
  }
  std::vector<core::AtSpeed> sets;
  for (const auto& [size, models] : by_size) {
    const placement::MigProfile profile = *placement::MigProfileOf(size.second, size.first);
    sets.push_back({Join(models, "|"), 1000, placement::SliceShape(profile).parts, profile});
  }
  return sets;
}

std::vector<core::PoolWish> NodeClassifier::WishesOf(const std::string& pools) const {
  std::vector<core::PoolWish> wishes;
  for (const std::string& pool : PoolsIn(pools)) {
    const auto sizes = exclusive_cpus_.find(pool);
    if (sizes == exclusive_cpus_.end()) {
      wishes.push_back({pool, {}, 0});
      continue;
    }
    for (const int cpus : sizes->second)
      wishes.push_back({pool, FeatureCondition(SizeFeature(cpus)), CpuMilli(cpus) + kSpareMilli});
  }
  return wishes;
}

core::ResourceRequest NodeClassifier::Use(core::ResourceRequest resources, const Request& request,
                                          const std::string& pool, const std::vector<ModelSpeed>& learned,
                                          std::vector<core::FilterIndex>& used, std::string* why) {
  if (request.is_heterogeneous()) return UseComponents(std::move(resources), request, pool, used, why);
  core::NodeWishes wishes;
  wishes.gpu_type = request.gpu_type;
  // Elastic jobs ignore speeds and use one set of GPUs.
  if (!request.is_elastic()) wishes.speeds = FastestFirst(request, learned);
  if (request.portion.is_by_memory()) wishes.speeds = BySize(request);
  if (!request.slice.empty()) wishes.speeds = BySlice(request);
  const bool is_uncuttable = !request.slice.empty() && wishes.speeds.empty();
  if (wishes.speeds.empty()) wishes.speeds = {{request.gpu_type, 1000}};
  wishes.least_gpu_memory_mib = MebibytesUp(std::max(request.gpu_memory, LeastGpuMemory(request.portion)));
  // A single node without configured pools ignores requested features, node names and pools.
  Result<FeatureWish> features = FeatureWish();
  if (class_index_.node_count() > 1 || !pools_.empty()) {
    wishes.nodes = request.node_list;
    wishes.excluded = request.excluded_nodes;
    features = ParseFeatureWish(request.constraint);
    wishes.pools = WishesOf(pool);
  }
  if (has_exclusive()) {
    for (core::TaskGroup& group : resources.groups) {
      for (core::Shape& shape : group.alternatives) shape.cpu_milli = std::max(shape.cpu_milli, 1);
    }
  }
  Result<core::ResourceRequest> made = InvalidArgument("");
  if (is_uncuttable) {
    made = LimitExceeded("no GPU supports the slice " + request.slice);
  } else if (features) {
    wishes.features = *std::move(features);
    if (resources.groups.size() > 1) wishes.features.counted.clear();
    made = core::CompileRequest(class_index_, resources, wishes);
  } else {
    made = features.error();
  }
  if (!made) {
    if (why != nullptr) *why = made.error().message;
    for (core::TaskGroup& group : resources.groups) {
      for (core::Shape& shape : group.alternatives) shape.models = 0;
    }
    return resources;
  }
  for (const core::TaskGroup& group : made->groups) used.insert(used.end(), group.filters.begin(), group.filters.end());
  // A job runs as fast as its slowest GPU, so all its tasks get GPUs of one speed.
  if (made->groups.front().alternatives.size() > 1) made->alike = true;
  return *std::move(made);
}

core::ResourceRequest NodeClassifier::UseComponents(core::ResourceRequest resources, const Request& request,
                                                    const std::string& pool, std::vector<core::FilterIndex>& used,
                                                    std::string* why) {
  std::vector<core::TaskGroup> groups;
  for (std::size_t i = 0; i < request.components(); ++i) {
    const std::string& own = i > 0 ? request.others[i - 1].pool : pool;
    std::string lacking;
    core::ResourceRequest one = Use(core::ComponentRequest(resources, static_cast<std::uint8_t>(i)),
                                    ComponentOf(request, i), own.empty() ? pool : own, {}, used, &lacking);
    if (why != nullptr && why->empty() && !lacking.empty()) *why = "component " + std::to_string(i) + ": " + lacking;
    for (core::TaskGroup& group : one.groups) {
      group.component = static_cast<std::uint8_t>(i);
      groups.push_back(std::move(group));
    }
  }
  // The accepted node classes are set last, because a filter that is added later may split a class that an earlier one
  // accepts.
  for (core::TaskGroup& group : groups) {
    for (std::size_t i = 0; i < group.filters.size(); ++i)
      group.alternatives[i].models = class_index_.Accepted(group.filters[i]);
  }
  resources.groups = std::move(groups);
  return resources;
}

void NodeClassifier::UseAgain(const std::vector<core::FilterIndex>& used) {
  for (const core::FilterIndex filter : used) static_cast<void>(class_index_.Use(class_index_.filter(filter)));
}

void NodeClassifier::Leave(const std::vector<core::FilterIndex>& used) {
  for (const core::FilterIndex filter : used) class_index_.Leave(filter);
}

}  // namespace divvy
