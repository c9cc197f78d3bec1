#include "daemon/waste/waste_actor.h"

#include "daemon/waste/waste_ended.h"
#include "daemon/waste/waste_past.h"

namespace divvy {
namespace {

template <typename Value>
Status StatusOf(const Result<Value>& result) {
  return result ? Status() : Status(result.error());
}

/// The caller for actions through the controller.
Caller Divvy() {
  Caller divvy;
  divvy.is_admin = true;
  divvy.user.name = "divvy, because it wastes its GPUs";
  return divvy;
}

}  // namespace

void WasteActor::Look(MetricStore& samples, samples::Second now) {
  const std::vector<WasteTracker::News> all = tracker_.Look(driver_.controller(), samples, now);
  for (const JobRecord& record : tracker_.TakeUnknown(driver_.controller())) {
    AskPast(samples, record, tracker_.own_node(), tracker_.LooksBack(), now,
            [this, record, alive = is_alive_](const WastePast& past) {
              if (*alive) tracker_.Resume(record, past.use, past.looks, past.idle_since);
            });
  }
  for (const WasteTracker::News& news : all) {
    log_.Write(LogLevel::kInfo, "job=" + ToString(news.job) + " event=waste what=" + LogQuoted(news.text));
    // For a stopped job, its end reports this.
    if (news.action != WasteAction::kStop)
      driver_.controller().OnShareEvent(news.job, news.attempt, news.text, driver_.Now());
    const JobRecord* record = driver_.controller().Find(news.job);
    if (record == nullptr) continue;
    notifier_.OnWaste(*record, news.text, {news.lost_gpu_hours, news.lost_cost});
    if (news.action != WasteAction::kNone) Act(news, now);
  }
  KeepSteps();
  if (!all.empty()) driver_.Touch();
  for (; !ended_.empty() && ended_.front().first <= now; ended_.pop_front())
    FindEndedWaste(samples, tracker_, driver_.controller(), ended_.front().second, now, nullptr);
}

void WasteActor::OnDurable(const Effects& effects) {
  const auto now = static_cast<samples::Second>(ToSeconds(driver_.Now()));
  for (const JobRecord& record : effects.finished) {
    if (tracker_.JudgesEnded(record)) ended_.emplace_back(now + kAllIsSeenAfter + 1, record);
  }
}

void WasteActor::KeepSteps() {
  auto rows = tracker_.TakeSettings(driver_.controller());
  for (auto& [key, text] : rows) driver_.controller().KeepSetting(key, std::move(text));
  if (!rows.empty()) driver_.Touch();
}

void WasteActor::Act(const WasteTracker::News& news, samples::Second now) {
  Controller& controller = driver_.controller();
  const JobRecord record = *controller.Find(news.job);
  const Time at = driver_.Now();
  const bool has_parts = record.request.is_portioned();
  switch (news.action) {
    case WasteAction::kNone:
      return;
    case WasteAction::kPark:
      return park_(record, [this, news, now, alive = is_alive_](const Status& status) {
        if (*alive) OnActed(news, status, now);
      });
    case WasteAction::kPause:
      if (has_parts) return OnActed(news, StatusOf(controller.Pause(news.job, Divvy(), at)), now);
      [[fallthrough]];
    case WasteAction::kRequeue:
      return OnActed(
          news,
          StatusOf(controller.Requeue(
              news.job, news.action == WasteAction::kPause ? RequeueAs::kHeld : RequeueAs::kQueued, Divvy(), at)),
          now);
    case WasteAction::kStop:
      return OnActed(news, StatusOf(controller.Cancel(news.job, 0, Duration(-1), "it " + news.text, Divvy(), at)), now);
  }
}

void WasteActor::OnActed(const WasteTracker::News& news, const Status& status, samples::Second now) {
  tracker_.OnAction(news, status.has_value(), now);
  KeepSteps();
  if (status) return;
  const JobRecord* record = driver_.controller().Find(news.job);
  const std::string what = "could not be " + (record == nullptr ? "ended" : DoneText(news.action, *record)) +
                           " for wasting its GPUs: " + status.error().message;
  log_.Write(LogLevel::kWarning, "job=" + ToString(news.job) + " event=waste_action_failed what=" + LogQuoted(what));
  driver_.controller().OnShareEvent(news.job, news.attempt, what, driver_.Now());
  driver_.Touch();
}

}  // namespace divvy
