// Creates and destroys MIG instances on a separate thread, because the driver may take seconds for each. Each instance
// is recorded before it is created (platform/gpu/slice_record.h), so that a successor knows which are divvy's. It never
// touches other instances.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "keeper/drivers/event_loop.h"
#include "model/gpus/gpu.h"
#include "platform/gpu/mig.h"
#include "sharing/share.h"

namespace divvy::keeper {

class Slices {
 public:
  using TenantId = sharing::TenantId;
  struct Wanted {
    TenantId tenant;
    GpuIndex gpu = 0;
    GpuSlice slice;
    bool may_switch = false;  // May switch on the GPU's MIG mode.
  };
  struct Made {
    MigInstance instance;
    std::vector<std::string> device_files;
  };
  /// Progress of destroying a tenant's instance.
  struct Unmade {
    TenantId tenant;       // Job 0: not a tenant; only the GPU's MIG mode is concerned.
    std::string gpu;       // The GPU's UUID. Empty: the tenant had no instance.
    bool is_gone = false;  // No instance of the tenant is left.
    Status status;         // OK: a MIG mode that divvy switched on is off again, too. Else the reason.
  };
  /// Callbacks, called by the loop in the order of the requests.
  struct Events {
    /// Gets the result of Make. kNotFound: the tenant had a MIG instance, which has disappeared.
    std::function<void(TenantId, const Result<Made>&)> made;
    /// Gets the result of Look. kNotFound: the tenant's MIG instance has disappeared.
    std::function<void(TenantId, const Status&)> looked;
    /// Gets the result of each attempt to destroy an instance (Unmake). After a failure the attempt is repeated, with
    /// growing intervals, until it succeeds.
    std::function<void(const Unmade&)> unmade;
    /// Gets OK if there is a driver that supports MIG, or the reason why there is none. Called again when that changes.
    std::function<void(const Status&)> probed;
  };
  /// `directory`: where the instances are recorded. `library`: the path of a stand-in for libnvidia-ml.so.1; empty: the
  /// driver's own library.
  Slices(EventLoop& loop, std::string directory, std::string library, Events events);
  /// Ends the thread that calls the driver. Does not wait for a driver call that blocks.
  ~Slices();

  /// Creates a MIG instance for the tenant, or finds the one that it already has. Events::made gets the result.
  void Make(Wanted wanted);
  /// Checks whether the tenant's MIG instance still exists. Events::looked gets the result.
  void Look(TenantId tenant, GpuIndex gpu);
  /// Destroys the tenant's MIG instance. After the last one on the GPU, switches MIG mode off if divvy had switched it
  /// on.
  void Unmake(TenantId tenant, GpuIndex gpu);
  /// Destroys the MIG instances that an earlier keeper created, except those of `tenants`. Events::unmade is called for
  /// each instance, and for each GPU whose MIG mode that keeper left on.
  void KeepOnly(std::set<TenantId> tenants);
  /// Call this when the keeper's directory was deleted: no further record is written, since no later keeper can read
  /// it.
  void Abandon();

 private:
  struct Shared;
  void Do(std::function<void(Shared&)> task);
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
