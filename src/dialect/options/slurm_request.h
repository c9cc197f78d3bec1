// The values of Slurm's options: how each is read, under which label it is kept, and how all of them together become a
// Request. Internal to the Slurm dialect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace divvy::dialect {
struct Surroundings;
}

namespace divvy::dialect::slurm {

/// The label that keeps --NAME's value.
std::string LabelOf(std::string_view option);
/// The value of --NAME, if it was given.
std::optional<std::string> Value(const JobSpec& spec, std::string_view option);
std::optional<std::int64_t> Number(const JobSpec& spec, std::string_view option);
void Keep(JobSpec& spec, std::string_view option, std::string_view value);
/// From which directory of which machine it was submitted; what is empty is not kept.
void KeepOrigin(JobSpec& spec, const Surroundings& around);
void Forget(JobSpec& spec, std::string_view option);

/// A whole number between `least` and `most`.
Result<std::int64_t> ParseCount(std::string_view text, std::int64_t least, std::int64_t most);

/// How many GPUs of which kind one option asks for.
struct GpuAsk {
  std::int64_t count = 0;
  std::string type;  // As written; empty: any.
  std::string note;  // What was read leniently.
  /// "a100:1,h100:2": a second type. `count` is the sum, `type` the first.
  std::optional<std::string> other_type;
};
/// "2", "a100:2", "a100" of --gpus, --gpus-per-node, --gpus-per-task, --gpus-per-socket.
Result<GpuAsk> ParseGpuCount(std::string_view text);

/// --gres: the GPUs in it, and notes on the rest of the list.
struct GresAsk {
  std::optional<GpuAsk> gpus;  // Nothing: no GPU is named at all (gres=none, gres=lustre).
  std::vector<std::string> notes;
};
Result<GresAsk> ParseGres(std::string_view text);

/// --tres-per-task: "cpu=4,gres/gpu:a100=1", "gres/gpu:2".
struct TresAsk {
  std::optional<GpuAsk> gpus;
  std::optional<std::int64_t> cpus;
  std::vector<std::string> notes;
};
Result<TresAsk> ParseTres(std::string_view text);

/// The GPUs of one task by --gpus-per-task or --tres-per-task (`option`); nothing where it names none. `notes` gets
/// what was read leniently.
Result<std::optional<GpuAsk>> GpusOfTask(std::string_view option, std::string_view value,
                                         std::vector<std::string>* notes = nullptr);

/// --nodes: "1", "1-4", "2,4", "2-8:2". The answer is the least and most.
struct NodeRange {
  std::int64_t least = 1;
  std::int64_t most = 1;
};
Result<NodeRange> ParseNodes(std::string_view text);

/// --constraint as a condition on the GPU's model, and what it says of the machine besides.
struct ConstraintAsk {
  std::string gpu_type;  // In Request::gpu_type's form; empty: no condition.
  std::int64_t gpu_memory_gigabytes = 0;
  std::vector<std::string> unknown;  // Features that say nothing about a GPU.
  /// Request::constraint: the conditions that say nothing of a GPU; all of it, and no gpu_type, where it counts nodes.
  /// An alternative of a GPU's model ("a100|ib") stays out: the model is asked for.
  std::string machines;
  std::int64_t nodes = 0;  // "gpu*4", "[a*2&b*4]": so many nodes at least; 0: no count.
};
Result<ConstraintAsk> ParseConstraint(std::string_view text);

/// A GPU type as Slurm writes it ("nvidia_h100_80gb_hbm3", "tesla:v100", "rtx3090") in Request::gpu_type's form.
std::string GpuTypeTerms(std::string_view type);
/// The profile in a MIG type string ("a100_1g.10gb" -> "1g.10gb"), or "".
std::string MigProfile(std::string_view type);

/// The request out of the labels: tasks, GPUs, their type, CPUs, memory, and the machines. Of a job for several nodes
/// the request is what each gives, rounded up. Refuses what contradicts itself. What Slurm would take and divvy cannot
/// give (two types of GPU in one option) is kept under "beyond" as the sentence to refuse it with at the submission;
/// the sentence for a server that is alone under "beyond-one", and how many nodes there are under "node-count".
Status Settle(JobSpec& spec);

/// --nodelist and --exclude: the names, or none and a note where they are in a file.
Result<std::vector<std::string>> ParseHosts(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes = nullptr);
/// Request::node_list, excluded_nodes and constraint.
Status SettlePlaces(JobSpec& spec);

}  // namespace divvy::dialect::slurm
