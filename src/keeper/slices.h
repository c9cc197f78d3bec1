// Makes and unmakes MIG instances, on a thread of its own, for the driver may take seconds for each. What it makes is
// written down first (platform/slice_record.h), so that a successor knows what is divvy's; what is not it never
// touches.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "keeper/event_loop.h"
#include "model/gpu.h"
#include "platform/mig.h"
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
  /// Called by the loop, in the order of what was asked.
  struct Events {
    std::function<void(TenantId, const Result<Made>&)> made;
    /// Also where there was nothing. Fails while programs are in it: it is tried again all the time.
    std::function<void(TenantId, const Status&)> unmade;
    /// Once: whether there is a driver that can. Its reason else.
    std::function<void(const Status&)> probed;
  };
  /// `library`: a stand-in for libnvidia-ml.so.1; empty: the driver's own.
  Slices(EventLoop& loop, std::string directory, std::string library, Events events);
  /// Does not wait for a call that hangs.
  ~Slices();

  /// An instance that the tenant has already is as good as a new one.
  void Make(Wanted wanted);
  /// And switches the GPU's MIG mode off where it was switched on for it, after the last one.
  void Unmake(TenantId tenant);
  /// Unmakes what an earlier keeper made for anybody else. Events::unmade follows for each that there is.
  void KeepOnly(std::set<TenantId> tenants);

 private:
  struct Shared;
  void Do(std::function<void(Shared&)> task);
  std::shared_ptr<Shared> shared_;
};

}  // namespace divvy::keeper
