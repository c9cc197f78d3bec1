// Samples the resource use of this node's GPUs, CPUs and runs every second, on its own thread. Daemon and agent use the
// same class.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "daemon/node/node.h"
#include "daemon/node/own_metrics.h"
#include "daemon/runtime/worker.h"
#include "platform/gpu/use_probe.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

class Sampler {
 public:
  /// The present GPUs of a job with GPU fractions. They change when the job is moved; while it is parked (its GPU
  /// memory is on the host), `is_parked` is true.
  struct PartsNow {
    GpuSet gpus;
    bool is_parked = false;
  };
  struct Options {
    std::string node;  // The node name in the samples.
    Duration every = std::chrono::seconds(1);
    /// Optional. Returns the present GPUs of a job; nullopt: the job is still on the GPUs on which it was started. A
    /// null function means the same for all jobs.
    std::function<std::optional<PartsNow>(JobId job)> parts_now = nullptr;
  };
  using OnSnapshot = std::function<void(samples::Snapshot)>;

  /// `node` and `loop` must outlive the sampler.
  Sampler(boost::asio::io_context& loop, const Node& node, std::unique_ptr<UseProbe> probe, Options options);
  ~Sampler();

  /// Starts sampling; `on_snapshot` is called on the loop's thread with each sample. If taking a sample lasts longer
  /// than the period (a second), the samples that were due meanwhile are skipped.
  void Begin(OnSnapshot on_snapshot);
  /// Call when the processes of a run are gone and the node still knows the run. If the run was too short to be
  /// sampled, the metrics in its log are read with the next sample.
  void OnOver(JobId job, std::uint32_t attempt);

 private:
  struct Timer;
  void Arm();
  void Look();
  OwnMetrics::Source SourceOf(JobId job, std::uint32_t attempt) const;
  std::vector<OwnMetrics::Source> Sources(const std::vector<Node::RunHere>& runs);

  boost::asio::io_context& loop_;
  const Node& node_;
  Options options_;
  OnSnapshot on_snapshot_;
  std::unique_ptr<Timer> timer_;
  Time began_;  // When this object was made.
  bool is_looking_ = false;
  std::map<JobId, OwnMetrics::Source> sources_;  // Each run's log path is determined once.
  std::map<JobId, std::uint32_t> looked_at_;     // Attempts that were sampled and are not over yet.
  std::vector<OwnMetrics::Source> unseen_;       // Runs that are over and were never sampled.
  // Used on the worker's thread only.
  std::unique_ptr<UseProbe> probe_;
  OwnMetrics own_;
  std::unique_ptr<Worker> worker_;  // Declared last, so that it ends first.
};

}  // namespace divvy
