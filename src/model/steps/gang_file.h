// The nodes of a multi-node job, as text. Each of these nodes has one such file. It is written when all nodes have
// prepared their part, and read by the job's step process there.
//
//   divvy-gang 1
//   job 17 2
//   seat 0
//   0 <tab> NODE <tab> HOST <tab> PORT <tab> GPUS <tab> TASKS [<tab> PARTS]
//   1 <tab> ...
//
// "job" has the job's id and its attempt. "seat" is the number of this node's line. HOST and PORT are the address where
// that node's step process listens for the others. GPUS are indices on that node, "0,3" or nothing. TASKS is the number
// of the job's tasks there. PARTS, for heterogeneous jobs: in "0:0,1:2;3::4", component 0 has GPUs 0 and 1 and two
// tasks there, and component 3 has no GPU and four tasks.
//
// Readers must not trust the content: the job's user can write the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/node_allocation.h"

namespace divvy {

/// One node of a job. Its rank is its index in the list.
struct GangMember {
  std::string node;           // The node's name in divvy. May be empty for the controller's own node.
  AllocationAddress address;  // The address where its step process listens.
  GpuSet gpus;
  int tasks = 1;
  std::vector<ComponentAllocation> parts = {};  // For heterogeneous jobs: by component, ascending.

  /// The name for people and MPI: the node's name, else its host.
  const std::string& name() const { return node.empty() ? address.host : node; }

  friend bool operator==(const GangMember&, const GangMember&) = default;
};

struct GangFile {
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
  std::size_t own = 0;  // Index in `members` of the node that reads this.
  std::vector<GangMember> members;

  /// Number of the job's components; 1 if it is not heterogeneous.
  std::size_t components() const;
  /// Finds a node by its name or its host, with or without its domain. Returns nothing if the job does not have it.
  std::optional<std::size_t> Find(std::string_view machine) const;

  friend bool operator==(const GangFile&, const GangFile&) = default;
};

constexpr std::size_t kMostNodes = 4096;

/// "0,3"; empty for none.
std::string GpuIndicesText(GpuSet gpus);
/// Returns nothing if `text` is not such a list.
std::optional<GpuSet> ReadGpuIndices(std::string_view text);

std::string GangFileText(const GangFile& gang);
/// Parses the list of a job's nodes. Fails with kCorruptData; the message names the problem and its line.
Result<GangFile> ReadGangText(std::string_view text);

}  // namespace divvy
