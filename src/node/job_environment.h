// What a job finds in its environment and how the patterns in its file names are filled. The names here are an
// interface: docs/environment.md lists them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/job_record.h"

namespace divvy {

/// What a node knows of itself.
struct NodeNames {
  std::string hostname;
  std::string home;  // DIVVY_HOME of a private daemon, so that divvy inside a job finds it; empty for the machine's.
  std::string node;  // What the controller calls it; empty: as the host is called.

  std::string door;  // Socket by which jobs speak with a controller that is elsewhere; empty: it is here.

  const std::string& name() const { return node.empty() ? hostname : node; }
};

/// CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and DIVVY_* as NAME=value. `gpus` are the node's, by index. A job without
/// GPUs sees none: CUDA_VISIBLE_DEVICES is set and empty. `parameters`: of this element of a sweep.
std::vector<std::string> DivvyEnvironment(const JobRecord& record, const JobSpec& spec, std::span<const GpuFacts> gpus,
                                          const std::map<std::string, std::string>& parameters, const NodeNames& node);

/// `layers` laid over each other, later ones winning; the order of first appearance is kept.
std::vector<std::string> MergeEnvironment(std::span<const std::vector<std::string>> layers);

/// Fills %j (id), %A (array's id, or id), %a (array index), %x (name), %u (user), %N (node), %n (0), %t (0), %J (id),
/// %s (batch), %%; "%4j" pads with zeros. Other letters stay as they are (Slurm's sbatch, "filename pattern").
std::string FillPattern(std::string_view pattern, const JobRecord& record, const NodeNames& node);

}  // namespace divvy
