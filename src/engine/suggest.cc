#include "engine/suggest.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "base/text.h"
#include "engine/duration_text.h"
#include "engine/phrases.h"

namespace divvy {
namespace {

// A shorter limit than this is no advice.
constexpr Duration kShortestLimit = std::chrono::minutes(1);

class Suggestion {
 public:
  Suggestion(const Cluster& cluster, const Policy& policy, const Planner& planner, const WaitingEntry& entry,
             const JobClass& job_class, Time now)
      : cluster_(cluster), policy_(policy), planner_(planner), entry_(entry), job_class_(job_class), now_(now) {}

  std::string Find() const {
    for (const auto attempt : {&Suggestion::TimeLimit, &Suggestion::GpuMemory, &Suggestion::GpuType,
                               &Suggestion::Topology, &Suggestion::Host, &Suggestion::FewerGpus}) {
      if (std::string text = (this->*attempt)(); !text.empty()) return text;
    }
    return "";
  }

 private:
  // The GPUs that it would start on at once with `key` in place of its own.
  std::optional<GpuSet> StartsWith(const ClassKey& key) const {
    JobClass instead;
    instead.key = key;
    instead.key.lane = Lane::kReady;
    instead.groups = job_class_.groups;
    instead.matches = MatchingGpus(cluster_.capacity(), key.request);
    instead.line.Insert(PlaceOf(entry_), 1);
    Planner planner(cluster_, policy_, now_, WhatIf{entry_.id, &instead});
    planner.Run();
    for (const StartDecision& start : planner.plan().starts) {
      if (start.entry == entry_.id) return start.gpus;
    }
    return std::nullopt;
  }

  static std::string AreFree(GpuSet gpus) {
    return " (" + GpusText(gpus) + " " + std::string(IsOrAre(gpus.size())) + " free)";
  }

  std::string TimeLimit() const {
    struct Option {
      Duration limit;
      std::size_t ask;
    };
    std::vector<Option> options;
    for (std::size_t i = 0; i < planner_.asks().size(); ++i) {
      const Time start = planner_.promises()[i].start;
      if (start == kNever || planner_.asks()[i].entry == entry_.id) continue;
      Duration limit = start - now_;
      // Whole minutes once that loses little, as people write them.
      limit -= limit % (limit > std::chrono::minutes(10) ? Duration(std::chrono::minutes(1))
                                                         : Duration(std::chrono::seconds(1)));
      if (limit < kShortestLimit || (entry_.time_limit > Duration(0) && limit >= entry_.time_limit)) continue;
      options.push_back({limit, i});
    }
    std::stable_sort(options.begin(), options.end(),
                     [](const Option& a, const Option& b) { return a.limit > b.limit; });
    for (const Option& option : options) {
      ClassKey key = job_class_.key;
      key.time_limit = option.limit;
      if (!StartsWith(key)) continue;
      return "--time " + DurationFlag(option.limit) + " (it would end before job " +
             ToString(planner_.asks()[option.ask].entry) + " starts in " +
             DurationText(planner_.promises()[option.ask].start - now_) + ")";
    }
    return "";
  }

  std::string GpuMemory() const {
    std::vector<Bytes> sizes;
    for (const GpuFacts& gpu : cluster_.capacity().gpus) {
      if (gpu.memory_total < job_class_.key.request.gpu_memory) sizes.push_back(gpu.memory_total);
    }
    std::sort(sizes.rbegin(), sizes.rend());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (Bytes size : sizes) {
      ClassKey key = job_class_.key;
      key.request.gpu_memory = size;
      if (const auto gpus = StartsWith(key)) return "--gpu-memory " + BytesFlag(size) + AreFree(*gpus);
    }
    return "";
  }

  std::string GpuType() const {
    ClassKey key = job_class_.key;
    if (key.request.gpu_type.empty()) return "";
    key.request.gpu_type.clear();
    if (const auto gpus = StartsWith(key)) return "no --gpu-type" + AreFree(*gpus);
    key.request.gpu_memory = Bytes(0);
    if (key.request.gpu_memory == job_class_.key.request.gpu_memory) return "";
    if (const auto gpus = StartsWith(key)) return "no --gpu-type and no --gpu-memory" + AreFree(*gpus);
    return "";
  }

  std::string Topology() const {
    ClassKey key = job_class_.key;
    if (!key.request.requires_topology) return "";
    key.request.requires_topology = false;
    const auto gpus = StartsWith(key);
    return gpus ? "--topology " + std::string(key.request.topology == TopologyNeed::kNuma ? "numa" : "nvlink") +
                      AreFree(*gpus)
                : "";
  }

  std::string Host() const {
    ClassKey key = job_class_.key;
    std::vector<std::string> parts;
    if (const int cpus = planner_.timeline().free_cpus(); cpus > 0 && key.request.cpus > cpus) {
      key.request.cpus = cpus;
      parts.push_back("--cpus " + std::to_string(cpus));
    }
    if (const Bytes memory = planner_.timeline().free_memory(); memory > Bytes(0) && key.request.memory > memory) {
      key.request.memory = memory;
      parts.push_back("--memory " + BytesFlag(memory));
    }
    if (parts.empty() || !StartsWith(key)) return "";
    return Join(parts, " ") + " (that much is free)";
  }

  std::string FewerGpus() const {
    ClassKey key = job_class_.key;
    const int most = std::min(key.request.gpus - 1, (cluster_.usable() & planner_.timeline().idle()).size());
    for (int gpus = most; gpus > 0; --gpus) {
      key.request.gpus = gpus;
      const auto free = StartsWith(key);
      if (!free) continue;
      const std::string range = key.request.gpus_most > 0 ? ".." + std::to_string(key.request.gpus_most) : "";
      return "--gpus " + std::to_string(gpus) + range + AreFree(*free);
    }
    return "";
  }

  const Cluster& cluster_;
  const Policy& policy_;
  const Planner& planner_;
  const WaitingEntry& entry_;
  const JobClass& job_class_;
  Time now_;
};

}  // namespace

std::string SuggestChange(const Cluster& cluster, const Policy& policy, const Planner& planner,
                          const WaitingEntry& entry, const JobClass& job_class, Time now) {
  return Suggestion(cluster, policy, planner, entry, job_class, now).Find();
}

}  // namespace divvy
