// Says what is found of jobs that waste their GPUs, warns them, and does what is to be done: in the job's history, in
// the log, to who is told (notifier.h), and through the controller as an administrator would.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/driver/core.h"
#include "daemon/notify/notifier.h"
#include "daemon/runtime/log.h"
#include "daemon/telemetry/sample_book.h"
#include "daemon/waste/waste_book.h"

namespace divvy {

class WasteActor {
 public:
  using Park = std::function<void(const JobRecord& record, std::function<void(const Status&)> done)>;
  /// All of these outlive it. `park`: of a job with parts of GPUs, wherever it runs.
  WasteActor(Core& core, WasteBook& book, Notifier& notifier, Log& log, Park park)
      : core_(core), book_(book), notifier_(notifier), log_(log), park_(std::move(park)) {
    book_.ExpectPast();
  }
  ~WasteActor() { *is_alive_ = false; }

  /// What ended is judged as a whole, as soon as all of it is seen.
  void OnDurable(const Effects& effects);
  /// Each second.
  void Look(SampleBook& samples, samples::Second now);

 private:
  void Act(const WasteBook::News& news, samples::Second now);
  void KeepSteps();
  void OnActed(const WasteBook::News& news, const Status& status, samples::Second now);

  Core& core_;
  WasteBook& book_;
  Notifier& notifier_;
  Log& log_;
  Park park_;
  std::deque<std::pair<samples::Second, JobRecord>> ended_;  // When each is to be judged, in that order.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace divvy
