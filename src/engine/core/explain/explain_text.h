// Texts for requests and resources in messages about many nodes. engine/message_text.h has the texts that messages
// about a single server use as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/explain/explanation.h"
#include "engine/core/state/resource_request.h"
#include "engine/message_text.h"

namespace divvy::core {

/// Formats an amount of GPUs, given in ten-thousandths: "1 GPU", "12 GPUs", "0.4 GPUs".
std::string GpuText(std::int64_t gpu_parts);
/// Formats an amount of GPUs, given in ten-thousandths, without a unit: "1", "0.4".
std::string GpuNumber(std::int64_t gpu_parts);
/// Formats an amount of CPUs, given in thousandths: "8 CPUs", "0.5 CPUs".
std::string CpusText(std::int64_t cpu_milli);
std::string MibText(std::int64_t mib);
/// Returns the GPUs of one task as text: "4 GPUs", "0.4 of a GPU", "2 GPUs to 0.5 each"; "no GPU".
std::string GpusOf(const Shape& shape);
/// Returns the GPUs of one task as the value of the option --gpus: "4", "0.4", "2x0.5".
std::string GpusFlag(const Shape& shape);
std::string CpusFlag(std::int64_t cpu_milli);
std::string MibFlag(std::int64_t mib);
/// Returns the name of a locality, as in options: "node", "rack", "block".
std::string_view LocalityName(Locality level);
/// Returns the name of a GPU topology, as in options: "numa", "nvlink", "any".
std::string_view TopologyName(TopologyNeed need);
/// Returns the alternatives of a task group, where those that differ only in their GPU models are merged into one with
/// all these models; the order is kept. With `has_mixed_nodes`, alternatives with several GPUs are not merged, because
/// one task may not mix the GPUs of two alternatives.
std::vector<Shape> MergedAlternatives(const TaskGroup& group, bool has_mixed_nodes);
/// Describes the nodes that `shape` accepts: " of type h100", " with feature ib"; "" for any node. `shape` is an
/// alternative of the group or a merged one.
std::string WhichText(const Names& names, const TaskGroup& group, const Shape& shape);

}  // namespace divvy::core
