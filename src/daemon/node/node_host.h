// A node with all that it stands on: the launcher, the supervisors' reports, the GPUs and the thread that looks at
// them. The same under the daemon and under an agent; which of the two it is shows in the ControllerPort that the node
// joins.
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

/// What a machine's launcher does for its daemon or agent, and which ways of isolation there are.
struct LauncherHelp {
  std::shared_ptr<RootErrands> errands;  // Null: we do it ourselves.
  IsolationFacts ways;
};
/// `what`: "daemon" or "agent". The machine's must not be root, since it reads what strangers send, and must see all
/// processes. Also passes commands to supervisors of an earlier release, which take them from root alone.
Result<LauncherHelp> ReachLauncher(const Places& places, const std::string& what);

class NodeHost {
 public:
  /// Of what cannot go on: ends the process.
  using GiveUp = std::function<void(const Error&)>;

  NodeHost(boost::asio::io_context& loop, const Log& log, GiveUp give_up);
  ~NodeHost();

  /// Starts the launcher, when that of an earlier process has left, and listens for reports. Then makes the node.
  Status Open(NodeOptions options, GpuSource gpus);
  Node& node() { return *node_; }
  /// Where orders for this machine go.
  NodeShares& shares() { return *shares_; }
  /// Before anything else; the controller and the node know each other.
  void Join(ControllerPort& controller);
  /// Node::AdoptRuns, and who of them shares GPUs goes on to.
  Status AdoptRuns(bool was_rebooted);
  /// Node::Reconcile, where launches that still wait for room on shared GPUs have not happened.
  void Reconcile();
  /// GPUs that are not for shares of them now, and why: all of them.
  void Withhold(const std::vector<wire::WithheldGpu>& gpus);
  const GpuSource& gpus() const { return gpus_; }
  GpuSet AllGpus() const { return GpuSet::FirstN(static_cast<int>(gpus_.gpus.size())); }

  /// What is on the GPUs now; waits for the driver. Only before Run.
  std::vector<GpuObservation> LookNow();
  /// Says whose the processes are that divvy started.
  void NameJobs(std::vector<GpuObservation>& seen) const;
  /// The node looks at the GPUs of what ended before it says so.
  void LookAtEnds();
  /// Looks on the prober's thread; `done` on the loop's.
  void LookAtGpus(GpuSet which, std::function<void(std::vector<GpuObservation>)> done);
  /// Hears supervisors and the launcher from now on, looks after them every `period`, and tells what is on the GPUs.
  void Run(Duration period, std::function<void(std::vector<GpuObservation>)> on_seen);
  /// Says when a disk on which jobs leave files is full (FullDisk), and when none is any more.
  void WatchDisks(std::vector<std::string> folders, std::function<void(const std::string& what)> on_change);
  /// Samples what is used here from now on.
  void Sample(Sampler::Options options, Sampler::OnSnapshot on_snapshot);
  /// A launch may not have left yet; a moment later it has.
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
  std::shared_ptr<RootErrands> errands_;  // As NodeOptions have it.
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
  std::unique_ptr<LogLimit> log_limit_;  // Null: logs are kept whole.
  bool is_limiting_ = false;
  // Last, so that they end first: their tasks use the probe and the limit.
  std::unique_ptr<Worker> prober_;
  std::unique_ptr<Worker> file_keeper_;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace divvy
