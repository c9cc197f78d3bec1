// The gates of a node's shared GPUs: sharing::Turns says whose turn it is, the words of the processes are its facts,
// and what it decides is written to their pages.
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

  /// The tenant's device is on that GPU from now on, and takes turns there. Again: its share has changed.
  void Join(Tenant& tenant, unsigned device, GpuIndex gpu, const sharing::Share& share);
  /// It takes no turns any more; its gate is whoever's that called this.
  void Leave(const Tenant& tenant, unsigned device);

  void OnAsk(const Tenant& tenant, unsigned device, Slot slot);
  void OnYield(const Tenant& tenant, unsigned device, Slot slot);
  void OnDrained(const Tenant& tenant, unsigned device, Slot slot, std::uint64_t number);
  void OnGone(const Tenant& tenant, Slot slot);

  /// Writes what has changed. To be called after facts.
  void Settle();

  /// Time that it had of the GPU it is on, since it joined.
  Duration Had(const Tenant& tenant, unsigned device) const;
  /// Work of an earlier turn has not ended yet, and is charged though others go on.
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
    std::set<Slot> yielded;        // In this turn.
    std::optional<Drain> overrun;  // Nobody waits for it any longer, but it is charged until it has ended.
  };
  struct Place {
    sharing::Turns turns;
    std::map<sharing::TenantId, Member> members;
    std::optional<sharing::TenantId> holder;
    std::optional<Drain> drain;
    std::optional<EventLoop::TimerId> alarm;
    bool is_changed = false;
  };
  using Seat = std::pair<sharing::TenantId, unsigned>;
  Place* PlaceOf(const Tenant& tenant, unsigned device);
  void Settle(GpuIndex gpu, Place& place);
  void BeginDrain(GpuIndex gpu, Place& place, sharing::TenantId id);
  void LookForStopped(GpuIndex gpu, sharing::TenantId id, std::uint64_t number);
  void EndDrainIfAll(Place& place);
  /// Who has no process has nothing to do, and nobody to give its turn away. Alone it may as well have it.
  void PassOverEmpty(Place& place);
  Drain* DrainOf(Place& place, sharing::TenantId id, std::uint64_t number);

  EventLoop& loop_;
  std::map<GpuIndex, Place> places_;
  std::map<Seat, GpuIndex> seats_;
  std::uint64_t next_drain_ = 1;
};

}  // namespace divvy::keeper
