// The words in which the engine speaks of what a job asks for and of what there is, on many nodes; engine/phrases.h has
// the pieces that one server needs as well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/explain/explain.h"
#include "engine/core/state/ask.h"
#include "engine/phrases.h"

namespace divvy::core {

/// "1 GPU", "12 GPUs", "0.4 GPUs".
std::string GpuText(std::int64_t gpu_parts);
/// The same without the unit: "1", "0.4".
std::string GpuNumber(std::int64_t gpu_parts);
/// "8 CPUs", "0.5 CPUs".
std::string CpusText(std::int64_t cpu_milli);
std::string MibText(std::int64_t mib);
/// One task's GPUs: "4 GPUs", "0.4 of a GPU", "2 GPUs to 0.5 each"; "no GPU".
std::string GpusOf(const Shape& shape);
/// As the command line takes it: "4", "0.4", "2x0.5".
std::string GpusFlag(const Shape& shape);
std::string CpusFlag(std::int64_t cpu_milli);
std::string MibFlag(std::int64_t mib);
/// "node", "rack", "block".
std::string_view TogetherName(Together level);
/// "numa", "nvlink", "any".
std::string_view TopologyName(TopologyNeed need);
/// Shapes that differ in their models alone are one with the models of all; the order stays.
std::vector<Shape> MergedAlternatives(const TaskGroup& group, bool has_mixed_nodes);
/// What nodes the alternatives in `shape`, one of the group's or a merged one, may take: " of type h100", " with
/// feature ib"; "" for any.
std::string WhichText(const Names& names, const TaskGroup& group, const Shape& shape);

}  // namespace divvy::core
