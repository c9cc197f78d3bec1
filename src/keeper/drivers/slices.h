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
    /// Answers Make. kNotFound: the tenant had a MIG instance, which has disappeared.
    std::function<void(TenantId, const Result<Made>&)> made;
    /// Answers Look. kNotFound: the instance has disappeared.
    std::function<void(TenantId, const Status&)> looked;
    /// Answers Unmake. After a failure it is retried, with growing intervals, until it succeeds.
    std::function<void(const Unmade&)> unmade;
    /// Reports whether a capable driver is available, or the reason why not. Called again when that changes.
    std::function<void(const Status&)> probed;
  };
  /// `library`: a stand-in for libnvidia-ml.so.1; empty: the driver's own.
  Slices(EventLoop& loop, std::string directory, std::string library, Events events);
  /// Does not wait for a blocked driver call.
  ~Slices();

  /// Creates an instance, or returns the one that the tenant already has.
  void Make(Wanted wanted);
  /// Checks whether the tenant's instance still exists.
  void Look(TenantId tenant, GpuIndex gpu);
  /// Destroys the tenant's instance. After the last one on the GPU, switches MIG mode off if divvy had switched it on.
  void Unmake(TenantId tenant, GpuIndex gpu);
  /// Destroys instances that an earlier keeper created for tenants other than these. Events::unmade follows for each
  /// instance, and for each GPU whose MIG mode it left on.
  void KeepOnly(std::set<TenantId> tenants);
  /// The directory is gone: nothing is recorded any more, and this keeper will have no successor.
  void Abandon();

 private:
  struct Shared;
  void Do(std::function<void(Shared&)> task);
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
