// The keeper manages the shared GPUs of a node. It connects the sharing rules (src/sharing), the tenants' pages and
// links, the driver, and the node agent, which adds and removes tenants. It has one loop in one thread. Driver calls,
// GPU sampling and removal of users' folders run in helpers and other threads, which report back.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "keeper/drivers/gpu_watch.h"
#include "keeper/keeper_context.h"
#include "keeper/relocations.h"
#include "keeper/slice_tenants.h"
#include "keeper/state_report.h"
#include "keeper/tenant_memory.h"
#include "keeper/whole_takes.h"

namespace divvy::keeper {

class Keeper {
 public:
  /// Creates the keeper: the process that lets jobs share the GPUs of this node. Fails if another keeper serves its
  /// directory.
  static Result<std::unique_ptr<Keeper>> Make(KeeperOptions options);

  /// Runs until no job needs the keeper any more, or until Stop is called.
  void Run();
  /// Makes Run return soon. May be called from any thread.
  void Stop();

 private:
  Keeper(KeeperOptions options, std::unique_ptr<EventLoop> loop);

  // keeper.cc: the loop, tenants' processes, and the planner's orders
  void AfterEach();
  void SettlePlanner();
  void OnTick();
  TenantEvents EventsOf(TenantId id);
  void OnCame(TenantId id, Slot slot);
  void OnSaid(TenantId id, Slot slot, const share::Message& message);
  void OnGone(TenantId id, Slot slot);
  void CarryOut(const sharing::IssuedAction& issued);
  void OnPlace(const sharing::Place& place);
  void OnFailed(const sharing::Failed& failed);
  void OnRequeue(const sharing::Requeue& requeue);
  void LookWhetherNeeded();
  bool LookWhetherReachable();

  // keeper_requests.cc
  void OnRequest(const wire::KeeperRequest& request);
  void OnHello(std::uint64_t id, const wire::KeeperHello& hello);
  void OnAdd(std::uint64_t id, const wire::KeeperAdd& add);
  void OnDisplace(std::uint64_t id, const wire::KeeperDisplace& displace);
  void OnReturn(std::uint64_t id, const wire::KeeperReturn& back);
  void OnRemove(const wire::KeeperRemove& remove);
  void OnCommand(std::uint64_t id, JobId job, Goal goal, const std::vector<int>& to);
  Status Resize(JobId job, const wire::ShareTerms& share, const std::vector<int>& planned_gpus);
  TenantId LatestOf(JobId job) const;

  // keeper_recovery.cc
  Status Recover();
  void SetNode(const std::vector<wire::KeeperGpu>& gpus);
  void TakeUpTenants();
  Status AdoptTenant(const RecordedTenant& record);

  std::unique_ptr<EventLoop> loop_;
  KeeperContext shared_;
  TenantUse use_{shared_};
  PendingRequests pending_{shared_};
  Relocations relocations_{shared_, use_, pending_, [this](const sharing::IssuedAction& issued) { CarryOut(issued); }};
  TenantMemory memory_{shared_, use_};
  SliceTenants slices_{shared_, [this] { takes_.RetryPostponed(); }};
  WholeTakes takes_{shared_, use_, slices_};
  StateReport report_{shared_, relocations_, slices_, takes_};
  std::unique_ptr<GpuWatch> watch_;
  std::map<TenantId, std::string> troubles_;  // Tenants that this keeper could not recover at startup, with the reason.
  bool has_taken_up_ = false;                 // The state left by the previous keeper was recovered.
  std::optional<EventLoop::TimerId> planner_alarm_;
  Time needed_at_ = kNoTime;
  bool may_end_ = false;
};

/// Entry point of `divvy keeper ...`; `words` are the arguments after these two words.
int KeeperMain(const std::vector<std::string>& words);

}  // namespace divvy::keeper
