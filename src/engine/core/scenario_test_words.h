// The words of scenarios (scenario_test.cc), and what they make: kinds of nodes, and what jobs ask for. A word that no
// table knows fails the scenario; a new one is a line in the table of its command.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/index_ranges.h"
#include "base/text.h"
#include "engine/core/cluster.h"
#include "engine/scenario_test_files.h"

namespace divvy::core {

inline int ReadInt(const std::string& text) { return std::atoi(text.c_str()); }

/// One command: "submit a gpus=2 held" has the plain words submit, a and held.
struct Words {
  explicit Words(std::string_view line) : text(line) {
    for (std::string_view word : SplitWords(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) all.emplace_back(word, "");
      else all.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  }
  /// The n-th word, if it stands alone; else "".
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

  std::string text;
  std::vector<std::pair<std::string, std::string>> all;
};

/// A word of a command and what it sets.
template <typename Target>
using WordTable = std::map<std::string_view, void (*)(Target&, const std::string&)>;

/// Sets all words from the `first` on.
template <typename Target>
void ReadWords(const WordTable<Target>& table, const Words& words, std::size_t first, Target& target) {
  for (std::size_t i = first; i < words.all.size(); ++i) {
    const auto at = table.find(words.all[i].first);
    ASSERT_NE(at, table.end()) << "no such word: " << words.all[i].first << ", in: " << words.text;
    at->second(target, words.all[i].second);
  }
}

inline std::int32_t ReadMib(const std::string& text) { return ReadInt(text) * (text.ends_with('G') ? 1024 : 1); }

/// How many of which `whole` make one: "4", "0.5".
inline std::int32_t ReadDecimal(const std::string& text, int whole) {
  return static_cast<std::int32_t>(std::strtod(text.c_str(), nullptr) * whole + 0.5);
}
inline std::int32_t ReadParts(const std::string& text) { return ReadDecimal(text, placement::kGpuParts); }
inline std::int32_t ReadCpus(const std::string& text) { return ReadDecimal(text, 1000); }

/// "0-3", "0,2".
inline GpuMask ReadGpus(const std::string& text) {
  GpuMask mask = 0;
  const Result<IndexRanges> ranges = IndexRanges::Parse(text, "GPUs");
  for (std::uint32_t gpu = 0; ranges && gpu < placement::kMaxGpus; ++gpu) {
    if (ranges->Contains(gpu)) mask = static_cast<GpuMask>(mask | (1u << gpu));
  }
  return mask;
}

inline std::vector<std::string> ReadList(const std::string& text, char separator) {
  std::vector<std::string> list;
  for (std::string_view part : Split(text, separator)) {
    if (!part.empty()) list.emplace_back(part);
  }
  return list;
}

/// `text` among the names; fails the scenario where it is none of them.
template <typename Value>
Value ReadOneOf(const std::string& text, const std::map<std::string, Value>& names) {
  const auto at = names.find(text);
  if (at != names.end()) return at->second;
  ADD_FAILURE() << "no such value: " << text;
  return Value{};
}

// --- Nodes ----------------------------------------------------------------------------------------------------------

/// What "node" says. Nodes of a scenario are n0, n1, ... in order.
struct NodeWords {
  int count = 1;
  int gpus = 8;
  std::string model = "h100";
  std::string pool;
  std::vector<std::string> models;  // Of each GPU, where they differ.
  std::int32_t cpu_milli = 64'000;
  std::int32_t memory_mib = 512 * 1024;
  std::uint32_t rack = 0;
  std::uint32_t block = 0;
  int numa = 0;
  int nvlink = 0;
  std::int32_t gpu_memory_mib = 0;  // Of each GPU; 0: not counted.
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

/// GPUs on NUMA nodes of `numa`, joined by NVLink in sets of `nvlink`; 0: not known, none. Null where both are 0.
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

/// The kinds of nodes that there are, and what of them a request names.
class Kinds {
 public:
  struct Kind {
    std::string model;
    std::string pool;
    std::vector<std::string> models;  // Of a node that mixes.
  };

  int Know(const std::string& model, const std::string& pool, const std::vector<std::string>& models = {}) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      if (kinds_[i].model == model && kinds_[i].pool == pool) return static_cast<int>(i);
    }
    kinds_.push_back({model, pool, models});
    return static_cast<int>(kinds_.size()) - 1;
  }
  int ModelIndex(const std::string& model) {
    const auto at = std::find(models_.begin(), models_.end(), model);
    if (at != models_.end()) return static_cast<int>(at - models_.begin());
    models_.push_back(model);
    return static_cast<int>(models_.size()) - 1;
  }
  const Kind& kind(int index) const { return kinds_[static_cast<std::size_t>(index)]; }
  std::size_t size() const { return kinds_.size(); }

  /// Any of `models`, "h100+a100"; "": all. Likewise the pool. One that no node has is a kind without nodes.
  placement::ModelSet SetOf(const std::string& models, const std::string& pool) {
    if (models.empty() && pool.empty()) return placement::kAnyModel;
    const std::vector<std::string> wanted = ReadList(models, '+');
    for (const std::string& model : wanted) Know(model, pool);
    placement::ModelSet set = 0;
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const auto is_it = [&](const std::string& model) {
        const auto& has = kinds_[i].models;
        return model == kinds_[i].model || std::find(has.begin(), has.end(), model) != has.end();
      };
      const bool is_model = models.empty() || std::any_of(wanted.begin(), wanted.end(), is_it);
      if (is_model && (pool.empty() || pool == kinds_[i].pool)) set |= placement::ModelSet{1} << i;
    }
    return set;
  }

 private:
  std::vector<Kind> kinds_;
  std::vector<std::string> models_;
};

// --- Jobs -----------------------------------------------------------------------------------------------------------

/// One group of equal tasks.
struct TaskWords {
  Shape shape;
  bool has_gpus = false;
  int tasks = 1;
  int most = 0;
  std::vector<std::string> types;  // In the order of liking, each "h100", "h100+a100" or "a100*0.55".
  std::string pool;
};

inline const WordTable<TaskWords>& TaskTable() {
  static const WordTable<TaskWords> table = {
      {"gpus",
       [](TaskWords& task, const std::string& text) {
         const std::size_t x = text.find('x');  // 2x0.5: half of each of two.
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

/// What else "submit" says.
struct JobWords {
  Ask ask;
  Job job;
  std::string team;
  std::string user;
  std::string line;
  std::vector<std::string> caps;
  Duration begin{0};
  Duration runs{0};   // How long it truly runs; 0: until its limit.
  Duration since{0};  // Of a job that runs already: for so long.
  std::vector<std::string> on;
  bool is_anyway = false;  // Also if it can never run.
};

inline Together ReadTogether(const std::string& text) {
  return ReadOneOf<Together>(text.substr(0, text.find(':')), {{"anywhere", Together::kAnywhere},
                                                              {"block", Together::kBlock},
                                                              {"rack", Together::kRack},
                                                              {"node", Together::kNode}});
}

inline const WordTable<JobWords>& JobTable() {
  static const WordTable<JobWords> table = {
      {"together",
       [](JobWords& job, const std::string& text) {
         job.ask.together = ReadTogether(text);
         job.ask.requires_together = text.ends_with(":required");
       }},
      {"widest", [](JobWords& job, const std::string& text) { job.ask.widest = ReadTogether(text); }},
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
      {"on", [](JobWords& job, const std::string& text) { job.on = ReadList(text, '+'); }},
  };
  return table;
}

/// A group's words made into what the engine reads.
inline TaskGroup GroupOf(const TaskWords& words, Kinds& kinds) {
  TaskGroup group;
  group.least = words.tasks;
  group.most = std::max(words.most, words.tasks);
  Shape shape = words.shape;
  if (!words.has_gpus) {
    shape.gpus = 1;
    shape.parts = placement::kGpuParts;
  }
  if (shape.gpus == 0 && shape.cpu_milli == 0) shape.cpu_milli = 1000;
  const std::vector<std::string> any(1);
  for (const std::string& type : words.types.empty() ? any : words.types) {
    const std::size_t star = std::min(type.find('*'), type.size());
    shape.models = shape.gpus == 0 ? placement::kAnyModel : kinds.SetOf(type.substr(0, star), words.pool);
    group.alternatives.push_back(shape);
    const bool has_speed = star < type.size();
    group.speeds.push_back(static_cast<std::int16_t>(has_speed ? ReadDecimal(type.substr(star + 1), 1000) : 1000));
  }
  if (group.alternatives.size() < 2) group.speeds.clear();
  return group;
}

/// "gpus=2 tasks=4 together=rack and gpus=0 cpus=8": words from the `first` on, groups of tasks apart.
inline JobWords ReadJob(const Words& words, std::size_t first, Kinds& kinds) {
  JobWords job;
  std::vector<TaskWords> groups(1);
  for (std::size_t i = first; i < words.all.size(); ++i) {
    const auto& [word, value] = words.all[i];
    if (word == "and") {
      groups.emplace_back();
    } else if (const auto task = TaskTable().find(word); task != TaskTable().end()) {
      task->second(groups.back(), value);
    } else if (const auto other = JobTable().find(word); other != JobTable().end()) {
      other->second(job, value);
    } else {
      ADD_FAILURE() << "no such word: " << word << ", in: " << words.text;
    }
  }
  for (const TaskWords& group : groups) job.ask.groups.push_back(GroupOf(group, kinds));
  return job;
}

}  // namespace divvy::core
