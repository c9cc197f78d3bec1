// The environment of a job, and the placeholders in its file names. The names are a public interface;
// docs/environment.md lists them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.h"
#include "model/job_record.h"

namespace divvy {

/// Facts that a node knows about itself.
struct NodeNames {
  std::string hostname;
  std::string
      home;  // DIVVY_HOME of a private daemon, so that divvy inside a job finds it. Empty for the system-wide daemon.
  // The controller's name for the node. Empty: the host name.
  std::string node;

  std::string door;  // Socket through which jobs reach a controller on another node. Empty: it runs here.

  const std::string& name() const { return node.empty() ? hostname : node; }
};

/// Returns CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and DIVVY_* variables as NAME=value. `gpus`: the node's GPUs, by
/// index. For a job without GPUs, CUDA_VISIBLE_DEVICES is empty. `parameters`: values of this sweep element.
std::vector<std::string> DivvyEnvironment(const JobRecord& record, const JobSpec& spec, std::span<const GpuFacts> gpus,
                                          const std::map<std::string, std::string>& parameters, const NodeNames& node);

/// Merges environments of the form NAME=value. If several layers set a variable, the last one wins. The variables keep
/// the order in which they first appear.
std::vector<std::string> MergeEnvironment(std::span<const std::vector<std::string>> layers);

/// Replaces the placeholders in the name of an output file: %j (id), %A (array's id, or id), %a (array index), %x
/// (name), %u (user), %N (node), %n (0), %t (0), %J (id), %s (batch), %%; "%4j" pads with zeros. Other letters stay as
/// they are (Slurm's sbatch, "filename pattern").
std::string FillPattern(std::string_view pattern, const JobRecord& record, const NodeNames& node);

}  // namespace divvy
