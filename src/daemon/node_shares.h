// Stands before a node where GPUs are shared: a launch goes to the node once the keeper has made room for it, and says
// where that is. A job with parts of GPUs is told to the keeper as a tenant; one with whole GPUs waits until no tenant
// is on them any more. Without tenants there is no keeper, and all orders pass at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/controller_port.h"
#include "daemon/keeper_port.h"
#include "daemon/order_port.h"
#include "model/share_grant.h"

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
    /// Calls back on the loop, later.
    std::function<void(Duration, std::function<void()>)> after;
  };
  /// Longer than any keeper takes to move all that can be in its way: 80 GB at 2 GB/s, and twice as much.
  static constexpr Duration kMakesRoomWithin = std::chrono::minutes(2);
  /// After one has gone.
  static constexpr Duration kKeeperComesWithin = std::chrono::seconds(10);

  NodeShares(std::vector<GpuFacts> gpus, KeeperPort& keeper, Ports ports)
      : gpus_(std::move(gpus)), keeper_(keeper), ports_(std::move(ports)) {}

  /// Idle GPUs may be brought into MIG mode for a slice, and back.
  void SetMaySwitchMig(bool may) { may_switch_mig_ = may; }
  /// Has a keeper look after what an earlier one left, though nobody shares anything now.
  void Wake() { Open(); }
  /// Before anything else.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Of a run that an earlier process launched: it goes on to have what it had. `gpus`: on this machine.
  void Adopt(const JobRecord& record, GpuSet gpus);
  /// The controller has begun anew: launches that wait here will be ordered again, if they are still wanted.
  void DropWaiting();

  // OrderPort
  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;
  /// The processes of this run are gone: what it had is free, before the controller is told so.
  void OnOver(JobId job, std::uint32_t attempt);
  /// GPUs that the node's driver, or others than divvy, keep from tenants now.
  void SetWithheld(GpuSet withheld);

  /// "park", "wake", "move": of a tenant here. `done` when it has been done, or with why not.
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

  void Open();
  void TellAll();
  void Begin(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec);
  void Ask(JobId job);
  void Ask(Action action);
  void GiveUpPostponed();
  void OnRoom(JobId job, std::uint64_t number, const Result<wire::KeeperAnswer>& answer);
  void Pass(JobId job);
  void Fail(JobId job, const std::string& why, int code);
  void Release(JobId job);
  wire::KeeperRequest RequestFor(const Holder& holder) const;
  wire::KeeperHello Hello() const;
  /// Tells people where it was refused.
  KeeperPort::Answered Noting(const std::string& event) const;

  std::vector<GpuFacts> gpus_;
  KeeperPort& keeper_;
  Ports ports_;
  ControllerPort* controller_ = nullptr;
  std::map<JobId, Waiting> waiting_;
  std::map<JobId, Holder> holders_;
  std::vector<Action> postponed_;  // Until there is a keeper again.
  GpuSet withheld_;
  bool is_open_ = false;
  bool may_switch_mig_ = false;
  std::uint64_t next_number_ = 1;
  wire::KeeperState state_;
};

/// What a tenant has a right to of a GPU of this size.
wire::ShareTerms TermsOf(const GpuPortion& portion, Bytes gpu_memory);

}  // namespace divvy
