// Tenants with a MIG instance, which the planner does not know. The GPU is first emptied of all other tenants, as for a
// job with whole GPUs, then divided. After the last instance it is given back. Instances that an earlier keeper has not
// destroyed are listed here too, until they are gone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "keeper/drivers/gpu_watch.h"
#include "keeper/drivers/slices.h"
#include "keeper/keeper_context.h"

namespace divvy::keeper {

class SliceTenants {
 public:
  /// `given_back` is called when the last MIG instance of a GPU is gone.
  SliceTenants(KeeperContext& shared, std::function<void()> given_back)
      : shared_(shared), given_back_(std::move(given_back)) {}

  /// Starts the thread that calls the driver. Call it first, and once.
  void Start();
  /// Returns true if `job`, the job number in an order of the planner, stands for a GPU that is divided into MIG
  /// instances.
  static bool IsOfSlices(std::uint64_t job);
  void OnHello(const wire::KeeperHello& hello);
  void Add(std::uint64_t id, const wire::KeeperAdd& add);
  void Adopt(const RecordedTenant& record);
  /// Destroys the MIG instances that an earlier keeper has left, except those of jobs that still run. Their GPUs stay
  /// reserved until they are gone.
  void FindLeft();
  /// Destroys the MIG instance of this tenant, whose job has ended. Returns false if the tenant has none.
  bool Remove(TenantId id);
  void OnReady(std::uint64_t job);
  void OnFailed(std::uint64_t job, const std::string& why);
  void OnSight(const GpuSight& sight);
  /// Call this periodically. Checks now and then whether the MIG instances still exist; another program may have
  /// destroyed them.
  void Look();
  /// Call this repeatedly after the keeper's directory was deleted. Destroys the MIG instances that no program has used
  /// for a while. Returns false when the keeper may end: all are gone, or cannot be destroyed.
  bool Leave();

  bool HasSlices(GpuIndex gpu) const;
  /// Returns true if the keeper must keep running because of MIG instances. Without a driver, instances that are to be
  /// destroyed do not count: the next keeper finds them in the record.
  bool HasSlicesToKeep() const;
  /// Returns why the GPU's MIG instances are not gone yet, as the reason of jobs that wait for the whole GPU.
  std::string WhySlicesStay(GpuIndex gpu) const;
  /// Adds to `state` the tenants with MIG instances, what they wait for, and problems with instances.
  void Show(wire::KeeperState& state) const;

 private:
  struct Sliced {
    // kWaiting: until its GPU is empty.
    enum class State { kWaiting, kMaking, kThere, kUnmaking };
    RecordedTenant record;
    State state = State::kWaiting;
    Slices::Made made;                   // Without a UUID: not found yet.
    std::vector<std::uint64_t> pending;  // Ids of requests that wait for the instance.
    Bytes used;
    std::string trouble;
    bool is_adopted = false;   // From an earlier keeper, so its job may be running in it.
    bool is_lost = false;      // Its instance has disappeared.
    bool is_sought = false;    // The driver has been asked whether the instance exists.
    bool is_gone = false;      // Being destroyed: the instance is gone, only the GPU's MIG mode is left.
    bool comes_again = false;  // Requested again while it is being destroyed.
    Time used_at = kNoTime;    // When a program was last seen in it.
    GpuIndex gpu() const { return static_cast<GpuIndex>(record.gpus.front()); }
  };

  // slice_tenants.cc
  void AddAgain(std::uint64_t id, const wire::KeeperAdd& add, Sliced& known);
  void MakeSlices(GpuIndex gpu);
  void Fail(TenantId id, Sliced& sliced, const Error& why);
  void OnMade(TenantId id, const Result<Slices::Made>& made);
  void OnAdoptedNotMade(Sliced& sliced, const Error& why);
  void OnLooked(TenantId id, const Status& is_there);
  void AnswerAdded(std::uint64_t id, const Sliced& sliced);
  void Unmake(TenantId id, Sliced& sliced);
  void OnUnmade(const Slices::Unmade& unmade);
  /// Asks the planner to move all other tenants away from the GPU, so that it can be divided. OnReady is called when
  /// the GPU is empty.
  void TakeGpu(GpuIndex gpu);
  /// Lets other tenants use the GPU again if it has no MIG instances left.
  void GiveBack(GpuIndex gpu);

  // slice_tenants_state.cc
  void HoldAllLeft();
  void HoldLeft(TenantId id, GpuIndex gpu);
  TenantId EntryOf(const Slices::Unmade& unmade);
  std::string WhyNotUnmade(const Slices::Unmade& unmade) const;
  wire::KeptTenant StateOf(const Sliced& sliced) const;

  KeeperContext& shared_;
  std::function<void()> given_back_;
  std::unique_ptr<Slices> slices_;
  std::map<TenantId, Sliced> sliced_;
  /// Remaining instances on GPUs that the node does not list, by tenant and UUID, with the reason.
  std::map<std::pair<TenantId, std::string>, std::string> left_;
  bool may_switch_mig_ = false;
  int node_version_ = wire::kFirstKeeperVersion;
  Time abandoned_at_ = kNoTime;
  Time looked_at_ = kNoTime;
};

}  // namespace divvy::keeper
