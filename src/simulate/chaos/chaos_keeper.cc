// The modelled keeper of a node: it parks runs with whole GPUs and lets them return (docs/time-sharing.md). Its record
// is on disk, so it outlives the keeper and the daemon.
#include <algorithm>

#include "simulate/chaos/chaos_machine.h"

namespace divvy::simulate {
namespace {

Bytes ContentOf(const ChaosTenant& tenant, Bytes gpu_memory) {
  return tenant.presence == Presence::kHere ? Bytes(0) : Bytes(tenant.gpus.size() * gpu_memory.count());
}

}  // namespace

Time ChaosMachine::DrawCopied() {
  const bool is_late = parking_faults_.has_delays && !is_calm_ && random_.Below(10) == 0;
  return clock_.true_time + (is_late ? std::chrono::seconds(random_.Below(3600))
                                     : Duration(std::chrono::milliseconds(random_.Below(9000))));
}

// The controller promises that no other run has these GPUs any more, so the keeper has nothing to wait for.
void ChaosMachine::TakeGpus(const Tree& tree, GpuSet gpus) {
  for (const int gpu : gpus.ToVector()) {
    Key& owner = gpus_[static_cast<std::size_t>(gpu)].owner;
    if (owner.first.is_set() && owner != Key(tree.job, tree.attempt)) {
      trace_.Break("GPU " + std::to_string(gpu) + " has two owners: job " + ToString(owner.first) +
                   " runs on it (attempt " + std::to_string(owner.second) + ") and job " + ToString(tree.job) +
                   (tree.tenant ? " returns" : " starts") + " (attempt " + std::to_string(tree.attempt) + ")");
    }
    owner = {tree.job, tree.attempt};
  }
}

void ChaosMachine::SayPresence(const Tree& tree) {
  if (!has_daemon_) return;
  PresenceReport report;
  report.job = tree.job;
  report.attempt = tree.attempt;
  if (!tree.tenant) {  // It was not started as a tenant.
    report.gpus = tree.launch.gpus;
    report.why = "it was not started as a job that can be parked";
  } else {
    const ChaosTenant& tenant = *tree.tenant;
    report.presence = tenant.presence;
    if (tenant.presence != Presence::kAway) report.gpus = tenant.gpus;
    report.can_park = tenant.presence == Presence::kHere && tenant.can_park;
    report.why = tenant.why;
  }
  presences_.push_back(std::move(report));
}

void ChaosMachine::RepeatPresences() {
  for (const auto& [key, tree] : trees_) {
    if (tree.tenant) SayPresence(tree);
  }
}

bool ChaosMachine::IsAskedBack(JobId job) const {
  return std::ranges::any_of(displacements_,
                             [job](const DisplaceMessage& m) { return m.job == job && !m.is_displaced; });
}

void ChaosMachine::DeliverDisplacement(std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    if (displacements_[i].job == displacements_[index].job) index = i;
  }
  if (index > 0) ++figures_.late_messages;
  const DisplaceMessage message = displacements_[index];
  displacements_.erase(displacements_.begin() + static_cast<std::ptrdiff_t>(index));
  Tree* tree = Find(message.job, message.attempt);
  if (tree == nullptr || !tree->has_process) return;
  trace_.Note(message.is_displaced ? "the keeper is told to park job" : "the keeper is told to let it return: job",
              message.job, message.attempt);
  if (tree->tenant && message.is_displaced) StartParking(*tree);
  else if (tree->tenant) StartReturn(*tree, message.gpus);
  SayPresence(*tree);
}

void ChaosMachine::StartParking(Tree& tree) {
  ChaosTenant& tenant = *tree.tenant;
  if (tenant.presence == Presence::kReturning) tenant.why = "it is returning";
  if (tenant.presence != Presence::kHere) return;
  tenant.why.clear();
  tenant.presence = Presence::kLeaving;
  Bytes content{0};  // The memory of all jobs on the host, and of those on their way.
  for (const auto& [key, other] : trees_) {
    if (other.tenant) content += ContentOf(*other.tenant, gpu_memory());
  }
  if (!tenant.can_park) tenant.why = "it uses NCCL";
  else if (tree.is_paused) tenant.why = "it is stopped";
  else if (DrawsFailure() || content > host_memory_) tenant.why = "the host memory is full";
  if (tenant.why.empty()) tenant.copied_at = DrawCopied();
  else tenant.presence = Presence::kHere;
}

void ChaosMachine::StartReturn(Tree& tree, GpuSet gpus) {
  ChaosTenant& tenant = *tree.tenant;
  switch (tenant.presence) {
    case Presence::kHere:
      break;
    case Presence::kLeaving:  // The controller has given up parking it.
      tenant.why = gpus == tenant.gpus ? "" : "it is being parked";
      if (gpus != tenant.gpus) return;
      tenant.presence = Presence::kHere;
      tenant.copied_at = kNever;
      break;
    case Presence::kReturning:
      tenant.why = gpus == tenant.gpus ? "" : "it is returning to other GPUs";
      break;
    case Presence::kAway:
      tenant.why = DrawsFailure() ? "the copy has failed" : "";
      if (!tenant.why.empty()) return;
      tenant.presence = Presence::kReturning;
      tenant.gpus = gpus;
      tenant.copied_at = DrawCopied();
      TakeGpus(tree, gpus);
  }
}

void ChaosMachine::OnCopied(Tree& tree) {
  ChaosTenant& tenant = *tree.tenant;
  const Time now = clock_.true_time;
  if (tenant.presence == Presence::kReturning && tree.is_paused) {  // It is continued before it can wake.
    tenant.copied_at = now + std::chrono::seconds(1);
    return;
  }
  tenant.copied_at = kNever;
  if (tenant.presence == Presence::kReturning) {
    tenant.presence = Presence::kHere;
    tree.ends_at = AddSaturating(tree.ends_at, now - tenant.parked_at);
    ++figures_.returns;
    trace_.Note("has its GPUs again: job", tree.job, tree.attempt);
  } else if (DrawsFailure()) {
    tenant.presence = Presence::kHere;
    tenant.why = "the host memory is full";
    trace_.Note("cannot be parked, the host memory is full: job", tree.job, tree.attempt);
  } else {
    tenant.presence = Presence::kAway;
    tenant.parked_at = now;
    FreeGpus(tree);
    ++figures_.parks;
    trace_.Note("is parked: job", tree.job, tree.attempt);
  }
  SayPresence(tree);
}

}  // namespace divvy::simulate
