// The gates of a node's shared GPUs. sharing::Turns decides which tenant may launch, based on the processes' messages,
// and the decisions are written to the tenants' pages.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "keeper/drivers/event_loop.h"
#include "keeper/tenants/tenant.h"
#include "model/gpus/gpu.h"
#include "sharing/turns.h"

namespace divvy::keeper {

class Gates {
 public:
  explicit Gates(EventLoop& loop) : loop_(loop) {}
  ~Gates();

  /// Lets the tenant use `gpu`, as its device number `device`, in turns with the other tenants there. A repeated call
  /// updates its share.
  void Join(Tenant& tenant, unsigned device, GpuIndex gpu, const sharing::Share& share);
  /// Ends the tenant's turns on this device. From then on the caller opens and closes its gate, which lets its programs
  /// submit work.
  void Leave(const Tenant& tenant, unsigned device);

  void OnAsk(const Tenant& tenant, unsigned device, Slot slot);
  void OnYield(const Tenant& tenant, unsigned device, Slot slot);
  void OnDrained(const Tenant& tenant, unsigned device, Slot slot, std::uint64_t number);
  void OnGone(const Tenant& tenant, Slot slot);

  /// Decides which tenants have their turn now, and opens and closes their gates. Call this after reporting facts.
  void Settle();

  /// Returns the GPU time that the tenant has had on this device since Join.
  Duration Had(const Tenant& tenant, unsigned device) const;
  /// Returns true if work that the tenant submitted in an earlier turn still runs. Its time is charged to the tenant,
  /// although other tenants have their turns meanwhile.
  bool Overruns(const Tenant& tenant, unsigned device) const;
  bool HasNeighbours(const Tenant& tenant, unsigned device) const;

 private:
  struct Drain {
    sharing::TenantId tenant;
    std::uint64_t number = 0;
    std::set<Slot> awaited;
  };
  struct Member {
    Tenant* tenant = nullptr;
    unsigned device = 0;
    std::set<Slot> yielded;        // Processes that yielded in this turn.
    std::optional<Drain> overrun;  // A drain that is no longer awaited, but charged until it has ended.
  };
  struct Place {
    sharing::Turns turns;
    std::map<sharing::TenantId, Member> members;
    std::optional<sharing::TenantId> holder;
    std::optional<Drain> drain;
    std::optional<EventLoop::TimerId> alarm;
    bool is_changed = false;
  };
  using GateKey = std::pair<sharing::TenantId, unsigned>;
  Place* PlaceOf(const Tenant& tenant, unsigned device);
  void Settle(GpuIndex gpu, Place& place);
  void BeginDrain(GpuIndex gpu, Place& place, sharing::TenantId id);
  void LookForStopped(GpuIndex gpu, sharing::TenantId id, std::uint64_t number);
  void EndDrainIfAll(Place& place);
  /// Ends the turn of a tenant that has no processes, since it could never give the turn away. A tenant that is alone
  /// on the GPU keeps it.
  void PassOverEmpty(Place& place);
  Drain* DrainOf(Place& place, sharing::TenantId id, std::uint64_t number);

  EventLoop& loop_;
  std::map<GpuIndex, Place> places_;
  std::map<GateKey, GpuIndex> gpu_of_;
  std::uint64_t next_drain_ = 1;
};

}  // namespace divvy::keeper
