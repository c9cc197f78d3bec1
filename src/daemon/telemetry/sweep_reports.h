// Passes the metrics that trials of hyperparameter sweeps report to the controller. They come from samples of all
// nodes; after a start of the daemon, also from the logs of trials that ran while no daemon read them. Used on the
// loop's thread.
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

  /// Takes the metrics of trials from the samples of a node.
  void Look(const samples::Snapshot& seen);
  struct Ports {
    std::function<JobLog(const JobRecord& record, const JobSpec& spec)> log_of;
    /// Runs work for this user on another thread, and then the function that it returns on the loop's thread.
    std::function<void(std::int64_t uid, std::function<std::function<void()>()>)> read;
  };
  /// Reads the ends of the logs of all trials on this node that were active before the daemon's start. Lines that were
  /// taken before have no effect.
  void CatchUp(const Ports& ports);

 private:
  void CatchUp(JobId job, const Ports& ports);

  ControllerDriver& driver_;
};

}  // namespace divvy
