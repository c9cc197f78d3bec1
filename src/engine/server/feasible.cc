// What the nodes could never run, refused with the nearest thing that they can. A message names one problem, the
// hardest first.

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "engine/core/explain/explain.h"
#include "engine/core/explain/feasible.h"
#include "engine/core/explain/kind_words.h"
#include "engine/core/place/placing.h"
#include "engine/gpu_choice.h"
#include "engine/gpu_type.h"
#include "engine/phrases.h"
#include "engine/server/explain.h"

namespace divvy {
namespace {

// The memory of the largest GPU that the request accepts by type; 0 where there is none.
Bytes LargestMemory(const Server& server, const Request& request) {
  Request by_type;
  by_type.gpus = 1;
  by_type.gpu_type = request.gpu_type;
  Bytes largest;
  for (const BookNode& node : server.nodes()) {
    for (const int gpu : MatchingGpus(node.capacity, by_type).ToVector())
      largest = std::max(largest, node.capacity.gpus[static_cast<std::size_t>(gpu)].memory_total);
  }
  return largest;
}

// What GPUs can be cut into, smallest first: "1g.10gb (9.8 GiB)".
std::vector<std::string> SlicesOf(const Server& server) {
  std::set<std::tuple<Bytes, int, std::string>> all;
  for (const BookNode& node : server.nodes()) {
    for (const GpuFacts& gpu : node.capacity.gpus) {
      for (const SliceProfile& profile : gpu.slices) all.emplace(profile.memory, profile.compute, profile.name);
    }
  }
  std::vector<std::string> texts;
  std::set<std::string> named;  // GPUs of nearly the same size have instances of one name.
  for (const auto& [memory, compute, name] : all) {
    if (named.insert(name).second) texts.push_back(name + " (" + BytesText(memory) + ")");
  }
  return texts;
}

// What there would be if each GPU that is capable of it were in MIG mode.
bool CouldBeCut(const Server& server, const Request& request) {
  return std::ranges::any_of(server.nodes(), [&](const BookNode& node) {
    NodeCapacity divided = node.capacity;
    for (GpuFacts& gpu : divided.gpus) {
      if (gpu.is_mig_capable) gpu.slices = UsualSlices(gpu.memory_total);
    }
    return !MatchingGpus(divided, request).empty();
  });
}

Status CheckSlice(const Server& server, const Request& request) {
  const std::string where = server.has_many() ? "any machine" : "this server";
  bool has_capable = false;
  for (const BookNode& node : server.nodes()) {
    if (!MatchingGpus(node.capacity, request).empty()) return {};
    for (const GpuFacts& gpu : node.capacity.gpus) has_capable = has_capable || gpu.is_mig_capable;
  }
  const std::string asks = "asks for a slice " + request.slice + " of a GPU, but ";
  const std::vector<std::string> there = SlicesOf(server);
  if (!there.empty()) {
    const std::string type = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
    return LimitExceeded(asks + "no GPU" + type + " of " + where + " can be cut so; there is --slice " +
                         Join(there, ", "));
  }
  if (!has_capable)
    return LimitExceeded(asks + "no GPU of " + where + " can be cut by MIG; ask for a part of one: --gpus 0.25");
  if (!CouldBeCut(server, request))
    return LimitExceeded(asks + "no GPU of " + where +
                         " could be cut so, in MIG mode or not; --slice 1g is the "
                         "smallest of any that can, and whole GPUs and parts of them are asked for by --gpus");
  return LimitExceeded(
      asks + "no GPU of " + where +
      " is in MIG mode; nvidia-smi -i N -mig 1 and a restart of divvy, or mig = \"auto\" under [gpus] in "
      "divvy.toml, lets divvy cut it; a part of a GPU needs neither: --gpus 0.25");
}

// More than all machines have.
bool IsMoreThanAll(const Server& server, const Request& request) {
  std::int64_t gpus = -std::int64_t{request.gpus_in_all()};
  std::int64_t cpus = 0;
  Bytes memory;
  for (std::size_t i = 0; i < request.components(); ++i) {
    const Request one = ComponentOf(request, i);
    cpus -= std::int64_t{one.cpus} * one.nodes;
    memory = Bytes(memory.count() - one.memory.count() * one.nodes);
  }
  for (NodeIndex node = 0; node < server.nodes().size(); ++node) {
    const NodeCapacity& capacity = server.node(node).capacity;
    gpus += static_cast<std::int64_t>(capacity.gpus.size());
    cpus += capacity.cpus;
    memory = Bytes(memory.count() + capacity.memory.count());
  }
  return gpus < 0 || cpus < 0 || memory < Bytes(0);
}

// All components at once, on machines where nothing else runs. What the search does not find, and nothing shows to be
// impossible, may still be there when some of the machines are in use. Requires: each fits alone.
Status CheckTogether(const Server& server, const Request& request, const core::Ask& ask) {
  core::Cluster idle(server.core().rules());
  for (NodeIndex node = 0; node < server.nodes().size(); ++node) idle.AddNode(server.core().node(node));
  core::Placing placing(idle.state(), Time(Duration(1)), Time(Duration(1)));
  if (!placing.Find(ask, Duration(0), {}, true, core::kRootTeam, 0).empty()) return {};
  if (!placing.is_proven() && !IsMoreThanAll(server, request)) return {};
  return LimitExceeded("each of its components fits alone, but " +
                       std::string(server.has_many() ? "the machines have" : "this server has") +
                       " no room for all of them at once, whatever ends; make them smaller, or submit each as a job of "
                       "its own");
}

}  // namespace

Status CheckPortion(const GpuPortion& portion, Bytes gpu_memory, const std::string& whose) {
  const Bytes most = PortionedMemory(gpu_memory);
  if (!portion.any() || most == Bytes()) return {};
  const std::string has = whose + " has " + BytesText(most) + " for jobs";
  if (portion.memory > most) {
    return LimitExceeded("asks for " + BytesText(portion.memory) + " of a GPU, but " + has + "; --gpu-memory " +
                         BytesFlag(most) + " is the most it can ever give");
  }
  if (portion.memory_limit > most) {
    return LimitExceeded("may borrow up to " + BytesText(portion.memory_limit) + " of a GPU, but " + has +
                         "; --gpu-memory-limit " + BytesFlag(most) + " is the most it can ever give");
  }
  const Bytes own = RequestedMemory(portion, gpu_memory);
  if (own >= kSmallestPart) return {};
  const std::string parts = portion.is_by_memory() ? "" : " (" + PartsText(portion.request) + " of " + whose + ")";
  return LimitExceeded("asks for " + BytesText(own) + " of a GPU" + parts + ", and a program needs " +
                       BytesText(kSmallestPart) + " before it has anything of its own; ask for --gpus " +
                       PartsText(SmallestParts(gpu_memory)) + " or --gpu-memory " + BytesFlag(kSmallestPart) +
                       " at least");
}

Status CheckFeasible(const Server& server, const Request& request, const std::string& pool) {
  if (!request.slice.empty()) DIVVY_CHECK(CheckSlice(server, request));
  if (!server.has_many() && !request.is_heterogeneous() && request.nodes > 1) {
    return LimitExceeded("asks for " + std::to_string(request.nodes) +
                         " nodes, but there is only this one; divvy token create --node prints the command that adds "
                         "another, or leave --nodes out");
  }
  for (std::size_t i = 0; i < request.components(); ++i) {
    const Request one = ComponentOf(request, i);
    if (!one.is_portioned()) continue;
    const Status fits = CheckPortion(one.portion, LargestMemory(server, one),
                                     server.has_many() ? "the largest of any node" : "the largest of this server");
    if (!fits && request.is_heterogeneous())
      return Error{fits.error().code, "component " + std::to_string(i) + " " + fits.error().message};
    DIVVY_CHECK(fits);
  }
  std::string why;
  const core::Ask ask = server.AskAbout(request, pool, PlacementStrategy::kSequential, &why);
  if (!why.empty()) return InvalidArgument(why);
  const core::NodeKinds kinds(server.core().state(), core::NodeKinds::Of::kAll);
  DIVVY_CHECK(core::Feasible(kinds, ask, core::NamesOf(server.kinds().book())));
  return request.is_heterogeneous() ? CheckTogether(server, request, ask) : Status();
}

Status CheckTeamFeasible(const Server& server, const Request& request, const std::string& pool, const std::string& team,
                         Preemptible preemptible) {
  const core::Ask ask = server.AskAbout(request, pool, PlacementStrategy::kSequential);
  return core::FeasibleForTeam(server.core(), ask, server.TeamOf(team), preemptible);
}

}  // namespace divvy
