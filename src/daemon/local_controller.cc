#include "daemon/local_controller.h"

namespace divvy {
namespace {

Controller::Vanished VanishedOf(RunVanished how) {
  switch (how) {
    case RunVanished::kNeverStarted:
      return Controller::Vanished::kNeverStarted;
    case RunVanished::kUnseen:
      return Controller::Vanished::kUnseen;
    case RunVanished::kRebooted:
      break;
  }
  return Controller::Vanished::kRebooted;
}

}  // namespace

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

std::vector<JobId> LocalController::ActiveRuns() const {
  std::vector<JobId> active;
  for (const auto& [id, record] : core_.controller().live()) {
    if (IsActive(record.state) && record.array_count == 0) active.push_back(id);
  }
  return active;
}

}  // namespace divvy
