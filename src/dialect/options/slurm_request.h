// The values of Slurm's options: how each is parsed, the label that stores it, and how all of them together become a
// Request. Internal to the Slurm dialect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dialect/options/parse_context.h"
#include "model/job.h"

namespace divvy::dialect::slurm {

/// Returns the name of the job label that stores the value of the Slurm option --NAME.
std::string LabelOf(std::string_view option);
/// Returns the value of --NAME, or nullopt if the option was not given. Number returns it as an integer, Keep stores a
/// value, and Forget (below) removes it.
std::optional<std::string> Value(const JobSpec& spec, std::string_view option);
std::optional<std::int64_t> Number(const JobSpec& spec, std::string_view option);
void Keep(JobSpec& spec, std::string_view option, std::string_view value);
/// Stores the directory and host of the submission; empty values are not stored.
void KeepOrigin(JobSpec& spec, const ParseContext& around);
void Forget(JobSpec& spec, std::string_view option);

/// A whole number between `least` and `most`.
Result<std::int64_t> ParseCount(std::string_view text, std::int64_t least, std::int64_t most);

/// The number and type of GPUs that one option requests.
struct GpuOption {
  std::int64_t count = 0;
  std::string type;  // As written; empty: any.
  std::string note;  // A note for the user if the value was interpreted leniently. Optional.
  /// The second type in "a100:1,h100:2". Then `count` is the sum and `type` the first type.
  std::optional<std::string> other_type;
};
/// "2", "a100:2", "a100" of --gpus, --gpus-per-node, --gpus-per-task, --gpus-per-socket.
Result<GpuOption> ParseGpuCount(std::string_view text);

/// --gres: the GPUs in it, and notes on the rest of the list.
struct GresOption {
  std::optional<GpuOption> gpus;  // nullopt: it names no GPU at all (gres=none, gres=lustre).
  std::vector<std::string> notes;
};
Result<GresOption> ParseGres(std::string_view text);

/// --tres-per-task: "cpu=4,gres/gpu:a100=1", "gres/gpu:2".
struct TresOption {
  std::optional<GpuOption> gpus;
  std::optional<std::int64_t> cpus;
  std::vector<std::string> notes;
};
Result<TresOption> ParseTres(std::string_view text);

/// The GPUs per task from --gpus-per-task or --tres-per-task (`option`); nullopt if it names none. Lenient
/// interpretations are added to `notes`.
Result<std::optional<GpuOption>> GpusOfTask(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes = nullptr);

/// --nodes: "1", "1-4", "2,4", "2-8:2". Returns the minimum and maximum.
struct NodeRange {
  std::int64_t least = 1;
  std::int64_t most = 1;
};
Result<NodeRange> ParseNodes(std::string_view text);

/// --distribution: "cyclic", "*:block,pack", "plane=4", with Slurm's defaults for "*".
struct Distribution {
  std::string text;  // For SLURM_DISTRIBUTION.
  std::int64_t plane_size = 0;
};
Result<Distribution> ParseDistribution(std::string_view text);

/// --gpu-bind: refuses a value that is not in Slurm's syntax, such as map_gpu:x.
Status CheckGpuBind(std::string_view text);

/// --gpu-freq: refuses a value that is not in Slurm's syntax.
Status CheckGpuFreq(std::string_view text);

/// --constraint: the condition on the GPU's model, and the conditions on the node.
struct ConstraintOption {
  std::string gpu_type;  // In Request::gpu_type's form. Empty: no condition.
  std::int64_t gpu_memory_gigabytes = 0;
  std::vector<std::string> unknown;  // Features without a meaning for GPUs.
  /// For Request::constraint: the conditions that do not concern GPUs. If the expression has several node counts, this
  /// is all of it, and gpu_type is empty. An alternative to a GPU model ("a100|ib") is left out, because the model is
  /// required.
  std::string machines;
  std::int64_t nodes = 0;  // "gpu*4", "[a*2&b*4]": minimum number of nodes; 0: no count.
};
Result<ConstraintOption> ParseConstraint(std::string_view text);

/// Converts a GPU type as Slurm writes it ("nvidia_h100_80gb_hbm3", "tesla:v100", "rtx3090") to Request::gpu_type's
/// form.
std::string GpuTypeTerms(std::string_view type);
/// The profile in a MIG type string ("a100_1g.10gb" -> "1g.10gb"), or "".
std::string MigProfile(std::string_view type);

/// Computes spec.request from the labels: tasks, GPUs and their type, CPUs, memory, and nodes. For several nodes, the
/// request is per node, rounded up. Refuses contradictions. Some requests are valid in Slurm but impossible in divvy
/// (two GPU types in one option): their error is stored in the label "beyond" and reported at the submission. The label
/// "beyond-one" has an error that applies to single-node servers only, and "node-count" has the number of nodes.
Status Settle(JobSpec& spec);

/// Returns the node names in the value of --nodelist or --exclude. If the value is the path of a file, returns no names
/// and adds a note.
Result<std::vector<std::string>> ParseHosts(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes = nullptr);
/// Sets Request::node_list, excluded_nodes and constraint.
Status SettlePlaces(JobSpec& spec);

}  // namespace divvy::dialect::slurm
