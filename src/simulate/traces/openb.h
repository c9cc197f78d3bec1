// The openb traces (Alibaba cluster-trace-gpu-v2023): a list of nodes and lists of pods, as CSV files.
//
//   nodes: sn, cpu_milli, memory_mib, gpu [count], model
//   pods:  name, cpu_milli, memory_mib, num_gpu, gpu_milli [of each GPU], gpu_spec [optional; models joined by '|']
//
// Other columns are not read: the filling experiment does not use times.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/placement/shape.h"

namespace divvy::simulate {

struct OpenbNodes {
  std::vector<placement::NodeState> nodes;  // Idle, in the order of the file.
  std::vector<std::string> models;          // Indexed by NodeState::model.

  std::int64_t capacity_parts() const;
  /// Returns the number of GPUs of each model, in ten-thousandths of a GPU.
  std::vector<std::int64_t> capacity_by_model() const;
};

struct OpenbJob {
  std::string name;
  placement::Shape shape;
};

Result<OpenbNodes> ReadOpenbNodes(const std::string& path);
/// Reads the jobs of an openb trace, sorted by name. A job may request a GPU model that no node has: it then fits
/// nowhere.
Result<std::vector<OpenbJob>> ReadOpenbJobs(const std::string& path, const OpenbNodes& nodes);

}  // namespace divvy::simulate
