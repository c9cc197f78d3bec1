// A node with everything it depends on: the launcher, the supervisors' reports, the GPUs and the thread that probes
// them. Daemon and agent use the same class; they differ in the ControllerPort that the node joins.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/node/machine.h"
#include "daemon/node/node.h"
#include "daemon/node/node_shares.h"
#include "daemon/node/sampler.h"
#include "daemon/runtime/log.h"
#include "daemon/runtime/worker.h"
#include "daemon/shares/keeper_client.h"
#include "platform/os/log_limit.h"
#include "wire/messages/agent_messages.h"

namespace boost::asio {
class io_context;
}

namespace divvy {

/// Operations that a machine's launcher does for its daemon or agent, and the available ways of isolation.
struct LauncherHelp {
  std::shared_ptr<RootErrands> errands;  // Null: this process does them itself.
  IsolationFacts ways;                   // The ways of isolation that this machine offers.
};
/// Connects to the launcher of a served machine, whose daemon or agent (`what`) is not root. Fails there if this
/// process is root (it must not be, since it reads untrusted input) or cannot see all processes. Also makes the
/// launcher forward commands to supervisors of an earlier release, which accept commands from root only. A user's own
/// daemon or agent has no launcher.
Result<LauncherHelp> ReachLauncher(const RuntimePaths& places, const std::string& what);

class NodeHost {
 public:
  /// Called on a fatal error; ends the process.
  using GiveUp = std::function<void(const Error&)>;

  NodeHost(boost::asio::io_context& loop, const Log& log, GiveUp give_up);
  ~NodeHost();

  /// Starts the launcher once the launcher of an earlier process is gone, and listens for reports. Then creates the
  /// node.
  Status Open(NodeOptions options, GpuSource gpus);
  Node& node() { return *node_; }
  /// The receiver of commands for this node.
  NodeShares& shares() { return *shares_; }
  /// Must be called before anything else; controller and node refer to each other.
  void Join(ControllerPort& controller);
  /// Calls Node::AdoptRuns, and registers the adopted runs with NodeShares.
  Status AdoptRuns(bool was_rebooted);
  /// Calls Node::Reconcile. Launches that still wait for room on shared GPUs are dropped.
  void Reconcile();
  /// Sets the GPUs that jobs with GPU fractions must not use now, with the reasons. Replaces the earlier ones.
  void Withhold(const std::vector<wire::WithheldGpu>& gpus);
  const GpuSource& gpus() const { return gpus_; }
  GpuSet AllGpus() const { return GpuSet::FirstN(static_cast<int>(gpus_.gpus.size())); }

  /// Probes the GPUs and returns what the driver reports. Blocks until it answers, so it may be called only before Run.
  std::vector<GpuObservation> LookNow();
  /// Fills in, for each observed process that divvy started, the job that it belongs to.
  void NameJobs(std::vector<GpuObservation>& seen) const;
  /// Makes the node probe the GPUs of each ended run before it reports the end.
  void LookAtEnds();
  /// Probes the GPUs on the prober's thread; calls `done` on the loop's.
  void LookAtGpus(GpuSet which, std::function<void(std::vector<GpuObservation>)> done);
  /// From now on handles messages of supervisors and the launcher, and every `period` checks that they are alive. Calls
  /// `on_seen` with the processes on the GPUs.
  void Run(Duration period, std::function<void(std::vector<GpuObservation>)> on_seen);
  /// Watches the disks of `folders`, to which jobs write. Calls `on_change` with the message of FullDisk when one
  /// becomes full, and with "" when none is full any more. A second disk that becomes full meanwhile is not reported.
  void WatchDisks(std::vector<std::string> folders, std::function<void(const std::string& what)> on_change);
  /// Starts sampling this node's resource use.
  void Sample(Sampler::Options options, Sampler::OnSnapshot on_snapshot);
  /// Stops the worker threads. The connection to the launcher is kept, since a launch may not have been sent yet.
  void Stop() {
    sampler_.reset();
    prober_.reset();
    file_keeper_.reset();
  }

 private:
  struct Watches;
  void WatchReports();
  void WatchLauncher();
  void Poll();
  void OpenShares(const NodeOptions& options);
  void KeepFromTenants(const std::vector<GpuObservation>& seen);
  void LookAtDisks();
  void LimitLogs();
  ReadIo ReadIoByErrand() const;

  boost::asio::io_context& loop_;
  const Log& log_;
  GiveUp give_up_;
  GpuSource gpus_;
  std::string run_directory_;
  std::shared_ptr<RootErrands> errands_;  // The same as in NodeOptions.
  std::unique_ptr<ProcessLauncher> launcher_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<KeeperClient> keeper_;
  std::unique_ptr<NodeShares> shares_;
  ControllerPort* controller_ = nullptr;
  std::unique_ptr<Watches> watches_;
  Duration period_{0};
  std::function<void(std::vector<GpuObservation>)> on_seen_;
  bool is_looking_ = false;
  std::vector<std::string> disks_;
  std::function<void(const std::string& what)> on_disks_;
  std::string full_disk_;
  bool is_looking_at_disks_ = false;
  std::unique_ptr<LogLimit> log_limit_;  // Null if logs are kept whole.
  bool is_limiting_ = false;
  // Declared last, so that they end first: their tasks use the probe and the limit.
  std::unique_ptr<Worker> prober_;
  std::unique_ptr<Worker> file_keeper_;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace divvy
