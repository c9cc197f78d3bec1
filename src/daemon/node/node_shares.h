// Receives all commands for a node before the node does, and handles shared GPUs. The keeper is the process that shares
// a node's GPUs among jobs. A launch is passed to the node once the keeper has made room for the job and has named the
// GPUs. A job with GPU fractions is registered with the keeper as a tenant. A job with whole GPUs waits until no tenant
// is on them. Without tenants there is no keeper, and all commands are passed on at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/runtime/controller_port.h"
#include "daemon/shares/keeper_port.h"
#include "daemon/shares/share_journal.h"
#include "driver/node_command_port.h"
#include "model/gpus/share_grant.h"

namespace divvy {

class NodeShares final : public NodeCommandPort, public KeeperListener {
 public:
  struct Ports {
    /// Passes a command on to the node.
    std::function<void(const NodeCommand&, std::shared_ptr<const JobSpec>)> execute;
    /// Passes a grant to the node, before the launch that it is for.
    std::function<void(JobId, ShareGrant)> set_grant;
    /// Returns the local user as whom a user's jobs run; fails if they cannot run here.
    std::function<Result<User>(const User&)> owner_of;
    std::function<void(const std::string& line)> note;
    /// Optional. Logs normal events; `note` logs problems.
    std::function<void(const std::string& line)> tell = nullptr;
    /// Calls back on the loop after a delay.
    std::function<void(Duration, std::function<void()>)> after;
  };
  /// A launch fails if the keeper has not made room for it within this time, which is longer than moving all memory
  /// that can be in the way takes: 80 GB at 2 GB/s, twice.
  static constexpr Duration kMakesRoomWithin = std::chrono::minutes(2);
  /// A launch or an action fails if no keeper is connected within this time, after the first one was started or an
  /// earlier one ended.
  static constexpr Duration kKeeperComesWithin = std::chrono::seconds(10);
  /// A tenant is parked before it is paused, since a stopped process cannot take part in parking. A process that is
  /// stopped in the middle of a move loses its GPU memory, so this is longer than the keeper waits for 80 GB (27
  /// min: keeper/tenants/relocation.cc). After this time it is paused in any case.
  static constexpr Duration kParksWithin = std::chrono::minutes(30);

  NodeShares(std::vector<GpuFacts> gpus, KeeperPort& keeper, Ports ports)
      : gpus_(std::move(gpus)), keeper_(keeper), ports_(std::move(ports)) {}

  /// Sets whether idle GPUs may be switched to MIG mode for a slice, and back.
  void SetMaySwitchMig(bool may) { may_switch_mig_ = may; }
  /// From now on no job with whole GPUs is started in a way that allows parking it later. `why` is the reason for
  /// users.
  void SetNeverParks(std::string why) { why_never_parks_ = std::move(why); }
  /// Must be called before anything else.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Registers a run that an earlier process launched; it keeps its GPUs. `gpus` are those on this node.
  void Adopt(const JobRecord& record, GpuSet gpus);
  /// Updates a run that is known here with the controller's record, which includes commands issued while the node was
  /// disconnected.
  void Refresh(const JobRecord& record, GpuSet gpus);
  /// Connects to the keeper, because it may still have tenants of an earlier daemon or agent. Tenants whose runs have
  /// ended are then removed from it.
  void FindKeeper() { Open(); }
  /// The controller has restarted. Launches that wait here are dropped; the controller repeats those that it still
  /// wants.
  void DropWaiting();
  /// Reports the presence of all jobs again, as far as the keeper has reported them, since the controller may have
  /// missed reports.
  void RepeatPresence();

  // NodeCommandPort
  void Execute(const NodeCommand& command, std::shared_ptr<const JobSpec> spec) override;
  /// Call when the processes of this run are gone, before that is reported to the controller. Frees the run's GPUs.
  void OnOver(JobId job, std::uint32_t attempt);
  /// Sets the GPUs that the controller withholds from tenants, with reasons such as "is restricted". The map replaces
  /// the previous one.
  using Reasons = std::map<GpuIndex, std::string>;
  void SetWithheld(Reasons withheld);
  /// Sets the GPUs that no job can use now, as this node's driver reports. The map replaces the previous one.
  void SetBroken(Reasons broken);

  /// Takes the processes on the GPUs, with their jobs, and tells the keeper those of its tenants, since a
  /// process may not register with the keeper itself.
  void SetSeen(const std::vector<GpuObservation>& seen);

  /// Runs "park", "wake" or "move" on a tenant of this node, or "resize" to the size of its last PortionCommand. Calls
  /// `done` with the result.
  using Done = std::function<void(const Status&)>;
  void Act(JobId job, const std::string& action, const std::vector<int>& to, Done done);

  /// The keeper's last state; empty if there is no keeper.
  const wire::KeeperState& state() const { return state_; }

  // KeeperListener
  void OnKeeper() override;
  void OnKept(const wire::KeeperState& state) override;
  void OnRequeue(const wire::KeeperRequeue& requeue) override;

 private:
  struct Action {
    JobId job;
    std::string what;
    std::vector<int> to;
    Done done;
    Time until = kNoTime;  // The action fails at this time if there is still no keeper.
  };
  /// Commands for a job that is parked before it is paused, in order.
  struct Pausing {
    std::vector<NodeCommand> commands;
    std::uint64_t number = 0;
  };
  struct Waiting {
    LaunchCommand command;
    std::shared_ptr<const JobSpec> spec;
    std::vector<NodeCommand> behind;  // Later commands for the same job, in order.
    std::uint64_t number = 0;         // Matches a late answer to its request.
  };
  /// A run that holds GPUs of this node.
  struct Holder {
    std::uint32_t attempt = 0;
    JobRecord record;
    GpuSet gpus;  // The planned GPUs, on this node.
    User owner;
    bool is_parkable = false;  // A tenant with whole GPUs, which may be displaced.
    bool is_stopped = false;   // The node was told to stop its processes, since it is displaced.
    bool is_ending = false;    // It was told to end.
    std::optional<DisplaceCommand> command = std::nullopt;  // The command that the keeper has not answered yet.
    std::string why = {};                                   // Why its last displacement or return was refused.
    std::optional<PresenceReport> reported = std::nullopt;
    bool has_fraction() const { return record.request.is_portioned() || record.gpu_slice.any(); }
    bool is_tenant() const { return has_fraction() || is_parkable; }
  };

  /// Returns false if the driver does not show all of the holder's GPUs. The holder then keeps the GPUs that the keeper
  /// has recorded for it.
  bool IsSeen(const Holder& holder) const { return (holder.gpus - SeenGpus()).empty(); }
  GpuSet SeenGpus() const { return GpuSet::FirstN(static_cast<int>(gpus_.size())); }

  void OnWelcome(const wire::KeeperAnswer& answer);
  bool AskSliceLater(JobId job, std::uint64_t number);
  void TellTroubles(const wire::KeeperState& state);
  // Jobs that are displaced (node_displacements.cc).
  void OnDisplace(const DisplaceCommand& command);
  void AskToDisplace(JobId job);
  void OnDisplaceAnswer(const DisplaceCommand& command, const Result<wire::KeeperAnswer>& answer);
  void AskState(JobId job, bool is_refused);
  void FollowPresence(const wire::KeptTenant& tenant);
  void SetStopped(Holder& holder, bool is_stopped);
  void Report(Holder& holder, PresenceReport report);
  bool StartAsOrdinary(JobId job, const std::string& why);
  void ParkThenPause(const NodeCommand& command);
  void PassPausing(JobId job, std::uint64_t number);
  void Open();
  void TellGpus();
  void TellAll();
  void Begin(const LaunchCommand& command, const std::shared_ptr<const JobSpec>& spec);
  void Ask(JobId job);
  void Ask(Action action);
  void GiveUpPostponed();
  /// After `within`, fails the launch with this number if it still waits for its GPUs.
  void GiveUp(JobId job, std::uint64_t number, Duration within, const std::string& what);
  void OnRoom(JobId job, std::uint64_t number, const Result<wire::KeeperAnswer>& answer);
  void Pass(JobId job);
  void Fail(JobId job, const std::string& why, int code);
  void Release(JobId job);
  wire::KeeperRequest RequestFor(const Holder& holder) const;
  wire::ShareTerms WholeTerms(GpuSet gpus) const;
  wire::KeeperRequest ResizeOf(const Holder& tenant) const;
  wire::KeeperHello Hello() const;
  /// Returns a callback that logs a refusal.
  KeeperPort::Answered Noting(const std::string& event) const;

  std::vector<GpuFacts> gpus_;
  KeeperPort& keeper_;
  Ports ports_;
  ControllerPort* controller_ = nullptr;
  std::map<JobId, Waiting> waiting_;
  std::map<JobId, Holder> holders_;
  std::map<JobId, Pausing> pausing_;
  ShareJournal journal_;
  std::vector<Action> postponed_;  // Actions that wait for the next keeper.
  Reasons withheld_;
  Reasons broken_;
  std::vector<wire::KeeperProcess> processes_;  // The processes that the connected keeper was told about.
  bool is_open_ = false;
  bool may_switch_mig_ = false;
  std::string why_never_parks_;
  std::uint64_t next_number_ = 1;
  bool had_keeper_ = false;         // A keeper has answered, and may have left tenants.
  int keeper_version_ = 0;          // 0 until the keeper has reported its version.
  std::set<std::string> troubles_;  // The troubles that were logged last.
  wire::KeeperState state_;
};

/// Returns the request (guaranteed) and limit (maximum) of a GPU fraction, in compute and memory, on a GPU with this
/// much memory.
wire::ShareTerms TermsOf(const GpuPortion& portion, Bytes gpu_memory);

}  // namespace divvy
