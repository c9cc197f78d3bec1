// The messages of nodes, the machines on which jobs run. See messages.h for the conventions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"

namespace divvy::wire {

/// GET /v1/found: a run that was found on a node and whose job is not in the store.
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
/// POST /v1/found: adopts the run, or ends it and forgets it.
struct FoundRequest {
  JobId job;
  bool ends = false;
};

struct NodeView {
  std::string name;
  /// "up" | "cordoned" | "draining" | "drained" (nothing runs there any more); "awaited": has not connected since the
  /// controller started; "away": just disconnected; "lost"; "unfit": a problem keeps it from starting jobs.
  std::string state;
  std::string reason;          // Why it accepts no work.
  bool is_controller = false;  // This is the controller's own node.
  std::int64_t gpus = 0;
  std::int64_t gpus_free = 0;  // GPUs that accept new work from any job now.
  std::int64_t jobs = 0;       // Jobs that run on it, at least in part.
  std::string gpu_model;       // Empty if it has several models.
  std::string gpu_source;
  std::int64_t cpus = 0;
  std::int64_t memory_bytes = 0;
  std::string version;                 // The version of its agent.
  std::string address;                 // The address of its last connection.
  std::optional<double> last_contact;  // Time of its last message. Absent: none since the controller started.
  std::optional<double> joined;
  std::optional<double> deadline;  // The deadline of its drain.
  std::map<std::string, std::string> labels;
  std::vector<std::string> pools;  // Its pools, by its label or because the pool lists it.
  std::vector<std::string> gpu_uuids;
  std::optional<double> reason_since;         // Since when `reason` applies. Absent: unknown.
  std::vector<std::int64_t> gpus_restricted;  // GPUs that accept no new work because of divvy gpus restrict.
  std::int64_t gpus_reserved = 0;             // Idle GPUs that a reservation in force keeps.
  std::string exclusive_job;                  // The job that has the node exclusively, because of its pool.
};

/// A pool, configured ([pools.NAME]) or named only by node labels. An absent number means no limit.
struct PoolView {
  std::string name;
  std::string state;  // "up", "down" (starts no jobs), "drain" (accepts no new jobs), "inactive".
  bool is_default = false;
  bool is_from_file = false;       // False: only labels name it, and it has no limits.
  std::vector<std::string> nodes;  // Its nodes.
  std::int64_t gpus = 0;           // All GPUs of `nodes`.
  std::int64_t gpus_free = 0;      // GPUs that accept new work from any job now.
  std::int64_t running = 0;        // Number of running jobs.
  std::int64_t queued = 0;
  double gpus_held = 0;  // GPUs that its running jobs hold.
  std::vector<std::string> users;
  std::vector<std::string> teams;
  std::optional<double> max_time_s;  // Per job, like the next four.
  std::optional<double> default_time_s;
  std::optional<std::int64_t> min_gpus;
  std::optional<std::int64_t> max_gpus;
  std::optional<std::int64_t> max_nodes;
  std::optional<std::int64_t> running_limit;  // For all jobs of the pool together.
  std::optional<std::int64_t> gpu_limit;
  std::string policy;
  std::string placement;
  std::int64_t priority = 0;
  bool is_exclusive = false;
  std::int64_t jobs_per_gpu = 1;   // Above 1: this many jobs that request whole GPUs share each GPU.
  std::int64_t gpus_reserved = 0;  // Idle GPUs of `gpus` that a reservation in force keeps.
};

/// POST /v1/nodes/cordon, drain, resume, remove and label.
struct NodeRequest {
  std::vector<std::string> names;
  std::string reason;
  double deadline_s = -1;                     // For drain: from now. Negative: none.
  std::map<std::string, std::string> labels;  // For label: an empty value removes the label.
  bool is_lost = false;                       // For remove: the node is gone permanently, and its jobs are lost.
};

}  // namespace divvy::wire
