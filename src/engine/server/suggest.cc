#include "engine/server/suggest.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/core/explain/explain_change.h"
#include "engine/phrases.h"

namespace divvy {
namespace {

class Suggestion {
 public:
  Suggestion(const Server& server, const WaitingEntry& entry, Time now)
      : server_(server), entry_(entry), now_(now), seeker_(core::SeekerOf(server.core().state(), entry.id)) {}

  std::string Find(const std::optional<core::Change>& change) const {
    // An option does not say of which component it is.
    if (entry_.request.is_heterogeneous()) return "";
    const bool is_last_resort = !change || change->kind == core::ChangeKind::kFewerGpus;
    if (is_last_resort) {
      if (std::string text = GpuMemory(); !text.empty()) return text;
      if (std::string text = GpuType(); !text.empty()) return text;
    }
    return change ? TextOf(*change) : "";
  }

 private:
  struct Trial {
    bool starts = false;
    GpuSet gpus;  // On `node`; empty where it was not decided on a copy.
    NodeIndex node = kOwnNode;
  };

  Trial Try(const core::Change& change) const {
    const core::ChangeTrial trial = core::TryChange(server_.core(), seeker_, change, now_);
    if (trial.pieces.empty()) return {trial.starts, GpuSet(), kOwnNode};
    return {trial.starts, trial.pieces.front().place.gpus, trial.pieces.front().node};
  }

  std::string AreFree(const Trial& trial) const {
    if (trial.gpus.empty()) return "";
    const std::string of = server_.has_many() ? " of " + server_.node(trial.node).words.name : "";
    const std::string gpus = " (" + GpusText(trial.gpus) + of + " ";
    GpuShare least{GpuShare::kWhole};
    for (const int gpu : trial.gpus.ToVector())
      least = std::min(least, server_.node(trial.node).room(static_cast<GpuIndex>(gpu)));
    if (least < GpuShare(GpuShare::kWhole))
      return gpus + (trial.gpus.size() > 1 ? "have " : "has ") + PartsText(least) + " left)";
    return gpus + std::string(IsOrAre(trial.gpus.size())) + " free)";
  }

  core::Change With(const Request& request) const {
    return {core::ChangeKind::kModel, server_.AskAbout(request, entry_.pool, entry_.placement), seeker_.key.limit,
            seeker_.key.preemptible, ""};
  }

  std::string GpuMemory() const {
    std::vector<Bytes> sizes;
    for (const BookNode& node : server_.nodes()) {
      for (const GpuFacts& gpu : node.capacity.gpus) {
        if (gpu.memory_total < entry_.request.gpu_memory) sizes.push_back(gpu.memory_total);
      }
    }
    std::sort(sizes.rbegin(), sizes.rend());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (Bytes size : sizes) {
      Request request = entry_.request;
      request.gpu_memory = size;
      if (const Trial trial = Try(With(request)); trial.starts)
        return "--gpu-memory " + BytesFlag(size) + AreFree(trial);
    }
    return "";
  }

  std::string GpuType() const {
    Request request = entry_.request;
    if (request.gpu_type.empty()) return "";
    request.gpu_type.clear();
    if (const Trial trial = Try(With(request)); trial.starts) return "no --gpu-type" + AreFree(trial);
    if (request.gpu_memory == Bytes(0)) return "";
    request.gpu_memory = Bytes(0);
    const Trial trial = Try(With(request));
    return trial.starts ? "no --gpu-type and no --gpu-memory" + AreFree(trial) : "";
  }

  std::string TextOf(const core::Change& change) const {
    const Trial trial = Try(change);
    if (!trial.starts) return "";
    switch (change.kind) {
      case core::ChangeKind::kTimeLimit:
        return change.text;
      case core::ChangeKind::kHost:
        return change.text + " (that much is free)";
      case core::ChangeKind::kFewerGpus: {
        if (entry_.request.is_portioned()) return "";  // Of how many it has parts stays as it is.
        const int gpus = change.ask.groups.front().alternatives.front().gpus;
        const std::string most =
            entry_.request.gpus_most > 0 ? ".." + std::to_string(entry_.request.gpus_most) : std::string();
        return "--gpus " + std::to_string(gpus) + most + AreFree(trial);
      }
      default: {
        // Which GPUs says more than on which machine there is room.
        const std::string free = AreFree(trial);
        return change.text.substr(0, free.empty() ? std::string::npos : change.text.find(" (")) + free;
      }
    }
  }

  const Server& server_;
  const WaitingEntry& entry_;
  Time now_;
  core::Seeker seeker_;
};

}  // namespace

std::string SuggestChange(const Server& server, const WaitingEntry& entry, const std::optional<core::Change>& change,
                          Time now) {
  return Suggestion(server, entry, now).Find(change);
}

}  // namespace divvy
