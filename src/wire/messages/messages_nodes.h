// The messages of nodes: the machines on which jobs run. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"

namespace divvy::wire {

/// A run that was found on a node and whose job the store does not know: GET /v1/found.
struct FoundView {
  JobId job;
  std::string name;
  std::string user;
  std::string node;
  std::vector<std::int64_t> gpus;
  double started = 0;
  std::string state;  // "running", "ending", "ended".
  std::optional<std::int64_t> exit_code;
};
/// POST /v1/found: takes the run over, or ends it and forgets it.
struct FoundRequest {
  JobId job;
  bool ends = false;
};

struct NodeView {
  std::string name;
  /// "up" | "cordoned" | "draining" | "drained" (nothing runs there any more); "awaited": not heard from since the
  /// controller began; "away": cut off a moment ago; "lost"; "unfit": something keeps it from starting jobs.
  std::string state;
  std::string reason;          // Why it takes no work.
  bool is_controller = false;  // The controller's own machine.
  std::int64_t gpus = 0;
  std::int64_t gpus_free = 0;  // Take new work now, whosoever it is.
  std::int64_t jobs = 0;       // That have a part there.
  std::string gpu_model;       // Empty where they are of several.
  std::string gpu_source;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::string version;          // Of its agent.
  std::string address;          // From which it came last.
  std::optional<double> heard;  // When; absent: never since the controller began.
  std::optional<double> joined;
  std::optional<double> deadline;  // Of its draining.
  std::map<std::string, std::string> labels;
  std::vector<std::string> pools;  // That it is in, by its label or because they name it.
  std::vector<std::string> gpu_uuids;
  std::optional<double> reason_since;         // When `reason` was said; absent: nobody knows.
  std::vector<std::int64_t> gpus_restricted;  // Take no new work: divvy gpus restrict.
  std::int64_t gpus_reserved = 0;             // Idle, and kept for somebody by a reservation in force.
  std::string alone;                          // The job that has all of it to itself, by its pool.
};

/// A pool: one that was made ([pools.NAME]), or that labels of machines name. Of numbers absent is no limit.
struct PoolView {
  std::string name;
  std::string state;  // "up", "down" (starts none), "drain" (takes no new ones), "inactive".
  bool is_default = false;
  bool is_from_file = false;       // Else labels alone make it, and it bounds nothing.
  std::vector<std::string> nodes;  // That are in it.
  std::int64_t gpus = 0;           // Of these,
  std::int64_t gpus_free = 0;      // and those that take new work now, whosoever it is.
  std::int64_t running = 0;        // Its jobs,
  std::int64_t queued = 0;
  double gpus_held = 0;  // and what they hold.
  std::vector<std::string> users;
  std::vector<std::string> teams;
  std::optional<double> max_time_s;  // Of one job, as the next four.
  std::optional<double> default_time_s;
  std::optional<std::int64_t> min_gpus;
  std::optional<std::int64_t> max_gpus;
  std::optional<std::int64_t> max_nodes;
  std::optional<std::int64_t> most_running;  // Of all together.
  std::optional<std::int64_t> most_gpus;
  std::string policy;
  std::string placement;
  std::int64_t priority = 0;
  bool is_exclusive = false;
  std::int64_t jobs_per_gpu = 1;   // Above 1: so many share each GPU that they ask for whole.
  std::int64_t gpus_reserved = 0;  // Of `gpus`: idle, and kept for somebody by a reservation in force.
};

/// POST /v1/nodes/cordon, drain, resume, remove and label.
struct NodeRequest {
  std::vector<std::string> names;
  std::string reason;
  double deadline_s = -1;                     // drain: from now; negative: none.
  std::map<std::string, std::string> labels;  // label: an empty value takes it away.
  bool is_gone = false;                       // remove: it is away for good, and what ran there is lost.
};

}  // namespace divvy::wire
