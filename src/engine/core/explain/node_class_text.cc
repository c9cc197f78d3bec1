#include "engine/core/explain/node_class_text.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engine/core/explain/explain_text.h"
#include "engine/gpu_type.h"

namespace divvy::core {
namespace {

/// The largest number of names that are listed; the rest are counted.
constexpr std::size_t kMostNames = 8;

std::string NamesText(const std::vector<std::string>& names) {
  if (names.size() > kMostNames) return "one of " + std::to_string(names.size()) + " named nodes";
  return Join(names, " or ");
}

// Removes features that begin with '='. They are not labels: callers of the engine use them to split node classes.
FeatureCondition Spoken(const FeatureCondition& features) {
  FeatureCondition spoken;
  for (const std::vector<std::string>& option : features.options()) {
    FeatureCondition all;
    for (const std::string& feature : option) {
      if (!feature.starts_with('=')) all = all.And(FeatureCondition(feature));
    }
    if (all.is_any()) return {};
    spoken = spoken.is_any() ? all : spoken.Or(all);
  }
  return spoken;
}

std::string FeaturesText(const FeatureCondition& features) {
  const bool is_one = features.options().size() == 1 && features.options().front().size() == 1;
  return (is_one ? "feature " : "features ") + features.Text();
}

std::string CapabilityText(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

std::set<std::string> TypesOf(const NodeFilter& filter) {
  std::set<std::string> types;
  for (const WeightedType& type : AlternativesOf(filter.gpu_type)) types.emplace(type.terms);
  return types;
}

std::string WordsOf(const NodeFilter& filter, const std::set<std::string>& types) {
  std::vector<std::string> words;
  if (!types.empty()) words.push_back("of type " + Join(std::vector<std::string>(types.begin(), types.end()), " or "));
  if (filter.least_gpu_memory_mib > 0) words.push_back("with at least " + MibText(filter.least_gpu_memory_mib));
  if (filter.least_compute_capability > 0) {
    words.push_back("of compute capability " + CapabilityText(filter.least_compute_capability) + " or more");
  }
  if (const FeatureCondition spoken = Spoken(filter.features); !spoken.is_any())
    words.push_back("with " + FeaturesText(spoken));
  if (!filter.nodes.empty()) words.push_back("on " + NamesText(filter.nodes));
  if (!filter.excluded.empty()) words.push_back("not on " + NamesText(filter.excluded));
  if (!filter.pool.empty()) words.push_back("in pool " + filter.pool);
  return Join(words, " ");
}

/// A single condition of a filter, with the option that sets it.
struct Part {
  std::string option;
  NodeFilter filter;
};

std::vector<Part> PartsOf(const NodeFilter& filter) {
  std::vector<Part> parts;
  const auto add = [&](std::string option, auto member) {
    if (filter.*member == NodeFilter{}.*member) return;
    Part part{std::move(option), {}};
    part.filter.*member = filter.*member;
    parts.push_back(std::move(part));
  };
  add("--gpu-type", &NodeFilter::gpu_type);
  add("--gpu-memory", &NodeFilter::least_gpu_memory_mib);
  add("--compute-capability", &NodeFilter::least_compute_capability);
  add("--constraint", &NodeFilter::features);
  add("--nodelist", &NodeFilter::nodes);
  add("--exclude", &NodeFilter::excluded);
  add("--pool", &NodeFilter::pool);
  return parts;
}

std::string LackingFeatures(const NodeClassIndex& class_index, const FeatureCondition& features) {
  if (features.options().size() == 1) {
    for (const std::string& feature : features.options().front()) {
      NodeFilter one;
      one.features = FeatureCondition(feature);
      if (!class_index.HasSome(one)) return "no node has feature " + feature;
    }
  }
  return "no node has " + FeaturesText(features);
}

// Returns the memory of the largest of all GPUs, in MiB.
std::int32_t LargestMemoryOf(const NodeClassIndex& class_index) {
  std::int32_t largest = 0;
  for (int node_class = 0; node_class < placement::kMaxModels; ++node_class)
    largest = std::max(largest, class_index.MemoryOf(node_class));
  return largest;
}

std::string LackingFilter(const NodeClassIndex& class_index, const NodeFilter& part) {
  if (part.least_gpu_memory_mib > 0) {
    const std::int32_t largest = LargestMemoryOf(class_index);
    return largest > 0 ? "the largest GPU has " + MibText(largest) : "no GPU has " + MibText(part.least_gpu_memory_mib);
  }
  if (part.least_compute_capability > 0) {
    return "no GPU has compute capability " + CapabilityText(part.least_compute_capability);
  }
  if (const FeatureCondition spoken = Spoken(part.features); !spoken.is_any())
    return LackingFeatures(class_index, spoken);
  if (!part.nodes.empty()) return "there is no node " + NamesText(part.nodes);
  if (!part.excluded.empty()) return "all nodes are excluded";
  if (!part.pool.empty()) return "there is no node in pool " + part.pool;
  return "";
}

}  // namespace

std::string FilterText(const NodeClassIndex& class_index, std::span<const FilterIndex> filters) {
  // Filters that differ only in models, or only in features, are merged.
  struct Said {
    NodeFilter filter;
    std::set<std::string> types;
  };
  std::vector<Said> said;
  for (const FilterIndex index : filters) {
    if (index == kNoFilter) return "";
    const NodeFilter& filter = class_index.filter(index);
    const std::set<std::string> types = TypesOf(filter);
    const auto is_like = [&](Said& other) {
      NodeFilter same = other.filter;
      same.gpu_type = filter.gpu_type;
      if (same == filter && !types.empty() && !other.types.empty()) {
        other.types.insert(types.begin(), types.end());
        return true;
      }
      same.gpu_type = other.filter.gpu_type;
      same.features = filter.features;
      if (same != filter || other.types != types) return false;
      other.filter.features = other.filter.features.Or(filter.features);
      return true;
    };
    if (std::none_of(said.begin(), said.end(), is_like)) said.push_back({filter, types});
  }
  std::vector<std::string> words;
  for (const Said& one : said) words.push_back(WordsOf(one.filter, one.types));
  return Join(words, " or ");
}

std::string LackingText(const NodeClassIndex& class_index, FilterIndex filter) {
  if (filter == kNoFilter || class_index.HasSome(class_index.filter(filter))) return "";
  for (const Part& part : PartsOf(class_index.filter(filter))) {
    if (!class_index.HasSome(part.filter)) return LackingFilter(class_index, part.filter);
  }
  return "no node meets all of these conditions";
}

std::string FilterOptions(const NodeClassIndex& class_index, FilterIndex filter) {
  if (filter == kNoFilter) return "";
  std::vector<std::string> options;
  for (const Part& part : PartsOf(class_index.filter(filter))) {
    if (!class_index.HasSome(part.filter)) return part.option;
    options.push_back(part.option);
  }
  return Join(options, " and ");
}

std::string InsteadOf(const NodeClassIndex& class_index, FilterIndex filter, int node_class) {
  std::vector<std::string> changes;
  bool has_type = false;
  for (const Part& part : PartsOf(class_index.filter(filter))) {
    if (class_index.PassesAll(part.filter, node_class)) continue;
    const bool is_type = part.option == "--gpu-type" && !class_index.ModelOf(node_class).empty();
    const std::int32_t memory = part.option == "--gpu-memory" ? class_index.MemoryOf(node_class) : 0;
    if (memory > 0) changes.push_back("--gpu-memory " + MibFlag(memory));
    else if (!is_type) changes.push_back("no " + part.option);
    has_type = has_type || is_type;
  }
  std::string text = Join(changes, " and ");
  if (has_type)
    text = "--gpu-type " + ShellQuote(class_index.ModelOf(node_class)) + (text.empty() ? "" : " and ") + text;
  return text;
}

std::int32_t LargestMemory(const NodeClassIndex& class_index, FilterIndex filter) {
  if (filter == kNoFilter || class_index.filter(filter).least_gpu_memory_mib == 0) return 0;
  const std::int32_t largest = LargestMemoryOf(class_index);
  return largest < class_index.filter(filter).least_gpu_memory_mib ? largest : 0;
}

std::string ModelsText(const NodeClassIndex& class_index, placement::ModelSet node_classes) {
  std::set<std::string> models;
  for (int node_class = 0; node_class < placement::kMaxModels; ++node_class) {
    const std::string& model = class_index.ModelOf(node_class);
    if (((node_classes >> node_class) & 1) != 0 && !model.empty() && model.find('+') == std::string::npos)
      models.insert(model);
  }
  if (models.empty()) return "";
  return "of type " + Join(std::vector<std::string>(models.begin(), models.end()), " or ");
}

Names NamesOf(const NodeClassIndex& class_index) {
  Names names;
  names.models = [&class_index](placement::ModelSet node_classes) { return ModelsText(class_index, node_classes); };
  names.gpu_type_option = [&class_index](int node_class) {
    return class_index.ModelOf(node_class).empty() ? std::string()
                                                   : "--gpu-type " + ShellQuote(class_index.ModelOf(node_class));
  };
  names.filters = [&class_index](std::span<const FilterIndex> filters) { return FilterText(class_index, filters); };
  names.lacking = [&class_index](FilterIndex filter) { return LackingText(class_index, filter); };
  names.options = [&class_index](FilterIndex filter) { return FilterOptions(class_index, filter); };
  names.largest_memory_mib = [&class_index](FilterIndex filter) { return LargestMemory(class_index, filter); };
  names.instead = [&class_index](FilterIndex filter, int node_class) {
    return InsteadOf(class_index, filter, node_class);
  };
  return names;
}

}  // namespace divvy::core
