// Who is who of a job on several machines, as text: one file on each of them, written when all have prepared their
// part, read by the job's step process there.
//
//   divvy-gang 1
//   job 17 2
//   seat 0
//   0 <tab> NODE <tab> HOST <tab> PORT <tab> GPUS <tab> TASKS [<tab> PARTS]
//   1 <tab> ...
//
// "job" has the job's id and its attempt, "seat" which of the lines is this machine. HOST and PORT are where that
// machine's step process hears the others; GPUS are indices on that machine, "0,3" or nothing; TASKS is how many of the
// job's tasks are to run there. PARTS, of a heterogeneous job: "0:0,1:2;3::4", component 0 has GPUs 0 and 1 and two
// tasks there, component 3 no GPU and four.
//
// Whoever reads it trusts nothing in it: it is the user's own file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/gpus/gpu.h"
#include "model/seat.h"

namespace divvy {

/// One machine of a job; its rank is its place in the list.
struct GangSeat {
  std::string node;     // As divvy names it; may be empty for the controller's own machine.
  SeatAddress address;  // Where its step process listens.
  GpuSet gpus;
  int tasks = 1;
  std::vector<SeatPart> parts = {};  // Of a heterogeneous job: by component, ascending.

  /// What people and MPI call it: the node's name, else its host.
  const std::string& name() const { return node.empty() ? address.host : node; }

  friend bool operator==(const GangSeat&, const GangSeat&) = default;
};

struct GangFile {
  std::uint64_t job = 0;
  std::uint32_t attempt = 0;
  std::size_t own = 0;  // Place in `seats` of the machine that reads this.
  std::vector<GangSeat> seats;

  /// How many components the job has; 1 where it is not heterogeneous.
  std::size_t components() const;
  /// By the node's name or its host; a name without its domain will do. Nothing: it is none of this job's.
  std::optional<std::size_t> Find(std::string_view machine) const;

  friend bool operator==(const GangFile&, const GangFile&) = default;
};

constexpr std::size_t kSeatsMost = 4096;

/// "0,3"; empty for none.
std::string GpuIndicesText(GpuSet gpus);
/// Nothing: that is no such list.
std::optional<GpuSet> ReadGpuIndices(std::string_view text);

std::string GangFileText(const GangFile& gang);
/// Fails with kCorruptData and a line that names what is wrong and in which line.
Result<GangFile> ReadGangText(std::string_view text);

}  // namespace divvy
