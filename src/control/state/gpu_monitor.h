// Which GPUs may get new work: as observed on the nodes (processes of others, faults), and as administrators restrict
// and ignore.
//
// Keeps the scheduler's availability of each GPU in step. Call Refresh when something else changed that a GPU's
// availability depends on: the node's facts, or the runs found on it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/books/caller.h"
#include "control/books/settings_text.h"
#include "control/state/effect_recorder.h"
#include "control/state/found_runs.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class GpuMonitor {
 public:
  /// A foreign process with less GPU memory than `ignore_below` does not make a GPU unavailable.
  GpuMonitor(Scheduler& scheduler, const JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes,
             const FoundRuns& found, Bytes ignore_below)
      : scheduler_(scheduler),
        jobs_(jobs),
        effects_(effects),
        nodes_(nodes),
        found_(found),
        ignore_below_(ignore_below) {}

  /// Loads a setting of the store. Returns false if its key is not one of GPU monitoring.
  bool LoadSetting(const std::string& key, const std::string& text);
  void Refresh(NodeIndex node) { RefreshGpus(node, observations(node)); }
  void RefreshGpusOf(const std::string& node);
  /// Forgets what is known about the GPUs of a removed node. A node that joins later under its name is a different one.
  void ForgetNode(NodeIndex node);

  // --- See Controller ------------------------------------------------------------------------------------------

  void OnGpusObserved(const std::string& node, const std::vector<GpuObservation>& observations);
  void OnStuckGpus(const std::string& node, const std::map<GpuIndex, std::string>& stuck);
  Result<GpuSet> Restrict(std::optional<GpuSet> allowed, const Caller& caller, const std::vector<std::string>& nodes);
  Result<std::string> Ignore(IgnoredProcess process, bool is_ignored, const Caller& caller);
  std::optional<GpuSet> restriction(const std::string& node) const;
  const std::vector<IgnoredProcess>& ignored() const { return ignored_; }
  const std::vector<GpuObservation>& observations(NodeIndex node) const;

 private:
  struct Machine {
    std::vector<GpuObservation> observations;
    std::map<GpuIndex, std::string> stuck;  // See Controller::OnStuckGpus.
  };

  void OnOwnGpusObserved(const std::vector<GpuObservation>& observations);
  Status CheckRestriction(NodeIndex node, GpuSet allowed) const;
  void ForgetIgnored(const std::string& node, const std::vector<GpuObservation>& observations);
  void RefreshGpus(NodeIndex node, const std::vector<GpuObservation>& observations);

  Scheduler& scheduler_;
  const JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  const FoundRuns& found_;
  Bytes ignore_below_;
  std::map<NodeIndex, Machine> machines_;
  std::map<std::string, GpuSet> restrictions_;  // By node, as named in records; only for restricted nodes.
  std::vector<IgnoredProcess> ignored_;
};

}  // namespace divvy
