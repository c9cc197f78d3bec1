#include "engine/core/explain/explain_blockers.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "engine/core/explain/explain_holders.h"
#include "engine/core/explain/explain_reservations.h"
#include "engine/core/explain/explain_text.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/place/caps.h"
#include "engine/core/place/placer.h"
#include "engine/core/state/models.h"

namespace divvy::core {
namespace {

// Resources available for one task, counted in a single pass over the nodes. A node is suitable if its class
// is accepted and it has enough GPUs for a task, free or not.
struct Tally {
  std::int64_t gpus = 0;                                  // GPUs of suitable nodes that are in service.
  std::int64_t free = 0;                                  // GPUs of suitable nodes with room for the task's share.
  std::int64_t free_nodes = 0;                            // Suitable nodes with such free GPUs.
  int most = 0;                                           // The most free GPUs on one suitable node.
  int most_of_any = 0;                                    // The most free GPUs on one node of any class.
  std::int64_t withheld = 0;                              // GPUs of suitable nodes that are out of service.
  std::vector<std::pair<NodeIndex, GpuSet>> withheld_on;  // Suitable nodes with such GPUs, or that take no work.
  std::int16_t most_share = 0;                            // The largest free fraction of one GPU.
  std::int64_t gpu_nodes = 0;                             // Suitable nodes with enough free GPUs for a task.
  // The most on one node of `gpu_nodes`, or on one suitable node if `gpu_nodes` is 0:
  std::int32_t cpus = 0;
  std::int32_t memory = 0;
  std::int32_t memory_beside = 0;  // Memory on a node that also has enough CPUs.
  // The number of tasks for which there is room:
  std::int64_t by_gpus = 0;  // Counting GPUs only.
  std::int64_t by_cpus = 0;  // Counting GPUs and CPUs.
  std::int64_t room = 0;     // Counting everything.
  placement::ModelSet node_classes = 0;
  std::vector<NodeIndex> nodes;  // The suitable nodes.
};

// The GPUs in service that could serve the shape once the jobs on them have ended.
GpuSet GpusFor(const Node& node, const Shape& shape) {
  const GpuSet all = GpuSet::FirstN(node.facts.gpus);
  const GpuSet suited = shape.slice ? node.state.sliceable : all - node.state.only_sliced;
  return suited - NotAccepted(node.facts, shape) - node.blocked;
}

constexpr const char* kKeptAhead = ", and the rest is reserved for a job ahead";

/// The largest number of nodes whose withheld GPUs a blocker names.
constexpr std::size_t kMostWithheldNamed = 3;

class BlockerFinder {
 public:
  BlockerFinder(JobPerspective& perspective, const Names& names, bool has_holders)
      : perspective_(perspective),
        state_(perspective.state()),
        request_(perspective.seeker().request),
        key_(perspective.seeker().key),
        names_(names),
        now_(perspective.now()),
        has_holders_(has_holders) {}

  std::vector<Blocker> All() {
    const Place& place = perspective_.seeker().place;
    if (state_.waiting.at(place.id).lane == Waiting::Lane::kDated && place.since > now_)
      Add(BlockerKind::kBeginTime, "may begin in " + DurationText(place.since - now_), 0, 0);
    FindCaps();
    FindTeams();
    if (!FindImpossible()) FindRoom();
    if (const auto first = perspective_.BlockedBefore()) {
      Blocker& blocker =
          Add(BlockerKind::kOrder, "waits behind job " + ToString(*first) + ", the first that cannot start", 0, 0);
      blocker.rule = "strict order, without backfill";
    }
    std::stable_sort(found_.begin(), found_.end(), [](const Blocker& a, const Blocker& b) { return a.kind < b.kind; });
    return std::move(found_);
  }

 private:
  Blocker& Add(BlockerKind kind, std::string text, std::int64_t needed, std::int64_t available) {
    Blocker blocker;
    blocker.kind = kind;
    blocker.unit = UnitOf(kind);
    blocker.text = std::move(text);
    blocker.needed = needed;
    blocker.available = available;
    found_.push_back(std::move(blocker));
    return found_.back();
  }

  // The unit of `needed` and `available`. For a gang they count tasks instead (FindForMany).
  static BlockerUnit UnitOf(BlockerKind kind) {
    switch (kind) {
      case BlockerKind::kGpuCap:
      case BlockerKind::kTeamLimit:
      case BlockerKind::kTeamQuota:
      case BlockerKind::kGpus:
      case BlockerKind::kKind:
      case BlockerKind::kTopology:
        return BlockerUnit::kGpuParts;
      case BlockerKind::kCpus:
        return BlockerUnit::kCpuMilli;
      case BlockerKind::kMemory:
        return BlockerUnit::kMebibytes;
      default:
        return BlockerUnit::kCount;
    }
  }

  std::vector<NodeIndex> AllNodes() const {
    std::vector<NodeIndex> nodes(state_.nodes.size());
    for (NodeIndex index = 0; index < nodes.size(); ++index) nodes[index] = index;
    return nodes;
  }

  // --- Independent of free resources --------------------------------------------------------------------------------

  void FindCaps() {
    for (const CapIndex index : key_.caps) {
      const Cap& cap = state_.caps[index];
      const CapUse kept = perspective_.KeptOf(index);
      if (RefusesJobs(cap, kept)) FindJobCap(index);
      if (RefusesGpus(cap, LeastGpuParts(request_), kept)) FindGpuCap(index);
    }
  }

  void FindJobCap(CapIndex index) {
    const Cap& cap = state_.caps[index];
    std::string text = cap.name + " runs " + std::to_string(cap.running) + " of at most " + std::to_string(cap.limit);
    if (cap.running < cap.limit) text += kKeptAhead;
    Blocker& blocker = Add(BlockerKind::kCap, std::move(text), 1, std::max(cap.limit - cap.running, 0));
    blocker.rule = cap.name.starts_with("array ") ? "array limit %" + std::to_string(cap.limit)
                                                  : "limit of " + cap.name + ": " + std::to_string(cap.limit);
    AddCapHolders(blocker, index);
  }

  void FindGpuCap(CapIndex index) {
    const Cap& cap = state_.caps[index];
    const std::int64_t parts = LeastGpuParts(request_);
    const std::string most = GpuText(cap.parts_limit);
    std::string text = "can never start: asks for " + GpuText(parts) + ", but " + cap.name + " never holds more than " +
                       most + " at once";
    if (parts <= cap.parts_limit) {
      text = cap.name + " holds " + GpuText(cap.parts) + " of at most " + most + "; this needs " + GpuText(parts) +
             " more";
      if (!RefusesGpus(cap, parts)) text += kKeptAhead;
    }
    Blocker& blocker =
        Add(BlockerKind::kGpuCap, std::move(text), parts, std::max<std::int64_t>(cap.parts_limit - cap.parts, 0));
    blocker.rule = "limit of " + cap.name + ": " + most + " at once";
    if (parts <= cap.parts_limit) AddCapHolders(blocker, index);
  }

  void AddCapHolders(Blocker& blocker, CapIndex index) const {
    if (!has_holders_) return;
    const bool counts_gpus = blocker.kind == BlockerKind::kGpuCap;
    const auto has = [&](const Run& run) {
      return IsCountedIn(state_.classes[run.job_class].key, index) && (!counts_gpus || state_.PartsOf(run) > 0);
    };
    AddHolders(state_, now_, has, AllNodes(), blocker);
  }

  bool IsWithin(TeamIndex team, TeamIndex above) const {
    for (; team != kRootTeam; team = state_.teams.spec(team).parent) {
      if (team == above) return true;
    }
    return false;
  }

  void AddTeamHolders(Blocker& blocker, TeamIndex team, bool is_firm_only) const {
    if (!has_holders_) return;
    const auto has = [&](const Run& run) {
      const JobClass& job_class = state_.classes[run.job_class];
      return IsWithin(job_class.key.team, team) && (job_class.is_firm() || !is_firm_only);
    };
    AddHolders(state_, now_, has, AllNodes(), blocker);
  }

  void FindTeams() {
    if (!state_.teams.has_rules()) return;
    const Teams& teams = state_.teams;
    const std::int64_t parts = LeastGpuParts(request_);
    const KeptOfTeams kept = perspective_.KeptOfItsTeams();
    for (TeamIndex team = teams.OverLimit(key_.team, parts, kept.all); team != kRootTeam;
         team = teams.OverLimit(teams.spec(team).parent, parts, kept.all)) {
      const TeamSpec& spec = teams.spec(team);
      const bool is_kept = teams.running(team) + parts <= spec.limit_parts;
      const bool is_never = parts > spec.limit_parts;
      std::string text = "team " + spec.name + " runs " + GpuText(teams.running(team)) + " of at most " +
                         GpuText(spec.limit_parts) + "; this needs " + GpuText(parts) + " more" +
                         (is_kept ? std::string(kKeptAhead) : "");
      if (is_never) {
        text = "can never start: asks for " + GpuText(parts) + ", but team " + spec.name + " never runs more than " +
               GpuText(spec.limit_parts) + " at once";
      }
      Blocker& blocker = Add(BlockerKind::kTeamLimit, std::move(text), parts,
                             std::max<std::int64_t>(spec.limit_parts - teams.running(team), 0));
      blocker.rule = "limit of team " + spec.name + ": " + GpuText(spec.limit_parts);
      if (!is_never) AddTeamHolders(blocker, team, false);
    }
    if (key_.preemptible != Preemptible::kNever) return;
    for (TeamIndex team = teams.OverFirmQuota(key_.team, parts, kept.firm); team != kRootTeam;
         team = teams.OverFirmQuota(teams.spec(team).parent, parts, kept.firm)) {
      const TeamSpec& spec = teams.spec(team);
      const bool is_kept = teams.firm(team) + parts <= spec.quota_parts;
      const bool is_never = parts > spec.quota_parts;
      const std::string used = GpuNumber(teams.firm(team)) + " of " + GpuText(spec.quota_parts);
      std::string text = is_kept ? "the rest of the quota of team " + spec.name + " is reserved for a job ahead (" +
                                       used + " are in use, and this job needs " + GpuNumber(parts) + ")"
                                 : "the quota of team " + spec.name + " is in use: its non-preemptible jobs hold " +
                                       used + ", and this one needs " + GpuNumber(parts) + " more";
      text += "; --preemptible requeue lets it borrow idle GPUs";
      if (is_never) text = BeyondQuotaText(spec, request_);
      Blocker& blocker = Add(BlockerKind::kTeamQuota, std::move(text), parts,
                             std::max<std::int64_t>(spec.quota_parts - teams.firm(team), 0));
      blocker.rule = "quota of team " + spec.name + ": " + GpuText(spec.quota_parts);
      if (!is_never) AddTeamHolders(blocker, team, true);
    }
  }

  bool FindImpossible() {
    const HardwareClasses usable(state_, HardwareClasses::Of::kUsable);
    std::optional<Lack> lack = Impossible(usable, request_, names_);
    if (!lack) return false;
    const HardwareClasses all(state_, HardwareClasses::Of::kAll);
    std::optional<Lack> never = Impossible(all, request_, names_);
    Blocker& blocker = Add(never ? BlockerKind::kImpossible : BlockerKind::kUnusable,
                           never ? "can never start: " + never->text : std::move(lack->text),
                           (never ? *never : *lack).needed, (never ? *never : *lack).available);
    blocker.unit = (never ? *never : *lack).unit;
    blocker.rule = never ? "no node has what it asks for" : "GPUs that are out of service take no new work";
    if (never) return true;
    const TaskGroup& group = request_.groups.front();
    const std::string why = WithheldText(Count(group, MergedAlternatives(group, !state_.mixed.empty()).front()));
    if (!why.empty()) blocker.text += ": " + why;
    return true;
  }

  bool is_one_node() const { return state_.nodes.size() == 1; }

  // "GPU 2 is restricted; node n2 is cordoned: disk; 4 more nodes take no new work"; "" where nothing is withheld or
  // the reasons are not known.
  std::string WithheldText(const Tally& tally) const {
    if (!names_.withheld) return "";
    std::vector<std::string> texts;
    for (const auto& [node, gpus] : tally.withheld_on) {
      if (texts.size() < kMostWithheldNamed) texts.push_back(names_.withheld(node, gpus));
    }
    if (const std::size_t more = tally.withheld_on.size() - texts.size(); more > 0)
      texts.push_back(Plural(static_cast<std::int64_t>(more), "more node") +
                      (more == 1 ? " takes no new work" : " take no new work"));
    return Join(texts, "; ");
  }

  // --- Room ---------------------------------------------------------------------------------------------------------

  std::string OfModels(const TaskGroup& group, const Shape& shape) const { return WhichText(names_, group, shape); }

  Tally Count(const TaskGroup& group, const Shape& shape) const {
    Tally tally;
    Shape bare = shape;
    bare.cpu_milli = bare.memory_mib = 0;
    Shape with_cpus = bare;
    with_cpus.cpu_milli = shape.cpu_milli;
    Tally all;  // Counts suitable nodes without enough free GPUs.
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const Node& node = state_.nodes[index];
      const NodeState seen = SeenBy(node, node.state, shape);
      const int free = FreeGpus(seen, shape);
      if (shape.gpus > 0 && node.state.cpu_free >= shape.cpu_milli && node.state.memory_free >= shape.memory_mib) {
        tally.most_of_any = std::max(tally.most_of_any, FreeGpus(node.state, shape));
      }
      tally.room += RoomOn(node.facts, node.state, group);
      if (!IsAccepted(node.facts, shape)) continue;
      const int others = shape.gpus == 0 ? 0 : NotAccepted(node.facts, shape).size();
      if (node.facts.gpus - others < shape.gpus) continue;  // Too small even when idle.
      tally.nodes.push_back(index);
      tally.node_classes |= placement::ModelSet{1} << node.facts.node_class;
      const GpuSet withheld = shape.gpus == 0 ? node.blocked : node.blocked - NotAccepted(node.facts, shape);
      const int blocked = node.accepts ? withheld.size() : node.facts.gpus - others;
      tally.gpus += node.facts.gpus - others - blocked;
      tally.withheld += blocked;
      if (!node.accepts || !withheld.empty()) tally.withheld_on.emplace_back(index, withheld);
      if (shape.gpus > 0 && free > 0) {
        tally.free += free;
        tally.free_nodes += 1;
        tally.most = std::max(tally.most, free);
      }
      tally.most_share = std::max(tally.most_share, seen.most_free);
      Tally& host = free >= shape.gpus && placement::Fits(seen, bare) ? tally : all;
      host.gpu_nodes += 1;
      host.cpus = std::max(host.cpus, node.state.cpu_free);
      host.memory = std::max(host.memory, node.state.memory_free);
      if (node.state.cpu_free >= shape.cpu_milli)
        host.memory_beside = std::max(host.memory_beside, node.state.memory_free);
      tally.by_gpus += group.AtMostOnOne(RoomOf(seen, bare));
      tally.by_cpus += group.AtMostOnOne(RoomOf(seen, with_cpus));
    }
    if (tally.gpu_nodes == 0) {
      tally.cpus = all.cpus;
      tally.memory = all.memory;
      tally.memory_beside = all.memory_beside;
    }
    return tally;
  }

  void FindRoom() {
    bool is_short = false;
    for (std::size_t i = 0; i < request_.groups.size(); ++i) {
      const TaskGroup& group = request_.groups[i];
      // Alternatives that differ in more than models are reported separately: in an exclusive pool a job takes whole
      // nodes.
      std::vector<Shape> shapes = MergedAlternatives(group, false);
      shapes.front() = MergedAlternatives(group, !state_.mixed.empty()).front();
      for (const Shape& shape : shapes) {
        const Tally tally = Count(group, shape);
        const int least = LeastWithLarger(request_, i);
        if (tally.room >= least) break;
        is_short = true;
        if (least == 1) FindForOne(group, shape, tally);
        else FindForMany(group, least, shape, tally);
      }
    }
    const bool has_room = !is_short && perspective_.Room().has_value();
    if (has_room) return;
    const bool has_anti_affinity = !is_short && FindInDomain();
    const bool is_unjoined = !is_short && !has_anti_affinity && FindTopology();
    std::vector<Blocker> reservations = FindReservations(perspective_);
    const bool is_kept = !reservations.empty();
    for (Blocker& blocker : reservations) found_.push_back(std::move(blocker));
    if (is_short || has_anti_affinity || is_unjoined || is_kept) return;
    const std::string what = IsHeterogeneous(request_) ? "components" : "tasks";
    AddHoldersOfAll(Add(BlockerKind::kFit, "each of its " + what + " fits alone, but not all of them at once",
                        LeastTasks(request_), 0));
  }

  // Adds the running jobs that hold anything that one of the job's tasks could use.
  void AddHoldersOfAll(Blocker& blocker) const {
    if (!has_holders_) return;
    Tally all;
    std::vector<Shape> shapes;
    bool is_of_gpus = true;
    for (const TaskGroup& group : request_.groups) {
      for (const Shape& shape : group.alternatives) {
        const Tally tally = Count(group, shape);
        all.node_classes |= tally.node_classes;
        all.nodes.insert(all.nodes.end(), tally.nodes.begin(), tally.nodes.end());
        is_of_gpus = is_of_gpus && shape.gpus > 0;
        shapes.push_back(shape);
      }
    }
    std::sort(all.nodes.begin(), all.nodes.end());
    all.nodes.erase(std::unique(all.nodes.begin(), all.nodes.end()), all.nodes.end());
    if (is_of_gpus) AddGpuHolders(all, shapes, blocker);
    else AddHostHolders(all, blocker);
  }

  void AddGpuHolders(const Tally& tally, const std::vector<Shape>& shapes, Blocker& blocker) const {
    if (!has_holders_) return;
    std::vector<bool> is_such(state_.nodes.size());
    for (const NodeIndex node : tally.nodes) is_such[node] = true;
    const auto could_help = [&](const TaskPlacement& placed) {
      return is_such[placed.node] && std::any_of(shapes.begin(), shapes.end(), [&](const Shape& shape) {
               return !(placed.place.gpus & GpusFor(state_.nodes[placed.node], shape)).empty();
             });
    };
    const auto has = [&](const Run& run) {
      return std::any_of(run.placements.begin(), run.placements.end(), could_help);
    };
    AddHolders(state_, now_, has, tally.nodes, blocker);
  }

  // Adds running jobs with CPUs, or with host memory, on nodes of these classes.
  void AddHostHolders(const Tally& tally, Blocker& blocker) const {
    if (!has_holders_) return;
    const auto has = [&](const Run& run) {
      if (!IsOnNodeClasses(state_, run, tally.node_classes, false)) return false;
      const ResourceRequest& request = state_.request_of(run);
      return std::any_of(run.placements.begin(), run.placements.end(), [&](const TaskPlacement& placed) {
        const Shape& shape = ShapeOf(request, placed);
        return (blocker.kind == BlockerKind::kCpus ? shape.cpu_milli : shape.memory_mib) > 0;
      });
    };
    AddHolders(state_, now_, has, tally.nodes, blocker);
  }

  // True if a whole GPU is free on a node that cannot serve the task.
  bool IsAnyFreeBeside(const Tally& tally) const {
    for (NodeIndex node = 0; node < state_.nodes.size(); ++node) {
      if (state_.nodes[node].state.whole > 0 && !std::binary_search(tally.nodes.begin(), tally.nodes.end(), node))
        return true;
    }
    return false;
  }

  // "none is free", "2 are free", "37 of these 640 are free on 20 nodes, at most 3 on one".
  std::string FreeText(const Shape& shape, const Tally& tally) const {
    const bool is_picky = shape.models != placement::kAnyModel || (tally.free == 0 && IsAnyFreeBeside(tally));
    const std::string such = is_picky ? " of these " + std::to_string(tally.gpus) : "";
    std::string text;
    if (shape.slice) text = ", and no GPU has room for one";
    if (shape.gpu_memory_mib > 0 && tally.most_share >= shape.parts)
      text = ", and no such GPU has that much memory free";
    if (text.empty() && shape.parts < placement::kGpuParts) {
      const std::int64_t most = tally.most_share;
      if (shape.gpus == 1)
        text = most == 0 ? "; none has free capacity"
                         : "; at most " + GpuText(most).substr(0, GpuText(most).find(' ')) + " of one GPU is free";
    }
    if (text.empty() && is_picky && tally.free == 0 && tally.gpus == 1) text = ", the only one is in use";
    if (text.empty()) {
      text = (shape.gpus == 1 || tally.free_nodes <= 1 ? ", " : "; ") +
             (tally.free == 0 ? std::string("none") : std::to_string(tally.free)) + such +
             (tally.free > 1 ? " are free" : " is free");
      if (tally.free_nodes > 1) {
        text += " on " + std::to_string(tally.free_nodes) + " nodes, at most " + std::to_string(tally.most) + " on one";
      }
    }
    const std::string why = WithheldText(tally);
    if (!why.empty()) text += " (" + why + ")";
    else if (tally.withheld > 0) text += " (" + std::to_string(tally.withheld) + " more out of service)";
    return text;
  }

  std::string Needs(const TaskGroup& group) const {
    return IsHeterogeneous(request_) ? "component " + std::to_string(group.component) + " needs " : "needs ";
  }

  void FindForOne(const TaskGroup& group, const Shape& shape, const Tally& tally) {
    const std::string on_one = state_.nodes.size() > 1 ? " on one node" : "";
    const bool lacks_gpus = shape.gpus > 0 && tally.gpu_nodes == 0;
    if (lacks_gpus) {
      const bool lacks_model = shape.models != placement::kAnyModel && tally.most_of_any >= shape.gpus;
      Blocker& blocker = Add(lacks_model ? BlockerKind::kKind : BlockerKind::kGpus,
                             Needs(group) + GpusOf(shape) + OfModels(group, shape) + (shape.gpus > 1 ? on_one : "") +
                                 FreeText(shape, tally),
                             shape.gpu_parts(), shape.is_share() ? tally.most_share : tally.most * shape.parts);
      AddGpuHolders(tally, {shape}, blocker);
    }
    if (is_one_node()) return FindHostOfOneNode(group, shape, tally);
    const std::string beside = shape.gpus == 0 || lacks_gpus ? "" : " and " + GpusOf(shape) + OfModels(group, shape);
    const std::string which = shape.gpus == 0 ? OfModels(group, shape) : "";
    if (tally.cpus < shape.cpu_milli) {
      Blocker& blocker =
          Add(BlockerKind::kCpus,
              Needs(group) + CpusText(shape.cpu_milli) + which + beside + on_one + "; at most " + CpusText(tally.cpus) +
                  " are free on one" + (beside.empty() ? "" : " that has the GPUs"),
              shape.cpu_milli, tally.cpus);
      AddHostHolders(tally, blocker);
    }
    // Some node has enough CPUs and some node has enough memory, but none has both.
    const bool lacks_both = tally.cpus >= shape.cpu_milli && tally.memory >= shape.memory_mib && !lacks_gpus;
    const std::int32_t memory = lacks_both ? tally.memory_beside : tally.memory;
    if (memory < shape.memory_mib) {
      Blocker& blocker =
          Add(BlockerKind::kMemory,
              Needs(group) + MibText(shape.memory_mib) + " of memory" +
                  (lacks_both ? (beside.empty() ? " and " : ", ") + CpusText(shape.cpu_milli) : std::string()) + which +
                  beside + on_one + "; at most " + MibText(memory) + " is free on one" +
                  (lacks_both       ? " that has the rest"
                   : beside.empty() ? ""
                                    : " that has the GPUs"),
              shape.memory_mib, memory);
      AddHostHolders(tally, blocker);
    }
  }

  // "needs 4 CPUs, 2 of 64 are free".
  void FindHostOfOneNode(const TaskGroup& group, const Shape& shape, const Tally& tally) {
    const NodeFacts& facts = state_.nodes.front().facts;
    if (tally.cpus < shape.cpu_milli) {
      const std::int32_t free = std::max(tally.cpus, 0);
      Blocker& blocker = Add(BlockerKind::kCpus,
                             Needs(group) + CpusText(shape.cpu_milli) + ", " + CpusFlag(free) + " of " +
                                 CpusFlag(facts.cpu_milli) + (free == 1000 ? " is free" : " are free"),
                             shape.cpu_milli, free);
      AddHostHolders(tally, blocker);
    }
    if (tally.memory < shape.memory_mib) {
      const std::int32_t free = std::max(tally.memory, 0);
      Blocker& blocker = Add(BlockerKind::kMemory,
                             Needs(group) + MibText(shape.memory_mib) + " of memory, " + MibText(free) + " of " +
                                 MibText(facts.memory_mib) + " is free",
                             shape.memory_mib, free);
      AddHostHolders(tally, blocker);
    }
  }

  void FindForMany(const TaskGroup& group, int least, const Shape& shape, const Tally& tally) {
    const std::string tasks = Plural(least, group.anti_affinity ? "node" : "task");
    const std::string of = group.anti_affinity ? " with " : " of ";
    const auto room_for = [&](std::int64_t room) {
      return "there is room for " + (room == 0 ? "none" : std::to_string(room)) + " of them";
    };
    if (shape.gpus > 0 && tally.by_gpus < least) {
      Blocker& blocker = Add(BlockerKind::kGpus,
                             Needs(group) + tasks + of + GpusOf(shape) + OfModels(group, shape) + " at once; " +
                                 room_for(tally.by_gpus) + FreeText(shape, tally),
                             least, tally.by_gpus);
      blocker.unit = BlockerUnit::kCount;
      AddGpuHolders(tally, {shape}, blocker);
    } else if (tally.by_cpus < least) {
      Blocker& blocker =
          Add(BlockerKind::kCpus,
              Needs(group) + tasks + of + CpusText(shape.cpu_milli) + (shape.gpus > 0 ? " and " + GpusOf(shape) : "") +
                  OfModels(group, shape) + " at once; " + room_for(tally.by_cpus),
              least, tally.by_cpus);
      blocker.unit = BlockerUnit::kCount;
      AddHostHolders(tally, blocker);
    } else {
      Blocker& blocker = Add(BlockerKind::kMemory,
                             Needs(group) + tasks + of + MibText(shape.memory_mib) + " of memory" +
                                 (shape.gpus > 0 ? " and " + GpusOf(shape) : "") + OfModels(group, shape) +
                                 " at once; " + room_for(tally.room),
                             least, tally.room);
      blocker.unit = BlockerUnit::kCount;
      AddHostHolders(tally, blocker);
    }
  }

  // Adds a blocker if there is room for all tasks of the job, but no single alternative of the request has room for all
  // of them.
  bool FindAlike() {
    if (!TakesOneAlternative(request_)) return false;
    const TaskGroup& first = request_.groups.front();
    std::optional<std::size_t> best;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < first.alternatives.size(); ++i) {
      const ResourceRequest narrow = Narrowed(request_, i);
      bool is_enough = true;
      for (std::size_t g = 0; g < narrow.groups.size(); ++g) {
        const TaskGroup& group = narrow.groups[g];
        std::int64_t room = 0;
        for (const Node& node : state_.nodes) room += RoomOn(node.facts, node.state, group);
        is_enough = is_enough && room >= LeastWithLarger(narrow, g);
        if (g > 0 || (best && room <= most)) continue;
        best = i;
        most = room;
      }
      if (is_enough) return false;
    }
    const std::string which = OfModels(Narrowed(request_, *best).groups.front(), first.alternatives[*best]);
    Blocker& blocker = Add(BlockerKind::kLocality,
                           "its " + Plural(LeastTasks(request_), "task") +
                               " need nodes that are alike; there is room for at most " + std::to_string(most) + which,
                           LeastTasks(request_), most);
    blocker.rule = "all tasks of a job use the same alternative";
    AddHoldersOfAll(blocker);
    return true;
  }

  // Adds a blocker if there is room for all tasks of the job, but not within one node, rack or block, or not on one GPU
  // model, as required.
  bool FindInDomain() {
    if (LeastTasks(request_) == 1) return false;
    if (FindAlike()) return true;
    const bool is_one_model = RunsOnOneModel(request_);
    const Locality level = WidestOf(request_);
    if (!is_one_model && level == Locality::kAnywhere) return false;
    for (std::size_t i = 0; i < request_.groups.size(); ++i) {
      const TaskGroup& group = request_.groups[i];
      const int least = LeastWithLarger(request_, i);
      const bool by_model = is_one_model && group.alternatives.front().gpus > 0;
      std::map<int, std::int64_t> models;
      std::map<std::pair<std::uint64_t, int>, std::int64_t> domains;
      std::int64_t most_of_model = 0;
      std::int64_t most = 0;
      for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
        const Node& node = state_.nodes[index];
        ForEachModel(node.facts, by_model, [&](int model) {
          const auto only = by_model ? std::optional(model) : std::nullopt;
          const std::int64_t room = RoomOn(node.facts, node.state, group, only);
          if (room == 0) return;
          most_of_model = std::max(most_of_model, models[model] += room);
          most = std::max(most, domains[{DomainOf(node.facts, index, level), model}] += room);
        });
      }
      if (most >= least) continue;
      const std::string tasks = "its " + Plural(least, group.anti_affinity ? "part" : "task");
      if (most_of_model < least) {
        Blocker& blocker = Add(BlockerKind::kLocality,
                               tasks + " need GPUs of the same model; there is room for at most " +
                                   std::to_string(most_of_model) + " on GPUs of one model",
                               least, most_of_model);
        blocker.rule = "tasks of one job run on one model";
        AddHoldersOfAll(blocker);
        return true;
      }
      const std::string name(LocalityName(level));
      const bool is_required = request_.requires_locality && level == request_.locality;
      Blocker& blocker =
          Add(BlockerKind::kLocality,
              tasks + " must be in one " + name + "; one " + name + " has room for at most " + std::to_string(most),
              least, most);
      blocker.rule = is_required ? "--topology " + name + ":required" : "all within one " + name;
      AddHoldersOfAll(blocker);
      return true;
    }
    return false;
  }

  // Adds a blocker if enough GPUs are free on one node, but no set of them has the required topology.
  bool FindTopology() {
    static const SizeDemand kUsual = UsualSizeDemand();
    const TaskGroup& group = request_.groups.front();
    const Shape& shape = group.alternatives.front();
    if (!NeedsTopology(request_, shape)) return false;
    int most = 0;
    int free = 0;
    Tally tally;
    std::map<std::pair<const GpuTopology*, GpuSet>, int> known;
    for (NodeIndex index = 0; index < state_.nodes.size(); ++index) {
      const Node& node = state_.nodes[index];
      const NodeState seen = SeenBy(node, node.state, shape);
      if (RoomOn(node.facts, node.state, request_.groups.front()) == 0) continue;
      tally.nodes.push_back(index);
      tally.node_classes |= placement::ModelSet{1} << node.facts.node_class;
      free = std::max<int>(free, seen.whole);
      const GpuSet idle = WholeFreeOf(seen);
      const auto [at, is_new] = known.try_emplace({node.facts.topology.get(), idle}, seen.whole);
      if (is_new && node.facts.topology != nullptr) {
        const GpuTopology& topology = *node.facts.topology;
        while (at->second > 1 && !topology.Pick(idle, at->second, kUsual, request_.topology)) at->second -= 1;
      }
      most = std::max(most, at->second);
    }
    if (most >= shape.gpus) return false;
    Blocker& blocker =
        Add(BlockerKind::kTopology,
            "needs " + GpusOf(shape) + OfModels(group, shape) + " " + std::string(TopologyPhrase(request_.topology)) +
                "; " + std::to_string(free) + (is_one_node() ? " are free, " : " are free on one node, ") +
                (most < 2 ? "no two" : "at most " + std::to_string(most)) + " of them " +
                (request_.topology == TopologyNeed::kNuma ? "on one" : "joined"),
            shape.gpu_parts(), std::int64_t{most} * placement::kGpuParts);
    blocker.rule = "--topology " + std::string(TopologyName(request_.topology)) + ":required";
    AddGpuHolders(tally, {shape}, blocker);
    return true;
  }

  JobPerspective& perspective_;
  const ClusterState& state_;
  const ResourceRequest& request_;
  const ClassKey& key_;
  const Names& names_;
  Time now_;
  bool has_holders_;
  std::vector<Blocker> found_;
};

}  // namespace

std::vector<Blocker> FindBlockers(JobPerspective& perspective, const Names& names, bool has_holders) {
  return BlockerFinder(perspective, names, has_holders).All();
}

}  // namespace divvy::core
