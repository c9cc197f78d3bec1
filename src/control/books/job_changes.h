// What `update` may change of a job that is there; only what is present does. The names of the fields are those of the
// options of a submission, and errors speak of them by these names.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job_record.h"

namespace divvy {

struct JobChanges {
  /// Replaces all that the job waits for.
  struct Dependencies {
    std::vector<Dependency> all;
    bool needs_any = false;
  };

  // While the job waits.
  std::optional<int> gpus;
  std::optional<int> gpus_most;  // 0: fixed.
  std::optional<std::string> gpu_type;
  std::optional<Bytes> gpu_memory;
  std::optional<int> cpus;
  std::optional<Bytes> memory;
  std::optional<int> tasks;
  std::optional<int> nodes;  // Machines; a job that has a task on each keeps one on each, unless `tasks` says more.
  std::optional<std::string> constraint;
  std::optional<std::vector<std::string>> node_list;
  std::optional<std::vector<std::string>> excluded_nodes;
  struct Topology {
    TopologyNeed need = TopologyNeed::kAny;
    bool is_required = false;
  };
  std::optional<Topology> topology;
  std::optional<GpuPortion> portion;
  std::optional<std::string> slice;  // In place of GPUs and parts of them.
  std::optional<PlacementStrategy> placement;
  std::optional<Preemptible> preemptible;
  std::optional<Time> begin;
  std::optional<Time> end_by;  // kNoTime: none.
  std::optional<Dependencies> dependencies;
  std::optional<bool> keeps_waiting;
  std::optional<std::string> group;
  std::optional<std::string> pool;  // The specification says the same.
  bool queues_anyway = false;       // Takes a request above what this server can ever give.

  // Until it ends.
  std::optional<int> priority;
  std::optional<Duration>
      time_limit;  // 0: none. Of a running job, an administrator may raise it and its owner lower it.
  std::optional<std::string> name;
  std::optional<std::string> project;
  std::optional<std::string> comment;
  std::optional<int> retries;
  std::optional<Duration> retry_delay;
  std::optional<bool> requeues_after_reboot;
  std::optional<int> array_at_once;  // 0: no cap. Of arrays.

  // What only the specification holds (command, files, environment ...), while the job waits.
  std::shared_ptr<const JobSpec> spec;        // The whole of it as it is to be; null: it stays.
  std::vector<std::string_view> spec_fields;  // What differs in it, for messages: "command".

  /// The names of what is to change: only what a running job cannot change any more, or all of it.
  std::vector<std::string_view> NamesForWaiting() const;
  std::vector<std::string_view> Names() const;
  bool changes_pool_alone() const { return pool && spec_fields.size() == 1; }
  bool changes_request() const {
    return gpus || gpus_most || topology || gpu_type || gpu_memory || cpus || memory || tasks || nodes || constraint ||
           node_list || excluded_nodes || portion || slice;
  }
  /// `record` with the changes, in its fields alone.
  void ApplyTo(JobRecord& record) const;
};

}  // namespace divvy
