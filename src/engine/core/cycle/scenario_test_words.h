// The words of scenarios (scenario_test.cc) and what they create: node kinds and job requests. An unknown word fails
// the scenario; a new word needs an entry in the table of its command.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/index_ranges.h"
#include "base/scenario_test_files.h"
#include "base/text.h"
#include "engine/core/state/ask_for.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

inline int ReadInt(const std::string& text) { return std::atoi(text.c_str()); }

/// Splits a line into commands at '|' outside of quotes.
inline std::vector<std::string> SplitCommands(std::string_view line) {
  std::vector<std::string> commands(1);
  bool is_quoted = false;
  for (const char c : line) {
    is_quoted ^= c == '\'';
    if (c == '|' && !is_quoted) commands.emplace_back();
    else commands.back() += c;
  }
  return commands;
}

/// One command: "submit a gpus=2 held" has the plain words submit, a and held. A value may be quoted.
struct Words {
  explicit Words(std::string_view line) : text(line) {
    for (std::string_view word : SplitWords(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) all.emplace_back(word, "");
      else all.emplace_back(word.substr(0, equals), Unquoted(word.substr(equals + 1)));
    }
  }
  /// The n-th word if it has no value; otherwise "".
  std::string Plain(std::size_t n) const { return n < all.size() && all[n].second.empty() ? all[n].first : ""; }
  std::string Get(std::string_view name, std::string otherwise = "") const {
    for (const auto& [word, value] : all) {
      if (word == name) return value;
    }
    return otherwise;
  }
  bool Has(std::string_view name) const {
    return std::any_of(all.begin(), all.end(), [&](const auto& word) { return word.first == name; });
  }
  int GetInt(std::string_view name, int otherwise) const { return Has(name) ? ReadInt(Get(name)) : otherwise; }

  static std::string_view Unquoted(std::string_view value) {
    const bool is_quoted = value.size() > 1 && value.front() == '\'' && value.back() == '\'';
    return is_quoted ? value.substr(1, value.size() - 2) : value;
  }

  std::string text;
  std::vector<std::pair<std::string, std::string>> all;
};

/// Maps each word of a command to a setter.
template <typename Target>
using WordTable = std::map<std::string_view, void (*)(Target&, const std::string&)>;

/// Applies all words from `first` on.
template <typename Target>
void ReadWords(const WordTable<Target>& table, const Words& words, std::size_t first, Target& target) {
  for (std::size_t i = first; i < words.all.size(); ++i) {
    const auto at = table.find(words.all[i].first);
    ASSERT_NE(at, table.end()) << "no such word: " << words.all[i].first << ", in: " << words.text;
    at->second(target, words.all[i].second);
  }
}

inline std::int32_t ReadMib(const std::string& text) { return ReadInt(text) * (text.ends_with('G') ? 1024 : 1); }

/// Reads a decimal number in units of 1 / `whole`: "4", "0.5".
inline std::int32_t ReadDecimal(const std::string& text, int whole) {
  return static_cast<std::int32_t>(std::strtod(text.c_str(), nullptr) * whole + 0.5);
}
inline std::int32_t ReadParts(const std::string& text) { return ReadDecimal(text, placement::kGpuParts); }
inline std::int32_t ReadCpus(const std::string& text) { return ReadDecimal(text, 1000); }

/// "0-3", "0,2".
inline GpuSet ReadGpus(const std::string& text) {
  GpuSet gpus;
  const Result<IndexRanges> ranges = IndexRanges::Parse(text, "GPUs");
  for (std::uint32_t i = 0; ranges && i < ranges->size(); ++i) gpus.Insert(static_cast<int>(*ranges->Nth(i)));
  return gpus;
}

inline std::vector<std::string> ReadList(const std::string& text, char separator) {
  std::vector<std::string> list;
  for (std::string_view part : Split(text, separator)) {
    if (!part.empty()) list.emplace_back(part);
  }
  return list;
}

/// "n[1-3,5]", "n2".
inline std::vector<std::string> ReadNodes(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos || !text.ends_with(']')) return ReadList(text, ',');
  std::vector<std::string> names;
  const Result<IndexRanges> ranges = IndexRanges::Parse(text.substr(open + 1, text.size() - open - 2), "nodes");
  for (std::uint32_t i = 0; ranges && i < 1000; ++i) {
    if (ranges->Contains(i)) names.push_back(text.substr(0, open) + std::to_string(i));
  }
  return names;
}

/// Looks `text` up in `names`; fails the scenario if it is unknown.
template <typename Value>
Value ReadOneOf(const std::string& text, const std::map<std::string, Value>& names) {
  const auto at = names.find(text);
  if (at != names.end()) return at->second;
  ADD_FAILURE() << "no such value: " << text;
  return Value{};
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

/// The options of "node". Nodes of a scenario are n0, n1, ... in order.
struct NodeWords {
  int count = 1;
  int gpus = 8;
  std::string model = "h100";
  std::string pool;
  std::vector<std::string> models;  // The model of each GPU, if they differ.
  std::int32_t cpu_milli = 64'000;
  std::int32_t memory_mib = 512 * 1024;
  std::uint32_t rack = 0;
  std::uint32_t block = 0;
  int numa = 0;
  int nvlink = 0;
  std::int32_t gpu_memory_mib = 0;  // Per GPU; 0: not accounted.
  std::vector<std::string> features;
  int compute = 0;
  bool has_mig = false;
};

inline const WordTable<NodeWords>& NodeTable() {
  static const WordTable<NodeWords> table = {
      {"count", [](NodeWords& node, const std::string& text) { node.count = ReadInt(text); }},
      {"gpus", [](NodeWords& node, const std::string& text) { node.gpus = ReadInt(text); }},
      {"model", [](NodeWords& node, const std::string& text) { node.model = text; }},
      {"pool", [](NodeWords& node, const std::string& text) { node.pool = text; }},
      {"cpus", [](NodeWords& node, const std::string& text) { node.cpu_milli = ReadCpus(text); }},
      {"memory", [](NodeWords& node, const std::string& text) { node.memory_mib = ReadMib(text); }},
      {"rack", [](NodeWords& node, const std::string& text) { node.rack = static_cast<std::uint32_t>(ReadInt(text)); }},
      {"block",
       [](NodeWords& node, const std::string& text) { node.block = static_cast<std::uint32_t>(ReadInt(text)); }},
      {"numa", [](NodeWords& node, const std::string& text) { node.numa = ReadInt(text); }},
      {"nvlink", [](NodeWords& node, const std::string& text) { node.nvlink = ReadInt(text); }},
      {"gpu_memory", [](NodeWords& node, const std::string& text) { node.gpu_memory_mib = ReadMib(text); }},
      {"features", [](NodeWords& node, const std::string& text) { node.features = ReadList(text, ','); }},
      {"compute", [](NodeWords& node, const std::string& text) { node.compute = ReadDecimal(text, 10); }},
      {"mig", [](NodeWords& node, const std::string&) { node.has_mig = true; }},
      {"mixed",
       [](NodeWords& node, const std::string& text) {
         node.model = text;
         for (const std::string& part : ReadList(text, '+')) {
           const std::size_t x = part.find('x');
           for (int i = 0; i < ReadInt(part); ++i) node.models.push_back(part.substr(x + 1));
         }
         node.gpus = static_cast<int>(node.models.size());
       }},
  };
  return table;
}

/// GPUs on NUMA nodes of `numa`, connected by NVLink in groups of `nvlink`; 0: unknown or none. Null if both are 0.
inline std::shared_ptr<const GpuTopology> TopologyOf(int gpus, int numa, int nvlink) {
  if (numa == 0 && nvlink == 0) return nullptr;
  std::vector<GpuFacts> facts(static_cast<std::size_t>(gpus));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    GpuFacts& one = facts[static_cast<std::size_t>(gpu)];
    one.index = static_cast<GpuIndex>(gpu);
    if (numa > 0) one.numa_node = gpu / numa;
    for (int other = 0; other < gpus; ++other) {
      const bool is_joined = nvlink > 0 && other / nvlink == gpu / nvlink;
      const bool is_near = numa == 0 || other / numa == gpu / numa;
      one.links.push_back(other == gpu ? "X" : is_joined ? "NV12" : is_near ? "PHB" : "SYS");
    }
  }
  return std::make_shared<GpuTopology>(facts);
}

/// The node's properties that requests can name.
inline NodeTraits TraitsOf(const NodeWords& words, std::string name) {
  NodeTraits traits;
  traits.name = std::move(name);
  if (!words.pool.empty()) traits.pools.push_back(words.pool);
  traits.features = words.features;
  for (int gpu = 0; gpu < words.gpus; ++gpu) {
    const std::string& model = words.models.empty() ? words.model : words.models[static_cast<std::size_t>(gpu)];
    traits.gpus.push_back({model, words.gpu_memory_mib, words.compute});
  }
  return traits;
}

// --- Jobs -----------------------------------------------------------------------------------------------------------

/// One group of equal tasks.
struct TaskWords {
  Shape shape;
  bool has_gpus = false;
  int tasks = 1;
  int most = 0;
  std::vector<std::string> types;  // In order of preference, each "h100", "h100+a100" or "a100*0.55".
  std::string pool;
};

inline const WordTable<TaskWords>& TaskTable() {
  static const WordTable<TaskWords> table = {
      {"gpus",
       [](TaskWords& task, const std::string& text) {
         const std::size_t x = text.find('x');  // 2x0.5: half of each of two GPUs.
         const std::int32_t parts = ReadParts(x == std::string::npos ? text : text.substr(x + 1));
         const bool is_whole = x == std::string::npos && parts % placement::kGpuParts == 0;
         task.has_gpus = true;
         task.shape.gpus = static_cast<std::int16_t>(x != std::string::npos ? ReadInt(text)
                                                     : is_whole             ? parts / placement::kGpuParts
                                                                            : 1);
         task.shape.parts = static_cast<std::int16_t>(parts == 0 ? 0 : is_whole ? placement::kGpuParts : parts);
       }},
      {"slice",
       [](TaskWords& task, const std::string& text) {
         using enum placement::MigProfile;
         const Shape slice = placement::SliceShape(ReadOneOf<placement::MigProfile>(
             text, {{"1g", k1g}, {"1g-wide", k1gWide}, {"2g", k2g}, {"3g", k3g}, {"4g", k4g}, {"7g", k7g}}));
         task.has_gpus = true;
         task.shape.gpus = slice.gpus;
         task.shape.parts = slice.parts;
         task.shape.slice = slice.slice;
       }},
      {"gpu_memory", [](TaskWords& task, const std::string& text) { task.shape.gpu_memory_mib = ReadMib(text); }},
      {"tasks", [](TaskWords& task, const std::string& text) { task.tasks = ReadInt(text); }},
      {"most", [](TaskWords& task, const std::string& text) { task.most = ReadInt(text); }},
      {"cpus", [](TaskWords& task, const std::string& text) { task.shape.cpu_milli = ReadCpus(text); }},
      {"memory", [](TaskWords& task, const std::string& text) { task.shape.memory_mib = ReadMib(text); }},
      {"type", [](TaskWords& task, const std::string& text) { task.types = ReadList(text, '>'); }},
      {"pool", [](TaskWords& task, const std::string& text) { task.pool = text; }},
  };
  return table;
}

/// The other options of "submit".
struct JobWords {
  Ask ask;
  Job job;
  std::string team;
  std::string user;
  std::string line;
  std::vector<std::string> caps;
  Duration begin{0};
  Duration runs{0};   // The actual run time; 0: until its limit.
  Duration since{0};  // For a job that runs already: how long it has run.
  std::vector<std::string> on;
  bool is_anyway = false;  // Queued even if it can never run.
  std::vector<TaskWords> groups = std::vector<TaskWords>(1);
  std::string constraint;
  NodeWishes wishes;    // For all tasks.
  std::string refusal;  // An error in the options.
};

inline Locality ReadTogether(const std::string& text) {
  return ReadOneOf<Locality>(text.substr(0, text.find(':')), {{"anywhere", Locality::kAnywhere},
                                                              {"block", Locality::kBlock},
                                                              {"rack", Locality::kRack},
                                                              {"node", Locality::kNode}});
}

inline const WordTable<JobWords>& JobTable() {
  static const WordTable<JobWords> table = {
      {"together",
       [](JobWords& job, const std::string& text) {
         job.ask.together = ReadTogether(text);
         job.ask.requires_together = text.ends_with(":required");
       }},
      {"widest", [](JobWords& job, const std::string& text) { job.ask.widest = ReadTogether(text); }},
      {"few", [](JobWords& job, const std::string&) { job.ask.wants_few_nodes = true; }},
      {"mixes", [](JobWords& job, const std::string&) { job.ask.mixes_models = true; }},
      {"placement",
       [](JobWords& job, const std::string& text) {
         job.ask.placement = ReadOneOf<PlacementStrategy>(text, {{"best", PlacementStrategy::kBest},
                                                                 {"pack", PlacementStrategy::kPack},
                                                                 {"spread", PlacementStrategy::kSpread},
                                                                 {"sequential", PlacementStrategy::kSequential}});
       }},
      {"random",
       [](JobWords& job, const std::string& text) {
         job.ask.placement = PlacementStrategy::kRandom;
         job.job.draw = static_cast<std::uint64_t>(ReadInt(text));
       }},
      {"topology",
       [](JobWords& job, const std::string& text) {
         job.ask.topology = ReadOneOf<TopologyNeed>(text.substr(0, text.find(':')),
                                                    {{"numa", TopologyNeed::kNuma}, {"nvlink", TopologyNeed::kNvlink}});
         job.ask.requires_topology = text.ends_with(":required");
       }},
      {"limit", [](JobWords& job, const std::string& text) { job.job.limit = ReadDuration(text); }},
      {"predicted", [](JobWords& job, const std::string& text) { job.job.predicted = ReadDuration(text); }},
      {"runs", [](JobWords& job, const std::string& text) { job.runs = ReadDuration(text); }},
      {"since", [](JobWords& job, const std::string& text) { job.since = ReadDuration(text); }},
      {"begin", [](JobWords& job, const std::string& text) { job.begin = ReadDuration(text); }},
      {"priority", [](JobWords& job, const std::string& text) { job.job.priority = ReadInt(text); }},
      {"count",
       [](JobWords& job, const std::string& text) { job.job.count = static_cast<std::uint32_t>(ReadInt(text)); }},
      {"preemptible",
       [](JobWords& job, const std::string& text) {
         job.job.preemptible = ReadOneOf<Preemptible>(
             text,
             {{"never", Preemptible::kNever}, {"pause", Preemptible::kPause}, {"requeue", Preemptible::kRequeue}});
       }},
      {"held", [](JobWords& job, const std::string&) { job.job.is_parked = true; }},
      {"anyway", [](JobWords& job, const std::string&) { job.is_anyway = true; }},
      {"team", [](JobWords& job, const std::string& text) { job.team = text; }},
      {"user", [](JobWords& job, const std::string& text) { job.user = text; }},
      {"line", [](JobWords& job, const std::string& text) { job.line = text; }},
      {"cap", [](JobWords& job, const std::string& text) { job.caps = ReadList(text, ','); }},
      {"constraint", [](JobWords& job, const std::string& text) { job.constraint = text; }},
      {"nodes", [](JobWords& job, const std::string& text) { job.wishes.nodes = ReadNodes(text); }},
      {"exclude", [](JobWords& job, const std::string& text) { job.wishes.excluded = ReadNodes(text); }},
      {"compute",
       [](JobWords& job, const std::string& text) { job.wishes.least_compute_capability = ReadDecimal(text, 10); }},
      {"vram", [](JobWords& job, const std::string& text) { job.wishes.least_gpu_memory_mib = ReadMib(text); }},
      {"on", [](JobWords& job, const std::string& text) { job.on = ReadList(text, '+'); }},
  };
  return table;
}

/// One task of a group, without node requirements.
inline TaskGroup GroupOf(const TaskWords& words) {
  TaskGroup group;
  group.least = words.tasks;
  group.most = std::max(words.most, words.tasks);
  Shape shape = words.shape;
  if (!words.has_gpus) {
    shape.gpus = 1;
    shape.parts = placement::kGpuParts;
  }
  if (shape.gpus == 0 && shape.cpu_milli == 0) shape.cpu_milli = 1000;
  group.alternatives.push_back(shape);
  return group;
}

/// Expands these groups by the types and pool of `words`, plus `wishes`. The types become alternatives, the first one
/// preferred.
inline Result<std::vector<TaskGroup>> PutOn(NodeClassIndex& book, const std::vector<TaskGroup>& groups,
                                            const TaskWords& words, NodeWishes wishes, bool* alike) {
  Ask bare;
  bare.groups = groups;
  wishes.pool = words.pool;
  std::vector<TaskGroup> made;
  const std::vector<std::string> any(1);
  for (const std::string& type : words.types.empty() ? any : words.types) {
    const std::size_t star = std::min(type.find('*'), type.size());
    wishes.gpu_type = Join(ReadList(type.substr(0, star), '+'), "|");
    DIVVY_TRY(Ask ask, AskFor(book, bare, wishes));
    *alike = *alike || ask.alike;
    if (made.empty()) made.resize(ask.groups.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      TaskGroup& group = ask.groups[i];
      const bool has_speed = star < type.size();
      const int speed = has_speed ? ReadDecimal(type.substr(star + 1), 1000) : 1000;
      group.speeds.assign(group.alternatives.size(), static_cast<std::int16_t>(speed));
      group.alternatives.insert(group.alternatives.begin(), made[i].alternatives.begin(), made[i].alternatives.end());
      group.filters.insert(group.filters.begin(), made[i].filters.begin(), made[i].filters.end());
      group.speeds.insert(group.speeds.begin(), made[i].speeds.begin(), made[i].speeds.end());
      made[i] = std::move(group);
    }
  }
  for (TaskGroup& group : made) {
    if (words.types.size() < 2) group.speeds.clear();
    // A later filter may have split the kinds of an earlier one.
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      group.alternatives[i].models = book.Accepted(group.filters[i]);
    }
  }
  return made;
}

/// "gpus=2 tasks=4 together=rack and gpus=0 cpus=8": reads words from `first` on; "and" separates task groups.
inline JobWords ReadJob(const Words& words, std::size_t first) {
  JobWords job;
  for (std::size_t i = first; i < words.all.size(); ++i) {
    const auto& [word, value] = words.all[i];
    if (word == "and") {
      job.groups.emplace_back();
    } else if (const auto task = TaskTable().find(word); task != TaskTable().end()) {
      task->second(job.groups.back(), value);
    } else if (const auto other = JobTable().find(word); other != JobTable().end()) {
      other->second(job, value);
    } else {
      ADD_FAILURE() << "no such word: " << word << ", in: " << words.text;
    }
  }
  return job;
}

/// Makes `job.ask`; its filters are in use from then on.
inline Status MakeAsk(NodeClassIndex& book, JobWords& job) {
  DIVVY_TRY(job.wishes.features, ParseFeatureWish(job.constraint));
  std::vector<TaskGroup> groups;
  bool is_same = true;  // A constraint treats groups with equal node requirements as one.
  for (const TaskWords& words : job.groups) {
    groups.push_back(GroupOf(words));
    is_same = is_same && words.types == job.groups.front().types && words.pool == job.groups.front().pool;
  }
  if (is_same) {
    DIVVY_TRY(job.ask.groups, PutOn(book, groups, job.groups.front(), job.wishes, &job.ask.alike));
    return {};
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    DIVVY_TRY(std::vector<TaskGroup> made, PutOn(book, {groups[i]}, job.groups[i], job.wishes, &job.ask.alike));
    job.ask.groups.insert(job.ask.groups.end(), made.begin(), made.end());
  }
  for (TaskGroup& group : job.ask.groups) {
    for (std::size_t i = 0; i < group.filters.size(); ++i) {
      group.alternatives[i].models = book.Accepted(group.filters[i]);
    }
  }
  return {};
}

}  // namespace divvy::core
