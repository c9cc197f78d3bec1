#include "sharing/planner/share_planner.h"

#include <algorithm>
#include <utility>

#include "sharing/occupied_gpus.h"
#include "sharing/planner/displacements.h"
#include "sharing/planner/evacuation.h"
#include "sharing/planner/memory_requests.h"
#include "sharing/planner/rebalancer.h"
#include "sharing/planner/seeker_placement.h"
#include "sharing/planner/user_commands.h"
#include "sharing/words.h"

namespace divvy::sharing {

struct SharePlanner::Parts {
  explicit Parts(const Settings& settings) : node(settings) {}

  NodeOccupancy node;
  ActionTracker actions;
  MemoryCeilings ceilings{node, actions};
  TenantMover mover{node, actions, ceilings};
  Repayment repayment{node, actions, ceilings, mover};
  Evacuation evacuation{node, actions, mover};
  PinRequests pins{node, actions, ceilings, mover, repayment};
  MemoryRequests requests{node, actions, ceilings, repayment, pins};
  SeekerPlacement seekers{node, actions, ceilings, mover, repayment};
  Displacements displacements{node, actions, mover};
  UserCommands commands{node, actions, mover, repayment};
  Rebalancer rebalancer{node, actions, mover, requests, pins};
};

SharePlanner::SharePlanner(const Settings& settings) : parts_(std::make_unique<Parts>(settings)) {}
SharePlanner::SharePlanner(SharePlanner&&) noexcept = default;
SharePlanner& SharePlanner::operator=(SharePlanner&&) noexcept = default;
SharePlanner::~SharePlanner() = default;

void SharePlanner::SetGpu(const Gpu& gpu) { parts_->node.SetGpu(gpu); }

void SharePlanner::AcquireExclusive(std::uint64_t job, GpuSet gpus) {
  parts_->actions.ForgetJobFailure(job);
  parts_->node.AcquireExclusive(job, gpus);
}

void SharePlanner::ReleaseExclusive(std::uint64_t job) {
  parts_->actions.ForgetJobFailure(job);
  parts_->node.ReleaseExclusive(job);
}

Status SharePlanner::AddTenant(const Tenant& tenant) { return parts_->node.AddTenant(tenant); }

Status SharePlanner::LoadTenant(const Tenant& tenant) { return parts_->node.LoadTenant(tenant); }

void SharePlanner::RemoveTenant(TenantId id) {
  parts_->node.RemoveTenant(id);
  parts_->actions.RemoveTenant(id);
  parts_->ceilings.RemoveTenant(id);
  parts_->repayment.RemoveTenant(id);
  parts_->pins.RemoveTenant(id);
  parts_->requests.RemoveTenant(id);
  parts_->commands.RemoveTenant(id);
}

Status SharePlanner::Resize(TenantId id, const Share& share, std::optional<GpuSet> planned_gpus) {
  return parts_->node.Resize(id, share, planned_gpus);
}

void SharePlanner::SetUse(TenantId id, unsigned device, Bytes used_and_residual) {
  if (parts_->node.SetUse(id, device, used_and_residual)) parts_->ceilings.OnUse(id, device);
}

void SharePlanner::SetLeft(TenantId id, unsigned device, Bytes left) { parts_->repayment.SetLeft(id, device, left); }

void SharePlanner::SetTimeUsed(TenantId id, GpuShare in_last_second) { parts_->node.SetTimeUsed(id, in_last_second); }
void SharePlanner::SetActivity(TenantId id, bool is_active, Time now) { parts_->node.SetActivity(id, is_active, now); }

void SharePlanner::SetCannot(TenantId id, std::string why_cannot_move, std::string why_cannot_park) {
  parts_->node.SetCannot(id, std::move(why_cannot_move), std::move(why_cannot_park));
}

void SharePlanner::RequestMemory(TenantId id, unsigned device, Bytes bytes, std::uint64_t request) {
  parts_->requests.Add(id, device, bytes, request);
}

void SharePlanner::ForgetRequest(TenantId id, std::uint64_t request) {
  parts_->pins.Forget(id, request);
  parts_->requests.Forget(id, request);
}

void SharePlanner::Pin(TenantId id, std::uint64_t request) { parts_->pins.Add(id, request); }

void SharePlanner::WantWake(TenantId id) { parts_->node.WantWake(id); }

Status SharePlanner::ParkByUser(TenantId id) { return parts_->commands.Park(id); }

Status SharePlanner::WakeByUser(TenantId id) { return parts_->commands.Wake(id); }

Status SharePlanner::MoveByUser(TenantId id, const std::vector<GpuIndex>& to) { return parts_->commands.Move(id, to); }

Status SharePlanner::Displace(TenantId id) { return parts_->displacements.Displace(id); }

Status SharePlanner::Return(TenantId id, const std::vector<GpuIndex>& to) {
  return parts_->displacements.Return(id, to);
}

std::string SharePlanner::WhyKeepsGpu(TenantId id) const {
  const Tenant* tenant = Find(id);
  return tenant == nullptr ? "" : parts_->node.WhyKeepsGpu(*tenant);
}

void SharePlanner::OnDone(std::uint64_t action_id, const Done& done, Time now) {
  const std::optional<ActionTracker::InFlight> ended = parts_->actions.End(action_id);
  if (!ended) return;  // The tenant was removed meanwhile.
  std::map<TenantId, Tenant>& tenants = parts_->node.tenants();
  if (const auto* ceiling = std::get_if<SetCeiling>(&ended->action)) parts_->ceilings.OnSet(*ceiling, done.bytes);
  if (const auto* shrink = std::get_if<Shrink>(&ended->action)) parts_->repayment.OnShrunk(shrink->tenant, now);
  if (const auto* move = std::get_if<Move>(&ended->action)) parts_->mover.OnMoved(tenants.at(move->tenant), done, now);
  if (const auto* wake = std::get_if<Wake>(&ended->action)) parts_->mover.OnWoken(tenants.at(wake->tenant), done, now);
  if (const auto* park = std::get_if<Park>(&ended->action)) {
    parts_->repayment.OnParkEnded(park->tenant);
    parts_->mover.OnParked(tenants.at(park->tenant), ended->parked_by, done, now);
  }
}

void SharePlanner::OnLostEnded(TenantId id, Time now) { parts_->mover.OnLostEnded(id, now); }

std::vector<IssuedAction> SharePlanner::Decide(Time now) {
  Parts& parts = *parts_;
  parts.node.BeginDecision(now);
  parts.actions.BeginDecision();
  parts.ceilings.BeginDecision();
  parts.repayment.BeginDecision();
  parts.pins.BeginDecision();
  parts.requests.BeginDecision();
  parts.actions.DecideAgainBy(parts.node.NextRefusalEnd());
  parts.evacuation.ReportUnusable();
  parts.repayment.KeepBounds();
  parts.evacuation.EmptyWholes();
  parts.pins.Settle();
  parts.evacuation.EmptyWithheld();
  parts.actions.WithdrawGpuFailures();
  parts.displacements.ParkDisplaced();
  parts.commands.MoveAsRequested();
  parts.commands.ParkAsRequested();
  parts.evacuation.Uncrowd();
  // First serves tenants and memory requests within the guaranteed share, then those that borrow.
  for (const Right right : {Right::kRequest, Right::kLoan}) {
    parts.seekers.PlaceSeekers(right);
    parts.requests.AnswerAll(right);
  }
  parts.repayment.LowerLeaving();
  parts.rebalancer.ParkIdle();
  parts.rebalancer.EndLodging();
  parts.rebalancer.Spread();
  return parts.actions.Take();
}

Time SharePlanner::next_decision() const { return parts_->actions.next_decision(); }

const std::map<TenantId, Tenant>& SharePlanner::tenants() const { return parts_->node.tenants(); }

const Tenant* SharePlanner::Find(TenantId id) const { return parts_->node.Find(id); }

const std::map<GpuIndex, Gpu>& SharePlanner::gpus() const { return parts_->node.gpus(); }

Bytes SharePlanner::Free(GpuIndex gpu) const { return parts_->node.Free(gpu); }

Duration SharePlanner::RepackBound(GpuSet gpus) const { return sharing::RepackBound(parts_->node, gpus); }

std::string SharePlanner::WhyWaits(TenantId id) const { return parts_->actions.WhyWaits(id); }

bool SharePlanner::IsAtWork() const { return !parts_->actions.in_flight().empty(); }

std::string SharePlanner::CheckInvariants() const {
  for (const auto& [id, tenant] : tenants()) {
    const auto is_of_it = [&](const auto& entry) {
      const Action& action = entry.second.action;
      if (const auto* move = std::get_if<Move>(&action)) return move->tenant == id;
      if (const auto* park = std::get_if<Park>(&action)) return park->tenant == id;
      if (const auto* wake = std::get_if<Wake>(&action)) return wake->tenant == id;
      return false;
    };
    const auto& in_flight = parts_->actions.in_flight();
    const auto actions = std::count_if(in_flight.begin(), in_flight.end(), is_of_it);
    if (actions != (IsInFlight(tenant) ? 1 : 0)) return TenantText(id) + " is under way without an order, or has two";
  }
  return parts_->node.CheckInvariants();
}

}  // namespace divvy::sharing
