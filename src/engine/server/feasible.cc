// What this server could never run, refused with the nearest thing that it can. One problem at a time, the hardest
// first: a message that names four is read by nobody.

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

// "4 x NVIDIA H100 80GB HBM3 and 4 x NVIDIA L4".
std::string ModelsText(const NodeCapacity& capacity) {
  std::map<std::string, int> counts;
  for (const GpuFacts& gpu : capacity.gpus) counts[gpu.model] += 1;
  std::vector<std::string> parts;
  for (const auto& [model, count] : counts) parts.push_back(std::to_string(count) + " x " + model);
  return AndList(parts);
}

Bytes LargestMemory(const NodeCapacity& capacity, GpuSet gpus) {
  Bytes largest;
  for (int gpu : gpus.ToVector())
    largest = std::max(largest, capacity.gpus[static_cast<std::size_t>(gpu)].memory_total);
  return largest;
}

Status CheckTopology(const Server& server, const Request& request) {
  GpuChoice choice;
  choice.topology = OfGpus(request.topology);
  choice.requires_topology = request.requires_topology;
  choice.node = &server.topology();
  const GpuSet suitable = MatchingGpus(server.capacity(), request);
  if (!choice.is_strict() || PickGpus(suitable, request.gpus, choice)) return {};
  const int most = MostTogether(suitable, choice);
  const std::string kind = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
  const std::string asks = "asks for " + Plural(request.gpus, "GPU") + kind + " " +
                           std::string(TopologyPhrase(request.topology)) + ", but on this server ";
  if (most < 2) return LimitExceeded(asks + "no two are; without ':required' it takes the best there are");
  return LimitExceeded(asks + "at most " + std::to_string(most) + " are; --gpus " + std::to_string(most) +
                       " is the most it can ever give, and without ':required' "
                       "it takes the best there are");
}

// A job that says how fast it runs on which gets GPUs of one speed.
Status CheckSpeeds(const NodeCapacity& capacity, const Request& request) {
  if (request.is_elastic() || !SaysSpeeds(request.gpu_type)) return {};
  std::map<int, int> by_speed;
  for (const GpuFacts& gpu : capacity.gpus) {
    if (gpu.memory_total < request.gpu_memory) continue;
    int fastest = 0;
    for (const WeightedType& type : AlternativesOf(request.gpu_type)) {
      if (MatchesGpuType(type.terms, gpu.model)) fastest = std::max(fastest, type.speed);
    }
    if (fastest > 0) by_speed[fastest] += 1;
  }
  int most = 0;
  for (const auto& [speed, count] : by_speed) most = std::max(most, count);
  if (most >= request.gpus) return {};
  return LimitExceeded("asks for " + Plural(request.gpus, "GPU") + " of one speed by " + ShellQuote(request.gpu_type) +
                       ", but this server has at most " + std::to_string(most) + " of one; --gpus " +
                       std::to_string(most) + " is the most it can ever give, or leave the speeds out to take any mix");
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

// Those in MIG mode take nothing but slices.
Status CheckWhole(const NodeCapacity& capacity, const Request& request, const std::string& asks) {
  const auto cut = std::ranges::count_if(capacity.gpus, &GpuFacts::is_only_sliced);
  const auto whole = static_cast<std::int64_t>(capacity.gpus.size()) - cut;
  if (cut == 0 || request.gpus <= whole) return {};
  return LimitExceeded(asks + ", but " + std::to_string(cut) + " of the " + std::to_string(capacity.gpus.size()) +
                       " here " + std::string(IsOrAre(cut)) + " in MIG mode and " + (cut == 1 ? "takes" : "take") +
                       " slices only; --slice 1g asks for one" +
                       (whole > 0 ? ", --gpus " + std::to_string(whole) + " is the most it can ever give whole" : ""));
}

Status CheckGpus(const NodeCapacity& capacity, const Request& request) {
  const int present = static_cast<int>(capacity.gpus.size());
  const std::string asks = "asks for " + (request.is_portioned() && request.gpus > 1 ? "parts of " : std::string()) +
                           Plural(request.gpus, "GPU");
  if (present == 0)
    return LimitExceeded(
        asks + ", but this server has none; leave --gpus out to run without, or bring in a machine that has some " +
        "(divvy token create --node)");
  if (request.gpus > present) {
    return LimitExceeded(asks + ", but this server has " + std::to_string(present) + "; --gpus " +
                         std::to_string(present) + " is the most it can ever give");
  }
  DIVVY_CHECK(CheckWhole(capacity, request, asks));
  Request by_type = request;
  by_type.gpu_memory = Bytes(0);
  by_type.portion = GpuPortion();
  const GpuSet of_type = MatchingGpus(capacity, by_type);
  if (of_type.empty()) {
    return LimitExceeded(asks + " of type " + ShellQuote(request.gpu_type) + ", but this server has " +
                         ModelsText(capacity) + "; leave --gpu-type out, or name a part of one of these");
  }
  if (!of_type.empty())
    DIVVY_CHECK(CheckPortion(request.portion, LargestMemory(capacity, of_type), "the largest of this server"));
  if (of_type.size() < request.gpus) {
    return LimitExceeded(asks + " of type " + ShellQuote(request.gpu_type) + ", but this server has " +
                         std::to_string(of_type.size()) + " (" + ModelsText(capacity) + "); --gpus " +
                         std::to_string(of_type.size()) + " is the most it can ever give of that type");
  }
  const GpuSet suitable = MatchingGpus(capacity, request);
  const std::string each = request.gpus > 1 ? " each" : "";
  const std::string kind = request.gpu_type.empty() ? "" : " of type " + ShellQuote(request.gpu_type);
  if (suitable.empty()) {
    const Bytes largest = LargestMemory(capacity, of_type);
    return LimitExceeded(asks + kind + " with " + BytesText(request.gpu_memory) + each + ", but the largest here has " +
                         BytesText(largest) + "; --gpu-memory " + BytesFlag(largest) + " is the most it can ever give");
  }
  if (suitable.size() < request.gpus) {
    return LimitExceeded(asks + kind + " with " + BytesText(request.gpu_memory) + each + ", but this server has " +
                         std::to_string(suitable.size()) + " of that size; --gpus " + std::to_string(suitable.size()) +
                         " is the most it can ever give with that much memory");
  }
  return CheckSpeeds(capacity, request);
}

// What this server lacks, in its words.
Status Refusal(const Server& server, const Request& request) {
  const NodeCapacity& capacity = server.capacity();
  if (request.gpus > 0 && request.slice.empty()) {
    DIVVY_CHECK(CheckGpus(capacity, request));
    DIVVY_CHECK(CheckTopology(server, request));
  }
  if (request.cpus > capacity.cpus) {
    return LimitExceeded("asks for " + Plural(request.cpus, "CPU") + ", but this server has " +
                         std::to_string(capacity.cpus) + "; --cpus " + std::to_string(capacity.cpus) +
                         " is the most it can ever give");
  }
  if (request.memory > capacity.memory) {
    return LimitExceeded("asks for " + BytesText(request.memory) + " of memory, but this server has " +
                         BytesText(capacity.memory) + "; --memory " + BytesFlag(capacity.memory) +
                         " is the most it can ever give");
  }
  return {};
}

}  // namespace

namespace {

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
  if (!server.has_many()) {
    if (request.is_heterogeneous()) {
      for (std::size_t i = 0; i < request.components(); ++i) {
        if (const Status fits = CheckFeasible(server, ComponentOf(request, i), pool); !fits)
          return Error{fits.error().code, "component " + std::to_string(i) + " " + fits.error().message};
      }
    } else if (request.nodes > 1) {
      return LimitExceeded("asks for " + std::to_string(request.nodes) +
                           " machines, but there is only this one; divvy token "
                           "create --node makes the line that "
                           "another joins by, or leave --nodes out");
    }
    if (!request.is_heterogeneous()) DIVVY_CHECK(Refusal(server, request));
  }
  if (server.has_many() && request.is_portioned()) {
    Bytes largest;
    for (const BookNode& node : server.nodes())
      largest = std::max(largest, LargestMemory(node.capacity, node.present()));
    DIVVY_CHECK(CheckPortion(request.portion, largest, "the largest of any machine"));
  }
  // The last word is the core's, which counts in its own units.
  std::string why;
  const core::Ask ask = server.AskAbout(request, pool, PlacementStrategy::kSequential, &why);
  if (!why.empty()) return InvalidArgument(why);
  const core::NodeKinds kinds(server.core().state(), core::NodeKinds::Of::kAll);
  DIVVY_CHECK(core::Feasible(kinds, ask, server.has_many() ? core::NamesOf(server.kinds().book()) : core::Names()));
  return request.is_heterogeneous() ? CheckTogether(server, request, ask) : Status();
}

Status CheckTeamFeasible(const Server& server, const Request& request, const std::string& pool, const std::string& team,
                         Preemptible preemptible) {
  const core::Ask ask = server.AskAbout(request, pool, PlacementStrategy::kSequential);
  return core::FeasibleForTeam(server.core(), ask, server.TeamOf(team), preemptible);
}

}  // namespace divvy
