// What the engine answers when asked about one job.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "engine/core/explain/explain.h"
#include "engine/server/server.h"

namespace divvy {

enum class BlockerKind {
  kHeld,
  kBeginTime,
  kDependency,
  kGroupLimit,
  kGpus,
  kGpuType,
  kCpus,
  kMemory,
  kCpuJobs,
  kReservation,
  kInfeasible,
  kTopology,  // GPUs enough, but not joined as it requires.
  kTeamLimit,
  kTeamQuota,
  kGpuLimit  // A group or a user holds as many GPUs as allowed.
};

/// One thing that holds a job back, with its numbers.
struct Blocker {
  BlockerKind kind = BlockerKind::kGpus;
  std::string text;         // "needs 4 GPUs, 2 are free"; complete without the other fields.
  std::int64_t needed = 0;  // In the unit of the thing: GPUs, CPUs, bytes, jobs.
  std::int64_t available = 0;
  struct Holder {
    JobId job;
    std::string name;
    std::string user;
    NodeIndex node = kOwnNode;  // Where `gpus` are; of several machines the first.
    GpuSet gpus;
    Time until = kNever;  // kNever: nobody knows.
  };
  std::vector<Holder> holders;  // Who has what is missing, soonest end first; at most core::kMostHolders.
  std::string rule;             // The rule or setting behind it: "array cap %2", "reservation of job 9".
  bool has_more_holders = false;
};

struct Explanation {
  bool is_waiting = false;
  std::uint64_t position = 0;        // 1: the next to be looked at; 0: not in line (held, dependency, begin time).
  std::uint64_t members_before = 0;  // Of its own array; of those ahead.
  std::uint64_t ahead_gpus = 0;      // GPUs wanted by those ahead.
  std::string key;                   // What the policy compares: "priority 0, escalated, 4 GPUs, waiting 1 h 5 min".
  std::vector<Blocker> blockers;     // Every one, the hardest first.
  Time predicted_start = kNever;     // kNever: nothing known makes it start.
  Time earliest_start = kNoTime;     // kNoTime: not known.
  Time latest_start = kNever;        // kNever: not known.
  std::string prediction_basis;      // "when job 12 (limit 2 h) and job 14 end", or why there is none.
  std::string would_start_now;       // The smallest change that would: "--gpus 2 (GPUs 3 and 5 are free)"; or "".
};

/// Of the server as its last decision left it. For a job that is not waiting, is_waiting is false. `spread` says how
/// long jobs of this kind ran before; it may be empty. Of an array it is about the member behind the next
/// `members_before`: what holds back the next one holds back all, and only their places and starts differ.
Explanation Explain(const Server& server, JobId entry, Time now, const core::SpreadOf& spread = {},
                    std::uint64_t members_before = 0);

/// What Explain says of one job's start alone, for less work.
struct ExpectedStart {
  Time at = kNever;   // kNever: nothing known makes it start.
  std::string basis;  // What it rests on, or why no time can be given.
};
/// For a job that is not waiting, nothing.
ExpectedStart StartOf(const Server& server, JobId entry, Time now, const core::SpreadOf& spread = {});

/// The blocker that Explain would name first, without its holders, for listings of many jobs at one moment: it is found
/// once for all jobs that ask for the same and stand behind the same reservations.
/// Requires: nothing changes in the server meanwhile.
class FirstBlockers {
 public:
  FirstBlockers(const Server& server, Time now);
  /// Nothing: the next decision starts it. Requires: it waits.
  std::optional<Blocker> Find(JobId entry);

 private:
  /// All that the blockers of an entry depend on, except for what it says itself: its class, the reservations before it
  /// and its own, the first blocked job where nobody may pass that one, and what its request says for people.
  using Like = std::tuple<core::ClassIndex, std::vector<JobId>, JobId, JobId, Request, std::string, PlacementStrategy>;

  const Server& server_;
  Time now_;
  core::Names names_;
  std::map<Like, std::optional<Blocker>> known_;
};

/// What a portion wants of a GPU with so much memory, `whose`: "the largest of this server", "GPU 3".
Status CheckPortion(const GpuPortion& portion, Bytes gpu_memory, const std::string& whose);

/// Refuses what the machines there are could never run, naming the nearest
/// thing that it can ("asks for 9 GPUs; this server has 8:
/// --gpus 8 is the most"). Counts restricted and fenced GPUs as present (they
/// may come back). No GPUs at all: says so. `pool`: in which; empty: anywhere.
Status CheckFeasible(const Server& server, const Request& request, const std::string& pool = {});

/// Refuses what the limit or the quota of its team, or of a team above it, never lets run; the message says what would
/// have to change.
Status CheckTeamFeasible(const Server& server, const Request& request, const std::string& pool, const std::string& team,
                         Preemptible preemptible);

/// Every waiting entry in the order in which it will be looked at, those not in line last; at most `limit` (0: all).
std::vector<JobId> QueueOrder(const Server& server, Time now, std::size_t limit);

}  // namespace divvy
