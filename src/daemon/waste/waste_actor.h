// Reports jobs that waste their GPUs, warns them and takes actions. It writes to the job's history and the log, sends
// notifications (notifier.h), and acts through the controller as an administrator would.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/notify/notifier.h"
#include "daemon/runtime/log.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/waste/waste_tracker.h"
#include "driver/controller_driver.h"

namespace divvy {

class WasteActor {
 public:
  using Park = std::function<void(const JobRecord& record, std::function<void(const Status&)> done)>;
  /// All arguments must outlive this object. `park` moves the GPU memory of a job with GPU fractions to the host, on
  /// whichever node the job runs.
  WasteActor(ControllerDriver& driver, WasteTracker& tracker, Notifier& notifier, Log& log, Park park)
      : driver_(driver), tracker_(tracker), notifier_(notifier), log_(log), park_(std::move(park)) {
    tracker_.ExpectPast();
  }
  ~WasteActor() { *is_alive_ = false; }

  /// Schedules, for each job that has ended, the search for waste in its run. It takes place when all samples of the
  /// job have arrived.
  void OnDurable(const Effects& effects);
  /// Compares the samples of the jobs with the rules, and reports and acts on the waste that it finds. Call once a
  /// second.
  void Look(MetricStore& samples, samples::Second now);

 private:
  void Act(const WasteTracker::News& news, samples::Second now);
  void KeepSteps();
  void OnActed(const WasteTracker::News& news, const Status& status, samples::Second now);

  ControllerDriver& driver_;
  WasteTracker& tracker_;
  Notifier& notifier_;
  Log& log_;
  Park park_;
  std::deque<std::pair<samples::Second, JobRecord>> ended_;  // When each job is to be examined, in that order.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
