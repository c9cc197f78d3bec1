#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "research/peer_cases.h"

namespace divvy::research {
namespace {

namespace json = boost::json;

const json::value* Find(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

// Returns the last part of a symbol: "$pod_status.Running" becomes "Running".
std::string Symbol(const json::value& value) {
  if (!value.is_string()) return "";
  const std::string text(value.get_string());
  if (!text.starts_with('$')) return text;
  const std::size_t dot = text.rfind('.');
  return dot == std::string::npos ? text.substr(1) : text.substr(dot + 1);
}

// Evaluates numbers, named constants, their sums and products, and values wrapped in a call. Durations are in seconds.
double Number(const json::value& value) {
  if (value.is_double()) return value.get_double();
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_string()) {
    static const std::map<std::string, double> kNames = {{"PriorityTrainNumber", 50},
                                                         {"PriorityInteractivePreemptibleNumber", 75},
                                                         {"PriorityBuildNumber", 100},
                                                         {"PriorityInferenceNumber", 125},
                                                         {"DefaultQueuePriority", 100},
                                                         {"Second", 1},
                                                         {"Minute", 60},
                                                         {"Hour", 3600},
                                                         {"UnlimitedResourceQuantity", -1},
                                                         {"NoMaxAllowedResource", -1}};
    const std::string name = Symbol(value);
    if (const auto at = kNames.find(name); at != kNames.end()) return at->second;
    return ParseNumber(name).value_or(0);
  }
  const json::object* object = value.if_object();
  if (object == nullptr) return 0;
  if (const json::value* op = Find(*object, "op")) {
    const double left = Find(*object, "l") ? Number(*Find(*object, "l")) : 0;
    const double right = Find(*object, "r") ? Number(*Find(*object, "r")) : 0;
    const std::string kind = Symbol(*op);
    if (kind == "+") return left + right;
    if (kind == "-") return left - right;
    if (kind == "/") return right == 0 ? 0 : left / right;
    return left * right;
  }
  if (const json::value* args = Find(*object, "args")) {
    const json::array* list = args->if_array();
    return list == nullptr || list->empty() ? 0 : Number(list->front());
  }
  if (const json::value* duration = Find(*object, "Duration")) return Number(*duration);
  return 0;
}

double NumberAt(const json::object& object, std::string_view key, double otherwise = 0) {
  const json::value* value = Find(object, key);
  return value == nullptr ? otherwise : Number(*value);
}

std::string TextAt(const json::object& object, std::string_view key) {
  const json::value* value = Find(object, key);
  return value == nullptr ? "" : Symbol(*value);
}

bool IsTrue(const json::object& object, std::string_view key) {
  const json::value* value = Find(object, key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

const json::array& ListAt(const json::object& object, std::string_view key) {
  static const json::array kEmpty;
  const json::value* value = Find(object, key);
  return value == nullptr || !value->is_array() ? kEmpty : value->get_array();
}

const json::object& ObjectAt(const json::object& object, std::string_view key) {
  static const json::object kEmpty;
  const json::value* value = Find(object, key);
  return value == nullptr || !value->is_object() ? kEmpty : value->get_object();
}

std::vector<std::string> TextsAt(const json::object& object, std::string_view key) {
  std::vector<std::string> texts;
  for (const json::value& value : ListAt(object, key)) texts.push_back(Symbol(value));
  return texts;
}

std::map<std::string, int> CountsAt(const json::object& object, std::string_view key) {
  std::map<std::string, int> counts;
  for (const auto& [name, count] : ObjectAt(object, key)) counts[std::string(name)] = static_cast<int>(Number(count));
  return counts;
}

void Note(PeerCase& one, std::string what) {
  if (std::ranges::find(one.foreign, what) == one.foreign.end()) one.foreign.push_back(std::move(what));
}

void NoteUnknown(PeerCase& one, const json::object& object, std::string_view of,
                 const std::vector<std::string_view>& known) {
  for (const auto& [key, value] : object) {
    if (std::ranges::find(known, std::string_view(key)) != known.end()) continue;
    Note(one, "a property of " + std::string(of) + " that divvy does not have: " + std::string(key));
  }
}

PeerState StateOf(const std::string& name, bool& is_planned) {
  is_planned = name == "Pipelined";
  if (name == "Pipelined") return PeerState::kPlanned;
  if (name == "Running" || name == "Binding" || name == "Bound" || name == "Allocated") return PeerState::kRunning;
  if (name == "Releasing") return PeerState::kReleasing;
  if (name == "StuckInReleasing") return PeerState::kStuck;
  if (name == "Failed") return PeerState::kFailed;
  if (name == "Succeeded") return PeerState::kSucceeded;
  return PeerState::kPending;
}

PeerNearness ReadNearness(const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return {};
  return {TextAt(*object, "Topology"), TextAt(*object, "RequiredLevel"), TextAt(*object, "PreferredLevel")};
}

PeerGroup ReadGroup(const json::object& object, bool is_inner, PeerCase& one);

void ReadOps(const json::object& object, PeerGroup& group, PeerCase& one) {
  for (const json::value& op : ListAt(object, "ops")) {
    const json::array* words = op.if_array();
    if (words == nullptr || words->size() < 2) continue;
    const std::string verb = Symbol((*words)[0]);
    if (verb == "SetMinSubGroup") {
      group.least = static_cast<int>(Number((*words)[1]));
    } else if ((verb == "AddSubGroup" || verb == "AddPodSet") && (*words)[1].is_object()) {
      group.children.push_back(ReadGroup((*words)[1].get_object(), true, one));
    } else {
      Note(one, "groups of tasks that are put together by '" + verb + "'");
    }
  }
}

PeerGroup ReadGroup(const json::object& object, bool is_inner, PeerCase& one) {
  PeerGroup group;
  const json::array& args = ListAt(object, "args");
  group.has_tasks = TextAt(object, "call").ends_with("NewPodSet");
  if (!args.empty()) group.name = Symbol(args[0]);
  if (group.has_tasks && args.size() > 1) group.least = static_cast<int>(Number(args[1]));
  const std::size_t nearness = group.has_tasks ? 2 : 1;
  if (args.size() > nearness) group.nearness = ReadNearness(args[nearness]);
  if (is_inner && group.nearness.is_set()) Note(one, "tasks of a part of a job that must be near each other");
  ReadOps(object, group, one);
  // The list form: sets with their minimum number of tasks.
  for (const json::value& set : ListAt(object, "sets")) {
    if (!set.is_object()) continue;
    PeerGroup child;
    child.has_tasks = true;
    child.name = TextAt(set.get_object(), "name");
    child.least = static_cast<int>(NumberAt(set.get_object(), "min", 1));
    group.children.push_back(std::move(child));
  }
  return group;
}

PeerTask ReadTask(const json::object& object, const std::string& name, PeerCase& one) {
  PeerTask task;
  task.name = name;
  if (const std::string own = TextAt(object, "Name"); !own.empty()) task.name = own;
  task.state = StateOf(TextAt(object, "State"), task.is_planned_at_first);
  if (task.is_planned_at_first) {
    task.state = PeerState::kPending;
    Note(one, "a task that was given a place in an earlier cycle");
  }
  static const std::vector<std::string_view> kStates = {"Pending",   "Running",          "Binding",   "Bound",
                                                        "Allocated", "Releasing",        "Pipelined", "Failed",
                                                        "Succeeded", "StuckInReleasing", ""};
  if (const std::string state = TextAt(object, "State"); std::ranges::find(kStates, state) == kStates.end()) {
    Note(one, "a state of tasks that divvy does not have: " + state);
  }
  task.node = TextAt(object, "NodeName");
  task.sub_group = TextAt(object, "SubGroupName");
  if (Find(object, "RequiredGPUs") != nullptr) task.gpus = NumberAt(object, "RequiredGPUs");
  task.gpu_groups = TextsAt(object, "GPUGroups");
  task.mig = CountsAt(object, "RequiredMigInstances");
  task.claims = TextsAt(object, "ResourceClaimNames");
  task.node_affinity = TextsAt(object, "NodeAffinityNames");
  task.priority = static_cast<int>(NumberAt(object, "Priority"));
  if (IsTrue(object, "IsLegacyMigTask")) Note(one, "MIG instances that are asked for in an older way");
  for (const std::string_view key : {"PodAffinityTopologyKey", "PodAntiAffinityTopologyKey"}) {
    if (Find(object, key) != nullptr) Note(one, "tasks that are kept near to or away from other jobs by labels");
  }
  static const std::vector<std::string_view> kKnown = {"Name",
                                                       "State",
                                                       "NodeName",
                                                       "SubGroupName",
                                                       "RequiredGPUs",
                                                       "GPUGroups",
                                                       "Priority",
                                                       "RequiredMigInstances",
                                                       "ResourceClaimNames",
                                                       "NodeAffinityNames",
                                                       "IsLegacyMigTask",
                                                       "PodAffinityLabels",
                                                       "PodAffinityTopologyKey",
                                                       "PodAntiAffinityTopologyKey"};
  NoteUnknown(one, object, "tasks", kKnown);
  return task;
}

PeerJob ReadJob(const json::object& object, PeerCase& one) {
  PeerJob job;
  job.name = TextAt(object, "Name");
  job.queue = TextAt(object, "QueueName");
  job.priority = static_cast<int>(NumberAt(object, "Priority"));
  if (const std::string kind = TextAt(object, "Preemptibility"); !kind.empty()) {
    if (kind == "Preemptible" || kind == "NonPreemptible") {
      job.is_preemptible = kind == "Preemptible";
    } else {
      Note(one, "jobs that can be taken from in part only");
    }
  }
  job.gpus = NumberAt(object, "RequiredGPUsPerTask");
  job.cpus = NumberAt(object, "RequiredCPUsPerTask");
  job.memory = NumberAt(object, "RequiredMemoryPerTask");
  job.gpu_memory = NumberAt(object, "RequiredGpuMemory");
  job.devices = std::max(1.0, NumberAt(object, "RequiredMultiFractionDevicesPerTask", 1));
  job.age_minutes = NumberAt(object, "JobAgeInMinutes");
  job.patience_minutes = NumberAt(object, "PreemptionDelay") / 60;
  job.stale_seconds = NumberAt(object, "StaleDuration");
  job.stale_grace_seconds = NumberAt(object, "PerJobStalenessGracePeriod", 60);
  job.is_deleted = IsTrue(object, "DeleteJobInTest");
  if (const json::value* root = Find(object, "RootSubGroupSet"); root != nullptr && root->is_object()) {
    job.root = ReadGroup(root->get_object(), false, one);
  }
  static const std::vector<std::string_view> kKnown = {"Name",
                                                       "QueueName",
                                                       "Priority",
                                                       "Preemptibility",
                                                       "Namespace",
                                                       "RequiredGPUsPerTask",
                                                       "RequiredCPUsPerTask",
                                                       "RequiredMemoryPerTask",
                                                       "RequiredGpuMemory",
                                                       "RequiredMultiFractionDevicesPerTask",
                                                       "JobAgeInMinutes",
                                                       "PreemptionDelay",
                                                       "StaleDuration",
                                                       "PerJobStalenessGracePeriod",
                                                       "DeleteJobInTest",
                                                       "RootSubGroupSet",
                                                       "Tasks",
                                                       "IsBestEffortJob"};
  NoteUnknown(one, object, "jobs", kKnown);
  int index = 0;
  for (const json::value& task : ListAt(object, "Tasks")) {
    if (task.is_object()) job.tasks.push_back(ReadTask(task.get_object(), job.name + "-" + std::to_string(index), one));
    ++index;
  }
  return job;
}

void ReadNodes(const json::object& object, PeerCase& one) {
  for (const auto& [name, value] : ObjectAt(object, "Nodes")) {
    PeerNode node;
    node.name = std::string(name);
    if (const json::object* facts = value.if_object()) {
      node.gpus = NumberAt(*facts, "GPUs");
      node.cpus = NumberAt(*facts, "CPUMillis", node.cpus);
      node.memory = NumberAt(*facts, "CPUMemory", node.memory);
      node.gpu_memory = NumberAt(*facts, "GPUMemory", node.gpu_memory);
      node.mig_strategy = ToLower(TextAt(*facts, "MigStrategy"));
      node.mig = CountsAt(*facts, "MigInstances");
      for (const auto& [label, of] : ObjectAt(*facts, "Labels")) node.labels[std::string(label)] = Symbol(of);
      NoteUnknown(one, *facts, "nodes",
                  {"GPUs", "CPUMillis", "CPUMemory", "GPUMemory", "GPUName", "Labels", "MigStrategy", "MigInstances"});
    }
    one.nodes.push_back(std::move(node));
  }
}

void ReadQueues(const json::array& list, bool is_department, PeerCase& one) {
  for (const json::value& value : list) {
    if (!value.is_object()) continue;
    const json::object& object = value.get_object();
    PeerQueue queue;
    queue.name = TextAt(object, "Name");
    queue.parent = TextAt(object, "ParentQueue");
    queue.quota = NumberAt(object, "DeservedGPUs");
    queue.limit = std::max(0.0, NumberAt(object, "MaxAllowedGPUs"));
    queue.weight = NumberAt(object, "GPUOverQuotaWeight", is_department ? queue.quota : 0);
    queue.priority = static_cast<int>(NumberAt(object, "Priority", queue.priority));
    for (const std::string_view key : {"DeservedCPUs", "DeservedMemory", "MaxAllowedCPUs", "MaxAllowedMemory"}) {
      if (Find(object, key) != nullptr) Note(one, "teams with quotas or limits of CPUs and memory");
    }
    for (const std::string_view key : {"PreemptMinRuntime", "ReclaimMinRuntime"}) {
      if (Find(object, key) != nullptr) Note(one, "a least run time for each team");
    }
    NoteUnknown(
        one, object, "queues",
        {"Name", "ParentQueue", "DeservedGPUs", "MaxAllowedGPUs", "GPUOverQuotaWeight", "Priority", "DeservedCPUs",
         "DeservedMemory", "MaxAllowedCPUs", "MaxAllowedMemory", "PreemptMinRuntime", "ReclaimMinRuntime"});
    one.queues.push_back(std::move(queue));
  }
}

// Reads devices that are claimed by name. GPUs are counted; a GPU scheduler ignores other devices.
void ReadClaims(const json::object& object, PeerCase& one) {
  const auto is_gpu = [](const json::object& of) {
    return TextAt(of, "DeviceClassName").find("gpu") != std::string::npos;
  };
  for (const json::value& value : ListAt(object, "ResourceSlices")) {
    if (!value.is_object() || !is_gpu(value.get_object())) continue;
    const std::string name = TextAt(value.get_object(), "NodeName");
    for (PeerNode& node : one.nodes) {
      if (node.name == name) node.gpus += NumberAt(value.get_object(), "Count");
    }
  }
  for (const json::value& value : ListAt(object, "ResourceClaims")) {
    if (!value.is_object()) continue;
    PeerNomination claim;
    claim.gpus = is_gpu(value.get_object()) ? NumberAt(value.get_object(), "Count") : 0;
    for (const auto& [label, queue] : ObjectAt(value.get_object(), "Labels")) {
      if (label.find("Queue") != json::string::npos || label.find("queue") != json::string::npos)
        claim.queue = Symbol(queue);
    }
    if (claim.gpus == 0) claim.queue = "*";
    one.claims[TextAt(value.get_object(), "Name")] = claim;
  }
  std::map<std::string, int> users;
  for (const PeerJob& job : one.jobs) {
    for (const PeerTask& task : job.tasks) {
      for (const std::string& name : task.claims) {
        if (++users[name] > 1) Note(one, "one device that several tasks claim by its name");
      }
    }
  }
}

void ReadExpectations(const json::object& object, std::vector<std::pair<std::string, PeerExpectation>>& out) {
  for (const auto& [name, value] : object) {
    if (!value.is_object()) continue;
    bool is_planned = false;
    const PeerState state = StateOf(TextAt(value.get_object(), "Status"), is_planned);
    out.emplace_back(std::string(name), PeerExpectation{state, TextAt(value.get_object(), "NodeName")});
  }
}

void ReadPlacement(const json::object& object, PeerCase& one) {
  const json::object& conf = ObjectAt(ObjectAt(object, "Mocks"), "SchedulerConf");
  for (const json::value& tier : ListAt(conf, "Tiers")) {
    if (!tier.is_object()) continue;
    for (const json::value& plugin : ListAt(tier.get_object(), "Plugins")) {
      if (!plugin.is_object()) continue;
      for (const auto& [key, strategy] : ObjectAt(plugin.get_object(), "Arguments")) {
        if (key.find("GPU") != json::string::npos) one.spreads_nodes = Symbol(strategy) == "SpreadStrategy";
      }
    }
  }
}

PeerCase ReadCase(const json::object& object) {
  PeerCase one;
  one.id = TextAt(object, "id");
  const std::string source = TextAt(object, "source");
  if (!source.starts_with("integration_tests/")) one.action = source.substr(0, source.find('/'));
  ReadNodes(object, one);
  ReadQueues(ListAt(object, "Departments"), true, one);
  ReadQueues(ListAt(object, "Queues"), false, one);
  for (const json::value& job : ListAt(object, "Jobs")) {
    if (job.is_object()) one.jobs.push_back(ReadJob(job.get_object(), one));
  }
  for (const json::value& topology : ListAt(object, "Topologies")) {
    if (!topology.is_object()) continue;
    auto& levels = one.topologies[TextAt(ObjectAt(topology.get_object(), "ObjectMeta"), "Name")];
    for (const json::value& level : ListAt(ObjectAt(topology.get_object(), "Spec"), "Levels")) {
      if (level.is_object()) levels.push_back(TextAt(level.get_object(), "NodeLabel"));
    }
  }
  ReadClaims(ObjectAt(object, "TestDRAObjects"), one);
  ReadExpectations(ObjectAt(object, "JobExpectedResults"), one.jobs_expected);
  ReadExpectations(ObjectAt(object, "TaskExpectedResults"), one.tasks_expected);
  ReadPlacement(object, one);
  return one;
}

}  // namespace

Result<std::vector<PeerCase>> ReadPeerCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return NotFound("cannot read " + path + "; name a file of peer cases");
  std::ostringstream text;
  text << file.rdbuf();
  json::error_code wrong;
  const json::value root = json::parse(text.str(), wrong);
  if (wrong) return InvalidArgument(path + " is no JSON: " + wrong.message());
  if (!root.is_array()) return InvalidArgument(path + " holds no list of cases");
  std::vector<PeerCase> cases;
  for (const json::value& value : root.get_array()) {
    if (!value.is_object()) return InvalidArgument(path + " holds something that is no case");
    cases.push_back(ReadCase(value.get_object()));
  }
  return cases;
}

}  // namespace divvy::research
