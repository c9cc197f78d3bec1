// Why a job waits, where it stands, when it will start, and what small change would start it now. As values, with
// finished sentences for people.
//
// The answer is about the cluster as the last decision left it, and comes from the code that decided: what a job sees
// when its turn comes is what is tried (explain_view.h). Nothing changes by asking.
//
// Cost: one look at every class and at every node, and a few more at the nodes with room; jobs in line are never
// walked. docs/engine.md has the figures.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/estimate/estimate.h"
#include "engine/core/state/cluster.h"

namespace divvy::core {

/// What holds a job back, the hardest first: this is their rank.
enum class BlockerKind : std::uint8_t {
  kImpossible,  // No node here could ever do it,
  kUnusable,    // or none of those that may be used now.
  kBeginTime,
  kCap,     // A group, an array or a user runs as many jobs as allowed,
  kGpuCap,  // or holds as many GPUs, or too many to have so many more.
  kTeamLimit,
  kTeamQuota,  // Of what cannot be taken back.
  kGpus,
  kKind,  // GPUs enough are free, but of another kind.
  kCpus,
  kMemory,
  kTogether,     // Room enough, but not in one rack, block or node; or not on one model.
  kTopology,     // GPUs enough on one node, but not joined as it requires.
  kReservation,  // There is room, but it is kept for somebody else.
  kOrder,        // Nobody may pass the first blocked job.
  kFit,          // Each task fits alone, not all of them together.
};

struct Holder {
  JobId job;  // Runs, or is promised what it has; not set: a booking.
  std::vector<Piece> pieces;
  Time until = kNever;  // Expected end; of a promise, its start; kNever: nobody knows.
  bool is_leaving = false;
};

/// GPUs are counted in parts, CPUs in parts, memory in MiB; caps in jobs, gangs in tasks.
struct Blocker {
  BlockerKind kind = BlockerKind::kGpus;
  std::string text;  // Complete without the other fields: "needs 4 GPUs on one node; 37 are free on 20 nodes, ...".
  std::int64_t needed = 0;
  std::int64_t available = 0;
  std::vector<Holder> holders;  // Who has what is missing, soonest end first; at most kMostHolders.
  bool has_more_holders = false;
  std::string rule;  // The rule or setting behind it; may be empty.
};
inline constexpr std::size_t kMostHolders = 16;

enum class ChangeKind : std::uint8_t {
  kPreemptible,
  kTimeLimit,
  kTogether,
  kTopology,
  kHost,  // Fewer CPUs, less memory.
  kModel,
  kFewerGpus,
  kFewerTasks,
  kShare,
};

/// A change of the request with which the job would start at once.
struct Change {
  ChangeKind kind = ChangeKind::kTimeLimit;
  Ask ask;  // As it would be,
  Duration limit{0};
  Preemptible preemptible = Preemptible::kNever;
  std::string text;  // "--time 1h (it would end before job 9 starts in 1 h)".
};

struct Explanation {
  bool is_waiting = false;
  bool is_in_line = false;        // False: parked, or its begin time is ahead.
  std::uint64_t position = 0;     // 1: the next to be looked at; 0: not in line.
  std::int64_t ahead_parts = 0;   // GPUs wanted by those ahead.
  std::string key;                // The order it stands in: "priority 0, escalated, 4 GPUs, waiting 1 h 5 min".
  std::vector<Blocker> blockers;  // Every one, the hardest first. Empty: the next decision starts it.
  Estimate start;
  std::optional<Change> change;
};

/// What the cluster knows by number only. Each may be empty.
struct Names {
  /// Which GPUs these are, to stand behind "4 GPUs": "of type h100". Nothing for all of them.
  std::function<std::string(placement::ModelSet)> models;
  /// How a request asks for nodes of a kind: "--gpu-type a100".
  std::function<std::string(int)> kind;
  /// Where the book of kinds knows what requests say of their nodes (kind_words.h has each): what passes one of these;
  std::function<std::string(std::span<const FilterIndex>)> filters;
  /// what of it no node has; the options that say it; and what to say instead to pass all nodes of a kind.
  std::function<std::string(FilterIndex)> lacking;
  std::function<std::string(FilterIndex)> options;
  std::function<std::string(FilterIndex, int)> instead;
};

/// For a job that does not wait, is_waiting is false and the rest is empty. That it is held, or waits for other jobs,
/// is for the caller to say; what else stands in its way is told all the same. Which change would start it is the most
/// work of it, and left out unless `seeks_change`. Of an array it is about the member behind the next `members_before`:
/// where it stands and when it will start; what holds back the next one holds back all.
Explanation Explain(const Cluster& cluster, JobId entry, Time now, const Names& names = {}, const SpreadOf& spread = {},
                    bool seeks_change = true, std::uint64_t members_before = 0);

}  // namespace divvy::core
