// The controller of this process, as seen by its own node.
#pragma once

#include "daemon/runtime/controller_port.h"
#include "daemon/shares/sharing_snapshot.h"
#include "driver/controller_driver.h"

namespace divvy {

/// Converts how a run has vanished, which means that its node knows no exit of it, from the node's type to the
/// controller's. The run never started, for example, or its end was not observed.
Controller::Vanished VanishedOf(RunVanished how);
/// Passes a keeper's report on the tenants of a node's shared GPUs to the scheduler, to `board` (which shows it to
/// users), and to the histories of the tenants' jobs.
void TakeShares(ControllerDriver& driver, SharingSnapshot* board, const std::string& node,
                const wire::KeeperState& state);

class LocalController final : public ControllerPort {
 public:
  /// `shares` stores the tenants of shared GPUs; null: they are not stored.
  explicit LocalController(ControllerDriver& driver, std::shared_ptr<SharingSnapshot> shares = nullptr)
      : driver_(driver), shares_(std::move(shares)) {}

  Time Now() const override { return driver_.Now(); }
  void OnPrepared(JobId job, std::uint32_t attempt, std::uint16_t port) override;
  void OnDelayed(JobId job, std::uint32_t attempt, const std::string& why) override;
  void OnStarted(JobId job, std::uint32_t attempt, Time at) override;
  void OnExited(JobId job, std::uint32_t attempt, const Exit& exit, Time at) override;
  void OnVanished(JobId job, std::uint32_t attempt, RunVanished how) override;
  void OnGpusObserved(const std::vector<GpuObservation>& observations) override;
  void OnShares(const wire::KeeperState& state) override;
  void OnPresence(const PresenceReport& report) override;
  void OnRepay(JobId job, std::uint32_t attempt, const std::string& why) override;
  bool OnFound(const RunDescription& run) override;
  std::vector<JobId> ActiveRuns() const override;
  const JobRecord* Find(JobId job) const override;
  Result<std::shared_ptr<const JobSpec>> SpecOf(const JobRecord& record) const override {
    return driver_.SpecOf(record);
  }

 private:
  ControllerDriver& driver_;
  std::shared_ptr<SharingSnapshot> shares_;
  mutable JobRecord part_;  // The record that Find returned for a gang.
};

}  // namespace divvy
