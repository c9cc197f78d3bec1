// Plans on which GPUs of their node jobs with GPU fractions are accounted: packed together, so that whole GPUs are
// free. Tenants that cannot be migrated stay where they are (engine/scheduler/planned_gpus.h). The node migrates
// tenants to their planned GPUs when needed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/state/effect_recorder.h"
#include "control/state/job_table.h"
#include "control/state/node_table.h"
#include "engine/scheduler/scheduler.h"

namespace divvy {

class FractionPlanner {
 public:
  /// A job with GPU fractions, as its node reports it.
  struct Tenant {
    JobId job;
    std::uint32_t attempt = 0;
    GpuSet gpus;  // Its present GPUs, one per fraction.
    bool can_move = false;
  };

  FractionPlanner(Scheduler& scheduler, JobTable& jobs, EffectRecorder& effects, const NodeTable& nodes)
      : scheduler_(scheduler), jobs_(jobs), effects_(effects), nodes_(nodes) {}

  /// Records which tenants of the node's shared GPUs cannot be migrated. Returns true if that has changed (see
  /// Controller::OnTenants).
  bool OnTenants(const std::string& node, const std::vector<Tenant>& tenants);
  void ForgetNode(NodeIndex node) { tenants_.erase(node); }
  /// Call this when the job's GPUs become free or its size changes. Pack then plans its node again.
  void Loosen(const JobRecord& record);
  /// Plans again on which GPUs GPU fractions are counted, on the nodes where something has changed.
  void Pack();
  /// Changes the GPU fraction of a running job. A larger fraction is on the same GPU if the other tenants there leave
  /// room, otherwise on another GPU of the node. Fails if there is no room on any.
  Status Grow(JobRecord& record, const GpuPortion& wanted);

 private:
  struct NodeTenants {
    std::map<JobId, GpuSet> stays;  // Tenants of shared GPUs that cannot be migrated, and their GPUs.
    bool is_loose = false;          // The GPUs that its fractions are accounted on may be repacked onto fewer.
  };

  void Pack(NodeIndex node);
  GpuSet CutGpus(const NodeUsage& node) const;
  void SetPlannedGpus(JobRecord& record, GpuSet gpus);

  Scheduler& scheduler_;
  JobTable& jobs_;
  EffectRecorder& effects_;
  const NodeTable& nodes_;
  std::map<NodeIndex, NodeTenants> tenants_;
};

}  // namespace divvy
