// The commands of scenarios (tests/scenarios/README.md) as text, and what their options describe: nodes, rules and
// jobs. An unknown word fails the scenario; a new word needs an entry in the table of its command.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/index_ranges.h"
#include "base/scenario_test_files.h"
#include "base/text.h"
#include "engine/core/state/cluster.h"
#include "engine/core/state/compile_request.h"

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

/// "NVIDIA_L4": a space in a name is written as '_'.
inline std::string Spaced(std::string text) {
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

/// The options of "node". Nodes of a scenario are n0, n1, ... in order.
struct NodeAttributes {
  int count = 1;
  int gpus = 8;
  std::string model = "h100";
  std::string pool;
  std::int32_t cpu_milli = 64'000;
  std::int32_t memory_mib = 512 * 1024;
  std::uint32_t rack = 0;
  std::uint32_t block = 0;
  int numa = 0;
  int nvlink = 0;
  std::int32_t gpu_memory_mib = 0;                          // Per GPU; 0: not accounted.
  std::vector<std::pair<std::string, std::int32_t>> mixed;  // Model and memory of each GPU, if they differ.
  std::vector<std::string> features;
  int compute = 0;
  bool has_mig = false;

  std::string Model(int gpu) const { return mixed.empty() ? model : mixed[static_cast<std::size_t>(gpu)].first; }
  std::int32_t MemoryMib(int gpu) const {
    return mixed.empty() ? gpu_memory_mib : mixed[static_cast<std::size_t>(gpu)].second;
  }
};

inline const WordTable<NodeAttributes>& NodeTable() {
  static const WordTable<NodeAttributes> table = {
      {"count", [](NodeAttributes& node, const std::string& text) { node.count = ReadInt(text); }},
      {"gpus", [](NodeAttributes& node, const std::string& text) { node.gpus = ReadInt(text); }},
      {"model", [](NodeAttributes& node, const std::string& text) { node.model = Spaced(text); }},
      {"pool", [](NodeAttributes& node, const std::string& text) { node.pool = text; }},
      {"cpus", [](NodeAttributes& node, const std::string& text) { node.cpu_milli = ReadCpus(text); }},
      {"memory", [](NodeAttributes& node, const std::string& text) { node.memory_mib = ReadMib(text); }},
      {"rack",
       [](NodeAttributes& node, const std::string& text) { node.rack = static_cast<std::uint32_t>(ReadInt(text)); }},
      {"block",
       [](NodeAttributes& node, const std::string& text) { node.block = static_cast<std::uint32_t>(ReadInt(text)); }},
      {"numa", [](NodeAttributes& node, const std::string& text) { node.numa = ReadInt(text); }},
      {"nvlink", [](NodeAttributes& node, const std::string& text) { node.nvlink = ReadInt(text); }},
      {"gpu_memory", [](NodeAttributes& node, const std::string& text) { node.gpu_memory_mib = ReadMib(text); }},
      {"features", [](NodeAttributes& node, const std::string& text) { node.features = ReadList(text, ','); }},
      {"compute", [](NodeAttributes& node, const std::string& text) { node.compute = ReadDecimal(text, 10); }},
      {"mig", [](NodeAttributes& node, const std::string&) { node.has_mig = true; }},
      {"mixed",
       [](NodeAttributes& node, const std::string& text) {
         for (const std::string& part : ReadList(text, '+')) {
           const std::size_t x = part.find('x') + 1;
           const std::size_t colon = std::min(part.find(':'), part.size());
           const std::int32_t memory = colon < part.size() ? ReadMib(part.substr(colon + 1)) : node.gpu_memory_mib;
           node.mixed.insert(node.mixed.end(), static_cast<std::size_t>(ReadInt(part)),
                             {Spaced(part.substr(x, colon - x)), memory});
         }
         node.gpus = static_cast<int>(node.mixed.size());
       }},
  };
  return table;
}

/// The node's GPUs: on NUMA nodes of `numa`, connected by NVLink in groups of `nvlink`; 0: unknown or none.
inline std::vector<GpuFacts> GpusOf(const NodeAttributes& node) {
  std::vector<GpuFacts> gpus(static_cast<std::size_t>(node.gpus));
  for (int gpu = 0; gpu < node.gpus; ++gpu) {
    GpuFacts& one = gpus[static_cast<std::size_t>(gpu)];
    one.index = static_cast<GpuIndex>(gpu);
    one.uuid = "GPU-" + std::to_string(gpu);
    one.model = node.Model(gpu);
    one.memory_total = Bytes(std::int64_t{node.MemoryMib(gpu)} << 20);
    if (node.numa > 0) one.numa_node = gpu / node.numa;
    for (int other = 0; other < node.gpus; ++other) {
      const bool is_joined = node.nvlink > 0 && other / node.nvlink == gpu / node.nvlink;
      const bool is_near = node.numa == 0 || other / node.numa == gpu / node.numa;
      one.links.push_back(other == gpu ? "X" : is_joined ? "NV12" : is_near ? "PHB" : "SYS");
    }
  }
  return gpus;
}

// --- Rules ----------------------------------------------------------------------------------------------------------

/// The options of "rules" and "line".
struct RuleWords : Rules {
  std::optional<int> cpu_jobs;  // For the scheduler only.
};

inline const WordTable<RuleWords>& RuleTable() {
  static const WordTable<RuleWords> table = {
      {"small-first", [](RuleWords& rules, const std::string&) { rules.order = QueuePolicy::kSmallFirst; }},
      {"fifo", [](RuleWords& rules, const std::string&) { rules.order = QueuePolicy::kFifo; }},
      {"fair", [](RuleWords& rules, const std::string&) { rules.order = QueuePolicy::kFair; }},
      {"shortest", [](RuleWords& rules, const std::string&) { rules.order = QueuePolicy::kShortest; }},
      {"backfill",
       [](RuleWords& rules, const std::string& text) {
         rules.backfill = ReadOneOf<Backfill>(
             text, {{"reserved", Backfill::kReserved}, {"none", Backfill::kNone}, {"anything", Backfill::kAnything}});
       }},
      {"escalate_after", [](RuleWords& rules, const std::string& text) { rules.escalate_after = ReadDuration(text); }},
      {"tier", [](RuleWords& rules, const std::string& text) { rules.tier = ReadInt(text); }},
      {"ageing", [](RuleWords& rules, const std::string& text) { rules.ageing = std::strtod(text.c_str(), nullptr); }},
      {"fair_is_fifo", [](RuleWords& rules, const std::string&) { rules.fair_is_fifo = true; }},
      {"without_predictions", [](RuleWords& rules, const std::string&) { rules.uses_predictions = false; }},
      {"cpu_jobs_pass", [](RuleWords& rules, const std::string&) { rules.cpu_jobs_pass = true; }},
      {"cpu_jobs", [](RuleWords& rules, const std::string& text) { rules.cpu_jobs = ReadInt(text); }},
      {"reclaims", [](RuleWords& rules, const std::string&) { rules.reclaims = true; }},
      {"preempts", [](RuleWords& rules, const std::string&) { rules.preempts = true; }},
      {"consolidates", [](RuleWords& rules, const std::string&) { rules.consolidates = true; }},
      {"least_run", [](RuleWords& rules, const std::string& text) { rules.min_runtime = ReadDuration(text); }},
      {"patience", [](RuleWords& rules, const std::string& text) { rules.wait_before = ReadDuration(text); }},
      {"grace", [](RuleWords& rules, const std::string& text) { rules.grace = ReadDuration(text); }},
  };
  return table;
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
  ResourceRequest request;
  Job job;
  std::string team;
  std::string user;
  std::string line;
  std::vector<std::string> caps;
  int at_once = 0;  // How many members of the array run together; 0: no limit.
  Duration begin{0};
  Duration runs{0};   // The actual run time; 0: until its limit.
  Duration since{0};  // For a job that runs already: how long it has run.
  std::vector<std::string> on;
  GpuSet asked_back;
  std::vector<std::string> after;  // Dependencies, for the scheduler only: "job 1 to succeed".
  std::string ends;                // The job that must end first.
  std::optional<PlacementStrategy> placement;
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
         job.request.locality = ReadTogether(text);
         job.request.requires_locality = text.ends_with(":required");
       }},
      {"widest", [](JobWords& job, const std::string& text) { job.request.widest = ReadTogether(text); }},
      {"few", [](JobWords& job, const std::string&) { job.request.wants_few_nodes = true; }},
      {"mixes", [](JobWords& job, const std::string&) { job.request.mixes_models = true; }},
      {"placement",
       [](JobWords& job, const std::string& text) {
         job.placement = ReadOneOf<PlacementStrategy>(text, {{"best", PlacementStrategy::kBest},
                                                             {"pack", PlacementStrategy::kPack},
                                                             {"spread", PlacementStrategy::kSpread},
                                                             {"sequential", PlacementStrategy::kSequential}});
       }},
      {"random",
       [](JobWords& job, const std::string& text) {
         job.placement = PlacementStrategy::kRandom;
         job.job.draw = static_cast<std::uint64_t>(ReadInt(text));
       }},
      {"topology",
       [](JobWords& job, const std::string& text) {
         job.request.topology = ReadOneOf<TopologyNeed>(
             text.substr(0, text.find(':')), {{"numa", TopologyNeed::kNuma}, {"nvlink", TopologyNeed::kNvlink}});
         job.request.requires_topology = text.ends_with(":required");
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
      {"at_once", [](JobWords& job, const std::string& text) { job.at_once = ReadInt(text); }},
      {"asked", [](JobWords& job, const std::string& text) { job.asked_back = ReadGpus(text); }},
      {"after", [](JobWords& job, const std::string& text) { job.after = {Spaced(text)}; }},
      {"ends", [](JobWords& job, const std::string& text) { job.ends = text; }},
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

}  // namespace divvy::core
