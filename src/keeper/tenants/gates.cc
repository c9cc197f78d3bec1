#include "keeper/tenants/gates.h"

#include <algorithm>
#include <utility>

#include "platform/os/process_tree.h"

namespace divvy::keeper {
namespace {

/// A stopped process cannot report that it has drained; its work on the device ends anyway.
constexpr Duration kLookForStopped = 50ms;

}  // namespace

Gates::~Gates() {
  for (auto& [gpu, place] : places_) {
    if (place.alarm) loop_.Cancel(*place.alarm);
  }
}

void Gates::Join(Tenant& tenant, unsigned device, GpuIndex gpu, const sharing::Share& share) {
  const GateKey key{tenant.id(), device};
  const auto found = gpu_of_.find(key);
  if (found != gpu_of_.end() && found->second != gpu) Leave(tenant, device);
  gpu_of_[key] = gpu;
  Place& place = places_[gpu];
  const bool is_new = !place.members.contains(tenant.id());
  place.members[tenant.id()].tenant = &tenant;
  place.members[tenant.id()].device = device;
  const Time now = loop_.Now();
  place.turns.Add(tenant.id(), share.compute_request, share.compute_limit, share.is_interactive, now);
  // A new tenant counts as waiting for the GPU. If it is alone there, its gate thus opens before its first launch; next
  // to others, it gives its turn away at once.
  if (is_new) place.turns.OnWants(tenant.id(), now);
  PassOverEmpty(place);
  place.is_changed = true;
}

void Gates::PassOverEmpty(Place& place) {
  if (place.members.size() < 2) return;
  for (const auto& [id, member] : place.members) {
    if (member.tenant->processes().empty()) place.turns.OnIdle(id, loop_.Now());
  }
}

void Gates::Leave(const Tenant& tenant, unsigned device) {
  Place* place = PlaceOf(tenant, device);
  if (place == nullptr) return;
  gpu_of_.erase({tenant.id(), device});
  place->members.erase(tenant.id());
  if (place->drain && place->drain->tenant == tenant.id()) place->drain.reset();
  if (place->holder == tenant.id()) place->holder.reset();
  place->turns.Remove(tenant.id(), loop_.Now());
  place->is_changed = true;
}

Gates::Place* Gates::PlaceOf(const Tenant& tenant, unsigned device) {
  const auto at = gpu_of_.find({tenant.id(), device});
  return at == gpu_of_.end() ? nullptr : &places_.at(at->second);
}

void Gates::OnAsk(const Tenant& tenant, unsigned device, Slot slot) {
  Place* place = PlaceOf(tenant, device);
  if (place == nullptr) return;
  place->members.at(tenant.id()).yielded.erase(slot);
  place->turns.OnWants(tenant.id(), loop_.Now());
  place->is_changed = true;
}

void Gates::OnYield(const Tenant& tenant, unsigned device, Slot slot) {
  Place* place = PlaceOf(tenant, device);
  if (place == nullptr || place->holder != tenant.id()) return;  // From a turn that is over.
  Member& member = place->members.at(tenant.id());
  member.yielded.insert(slot);
  // Processes that launched nothing in this turn and do not wait have no work.
  for (const auto& [other, process] : tenant.processes()) {
    if (!member.yielded.contains(other) &&
        (tenant.Launches(other) != process.turn_launches || tenant.Waiting(other) != 0))
      return;
  }
  place->turns.OnIdle(tenant.id(), loop_.Now());
  place->is_changed = true;
}

void Gates::OnDrained(const Tenant& tenant, unsigned device, Slot slot, std::uint64_t number) {
  Place* place = PlaceOf(tenant, device);
  Drain* drain = place == nullptr ? nullptr : DrainOf(*place, tenant.id(), number);
  if (drain == nullptr) return;
  drain->awaited.erase(slot);
  EndDrainIfAll(*place);
}

Gates::Drain* Gates::DrainOf(Place& place, sharing::TenantId id, std::uint64_t number) {
  if (place.drain && place.drain->tenant == id && place.drain->number == number) return &*place.drain;
  const auto member = place.members.find(id);
  if (member == place.members.end() || !member->second.overrun) return nullptr;
  return member->second.overrun->number == number ? &*member->second.overrun : nullptr;
}

void Gates::OnGone(const Tenant& tenant, Slot slot) {
  for (unsigned device = 0; device < tenant.devices().size(); ++device) {
    Place* place = PlaceOf(tenant, device);
    if (place == nullptr) continue;
    Member& member = place->members.at(tenant.id());
    member.yielded.erase(slot);
    if (member.overrun) member.overrun->awaited.erase(slot);
    if (place->drain && place->drain->tenant == tenant.id()) place->drain->awaited.erase(slot);
    EndDrainIfAll(*place);
    PassOverEmpty(*place);
    place->is_changed = true;
  }
}

void Gates::EndDrainIfAll(Place& place) {
  for (auto& [id, member] : place.members) {
    if (!member.overrun || !member.overrun->awaited.empty()) continue;
    member.overrun.reset();
    // The end of the work of the earlier turn is reported, unless the tenant's present turn is ending too: then the end
    // of that one covers both.
    if (!place.drain || place.drain->tenant != id) place.turns.OnDrained(id, loop_.Now());
    place.is_changed = true;
  }
  if (!place.drain || !place.drain->awaited.empty()) return;
  const sharing::TenantId id = place.drain->tenant;
  place.drain.reset();
  place.members.at(id).overrun.reset();
  place.turns.OnDrained(id, loop_.Now());
  place.is_changed = true;
}

void Gates::BeginDrain(GpuIndex gpu, Place& place, sharing::TenantId id) {
  Member& member = place.members.at(id);
  place.drain = Drain{id, next_drain_++, {}};
  member.tenant->SetGate(member.device, share::kShut);
  for (const auto& [slot, process] : member.tenant->processes()) place.drain->awaited.insert(slot);
  share::Message message{};
  message.word = share::Word::kDrain;
  message.device = member.device;
  message.id = place.drain->number;
  member.tenant->SendAll(message);
  loop_.After(kLookForStopped, [this, gpu, id, number = message.id] { LookForStopped(gpu, id, number); });
}

void Gates::LookForStopped(GpuIndex gpu, sharing::TenantId id, std::uint64_t number) {
  Place& place = places_[gpu];
  Drain* drain = DrainOf(place, id, number);
  if (drain == nullptr) return;
  const Tenant& tenant = *place.members.at(id).tenant;
  std::erase_if(drain->awaited, [&tenant](Slot slot) {
    const auto process = tenant.processes().find(slot);
    if (process == tenant.processes().end()) return true;
    const auto stat = ReadProcessStat(static_cast<pid_t>(process->second.pid));
    return stat && stat->state == 'T';
  });
  EndDrainIfAll(place);
  if (DrainOf(place, id, number) != nullptr)
    loop_.After(kLookForStopped, [this, gpu, id, number] { LookForStopped(gpu, id, number); });
}

void Gates::Settle() {
  for (auto& [gpu, place] : places_) {
    // A turn may end at once, because no process has unfinished work. Then the next turn must be decided, too.
    for (int round = 0; place.is_changed && round < 8; ++round) Settle(gpu, place);
  }
}

void Gates::Settle(GpuIndex gpu, Place& place) {
  place.is_changed = false;
  const sharing::Turns::Decision decision = place.turns.Decide(loop_.Now());
  if (decision.drains && (!place.drain || place.drain->tenant != *decision.drains))
    BeginDrain(gpu, place, *decision.drains);
  if (decision.hung) {
    // Stops waiting until the tenant's work is done. The GPU time is still charged to the tenant.
    if (place.drain) place.members.at(*decision.hung).overrun = *std::exchange(place.drain, std::nullopt);
    place.turns.OnOverrun(*decision.hung, loop_.Now());
    place.is_changed = true;
  }
  if (decision.holder != place.holder) {
    place.holder = decision.holder;
    if (place.holder) {
      Member& member = place.members.at(*place.holder);
      member.yielded.clear();
      for (auto& [slot, process] : member.tenant->processes()) process.turn_launches = member.tenant->Launches(slot);
    }
  }
  for (auto& [id, member] : place.members) {
    const bool is_holder = decision.holder == id;
    member.tenant->SetGate(member.device,
                           !is_holder ? share::kShut : (decision.is_alone ? share::kOpen : share::kTurn));
  }
  if (place.alarm) loop_.Cancel(*place.alarm);
  place.alarm.reset();
  if (decision.until != kNever) {
    place.alarm = loop_.At(decision.until, [this, gpu] {
      places_[gpu].alarm.reset();
      places_[gpu].is_changed = true;
    });
  }
  EndDrainIfAll(place);
}

Duration Gates::Had(const Tenant& tenant, unsigned device) const {
  const auto at = gpu_of_.find({tenant.id(), device});
  return at == gpu_of_.end() ? Duration(0) : places_.at(at->second).turns.Had(tenant.id());
}

bool Gates::HasNeighbours(const Tenant& tenant, unsigned device) const {
  const auto at = gpu_of_.find({tenant.id(), device});
  return at != gpu_of_.end() && places_.at(at->second).members.size() > 1;
}

bool Gates::Overruns(const Tenant& tenant, unsigned device) const {
  const auto at = gpu_of_.find({tenant.id(), device});
  return at != gpu_of_.end() && places_.at(at->second).members.at(tenant.id()).overrun.has_value();
}

}  // namespace divvy::keeper
