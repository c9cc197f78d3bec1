#include "engine/core/state/node_class_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "engine/gpu_type.h"

namespace divvy::core {
namespace {

using placement::kMaxModels;
using placement::ModelSet;

ModelSet BitOf(int node_class) { return ModelSet{1} << node_class; }

template <typename Value>
void SortOnce(std::vector<Value>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

template <typename Value>
bool Contains(const std::vector<Value>& ascending, const Value& value) {
  return std::binary_search(ascending.begin(), ascending.end(), value);
}

bool AsksForGpu(const NodeFilter& filter) {
  return !filter.gpu_type.empty() || filter.least_gpu_memory_mib > 0 || filter.least_compute_capability > 0;
}

bool PassesGpu(const NodeFilter& filter, const GpuProperties& gpu) {
  return gpu.memory_mib >= filter.least_gpu_memory_mib && gpu.compute_capability >= filter.least_compute_capability &&
         (filter.gpu_type.empty() || MatchesGpuType(filter.gpu_type, gpu.model));
}

bool PassesName(const NodeFilter& filter, const std::string& name) {
  return (filter.nodes.empty() || Contains(filter.nodes, name)) && !Contains(filter.excluded, name);
}

Error NoRoom(std::string_view what) {
  return LimitExceeded(std::string(what) + " would create more than " + std::to_string(kMaxModels) +
                       " distinct node classes; use a pool, feature or list of nodes that other jobs " +
                       "use too, or wait until jobs with other conditions have ended");
}

}  // namespace

// --- Changes --------------------------------------------------------------------------------------------------------

NodeClassChange::NodeClassChange() {
  for (int node_class = 0; node_class < kMaxModels; ++node_class)
    was_[static_cast<std::size_t>(node_class)] = BitOf(node_class);
}

ModelSet NodeClassChange::Translate(ModelSet set) const {
  if (set == placement::kAnyModel) return set;
  ModelSet now = 0;
  for (int node_class = 0; node_class < kMaxModels; ++node_class) {
    if ((was_[static_cast<std::size_t>(node_class)] & set) != 0) now |= BitOf(node_class);
  }
  return now;
}

void NodeClassIndex::Note(NodeIndex node) {
  change_.has_any_ = true;
  if (is_renumbered_[node]) return;
  is_renumbered_[node] = true;
  change_.renumbered.push_back(node);
}

NodeClassChange NodeClassIndex::TakeChange() {
  std::sort(change_.renumbered.begin(), change_.renumbered.end());
  SortOnce(change_.changed);
  for (const NodeIndex node : change_.renumbered) is_renumbered_[node] = false;
  return std::exchange(change_, NodeClassChange());
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

NodeClassIndex::Sort NodeClassIndex::SortOf(const NodeProperties& properties) {
  Sort sort{properties.pools, properties.features, {}, {}};
  SortOnce(sort.pools);
  SortOnce(sort.features);
  for (const GpuProperties& gpu : properties.gpus) {
    const auto at = std::find(sort.parts.begin(), sort.parts.end(), gpu);
    sort.part_of.push_back(static_cast<std::uint8_t>(at - sort.parts.begin()));
    if (at == sort.parts.end()) sort.parts.push_back(gpu);
  }
  return sort;
}

std::uint32_t NodeClassIndex::Know(Sort sort) {
  const auto [at, is_new] = sort_index_.try_emplace(sort, static_cast<std::uint32_t>(sorts_.size()));
  if (is_new) {
    for (const GpuProperties& gpu : sort.parts) {
      if (std::find(models_.begin(), models_.end(), gpu.model) == models_.end()) models_.push_back(gpu.model);
    }
    sorts_.push_back(std::move(sort));
  }
  return at->second;
}

std::vector<NodeClassIndex::Label> NodeClassIndex::LabelsOf(const Sort& sort) {
  std::vector<Label> labels;
  std::vector<std::string> models;
  for (const GpuProperties& part : sort.parts) {
    labels.emplace_back(part.model, part.memory_mib);
    models.push_back(part.model);
  }
  SortOnce(models);
  if (sort.parts.size() != 1) labels.emplace_back(Join(models, "+"), 0);
  return labels;
}

std::vector<bool> NodeClassIndex::PassesByClass(const NodeFilter& filter, const Sort& sort, const std::string& name) {
  const bool passes = PassesName(filter, name) && (filter.pool.empty() || Contains(sort.pools, filter.pool)) &&
                      filter.features.Holds(sort.features);
  if (sort.parts.empty()) return {passes && !AsksForGpu(filter)};
  std::vector<bool> passed;
  for (const GpuProperties& part : sort.parts) passed.push_back(passes && PassesGpu(filter, part));
  if (passed.size() > 1) passed.push_back(std::find(passed.begin(), passed.end(), true) != passed.end());
  return passed;
}

// Calls visit(node, passed). Evaluates each distinct node description once.
template <typename Visit>
void NodeClassIndex::ForEachNode(const NodeFilter& filter, Visit visit) const {
  NodeFilter nameless = filter;
  nameless.nodes.clear();
  nameless.excluded.clear();
  std::vector<std::vector<bool>> of_sort(sorts_.size());
  for (NodeIndex index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    std::vector<bool>& passed = of_sort[node.sort];
    if (passed.empty()) passed = PassesByClass(nameless, sorts_[node.sort], node.name);
    if (PassesName(filter, node.name)) visit(index, passed);
    else visit(index, std::vector<bool>(passed.size()));
  }
}

Status NodeClassIndex::AddNode(NodeProperties properties) {
  Node node{std::move(properties.name), Know(SortOf(properties)), {}};
  DIVVY_CHECK(Place(node));
  nodes_.push_back(std::move(node));
  is_renumbered_.push_back(false);
  return {};
}

Status NodeClassIndex::SetProperties(NodeIndex index, NodeProperties properties) {
  Node node{std::move(properties.name), Know(SortOf(properties)), {}};
  DIVVY_ASSERT(sorts_[node.sort].part_of.size() == sorts_[nodes_[index].sort].part_of.size());
  if (node.sort == nodes_[index].sort && node.name == nodes_[index].name) return {};
  DIVVY_CHECK(Place(node));
  std::swap(nodes_[index], node);
  for (const std::uint8_t node_class : node.classes) {
    if (--classes_[node_class].members == 0) Free(node_class);
  }
  Note(index);
  change_.changed.push_back(index);
  return {};
}

void NodeClassIndex::Fill(NodeIndex index, NodeFacts& facts) const {
  const Node& node = nodes_[index];
  const Sort& sort = sorts_[node.sort];
  const auto model_of = [&](const GpuProperties& gpu) {
    return static_cast<int>(std::find(models_.begin(), models_.end(), gpu.model) - models_.begin());
  };
  facts.node_class = node.classes.back();
  facts.gpu_model = sort.parts.empty() ? 0 : model_of(sort.parts.front());
  facts.gpu_classes.clear();
  facts.gpu_models.clear();
  if (sort.parts.size() < 2) return;
  for (const std::uint8_t part : sort.part_of) {
    facts.gpu_classes.push_back(node.classes[part]);
    facts.gpu_models.push_back(model_of(sort.parts[part]));
  }
}

// --- Kinds ----------------------------------------------------------------------------------------------------------

int NodeClassIndex::class_count() const { return std::popcount(taken_); }

int NodeClassIndex::NewClass(const Label& label) {
  const int node_class = std::countr_one(taken_);
  taken_ |= BitOf(node_class);
  classes_[static_cast<std::size_t>(node_class)] = {0, label};
  change_.was_[static_cast<std::size_t>(node_class)] = 0;
  change_.has_any_ = true;
  return node_class;
}

void NodeClassIndex::Free(int node_class) {
  taken_ &= ~BitOf(node_class);
  for (Filter& filter : filters_) filter.accepted &= ~BitOf(node_class);
  change_.was_[static_cast<std::size_t>(node_class)] = 0;
  change_.has_any_ = true;
}

std::vector<bool> NodeClassIndex::SignatureOf(int node_class) const {
  std::vector<bool> signature;
  for (const Filter& filter : filters_) {
    if (filter.is_known) signature.push_back((filter.accepted & BitOf(node_class)) != 0);
  }
  return signature;
}

// Assigns the classes that pass the same filters, or new ones. Returns false if there are not enough numbers.
bool NodeClassIndex::TryPlace(Node& node, bool minds_label) {
  const Sort& sort = sorts_[node.sort];
  const std::vector<Label> labels = LabelsOf(sort);
  std::vector<std::vector<bool>> signatures(labels.size());
  for (const Filter& filter : filters_) {
    if (!filter.is_known) continue;
    const std::vector<bool> passed = PassesByClass(filter.filter, sort, node.name);
    for (std::size_t i = 0; i < passed.size(); ++i) signatures[i].push_back(passed[i]);
  }
  node.classes.clear();
  ModelSet made = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    int node_class = 0;
    while (node_class < kMaxModels) {
      const bool is_like = !minds_label || classes_[static_cast<std::size_t>(node_class)].label == labels[i];
      if ((taken_ & BitOf(node_class)) != 0 && is_like && SignatureOf(node_class) == signatures[i]) break;
      ++node_class;
    }
    if (node_class == kMaxModels) {
      if (taken_ == placement::kAnyModel) {
        for (; made != 0; made &= made - 1) Free(std::countr_zero(made));
        return false;
      }
      node_class = NewClass(labels[i]);
      made |= BitOf(node_class);
      std::size_t at = 0;
      for (Filter& filter : filters_) {
        if (filter.is_known && signatures[i][at++]) filter.accepted |= BitOf(node_class);
      }
    }
    node.classes.push_back(static_cast<std::uint8_t>(node_class));
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    NodeClass& node_class = classes_[node.classes[i]];
    node_class.members += 1;
    if (node_class.label != labels[i]) node_class.label = {};
  }
  return true;
}

Status NodeClassIndex::Place(Node& node) {
  if (TryPlace(node, true)) return {};
  Compact(true);
  if (TryPlace(node, true)) return {};
  Compact(false);
  if (TryPlace(node, false)) return {};
  return NoRoom("node " + node.name);
}

// Drops unused filters, and merges classes that no other filter distinguishes.
void NodeClassIndex::Compact(bool minds_label) {
  for (Filter& filter : filters_) {
    if (filter.users > 0) continue;
    filter.is_known = false;
    filter.accepted = 0;
  }
  std::map<std::pair<std::vector<bool>, Label>, int> first;
  std::array<std::uint8_t, kMaxModels> into{};
  ModelSet gone = 0;
  for (int node_class = 0; node_class < kMaxModels; ++node_class) {
    const auto from = static_cast<std::size_t>(node_class);
    into[from] = static_cast<std::uint8_t>(node_class);
    if ((taken_ & BitOf(node_class)) == 0) continue;
    const Label& label = classes_[from].label;
    const auto [at, is_first] = first.try_emplace({SignatureOf(node_class), minds_label ? label : Label()}, node_class);
    if (is_first) continue;
    const auto to = static_cast<std::size_t>(at->second);
    into[from] = static_cast<std::uint8_t>(to);
    gone |= BitOf(node_class);
    classes_[to].members += classes_[from].members;
    if (classes_[to].label != label) classes_[to].label = {};
    change_.was_[to] |= change_.was_[from];
  }
  if (gone == 0) return;
  for (NodeIndex index = 0; index < nodes_.size(); ++index) {
    for (std::uint8_t& node_class : nodes_[index].classes) {
      if (into[node_class] == node_class) continue;
      node_class = into[node_class];
      Note(index);
    }
  }
  for (; gone != 0; gone &= gone - 1) Free(std::countr_zero(gone));
}

std::vector<std::int64_t> NodeClassIndex::CapacityParts() const {
  std::vector<std::int64_t> capacity(std::size_t{kMaxModels} - static_cast<std::size_t>(std::countl_zero(taken_)));
  for (const Node& node : nodes_) {
    capacity[node.classes.back()] += std::ssize(sorts_[node.sort].part_of) * std::int64_t{placement::kGpuParts};
  }
  return capacity;
}

std::vector<int> NodeClassIndex::Alike() const {
  std::map<Label, int> first;
  std::vector<int> alike;
  for (int node_class = 0; node_class < kMaxModels - std::countl_zero(taken_); ++node_class) {
    alike.push_back(first.try_emplace(classes_[static_cast<std::size_t>(node_class)].label, node_class).first->second);
  }
  return alike;
}

// --- Filters --------------------------------------------------------------------------------------------------------

// Splits every class that the filter accepts in part: the accepted part becomes a new class. Returns false if there are
// not enough numbers.
bool NodeClassIndex::Split(FilterIndex index) {
  const NodeFilter& filter = filters_[index].filter;
  ModelSet accepted = 0;
  ModelSet refused = 0;
  ForEachNode(filter, [&](NodeIndex node, const std::vector<bool>& passed) {
    const std::vector<std::uint8_t>& classes = nodes_[node].classes;
    for (std::size_t i = 0; i < classes.size(); ++i) (passed[i] ? accepted : refused) |= BitOf(classes[i]);
  });
  const ModelSet both = accepted & refused;
  if (std::popcount(both) > kMaxModels - std::popcount(taken_)) return false;
  std::array<std::uint8_t, kMaxModels> part{};
  for (ModelSet rest = both; rest != 0; rest &= rest - 1) {
    const auto from = static_cast<std::size_t>(std::countr_zero(rest));
    const Label label = classes_[from].label;
    const int node_class = NewClass(label);
    part[from] = static_cast<std::uint8_t>(node_class);
    change_.was_[static_cast<std::size_t>(node_class)] = change_.was_[from];
    for (Filter& other : filters_) {
      if ((other.accepted & BitOf(static_cast<int>(from))) != 0) other.accepted |= BitOf(node_class);
    }
    accepted = (accepted & ~BitOf(static_cast<int>(from))) | BitOf(node_class);
  }
  filters_[index].accepted = accepted;
  filters_[index].is_known = true;
  if (both == 0) return true;
  ForEachNode(filter, [&](NodeIndex node, const std::vector<bool>& passed) {
    std::vector<std::uint8_t>& classes = nodes_[node].classes;
    for (std::size_t i = 0; i < classes.size(); ++i) {
      if (!passed[i] || (both & BitOf(classes[i])) == 0) continue;
      classes_[classes[i]].members -= 1;
      classes[i] = part[classes[i]];
      classes_[classes[i]].members += 1;
      Note(node);
    }
  });
  return true;
}

Result<FilterIndex> NodeClassIndex::Use(NodeFilter filter) {
  SortOnce(filter.nodes);
  SortOnce(filter.excluded);
  if (filter == NodeFilter{}) return kNoFilter;
  const auto [at, is_new] = filter_index_.try_emplace(filter, static_cast<FilterIndex>(filters_.size()));
  if (is_new) filters_.push_back({std::move(filter), 0, false, 0});
  const FilterIndex index = at->second;
  if (!filters_[index].is_known && !Split(index)) {
    Compact(true);
    if (!Split(index)) {
      Compact(false);
      if (!Split(index)) return NoRoom("this request");
    }
  }
  filters_[index].users += 1;
  return index;
}

void NodeClassIndex::Leave(FilterIndex filter) {
  if (filter == kNoFilter) return;
  DIVVY_ASSERT(filters_[filter].users > 0);
  filters_[filter].users -= 1;
}

ModelSet NodeClassIndex::Accepted(FilterIndex filter) const {
  return filter == kNoFilter ? placement::kAnyModel : filters_[filter].accepted;
}

bool NodeClassIndex::HasSome(const NodeFilter& filter) const {
  bool has_some = false;
  ForEachNode(filter, [&](NodeIndex, const std::vector<bool>& passed) {
    has_some = has_some || std::find(passed.begin(), passed.end(), true) != passed.end();
  });
  return has_some;
}

bool NodeClassIndex::PassesAll(const NodeFilter& filter, int node_class) const {
  bool passes = true;
  ForEachNode(filter, [&](NodeIndex node, const std::vector<bool>& passed) {
    const std::vector<std::uint8_t>& classes = nodes_[node].classes;
    for (std::size_t i = 0; i < classes.size(); ++i) passes = passes && (classes[i] != node_class || passed[i]);
  });
  return passes;
}

std::string NodeClassIndex::CheckInvariants() const {
  std::array<std::int64_t, kMaxModels> members{};
  for (const Node& node : nodes_) {
    for (const std::uint8_t node_class : node.classes) members[node_class] += 1;
  }
  for (int node_class = 0; node_class < kMaxModels; ++node_class) {
    const auto at = static_cast<std::size_t>(node_class);
    const bool is_taken = (taken_ & BitOf(node_class)) != 0;
    if (is_taken != (members[at] > 0) || (is_taken && classes_[at].members != members[at])) {
      return "node class " + std::to_string(node_class) + " has a wrong count of nodes";
    }
  }
  for (const Filter& filter : filters_) {
    if ((filter.accepted & ~taken_) != 0) return "a filter accepts a node class without nodes";
    if (filter.users > 0 && !filter.is_known) return "a filter that is in use was dropped";
    if (!filter.is_known) continue;
    bool is_right = true;
    ForEachNode(filter.filter, [&](NodeIndex node, const std::vector<bool>& passed) {
      const std::vector<std::uint8_t>& classes = nodes_[node].classes;
      for (std::size_t i = 0; i < classes.size(); ++i) {
        is_right = is_right && passed[i] == ((filter.accepted & BitOf(classes[i])) != 0);
      }
    });
    if (!is_right) return "a filter does not accept exactly the nodes that meet its conditions";
  }
  return "";
}

}  // namespace divvy::core
