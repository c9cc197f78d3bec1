// Jobs with whole GPUs that the controller displaces: their memory is parked, their processes are stopped, and others
// have their GPUs until they return. The keeper's state is followed, so that nothing has to be remembered here.
#include <algorithm>
#include <utility>

#include "daemon/node/node_shares.h"

namespace divvy {
namespace {

bool IsAway(const wire::KeptTenant& tenant) { return tenant.is_displaced && tenant.state == wire::ShareState::kParked; }

Presence PresenceOf(const wire::KeptTenant& tenant) {
  if (tenant.is_displaced) return IsAway(tenant) ? Presence::kAway : Presence::kLeaving;
  const bool is_here = tenant.state == wire::ShareState::kRunning || tenant.state == wire::ShareState::kIdle;
  return is_here ? Presence::kHere : Presence::kReturning;
}

/// Returns the GPUs that the tenant has, or will have after its return.
GpuSet GpusOf(const wire::KeptTenant& tenant, Presence presence) {
  GpuSet gpus;
  for (const wire::KeptShare& share : tenant.shares) {
    const int gpu = presence == Presence::kReturning ? share.paper : share.gpu;
    if (presence != Presence::kAway && gpu >= 0 && gpu < GpuSet::kCapacity) gpus.Insert(static_cast<GpuIndex>(gpu));
  }
  return gpus;
}

}  // namespace

void NodeShares::OnDisplace(const DisplaceCommand& command) {
  const auto at = holders_.find(command.job);
  if (at == holders_.end() || at->second.attempt != command.attempt || waiting_.contains(command.job)) return;
  Holder& holder = at->second;
  if (!holder.is_parkable) {
    const std::string why = !holder.why.empty()         ? holder.why
                            : !why_never_parks_.empty() ? why_never_parks_
                                                        : "it was not started as a job that can be parked";
    return Report(holder, {command.job, command.attempt, Presence::kHere, holder.gpus, false, why});
  }
  holder.command = command;
  holder.why.clear();
  AskToDisplace(command.job);
}

void NodeShares::AskToDisplace(JobId job) {
  Holder& holder = holders_.at(job);
  const DisplaceCommand command = *holder.command;
  wire::KeeperRequest request;
  if (command.is_displaced) {
    request.displace = wire::KeeperDisplace{job, command.attempt};
  } else {
    // Stopped processes cannot take their memory back.
    SetStopped(holder, false);
    request.back = wire::KeeperReturn{job, command.attempt, command.gpus.ToVector()};
  }
  keeper_.Ask(std::move(request),
              [this, command](const Result<wire::KeeperAnswer>& answer) { OnDisplaceAnswer(command, answer); });
}

void NodeShares::OnDisplaceAnswer(const DisplaceCommand& command, const Result<wire::KeeperAnswer>& answer) {
  if (!answer && answer.error().code == ErrorCode::kUnreachable) return;  // The next keeper is asked.
  const auto at = holders_.find(command.job);
  if (at == holders_.end() || at->second.attempt != command.attempt || !at->second.command) return;
  Holder& holder = at->second;
  const bool is_latest = holder.command->is_displaced == command.is_displaced && holder.command->gpus == command.gpus;
  if (!is_latest) return;
  holder.command.reset();
  holder.why = answer ? "" : answer.error().message;
  if (!answer && ports_.tell) {
    ports_.tell("event=" + std::string(command.is_displaced ? "displace" : "return") +
                "_failed job=" + ToString(command.job) + " what=\"" + answer.error().message + "\"");
  }
  holder.reported.reset();
  AskState(command.job, !answer && !command.is_displaced);
}

/// Reports the job's presence, whether or not it has changed. `is_refused`: it could not return.
void NodeShares::AskState(JobId job, bool is_refused) {
  wire::KeeperRequest request;
  request.state.emplace();
  keeper_.Ask(std::move(request), [this, job, is_refused](const Result<wire::KeeperAnswer>& answer) {
    if (!answer || !answer->state) return;
    OnKept(*answer->state);
    const auto at = holders_.find(job);
    if (at == holders_.end() || at->second.reported) return;
    // The keeper has no such tenant, for example because the keeper is of an earlier release.
    Holder& holder = at->second;
    if (holder.why.empty()) holder.why = "the keeper of shared GPUs does not know it";
    // It is not known which GPUs the job uses, so those to which it should have returned are not reported as its own.
    const Presence presence = is_refused ? Presence::kAway : Presence::kHere;
    Report(holder, {job, holder.attempt, presence, is_refused ? GpuSet() : holder.gpus, false, holder.why});
  });
}

void NodeShares::FollowPresence(const wire::KeptTenant& tenant) {
  Holder& holder = holders_.at(tenant.job);
  const bool is_adopted = !std::exchange(holder.is_parkable, true);
  if (waiting_.contains(tenant.job)) return;
  const bool is_asked_back = holder.command && !holder.command->is_displaced;
  // Only once: it may have been continued meanwhile so that it can end.
  if (IsAway(tenant) && !is_asked_back && !holder.is_ending && (!holder.is_stopped || is_adopted))
    SetStopped(holder, true);
  // An earlier process of this node may have stopped it.
  if (!tenant.is_displaced && (holder.is_stopped || is_adopted)) SetStopped(holder, false);
  const Presence presence = PresenceOf(tenant);
  const GpuSet gpus = GpusOf(tenant, presence);
  if (!gpus.empty()) holder.gpus = gpus;
  const bool can_park = presence == Presence::kHere && tenant.unparkable.empty();
  std::string why = !holder.why.empty() ? holder.why : tenant.displacement_failure;
  if (presence == Presence::kHere && why.empty()) why = tenant.unparkable;
  Report(holder, {tenant.job, tenant.attempt, presence, gpus, can_park, std::move(why)});
}

void NodeShares::SetStopped(Holder& holder, bool is_stopped) {
  holder.is_stopped = is_stopped;
  ports_.execute(DisplaceCommand{holder.record.id, holder.attempt, is_stopped, {}, ""}, nullptr);
}

void NodeShares::Report(Holder& holder, PresenceReport report) {
  if (holder.reported == report) return;
  holder.reported = report;
  controller_->OnPresence(report);
}

void NodeShares::RepeatPresence() {
  for (auto& [job, holder] : holders_) holder.reported.reset();
  for (const wire::KeptTenant& tenant : state_.tenants) {
    const auto holder = holders_.find(tenant.job);
    if (!tenant.is_whole || holder == holders_.end() || holder->second.attempt != tenant.attempt) continue;
    FollowPresence(tenant);
  }
}

/// Makes a waiting job one that cannot be parked later, for this reason. Returns false if it already was one.
bool NodeShares::StartAsOrdinary(JobId job, const std::string& why) {
  Holder& holder = holders_.at(job);
  if (!std::exchange(holder.is_parkable, false)) return false;
  holder.why = why;
  if (ports_.tell) ports_.tell("event=never_parked job=" + ToString(job) + " what=\"" + why + "\"");
  return true;
}

}  // namespace divvy
