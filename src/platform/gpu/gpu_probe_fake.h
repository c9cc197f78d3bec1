// A GpuProbe whose state is plain members: tests set what the next call returns.
#pragma once

#include <map>
#include <utility>

#include "platform/gpu/gpu_probe.h"

namespace divvy {

class FakeGpuProbe : public GpuProbe {
 public:
  FakeGpuProbe() = default;
  explicit FakeGpuProbe(std::vector<GpuFacts> gpus) : facts(std::move(gpus)) {}

  Result<std::vector<GpuFacts>> Facts() override {
    if (!error.message.empty()) return error;
    return facts;
  }

  /// Returns the states that the test has set in `state`; a GPU without an entry is healthy and idle. The supervisor of
  /// a process is looked up in `ancestors`.
  std::vector<GpuObservation> Observe(GpuSet which, bool with_processes,
                                      const std::set<std::int64_t>& supervisors) override {
    ++looks;
    std::vector<GpuObservation> out;
    for (const GpuFacts& gpu : facts) {
      if (!which.Contains(gpu.index)) continue;
      GpuObservation seen = state.contains(gpu.index) ? state.at(gpu.index) : GpuObservation();
      seen.index = gpu.index;
      if (!with_processes) seen.processes.clear();
      for (GpuProcess& process : seen.processes) {
        for (std::int64_t ancestor : ancestors[process.identity.pid]) {
          if (process.supervisor_pid == 0 && supervisors.contains(ancestor)) process.supervisor_pid = ancestor;
        }
      }
      out.push_back(std::move(seen));
    }
    return out;
  }

  void ForgetFaults(GpuSet which) override {
    for (auto& [index, seen] : state) {
      if (which.Contains(index)) seen.fault.clear();
    }
  }

  std::string driver() const override { return "fake"; }

  std::vector<GpuFacts> facts;
  std::map<GpuIndex, GpuObservation> state;
  std::map<std::int64_t, std::vector<std::int64_t>> ancestors;  // Pid -> its parents, nearest first.
  Error error;                                                  // Returned by Facts() if it has a message.
  int looks = 0;
};

}  // namespace divvy
