// The changes that `update` may make to an existing job; only fields that are set change. Field names match the
// submission options, and error messages use them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job_record.h"

namespace divvy {

struct JobChanges {
  /// Replaces all dependencies of the job.
  struct Dependencies {
    std::vector<Dependency> all;
    bool needs_any = false;
  };

  // Possible only while the job waits.
  std::optional<int> gpus;
  std::optional<int> max_gpus;  // 0: fixed number.
  std::optional<std::string> gpu_type;
  std::optional<Bytes> gpu_memory;
  std::optional<int> cpus;
  std::optional<Bytes> memory;
  std::optional<int> tasks;
  std::optional<int> nodes;  // A job with one task per node keeps one per node, unless `tasks` is set too.
  std::optional<std::string> constraint;
  std::optional<std::vector<std::string>> node_list;
  std::optional<std::vector<std::string>> excluded_nodes;
  struct Topology {
    TopologyNeed need = TopologyNeed::kAny;
    bool is_required = false;
  };
  std::optional<Topology> topology;
  std::optional<GpuPortion> portion;
  std::optional<std::string> slice;  // Replaces GPUs and fractions.
  std::optional<PlacementStrategy> placement;
  std::optional<Preemptible> preemptible;
  std::optional<Time> begin;
  std::optional<Time> end_by;  // kNoTime: none.
  std::optional<Dependencies> dependencies;
  std::optional<bool> keeps_waiting;
  std::optional<std::string> group;
  std::optional<std::string> pool;  // JobSpec::pool of `spec` must be the same.
  bool queues_anyway = false;       // Accepts a request that exceeds what this server can ever provide.

  // Possible until the job ends.
  std::optional<int> priority;
  std::optional<Duration>
      time_limit;  // 0: none. For a running job, an administrator may raise it and its owner may lower it.
  std::optional<std::string> name;
  std::optional<std::string> project;
  std::optional<std::string> comment;
  std::optional<int> retries;
  std::optional<Duration> retry_delay;
  std::optional<bool> requeues_after_reboot;
  std::optional<int> array_at_once;  // 0: no limit. For arrays.

  // Fields that only the specification contains (command, files, environment ...); possible while the job waits.
  std::shared_ptr<const JobSpec> spec;        // The complete new specification; null: unchanged.
  std::vector<std::string_view> spec_fields;  // The fields that differ in it, for messages: "command".

  /// Return names of the changed fields: NamesForWaiting() those that only a waiting job can change, Names() all.
  std::vector<std::string_view> NamesForWaiting() const;
  std::vector<std::string_view> Names() const;
  bool changes_pool_alone() const { return pool && spec_fields.size() == 1; }
  bool changes_request() const {
    return gpus || max_gpus || topology || gpu_type || gpu_memory || cpus || memory || tasks || nodes || constraint ||
           node_list || excluded_nodes || portion || slice;
  }
  /// Applies the changes to the fields of `record`.
  void ApplyTo(JobRecord& record) const;
};

}  // namespace divvy
