// Refuses requests that the nodes could never run and names the nearest possible request. A message names a single
// problem, the hardest one.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "engine/core/explain/explanation.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/explain/node_class_text.h"
#include "engine/core/place/placer.h"
#include "engine/gpu_choice.h"
#include "engine/gpu_type.h"
#include "engine/message_text.h"
#include "engine/scheduler/explain.h"

namespace divvy {
namespace {

// The memory of the largest GPU that the request accepts by type; 0 where there is none.
Bytes LargestMemory(const Scheduler& scheduler, const Request& request) {
  Request by_type;
  by_type.gpus = 1;
  by_type.gpu_type = request.gpu_type;
  Bytes largest;
  for (const NodeUsage& node : scheduler.nodes()) {
    for (const int gpu : MatchingGpus(node.capacity, by_type).ToVector())
      largest = std::max(largest, node.capacity.gpus[static_cast<std::size_t>(gpu)].memory_total);
  }
  return largest;
}

// The MIG profiles of all GPUs, smallest first: "1g.10gb (9.8 GiB)".
std::vector<std::string> SlicesOf(const Scheduler& scheduler) {
  std::set<std::tuple<Bytes, int, std::string>> all;
  for (const NodeUsage& node : scheduler.nodes()) {
    for (const GpuFacts& gpu : node.capacity.gpus) {
      for (const SliceProfile& profile : gpu.slices) all.emplace(profile.memory, profile.compute, profile.name);
    }
  }
  std::vector<std::string> texts;
  std::set<std::string> named;  // GPUs of nearly the same size have profiles of the same name.
  for (const auto& [memory, compute, name] : all) {
    if (named.insert(name).second) texts.push_back(name + " (" + BytesText(memory) + ")");
  }
  return texts;
}

// True if the request could be served if each MIG-capable GPU were in MIG mode.
bool CouldBeCut(const Scheduler& scheduler, const Request& request) {
  return std::ranges::any_of(scheduler.nodes(), [&](const NodeUsage& node) {
    NodeCapacity divided = node.capacity;
    for (GpuFacts& gpu : divided.gpus) {
      if (gpu.is_mig_capable) gpu.slices = UsualSlices(gpu.memory_total);
    }
    return !MatchingGpus(divided, request).empty();
  });
}

Status CheckSlice(const Scheduler& scheduler, const Request& request) {
  const std::string where = scheduler.has_many() ? "any node" : "this server";
  bool has_capable = false;
  for (const NodeUsage& node : scheduler.nodes()) {
    if (!MatchingGpus(node.capacity, request).empty()) return {};
    for (const GpuFacts& gpu : node.capacity.gpus) has_capable = has_capable || gpu.is_mig_capable;
  }
  const std::string asks = "asks for a slice " + request.slice + " of a GPU, but ";
  const std::vector<std::string> there = SlicesOf(scheduler);
  if (!there.empty()) {
    const std::string type = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
    return LimitExceeded(asks + "no GPU" + type + " of " + where + " supports it; available: --slice " +
                         Join(there, ", "));
  }
  if (!has_capable)
    return LimitExceeded(asks + "no GPU of " + where + " supports MIG; request a GPU fraction: --gpus 0.25");
  if (!CouldBeCut(scheduler, request))
    return LimitExceeded(asks + "no GPU of " + where +
                         " supports it, in MIG mode or not; --slice 1g is the "
                         "smallest slice, and --gpus requests whole GPUs or fractions");
  return LimitExceeded(
      asks + "no GPU of " + where +
      " is in MIG mode; nvidia-smi -i N -mig 1 and a restart of divvy, or mig = \"auto\" under [gpus] in "
      "divvy.toml, lets divvy partition it; a GPU fraction needs neither: --gpus 0.25");
}

// True if the request exceeds the GPUs, CPUs or memory of all nodes together.
bool IsMoreThanAll(const Scheduler& scheduler, const Request& request) {
  std::int64_t gpus = -std::int64_t{request.gpus_in_all()};
  std::int64_t cpus = 0;
  Bytes memory;
  for (std::size_t i = 0; i < request.components(); ++i) {
    const Request one = ComponentOf(request, i);
    cpus -= std::int64_t{one.cpus} * one.nodes;
    memory = Bytes(memory.count() - one.memory.count() * one.nodes);
  }
  for (NodeIndex node = 0; node < scheduler.nodes().size(); ++node) {
    const NodeCapacity& capacity = scheduler.node(node).capacity;
    gpus += static_cast<std::int64_t>(capacity.gpus.size());
    cpus += capacity.cpus;
    memory = Bytes(memory.count() + capacity.memory.count());
  }
  return gpus < 0 || cpus < 0 || memory < Bytes(0);
}

// Checks whether all components fit at once on idle nodes. The search is not exhaustive: a request is refused only if
// it is proven impossible or exceeds the sum of all nodes. Requires: each component fits alone.
Status CheckLocality(const Scheduler& scheduler, const Request& request, const core::ResourceRequest& resources) {
  core::Cluster idle(scheduler.core().rules());
  for (NodeIndex node = 0; node < scheduler.nodes().size(); ++node) idle.AddNode(scheduler.core().node(node));
  core::Placer placing(idle.state(), Time(Duration(1)), Time(Duration(1)));
  if (!placing.Find(resources, Duration(0), {}, true, core::kRootTeam, 0).empty()) return {};
  if (!placing.is_proven() && !IsMoreThanAll(scheduler, request)) return {};
  return LimitExceeded(
      "each of its components fits alone, but " +
      std::string(scheduler.has_many() ? "the nodes have" : "this server has") +
      " no room for all of them at once, even when idle; make them smaller, or submit each as a job of "
      "its own");
}

}  // namespace

Status CheckPortion(const GpuPortion& portion, Bytes gpu_memory, const std::string& whose) {
  const Bytes most = PortionedMemory(gpu_memory);
  if (!portion.any() || most == Bytes()) return {};
  const std::string has = whose + " has " + BytesText(most) + " for jobs";
  if (portion.memory > most) {
    return LimitExceeded("asks for " + BytesText(portion.memory) + " of a GPU, but " + has + "; --gpu-memory " +
                         BytesFlag(most) + " is the maximum");
  }
  if (portion.memory_limit > most) {
    return LimitExceeded("asks to borrow up to " + BytesText(portion.memory_limit) + " of a GPU, but " + has +
                         "; --gpu-memory-limit " + BytesFlag(most) + " is the maximum");
  }
  const Bytes own = RequestedMemory(portion, gpu_memory);
  if (own >= kSmallestPart) return {};
  const std::string parts = portion.is_by_memory() ? "" : " (" + PartsText(portion.request) + " of " + whose + ")";
  return LimitExceeded("asks for " + BytesText(own) + " of a GPU" + parts + ", but a program needs " +
                       BytesText(kSmallestPart) + " just to start; request at least --gpus " +
                       PartsText(SmallestParts(gpu_memory)) + " or --gpu-memory " + BytesFlag(kSmallestPart));
}

Status CheckFeasibleHere(const Scheduler& scheduler, const Request& request, const std::string& pool) {
  if (!request.slice.empty()) DIVVY_CHECK(CheckSlice(scheduler, request));
  if (!scheduler.has_many() && !request.is_heterogeneous() && request.nodes > 1) {
    return LimitExceeded("asks for " + std::to_string(request.nodes) +
                         " nodes, but there is only this one; divvy token create --node prints the command that adds "
                         "another, or leave --nodes out");
  }
  for (std::size_t i = 0; i < request.components(); ++i) {
    const Request one = ComponentOf(request, i);
    if (!one.is_portioned()) continue;
    const Status fits = CheckPortion(one.portion, LargestMemory(scheduler, one),
                                     scheduler.has_many() ? "the largest of any node" : "the largest of this server");
    if (!fits && request.is_heterogeneous())
      return Error{fits.error().code, "component " + std::to_string(i) + " " + fits.error().message};
    DIVVY_CHECK(fits);
  }
  std::string why;
  const core::ResourceRequest resources = scheduler.AskAbout(request, pool, PlacementStrategy::kSequential, &why);
  if (!why.empty()) return InvalidArgument(why);
  const core::HardwareClasses classes(scheduler.core().state(), core::HardwareClasses::Of::kAll);
  DIVVY_CHECK(core::Feasible(classes, resources, core::NamesOf(scheduler.classifier().class_index())));
  return request.is_heterogeneous() ? CheckLocality(scheduler, request, resources) : Status();
}

Status CheckFeasible(const Scheduler& scheduler, const Request& request, const std::string& pool) {
  Status here = CheckFeasibleHere(scheduler, request, pool);
  if (here || scheduler.offers() == nullptr) return here;
  const Status offered = CheckFeasibleHere(*scheduler.offers(), request, pool);
  if (offered) return {};
  return Error{here.error().code,
               here.error().message + "; a node of a provider could not run it either: " + offered.error().message};
}

Status CheckTeamFeasible(const Scheduler& scheduler, const Request& request, const std::string& pool,
                         const std::string& team, Preemptible preemptible) {
  const core::ResourceRequest resources = scheduler.AskAbout(request, pool, PlacementStrategy::kSequential);
  return core::FeasibleForTeam(scheduler.core(), resources, scheduler.TeamOf(team), preemptible);
}

}  // namespace divvy
