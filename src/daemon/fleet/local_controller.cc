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

void TakeShares(ControllerDriver& driver, SharingSnapshot* board, const std::string& node,
                const wire::KeeperState& state) {
  bool has_changed = driver.controller().OnTenants(node, TenantsOf(state));
  std::map<GpuIndex, std::string> stuck;
  for (const wire::KeptGpu& gpu : state.gpus) {
    if (gpu.is_stuck) stuck[gpu.index] = gpu.trouble;
  }
  driver.controller().OnStuckGpus(node, stuck);
  if (board != nullptr) {
    for (const ShareEvent& event : board->Set(node, state, driver.Now())) {
      driver.controller().OnShareEvent(event.job, event.attempt, event.text, driver.Now());
      has_changed = true;
    }
  }
  if (has_changed) driver.Touch();
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
  driver_.controller().OnPrepared(job, attempt, "", port, driver_.Now());
  driver_.Touch();
}

void LocalController::OnDelayed(JobId job, std::uint32_t attempt, const std::string& why) {
  driver_.controller().OnDelayed(job, attempt, why);
  driver_.Touch();
}

void LocalController::OnStarted(JobId job, std::uint32_t attempt, Time at) {
  driver_.controller().OnStarted(job, attempt, at);
  driver_.Touch();
}

void LocalController::OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) {
  driver_.controller().OnExited(job, attempt, exit, at, driver_.Now());
  driver_.Touch();
}

void LocalController::OnVanished(JobId job, std::uint32_t attempt, RunVanished how) {
  driver_.controller().OnVanished(job, attempt, VanishedOf(how), driver_.Now());
  driver_.Touch();
}

void LocalController::OnGpusObserved(const std::vector<GpuObservation>& observations) {
  driver_.controller().OnGpusObserved(observations);
  driver_.Touch();
}

void LocalController::OnShares(const wire::KeeperState& state) { TakeShares(driver_, shares_.get(), "", state); }

void LocalController::OnPresence(const PresenceReport& report) {
  driver_.controller().OnPresence(report, driver_.Now());
  driver_.Touch();
}

void LocalController::OnRepay(JobId job, std::uint32_t attempt, const std::string& why) {
  driver_.controller().OnRepay(job, attempt, why, driver_.Now());
  driver_.Touch();
}

bool LocalController::OnFound(const RunDescription& run) {
  RunDescription here = run;
  here.record.node.clear();
  driver_.controller().OnFound(std::move(here), driver_.Now(), driver_.Outcomes());
  driver_.Touch();
  return true;
}

std::vector<JobId> LocalController::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [id, record] : driver_.controller().live()) {
    if (!IsActive(record.state) || record.array_count != 0 || !IsOn(record, "")) continue;
    // The gang's node allocation on this node may have ended before the others.
    const bool has_ended = std::ranges::any_of(
        record.gang, [](const NodeAllocation& allocation) { return allocation.node.empty() && allocation.exit; });
    if (!has_ended) active.push_back(id);
  }
  return active;
}

const JobRecord* LocalController::Find(JobId job) const {
  const JobRecord* record = driver_.controller().Find(job);
  if (record == nullptr || record->gang.empty()) return record;
  part_ = PartOn(*record, "");
  return &part_;
}

}  // namespace divvy
