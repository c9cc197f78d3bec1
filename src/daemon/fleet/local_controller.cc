#include "daemon/fleet/local_controller.h"

#include <algorithm>

#include "control/books/record_parts.h"

namespace divvy {
namespace {

// The present GPUs of the tenants, and whether they can be migrated.
std::vector<Controller::Tenant> TenantsOf(const wire::KeeperState& state) {
  std::vector<Controller::Tenant> tenants;
  for (const wire::KeptTenant& kept : state.tenants) {
    const bool is_there = kept.state == wire::ShareState::kRunning || kept.state == wire::ShareState::kIdle;
    const bool can_move = kept.unmovable.empty() || !is_there;
    Controller::Tenant& tenant = tenants.emplace_back(Controller::Tenant{kept.job, kept.attempt, GpuSet(), can_move});
    for (const wire::KeptShare& share : kept.shares) tenant.gpus.Insert(static_cast<GpuIndex>(share.gpu));
  }
  return tenants;
}

}  // namespace

void TakeShares(ControllerDriver& core, SharingSnapshot* board, const std::string& node,
                const wire::KeeperState& state) {
  bool has_changed = core.controller().OnTenants(node, TenantsOf(state));
  std::map<GpuIndex, std::string> stuck;
  for (const wire::KeptGpu& gpu : state.gpus) {
    if (gpu.is_stuck) stuck[gpu.index] = gpu.trouble;
  }
  core.controller().OnStuckGpus(node, stuck);
  if (board != nullptr) {
    for (const ShareEvent& event : board->Set(node, state, core.Now())) {
      core.controller().OnShareEvent(event.job, event.attempt, event.text, core.Now());
      has_changed = true;
    }
  }
  if (has_changed) core.Touch();
}

Controller::Vanished VanishedOf(RunVanished how) {
  switch (how) {
    case RunVanished::kNeverStarted:
      return Controller::Vanished::kNeverStarted;
    case RunVanished::kUnseen:
      return Controller::Vanished::kUnseen;
    case RunVanished::kCutOff:
      return Controller::Vanished::kFenced;
    case RunVanished::kRebooted:
      break;
  }
  return Controller::Vanished::kRebooted;
}

void LocalController::OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) {
  core_.controller().OnPrepared(job, attempt, "", port, core_.Now());
  core_.Touch();
}

void LocalController::OnDelayed(JobId job, std::uint32_t attempt, const std::string& why) {
  core_.controller().OnDelayed(job, attempt, why);
  core_.Touch();
}

void LocalController::OnStarted(JobId job, std::uint32_t attempt, Time at) {
  core_.controller().OnStarted(job, attempt, at);
  core_.Touch();
}

void LocalController::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  core_.controller().OnExited(job, attempt, exit, at, core_.Now());
  core_.Touch();
}

void LocalController::OnVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  core_.controller().OnVanished(job, attempt, VanishedOf(how), core_.Now());
  core_.Touch();
}

void LocalController::OnGpusObserved(const std::vector<GpuObservation>& observations) {
  core_.controller().OnGpusObserved(observations);
  core_.Touch();
}

void LocalController::OnShares(const wire::KeeperState& state) { TakeShares(core_, shares_.get(), "", state); }

void LocalController::OnRepay(JobId job, std::uint32_t attempt, const std::string& why) {
  core_.controller().OnRepay(job, attempt, why, core_.Now());
  core_.Touch();
}

bool LocalController::OnFound(const RunDescription& run) {
  RunDescription here = run;
  here.record.node.clear();
  core_.controller().OnFound(std::move(here), core_.Now(), core_.Outcomes());
  core_.Touch();
  return true;
}

std::vector<JobId> LocalController::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [id, record] : core_.controller().live()) {
    if (!IsActive(record.state) || record.array_count != 0 || !IsOn(record, "")) continue;
    // The gang's node allocation on this node may have ended before the others.
    const bool has_ended =
        std::ranges::any_of(record.gang, [](const Seat& seat) { return seat.node.empty() && seat.exit; });
    if (!has_ended) active.push_back(id);
  }
  return active;
}

const JobRecord* LocalController::Find(JobId job) const {
  const JobRecord* record = core_.controller().Find(job);
  if (record == nullptr || record->gang.empty()) return record;
  part_ = PartOn(*record, "");
  return &part_;
}

}  // namespace divvy
