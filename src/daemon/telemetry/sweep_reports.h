// Brings the numbers that trials report to the controller: from samples of all nodes, and after a start from the logs
// of trials that ran while no daemon read them. Used on the loop's thread.
#pragma once

#include <functional>
#include <string>

#include "daemon/node/job_log.h"
#include "driver/controller_driver.h"
#include "samples/sample.h"

namespace divvy {

class SweepReports {
 public:
  explicit SweepReports(ControllerDriver& driver) : driver_(driver) {}

  void Look(const samples::Snapshot& seen);
  /// Reads the end of a trial's log again. Lines that were reported before have no effect.
  struct Ports {
    std::function<JobLog(const JobRecord& record, const JobSpec& spec)> log_of;
    /// Runs work for this user elsewhere, and its result here.
    std::function<void(std::int64_t uid, std::function<std::function<void()>()>)> read;
  };
  void CatchUp(const Ports& ports);

 private:
  void CatchUp(JobId job, const Ports& ports);

  ControllerDriver& driver_;
};

}  // namespace divvy
