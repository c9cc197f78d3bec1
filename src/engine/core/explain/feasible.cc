#include "engine/core/explain/feasible.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/explain/explanation.h"
#include "engine/core/place/job_perspective.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

// Phrases whose wording depends on "never" or "not now", and on one node or many.
struct Scope {
  explicit Scope(const HardwareClasses& classes)
      : is_all(classes.which == HardwareClasses::Of::kAll), is_one(classes.nodes == 1) {}
  std::string AtMost(const std::string& amount) const {
    if (is_one) return is_all ? "this server has " + amount : "only " + amount + " can be used now";
    return (is_all ? "the largest has " : "the largest that can be used now has ") + amount;
  }
  // "--gpus 8 is the maximum for one node".
  std::string IsTheMost(const std::string& option) const {
    return option + " is the maximum" + (is_one ? "" : " for one node") + (is_all ? "" : " now");
  }
  bool is_all;
  bool is_one;
};

int MostJoined(const HardwareClasses::HardwareClass& hardware_class, TopologyNeed need) {
  static const SizeDemand kUsual = UsualSizeDemand();
  if (hardware_class.facts.topology == nullptr) return hardware_class.idle.whole;
  for (int count = hardware_class.idle.whole; count > 1; --count) {
    if (hardware_class.facts.topology->Pick(hardware_class.gpus, count, kUsual, need)) return count;
  }
  return std::min<int>(hardware_class.idle.whole, 1);
}

// A node of class `hardware_class` with only the GPUs that a task of `shape` accepts, restricted to `model` if it is
// set.
HardwareClasses::HardwareClass SeenBy(const HardwareClasses::HardwareClass& hardware_class, const Shape& shape,
                                      std::optional<int> model = {}) {
  HardwareClasses::HardwareClass seen = hardware_class;
  seen.idle = SeenBy(hardware_class.facts, hardware_class.idle, shape, model);
  seen.gpus = WholeFreeOf(seen.idle);
  return seen;
}

class Judge {
 public:
  Judge(const HardwareClasses& classes, const ResourceRequest& request, const Names& names)
      : classes_(classes), request_(request), names_(names), scope_(classes) {}

  std::optional<Lack> Find() {
    for (std::size_t group = 0; group < request_.groups.size(); ++group) {
      if (auto lack = OfOneTask(group)) return lack;
    }
    for (std::size_t group = 0; group < request_.groups.size(); ++group) {
      if (auto lack = OfAllTasks(group)) return lack;
    }
    return std::nullopt;
  }

 private:
  using HardwareClass = HardwareClasses::HardwareClass;

  bool HoldsOne(const HardwareClass& hardware_class, const Shape& shape, std::optional<int> model = {}) const {
    if (model && shape.gpus > 0 && !HasModel(hardware_class.facts, *model)) return false;
    if (!hardware_class.facts.gpu_classes.empty()) return Holds(SeenBy(hardware_class, shape, model), shape);
    return Holds(hardware_class, shape);
  }
  bool Holds(const HardwareClass& hardware_class, const Shape& shape) const {
    return placement::Fits(hardware_class.idle, shape) &&
           (!NeedsTopology(request_, shape) || IsJoined(hardware_class, shape));
  }
  bool IsJoined(const HardwareClass& hardware_class, const Shape& shape) const {
    return hardware_class.facts.topology == nullptr || MostJoined(hardware_class, request_.topology) >= shape.gpus;
  }

  std::string Asks(std::size_t group) const {
    if (IsHeterogeneous(request_))
      return "component " + std::to_string(request_.groups[group].component) + " asks for ";
    return (request_.groups.size() > 1 ? "task group " + std::to_string(group + 1) + " " : "") + "asks for ";
  }
  std::string OfModels(std::size_t group, const Shape& shape) const {
    return WhichText(names_, request_.groups[group], shape);
  }
  // The reason why no node is acceptable: the first condition that no node meets, or else `otherwise`.
  std::string Such(std::size_t group, const std::string& otherwise) const {
    const std::vector<FilterIndex>& filters = request_.groups[group].filters;
    const std::string lacking =
        scope_.is_all && names_.lacking && !filters.empty() ? names_.lacking(filters.front()) : "";
    return ", but " + (lacking.empty() ? (scope_.is_all ? otherwise : "none of these can be used now") : lacking);
  }
  std::string Options(std::size_t group) const {
    const std::vector<FilterIndex>& filters = request_.groups[group].filters;
    return names_.options && !filters.empty() ? names_.options(filters.front()) : "--gpu-type";
  }
  std::string OnOne() const { return classes_.nodes > 1 ? " on one node" : ""; }

  ResourceRequest With(std::size_t group, const Shape& shape) const {
    ResourceRequest request = request_;
    request.groups[group].alternatives = {shape};
    request.groups[group].speeds.clear();
    request.groups[group].filters.clear();
    request.alike = false;
    return request;
  }

  // Checks whether one task fits on some node where nothing else runs.
  std::optional<Lack> OfOneTask(std::size_t group) const {
    const bool has_mixed =
        std::any_of(classes_.classes.begin(), classes_.classes.end(),
                    [](const HardwareClass& hardware_class) { return !hardware_class.facts.gpu_classes.empty(); });
    const std::vector<Shape> shapes = MergedAlternatives(request_.groups[group], has_mixed);
    for (const HardwareClass& hardware_class : classes_.classes) {
      for (const Shape& shape : shapes) {
        if (HoldsOne(hardware_class, shape)) return std::nullopt;
      }
    }
    const Shape& shape = shapes.front();
    if (shape.gpus > 0) {
      if (auto lack = OfGpus(group, shape)) return lack;
    } else if (auto lack = OfNodes(group, shape)) {
      return lack;
    }
    return OfHost(group, shape);
  }

  // Checks whether a node of an accepted class exists, for a task without GPUs.
  std::optional<Lack> OfNodes(std::size_t group, const Shape& shape) const {
    const auto is_accepted = [&](const HardwareClass& hardware_class) {
      return IsAccepted(hardware_class.facts, shape);
    };
    // A task that requests no CPUs or memory lacks nothing that OfHost could name.
    const bool is_out_of_service = classes_.classes.empty() && shape.cpu_milli <= 1 && shape.memory_mib == 0;
    if (is_out_of_service) {
      Lack lack;
      lack.part = LackingPart::kHost;
      lack.unit = BlockerUnit::kCpuMilli;
      lack.needed = shape.cpu_milli;
      lack.text = Asks(group) + "a node" + OfModels(group, shape) +
                  (scope_.is_all ? ", but there are no nodes" : ", but no node takes new work now");
      lack.request = With(group, shape);
      return lack;
    }
    if (classes_.classes.empty() || std::any_of(classes_.classes.begin(), classes_.classes.end(), is_accepted))
      return std::nullopt;
    Lack lack;
    lack.part = LackingPart::kKind;
    lack.unit = BlockerUnit::kCpuMilli;
    lack.needed = shape.cpu_milli;
    lack.text = Asks(group) + (shape.cpu_milli > 1 ? CpusText(shape.cpu_milli) : "a node") + OfModels(group, shape) +
                Such(group, names_.filters ? "no node matches" : "no node has the requested type");
    lack.nearest = "leave " + Options(group) + " out";
    Shape any = shape;
    any.models = placement::kAnyModel;
    lack.request = With(group, any);
    return lack;
  }

  std::optional<Lack> OfGpus(std::size_t group, const Shape& shape) const {
    int most = 0;          // The most GPUs on one node of an accepted class.
    int most_of_any = 0;   // The most GPUs on one node of any class.
    std::int64_t all = 0;  // GPUs on all nodes of accepted classes.
    bool has_gpus = false;
    for (const HardwareClass& hardware_class : classes_.classes) {
      most_of_any = std::max(most_of_any, FreeGpus(hardware_class.idle, shape));
      has_gpus = has_gpus || hardware_class.facts.gpus > 0;
      if (!IsAccepted(hardware_class.facts, shape)) continue;
      const int gpus = FreeGpus(SeenBy(hardware_class.facts, hardware_class.idle, shape), shape);
      most = std::max(most, gpus);
      all += gpus * hardware_class.nodes;
    }
    Lack lack;
    lack.needed = std::int64_t{shape.gpus} * placement::kGpuParts;
    lack.available = std::int64_t{most} * placement::kGpuParts;
    const std::string asks = Asks(group) + GpusOf(shape) + OfModels(group, shape);
    if (most_of_any == 0 && (shape.slice || shape.gpu_memory_mib > 0)) {
      if (auto found = OfParts(group, shape, asks)) return found;
    }
    if (auto found = OfDivided(shape, most, asks, lack)) return found;
    if (most_of_any == 0) {
      lack.text = asks + ", but " +
                  (!scope_.is_all  ? "no GPU can be used now"
                   : scope_.is_one ? "this server has none"
                                   : "no node has a GPU");
      lack.nearest = "leave --gpus out to run without GPUs";
      if (!has_gpus) lack.nearest += ", or add a node that has some (divvy token create --node)";
      return lack;
    }
    if (most == 0) {
      lack.part = LackingPart::kKind;
      lack.text = asks + Such(group, scope_.is_one ? "this server has none" : "no node has any");
      Shape any = shape;
      any.models = placement::kAnyModel;
      any.gpus = static_cast<std::int16_t>(std::min<int>(shape.gpus, most_of_any));
      const std::string options = Options(group);
      lack.nearest = "leave " + options + " out" + (options == "--gpu-type" ? ModelsThatFit(any) : "");
      if (const std::int32_t largest = LargestMemory(group); largest > 0)
        lack.nearest = scope_.IsTheMost("--gpu-memory " + MibFlag(largest));
      lack.request = With(group, any);
      return lack;
    }
    if (most < shape.gpus) {
      Shape less = shape;
      less.gpus = static_cast<std::int16_t>(most);
      const bool is_any = shape.models == placement::kAnyModel;
      lack.text = asks + OnOne() + ", but " + scope_.AtMost(std::to_string(most) + (is_any ? "" : " of them"));
      lack.nearest = scope_.IsTheMost("--gpus " + GpusFlag(less));
      if (!request_.groups[group].speeds.empty())
        lack.nearest += ", or leave the speeds out of --gpu-type to take any mix";
      if (all >= shape.gpus && !scope_.is_one && request_.groups.size() == 1 && request_.groups.front().least == 1) {
        lack.nearest += "; all nodes together have " + std::to_string(all) + ", for a job of several tasks";
      }
      lack.request = With(group, less);
      return lack;
    }
    return OfTopology(group, shape, asks, lack);
  }

  // Checks whether there would be enough GPUs if none were in MIG mode. GPUs in MIG mode take only jobs that request a
  // MIG instance.
  std::optional<Lack> OfDivided(const Shape& shape, int most, const std::string& asks, Lack lack) const {
    if (shape.slice || most >= shape.gpus) return std::nullopt;
    for (const HardwareClass& hardware_class : classes_.classes) {
      const int divided = hardware_class.facts.only_sliced.size();
      if (divided == 0 || !IsAccepted(hardware_class.facts, shape) || hardware_class.facts.gpus < shape.gpus) continue;
      lack.text = asks + ", but " + std::to_string(divided) + " of the " + std::to_string(hardware_class.facts.gpus) +
                  (scope_.is_one ? " here " : " of " + hardware_class.facts.name + " ") +
                  std::string(IsOrAre(divided)) + " in MIG mode and " + (divided == 1 ? "takes" : "take") +
                  " slices only";
      lack.nearest = "--slice 1g asks for one";
      if (most > 0) lack.nearest += "; " + scope_.IsTheMost("--gpus " + std::to_string(most));
      return lack;
    }
    return std::nullopt;
  }

  // The memory of the largest GPU if the filters request more than any GPU has; otherwise 0.
  std::int32_t LargestMemory(std::size_t group) const {
    const std::vector<FilterIndex>& filters = request_.groups[group].filters;
    return names_.largest_memory_mib && !filters.empty() ? names_.largest_memory_mib(filters.front()) : 0;
  }

  // Checks for what even an idle GPU cannot provide: a MIG instance, or that much GPU memory.
  std::optional<Lack> OfParts(std::size_t group, const Shape& shape, const std::string& asks) const {
    Shape rest = shape;
    rest.slice.reset();
    rest.gpu_memory_mib = 0;
    std::int32_t most = 0;
    for (const HardwareClass& hardware_class : classes_.classes) {
      if (FreeGpus(hardware_class.idle, rest) == 0) continue;
      for (const placement::GpuRoom& gpu : hardware_class.idle.rooms()) most = std::max(most, gpu.memory_free);
    }
    if (most == 0) return std::nullopt;
    Lack lack;
    lack.request = With(group, rest);
    if (shape.slice) {
      lack.needed = shape.parts;
      lack.text = asks + (scope_.is_all ? ", but no node has a GPU that supports slices"
                                        : ", but no GPU can provide slices now");
      lack.nearest = "--gpus " + GpusFlag(rest) + " asks for a GPU fraction instead";
      return lack;
    }
    lack.part = LackingPart::kGpuMemory;
    lack.unit = BlockerUnit::kMebibytes;
    lack.needed = shape.gpu_memory_mib;
    lack.available = most;
    lack.text = asks + ", but the GPU with the most has " + MibText(most);
    lack.nearest = scope_.IsTheMost("--gpu-memory " + MibFlag(most));
    rest.gpu_memory_mib = most;
    lack.request = With(group, rest);
    return lack;
  }

  std::string ModelsThatFit(const Shape& shape) const {
    if (!names_.gpu_type_option) return "";
    std::vector<std::string> names;
    const auto add = [&](int node_class) {
      const std::string name = names_.gpu_type_option(node_class);
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const HardwareClass& hardware_class : classes_.classes) {
      if (!placement::Fits(hardware_class.idle, shape)) continue;
      if (hardware_class.facts.gpu_classes.empty()) add(hardware_class.facts.node_class);
      for (const std::uint8_t gpu_class : hardware_class.facts.gpu_classes) add(gpu_class);
    }
    return names.empty() ? "" : ", or ask for " + Join(names, " or ");
  }

  std::optional<Lack> OfTopology(std::size_t group, const Shape& shape, const std::string& asks, Lack lack) const {
    if (!NeedsTopology(request_, shape)) return std::nullopt;
    int most = 0;
    for (const HardwareClass& hardware_class : classes_.classes) {
      if (IsAccepted(hardware_class.facts, shape))
        most = std::max(most, MostJoined(SeenBy(hardware_class, shape), request_.topology));
    }
    if (most >= shape.gpus) return std::nullopt;
    lack.part = LackingPart::kTopology;
    lack.available = std::int64_t{most} * placement::kGpuParts;
    const std::string where = !scope_.is_one  ? " of one node are"
                              : scope_.is_all ? " on this server are"
                                              : " of those that can be used now are";
    lack.text = asks + " " + std::string(TopologyPhrase(request_.topology)) + ", but " +
                (most < 2 ? "no two" : "at most " + std::to_string(most)) + where;
    lack.nearest = "without ':required' the job takes the best GPUs available";
    lack.request = request_;
    lack.request->requires_topology = false;
    if (most >= 2) {
      Shape less = shape;
      less.gpus = static_cast<std::int16_t>(most);
      lack.nearest = scope_.IsTheMost("--gpus " + std::to_string(most)) + " with this topology; " + lack.nearest;
      lack.request = With(group, less);
    }
    return lack;
  }

  // Checks CPUs and memory, on nodes that have the GPUs.
  std::optional<Lack> OfHost(std::size_t group, const Shape& shape) const {
    Shape without = shape;
    without.cpu_milli = without.memory_mib = 0;
    std::int32_t cpus = 0;
    std::int32_t memory = 0;
    std::int32_t memory_beside = 0;  // Memory on nodes that also have enough CPUs.
    for (const HardwareClass& hardware_class : classes_.classes) {
      if (!HoldsOne(hardware_class, without)) continue;
      cpus = std::max(cpus, hardware_class.idle.cpu_free);
      memory = std::max(memory, hardware_class.idle.memory_free);
      if (hardware_class.idle.cpu_free >= shape.cpu_milli)
        memory_beside = std::max(memory_beside, hardware_class.idle.memory_free);
    }
    const bool names_gpus = !scope_.is_one && shape.gpus > 0;
    const std::string beside =
        scope_.is_one ? "" : (names_gpus ? " and " + GpusOf(shape) : "") + OfModels(group, shape);
    Lack lack;
    lack.unit = BlockerUnit::kMebibytes;
    Shape less = shape;
    if (cpus < shape.cpu_milli) {
      lack.part = LackingPart::kCpus;
      lack.unit = BlockerUnit::kCpuMilli;
      lack.needed = shape.cpu_milli;
      lack.available = less.cpu_milli = cpus;
      lack.text = Asks(group) + CpusText(shape.cpu_milli) + beside + OnOne() + ", but " +
                  scope_.AtMost(scope_.is_one ? CpusFlag(cpus) : CpusText(cpus));
      lack.nearest = scope_.IsTheMost("--cpus " + CpusFlag(cpus));
      if (memory_beside < shape.memory_mib) return lack;
    } else if (memory < shape.memory_mib) {
      lack.part = LackingPart::kMemory;
      lack.needed = shape.memory_mib;
      lack.available = less.memory_mib = memory;
      lack.text = Asks(group) + MibText(shape.memory_mib) + " of memory" + beside + OnOne() + ", but " +
                  scope_.AtMost(MibText(memory));
      lack.nearest = scope_.IsTheMost("--memory " + MibFlag(memory));
    } else {
      lack.part = LackingPart::kHost;
      lack.needed = shape.memory_mib;
      lack.available = less.memory_mib = memory_beside;
      lack.text = Asks(group) + CpusText(shape.cpu_milli) + (names_gpus ? ", " : " and ") + MibText(shape.memory_mib) +
                  " of memory" + beside + ", but no node has enough of " + (names_gpus ? "all three" : "both");
      lack.nearest = "with that many CPUs, " + scope_.IsTheMost("--memory " + MibFlag(memory_beside));
    }
    lack.request = With(group, less);
    return lack;
  }

  // Checks whether all tasks that must start together fit when nothing else runs.
  std::optional<Lack> OfAllTasks(std::size_t group) const {
    const TaskGroup& tasks = request_.groups[group];
    const int needed = LeastWithLarger(request_, group);
    if (needed <= 1) return std::nullopt;
    const Shape& shape = tasks.alternatives.front();
    const bool by_model = RunsOnOneModel(request_) && shape.gpus > 0;
    std::vector<Rooms> rooms;
    std::int64_t all = 0;
    std::map<int, std::int64_t> of_model;
    for (const HardwareClass& hardware_class : classes_.classes) {
      all += RoomOnOne(hardware_class, tasks, std::nullopt) * hardware_class.nodes;
      Rooms& room = rooms.emplace_back();
      ForEachModel(hardware_class.facts, by_model, [&](int model) {
        room.emplace_back(model, RoomOnOne(hardware_class, tasks, by_model ? std::optional(model) : std::nullopt));
        of_model[model] += room.back().second * hardware_class.nodes;
      });
    }
    // Larger tasks of the job need the same model, so a model without room for them does not count.
    for (const TaskGroup& larger : request_.groups) {
      if (!by_model || needed == tasks.least || larger.component != tasks.component) continue;
      if (larger.alternatives.front().gpus <= shape.gpus) continue;
      for (auto& [model, sum] : of_model) {
        std::int64_t room = 0;
        for (const HardwareClass& hardware_class : classes_.classes)
          room += RoomOnOne(hardware_class, larger, model) * hardware_class.nodes;
        if (room < larger.least) sum = 0;
      }
    }
    const std::string each = shape.gpus > 0 ? GpusOf(shape) : shape.cpu_milli > 1 ? CpusText(shape.cpu_milli) : "";
    const std::string asks = Asks(group) + Plural(needed, tasks.anti_affinity ? "node" : "task") +
                             (each.empty()          ? ""
                              : tasks.anti_affinity ? " with "
                                                    : " of ") +
                             each + OfModels(group, shape);
    std::int64_t most_of_model = 0;
    for (const auto& [model, sum] : of_model) most_of_model = std::max(most_of_model, sum);
    if (all < needed) {
      // The suggestion in the message must also pass the checks below, so it is reduced as far as they require.
      Lack lack = OfSum(group, LackingPart::kTasks, by_model ? std::min(all, most_of_model) : all,
                        asks + (scope_.is_all ? ", but the whole cluster" : ", but what can be used now") +
                            " has room for " + std::to_string(all));
      if (by_model && most_of_model < all && most_of_model > 0) {
        lack.nearest += std::string(", because the ") + (tasks.anti_affinity ? "nodes" : "tasks") +
                        " of a job need GPUs of the same model";
      }
      return lack;
    }
    if (by_model) {
      if (most_of_model < needed) {
        return OfSum(group, LackingPart::kOneModel, most_of_model,
                     asks + ", but the " + (tasks.anti_affinity ? "nodes" : "tasks") +
                         " of a job need GPUs of the same model: " + RoomByModel(of_model));
      }
    }
    if (WidestOf(request_) == Locality::kAnywhere) return std::nullopt;
    const std::int64_t most = MostInOneDomain(rooms);
    if (most >= needed) return std::nullopt;
    const std::string level(LocalityName(WidestOf(request_)));
    Lack lack =
        OfSum(group, LackingPart::kLocality, most,
              asks + " in one " + level + ", but one " + level + " has room for at most " + std::to_string(most));
    if (!request_.requires_locality || request_.locality != WidestOf(request_)) return lack;
    lack.nearest += (lack.nearest.empty() ? "" : "; ") + std::string("without ':required' they may be spread out");
    return lack;
  }

  // "there is room for 1 on GPUs of type a100 (n1) and for 2 on GPUs of type h100 (n0 and others)".
  std::string RoomByModel(const std::map<int, std::int64_t>& of_model) const {
    constexpr std::size_t kMostListed = 4;
    std::vector<std::string> rooms;
    for (const auto& [model, room] : of_model) {
      if (room == 0) continue;
      placement::ModelSet classes = 0;
      std::string where;
      std::int64_t nodes = 0;
      for (const HardwareClass& hardware_class : classes_.classes) {
        if (!HasModel(hardware_class.facts, model)) continue;
        classes |= placement::ModelSet{1} << hardware_class.facts.node_class;
        for (std::size_t gpu = 0; gpu < hardware_class.facts.gpu_classes.size(); ++gpu) {
          if (ModelOf(hardware_class.facts, static_cast<int>(gpu)) == model)
            classes |= placement::ModelSet{1} << hardware_class.facts.gpu_classes[gpu];
        }
        if (nodes == 0) where = hardware_class.facts.name;
        nodes += hardware_class.nodes;
      }
      const std::string which = names_.models ? " " + names_.models(classes) : " of model " + std::to_string(model);
      rooms.push_back("for " + std::to_string(room) + " on GPUs" + which + " (" + where +
                      (nodes > 1 ? " and others)" : ")"));
    }
    if (rooms.size() > kMostListed) rooms.resize(kMostListed);
    return rooms.empty() ? "there is room for none" : "there is room " + Join(rooms, " and ");
  }

  // The number of tasks of the group that fit on one node, by model; a single entry if models do not matter.
  using Rooms = std::vector<std::pair<int, std::int64_t>>;

  std::int64_t RoomOnOne(const HardwareClass& hardware_class, const TaskGroup& tasks, std::optional<int> model) const {
    std::int64_t most = 0;
    for (const Shape& shape : tasks.alternatives) {
      if (!HoldsOne(hardware_class, shape, model)) continue;
      most = std::max(most, RoomOf(SeenBy(hardware_class.facts, hardware_class.idle, shape, model), shape));
    }
    return tasks.AtMostOnOne(most);
  }

  Lack OfSum(std::size_t group, LackingPart part, std::int64_t most, std::string text) const {
    Lack lack;
    lack.part = part;
    lack.unit = BlockerUnit::kCount;
    lack.text = std::move(text);
    lack.needed = LeastWithLarger(request_, group);
    lack.available = most;
    // Fewer nodes with the same total need more GPUs each, so no number is suggested.
    if (most > 0 && lack.needed == request_.groups[group].least) {
      lack.nearest = (request_.groups[group].anti_affinity ? "--nodes " : "--tasks ") + std::to_string(most) +
                     " is the maximum" + (scope_.is_all ? "" : " now");
      lack.request = request_;
      lack.request->groups[group].least = static_cast<std::int32_t>(most);
    }
    return lack;
  }

  std::int64_t MostInOneDomain(const std::vector<Rooms>& rooms) const {
    std::int64_t most = 0;
    if (WidestOf(request_) == Locality::kNode) {
      for (const Rooms& room : rooms) {
        for (const auto& [model, count] : room) most = std::max(most, count);
      }
      return most;
    }
    const std::vector<HardwareClasses::Cell>& cells =
        WidestOf(request_) == Locality::kRack ? classes_.racks : classes_.blocks;
    std::map<int, std::int64_t> sums;  // Room in one domain, by model.
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0 && cells[i].domain != cells[i - 1].domain) sums.clear();
      for (const auto& [model, count] : rooms[cells[i].hardware_class]) {
        most = std::max(most, sums[model] += count * cells[i].nodes);
      }
    }
    return most;
  }

  const HardwareClasses& classes_;
  const ResourceRequest& request_;
  const Names& names_;
  Scope scope_;
};

// Collects cells. Nodes of one domain mostly follow each other, so few cells occur twice.
class Cells {
 public:
  void Add(std::uint64_t domain, std::uint32_t hardware_class) {
    for (std::size_t i = cells_.size(); i > 0 && cells_[i - 1].domain == domain; --i) {
      if (cells_[i - 1].hardware_class != hardware_class) continue;
      cells_[i - 1].nodes += 1;
      return;
    }
    cells_.push_back({domain, hardware_class, 1});
  }
  std::vector<HardwareClasses::Cell> Sorted() && {
    const auto before = [](const HardwareClasses::Cell& a, const HardwareClasses::Cell& b) {
      return a.domain < b.domain;
    };
    if (!std::is_sorted(cells_.begin(), cells_.end(), before)) std::stable_sort(cells_.begin(), cells_.end(), before);
    return std::move(cells_);
  }

 private:
  std::vector<HardwareClasses::Cell> cells_;
};

}  // namespace

HardwareClasses::HardwareClasses(const ClusterState& state, Of given) : which(given), nodes(state.nodes.size()) {
  using Facts = std::tuple<std::int32_t, std::int32_t, int, int, int, const GpuTopology*, GpuSet, GpuSet, GpuSet,
                           std::vector<std::int32_t>, std::vector<std::uint8_t>, std::vector<int>>;
  std::map<Facts, std::uint32_t> known;
  Cells in_racks;
  Cells in_blocks;
  for (NodeIndex index = 0; index < state.nodes.size(); ++index) {
    const Node& node = state.nodes[index];
    if (which == Of::kUsable && !node.accepts) continue;
    const NodeFacts& facts = node.facts;
    const GpuSet blocked = which == Of::kUsable ? node.blocked : GpuSet();
    const auto [at, is_new] = known.try_emplace(
        Facts{facts.cpu_milli, facts.memory_mib, facts.gpus, facts.node_class, facts.gpu_model, facts.topology.get(),
              blocked, facts.sliceable, facts.only_sliced, facts.gpu_memory_mib, facts.gpu_classes, facts.gpu_models},
        static_cast<std::uint32_t>(classes.size()));
    if (is_new) {
      HardwareClass hardware_class;
      hardware_class.idle = ClusterState::EmptyState(facts);
      placement::Block(hardware_class.idle, blocked);
      hardware_class.gpus = WholeFreeOf(hardware_class.idle);
      hardware_class.facts = facts;
      classes.push_back(hardware_class);
    }
    classes[at->second].nodes += 1;
    in_racks.Add(DomainOf(facts, index, Locality::kRack), at->second);
    in_blocks.Add(DomainOf(facts, index, Locality::kBlock), at->second);
  }
  racks = std::move(in_racks).Sorted();
  blocks = std::move(in_blocks).Sorted();
}

std::optional<Lack> Impossible(const HardwareClasses& classes, const ResourceRequest& request, const Names& names) {
  std::optional<Lack> lack = Judge(classes, request, names).Find();
  if (lack || !TakesOneAlternative(request)) return lack;
  // Each task fits somewhere. Now all tasks must fit with the same alternative of the request. If none allows that,
  // reports what is lacking for the alternative with the most room.
  for (std::size_t i = 0; i < request.groups.front().alternatives.size(); ++i) {
    std::optional<Lack> of_one = Judge(classes, Narrowed(request, i), names).Find();
    if (!of_one) return std::nullopt;
    if (!lack || of_one->available > lack->available) lack = std::move(of_one);
  }
  return lack;
}

Status Feasible(const HardwareClasses& classes, const ResourceRequest& request, const Names& names) {
  const std::optional<Lack> lack = Impossible(classes, request, names);
  if (!lack) return {};
  return LimitExceeded(lack->text + (lack->nearest.empty() ? "" : "; " + lack->nearest));
}

Status Feasible(const Cluster& cluster, const ResourceRequest& request, const Names& names) {
  return Feasible(HardwareClasses(cluster.state(), HardwareClasses::Of::kAll), request, names);
}

Status Feasible(const Cluster& cluster, const ResourceRequest& request) { return Feasible(cluster, request, Names()); }

std::string BeyondQuotaText(const TeamSpec& team, const ResourceRequest& request) {
  const std::int64_t parts = LeastGpuParts(request);
  std::string text = GpuText(parts) + (parts == placement::kGpuParts ? " exceeds" : " exceed") + " team " + team.name +
                     "'s quota of " + GpuNumber(team.quota_parts) +
                     " and the job may not borrow, so it can never start; ";
  Shape less = request.groups.front().alternatives.front();
  if (less.is_whole())
    less.gpus = static_cast<std::int16_t>(std::min<std::int64_t>(less.gpus, team.quota_parts / placement::kGpuParts));
  else less.parts = static_cast<std::int16_t>(std::min<std::int64_t>(less.parts, team.quota_parts));
  const bool is_counted = !less.slice && less.gpu_memory_mib == 0 && (less.is_whole() || less.gpus == 1);
  const bool has_less = IsSingle(request) && is_counted && less.gpus > 0 && less.parts > 0;
  if (has_less) text += "use --gpus " + GpusFlag(less) + ", or ";
  return text + "submit it with --preemptible requeue to borrow idle GPUs, or ask an administrator: divvy teams set " +
         ShellQuote(team.name) + " --quota " + GpuNumber(parts);
}

Status FeasibleForTeam(const Cluster& cluster, const ResourceRequest& request, TeamIndex team,
                       Preemptible preemptible) {
  const Teams& teams = cluster.teams();
  const std::int64_t parts = LeastGpuParts(request);
  for (TeamIndex at = team; at != kRootTeam; at = teams.spec(at).parent) {
    const TeamSpec& spec = teams.spec(at);
    if (spec.limit_parts != kNoBound && parts > spec.limit_parts) {
      return LimitExceeded("asks for " + GpuText(parts) + ", but team " + spec.name + " never runs more than " +
                           GpuText(spec.limit_parts) + " at once; ask for at most that");
    }
    if (preemptible == Preemptible::kNever && spec.quota_parts != kNoBound && parts > spec.quota_parts)
      return LimitExceeded(BeyondQuotaText(spec, request));
  }
  return {};
}

}  // namespace divvy::core
