// Looks at what this machine's GPUs, processors and runs use, each second, on a thread of its own. The same under the
// daemon and under an agent.
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
  /// Where parts of GPUs are that may be moved, and parked.
  struct PartsNow {
    GpuSet gpus;
    bool is_parked = false;
  };
  struct Options {
    std::string node;  // The name that samples get.
    Duration every = std::chrono::seconds(1);
    /// Of a job with parts of GPUs; nothing: they are where the run was started. Null: so they all are.
    std::function<std::optional<PartsNow>(JobId job)> parts_now = nullptr;
  };
  using OnSnapshot = std::function<void(samples::Snapshot)>;

  /// `node` and `loop` live longer.
  Sampler(boost::asio::io_context& loop, const Node& node, std::unique_ptr<UseProbe> probe, Options options);
  ~Sampler();

  /// From now on; `on_snapshot` is called on the loop's thread. A look that takes longer than a second leaves out those
  /// that it is late for.
  void Begin(OnSnapshot on_snapshot);
  /// The processes of a run are gone, and the node still knows it. What one said that was over before anybody looked is
  /// read at the next look.
  void OnOver(JobId job, std::uint32_t attempt);

 private:
  struct Timer;
  void Arm();
  void Look();
  std::vector<OwnMetrics::Source> Sources(const std::vector<Node::RunHere>& runs);

  boost::asio::io_context& loop_;
  const Node& node_;
  Options options_;
  OnSnapshot on_snapshot_;
  std::unique_ptr<Timer> timer_;
  bool is_looking_ = false;
  std::map<JobId, OwnMetrics::Source> sources_;  // Where they write is learned once.
  std::map<JobId, std::uint32_t> looked_at_;     // Attempts that were among them and are not over yet.
  std::vector<OwnMetrics::Source> unseen_;       // Over, and never among them.
  // Of the worker's thread.
  std::unique_ptr<UseProbe> probe_;
  OwnMetrics own_;
  std::unique_ptr<Worker> worker_;  // Last, so that it ends first.
};

}  // namespace divvy
