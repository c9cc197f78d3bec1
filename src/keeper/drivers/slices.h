// Makes and unmakes MIG instances, on a thread of its own, for the driver may take seconds for each. What it makes is
// written down first (platform/gpu/slice_record.h), so that a successor knows what is divvy's; what is not it never
// touches.
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
    bool may_switch = false;  // The GPU's MIG mode, if it is off.
  };
  struct Made {
    MigInstance instance;
    std::vector<std::string> device_files;
  };
  /// How the unmaking of what a tenant had stands.
  struct Unmade {
    TenantId tenant;       // Of job 0: nobody's any more; it is about the GPU's mode alone.
    std::string gpu;       // Its UUID; empty: there was nothing.
    bool is_gone = false;  // No instance of it is left.
    Status status;         // Fine: nor is the MIG mode that was switched on for it. Else why not.
  };
  /// Called by the loop, in the order of what was asked.
  struct Events {
    /// kNotFound: it had one that is not there any more.
    std::function<void(TenantId, const Result<Made>&)> made;
    /// Answers Look. kNotFound: its instance is gone.
    std::function<void(TenantId, const Status&)> looked;
    /// Where it failed it is tried again, ever more seldom, until it is done.
    std::function<void(const Unmade&)> unmade;
    /// Whether there is a driver that can; its reason else. Again where that has changed.
    std::function<void(const Status&)> probed;
  };
  /// `library`: a stand-in for libnvidia-ml.so.1; empty: the driver's own.
  Slices(EventLoop& loop, std::string directory, std::string library, Events events);
  /// Does not wait for a call that hangs.
  ~Slices();

  /// An instance that the tenant has already is as good as a new one.
  void Make(Wanted wanted);
  /// Whether what it has is still there.
  void Look(TenantId tenant, GpuIndex gpu);
  /// And switches the GPU's MIG mode off where it was switched on for it, after the last one.
  void Unmake(TenantId tenant, GpuIndex gpu);
  /// Unmakes what an earlier keeper made for anybody else. Events::unmade follows for each that there is, and for each
  /// GPU whose mode it left on.
  void KeepOnly(std::set<TenantId> tenants);
  /// The directory is gone: nothing is written down any more, and nobody comes after this keeper.
  void Abandon();

 private:
  struct Shared;
  void Do(std::function<void(Shared&)> task);
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
