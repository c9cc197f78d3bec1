// Stands before a node where GPUs are shared: a launch goes to the node once the keeper has made room for it, and says
// where that is. A job with parts of GPUs is told to the keeper as a tenant; one with whole GPUs waits until no tenant
// is on them any more. Without tenants there is no keeper, and all orders pass at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/runtime/controller_port.h"
#include "daemon/runtime/order_port.h"
#include "daemon/shares/keeper_port.h"
#include "daemon/shares/share_journal.h"
#include "model/gpus/share_grant.h"

namespace divvy {

class NodeShares final : public OrderPort, public KeeperListener {
 public:
  struct Ports {
    /// What goes on from here: to the node.
    std::function<void(const Order&, std::shared_ptr<const JobSpec>)> execute;
    /// Told to the node before the launch that it is for.
    std::function<void(JobId, ShareGrant)> set_grant;
    /// As whom a user's jobs run here; fails where they cannot.
    std::function<Result<User>(const User&)> owner_of;
    std::function<void(const std::string& line)> note;
    /// The same of what is as it should be. Null: not told.
    std::function<void(const std::string& line)> tell = nullptr;
    /// Calls back on the loop, later.
    std::function<void(Duration, std::function<void()>)> after;
  };
  /// Longer than any keeper takes to move all that can be in its way: 80 GB at 2 GB/s, and twice as much.
  static constexpr Duration kMakesRoomWithin = std::chrono::minutes(2);
  /// The first one, and the next after one has gone.
  static constexpr Duration kKeeperComesWithin = std::chrono::seconds(10);
  /// Who is paused is parked first, since a process that stands still takes no step; but it is paused by then.
  static constexpr Duration kParksWithin = std::chrono::seconds(10);

  NodeShares(std::vector<GpuFacts> gpus, KeeperPort& keeper, Ports ports)
      : gpus_(std::move(gpus)), keeper_(keeper), ports_(std::move(ports)) {}

  /// Idle GPUs may be brought into MIG mode for a slice, and back.
  void SetMaySwitchMig(bool may) { may_switch_mig_ = may; }
  /// Before anything else.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Of a run that an earlier process launched: it goes on to have what it had. `gpus`: on this machine.
  void Adopt(const JobRecord& record, GpuSet gpus);
  /// The controller's word of a run that is known here: what was ordered while it was away counts as well.
  void Refresh(const JobRecord& record, GpuSet gpus);
  /// An earlier process has left runs to a keeper: whoever of them is over is told to it.
  void FindKeeper() { Open(); }
  /// The controller has begun anew: launches that wait here will be ordered again, if they are still wanted.
  void DropWaiting();

  // OrderPort
  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;
  /// The processes of this run are gone: what it had is free, before the controller is told so.
  void OnOver(JobId job, std::uint32_t attempt);
  /// GPUs that are not for tenants now, and why: "is restricted". As the controller says; all of them.
  using Reasons = std::map<GpuIndex, std::string>;
  void SetWithheld(Reasons withheld);
  /// GPUs that nobody can use now, as the driver says here.
  void SetBroken(Reasons broken);

  /// Who is on the GPUs, with their jobs: the keeper is told of processes of tenants, for they may hide from it.
  void SetSeen(const std::vector<GpuObservation>& seen);

  /// "park", "wake", "move": of a tenant here; "resize": to what its last PortionOrder said. `done` when it has been
  /// done, or with why not.
  using Done = std::function<void(const Status&)>;
  void Act(JobId job, const std::string& action, const std::vector<int>& to, Done done);

  /// What the keeper said last; empty: there is none.
  const wire::KeeperState& state() const { return state_; }
  bool has_keeper() const { return is_open_; }

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
    Time until = kNoTime;  // Then it fails where there still is no keeper.
  };
  /// Orders of a job that is parked before it is paused, in their order.
  struct Pausing {
    std::vector<Order> orders;
    std::uint64_t number = 0;
  };
  struct Waiting {
    LaunchOrder order;
    std::shared_ptr<const JobSpec> spec;
    std::vector<Order> behind;  // For the same job, in their order.
    std::uint64_t number = 0;   // So that a late answer finds only what it is for.
  };
  /// A run that has something of this node's GPUs.
  struct Holder {
    std::uint32_t attempt = 0;
    JobRecord record;
    GpuSet gpus;  // By the plan, on this machine.
    User owner;
    bool is_tenant() const { return record.request.is_portioned() || record.gpu_slice.any(); }
  };

  /// False: the driver does not show all of its GPUs here, and it goes on to have what the keeper knows that it has.
  bool IsSeen(const Holder& holder) const { return (holder.gpus - SeenGpus()).empty(); }
  GpuSet SeenGpus() const { return GpuSet::FirstN(static_cast<int>(gpus_.size())); }

  void OnWelcome(const wire::KeeperAnswer& answer);
  bool AskSliceLater(JobId job, std::uint64_t number);
  void TellTroubles(const wire::KeeperState& state);
  void ParkThenPause(const Order& order);
  void PassPausing(JobId job, std::uint64_t number);
  void Open();
  void TellGpus();
  void TellAll();
  void Begin(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec);
  void Ask(JobId job);
  void Ask(Action action);
  void GiveUpPostponed();
  /// Unless it was asked for again, or got it.
  void GiveUp(JobId job, std::uint64_t number, Duration within, const std::string& what);
  void OnRoom(JobId job, std::uint64_t number, const Result<wire::KeeperAnswer>& answer);
  void Pass(JobId job);
  void Fail(JobId job, const std::string& why, int code);
  void Release(JobId job);
  wire::KeeperRequest RequestFor(const Holder& holder) const;
  wire::KeeperRequest ResizeOf(const Holder& tenant) const;
  wire::KeeperHello Hello() const;
  /// Tells people where it was refused.
  KeeperPort::Answered Noting(const std::string& event) const;

  std::vector<GpuFacts> gpus_;
  KeeperPort& keeper_;
  Ports ports_;
  ControllerPort* controller_ = nullptr;
  std::map<JobId, Waiting> waiting_;
  std::map<JobId, Holder> holders_;
  std::map<JobId, Pausing> pausing_;
  ShareJournal journal_;
  std::vector<Action> postponed_;  // Until there is a keeper again.
  Reasons withheld_;
  Reasons broken_;
  std::vector<wire::KeeperProcess> processes_;  // That this keeper was told of.
  bool is_open_ = false;
  bool may_switch_mig_ = false;
  std::uint64_t next_number_ = 1;
  int keeper_version_ = 0;          // 0: it has not said yet.
  std::set<std::string> troubles_;  // That the log has been told of, and last.
  wire::KeeperState state_;
};

/// What a tenant has a right to of a GPU of this size.
wire::ShareTerms TermsOf(const GpuPortion& portion, Bytes gpu_memory);

}  // namespace divvy
