#include "daemon/services/service_scaler.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "base/duration_text.h"
#include "base/text.h"
#include "daemon/services/service_checks.h"
#include "dialect/options/quoted.h"

namespace divvy {
namespace {

constexpr std::size_t kMostEvents = 50;
constexpr Duration kObserveEvery = std::chrono::seconds(1);
constexpr Duration kLongestRetry = std::chrono::seconds(60);
/// If a replica of a new revision has waited this long for a GPU, a replica of an old revision is stopped for it.
constexpr Duration kWaitsForRoom = std::chrono::seconds(10);
/// After a failure to park or wake a replica, the time until the next attempt: reasons such as a lack of host memory
/// pass.
constexpr Duration kActsAgain = std::chrono::minutes(1);
constexpr Duration kWakesAgain = std::chrono::seconds(1);
constexpr int kFailuresOfUpdate = 2;
constexpr int kFailuresToReport = 3;
/// Once a replica has been ready for this long, earlier failures do not count any more.
constexpr Duration kForgetsFailures = std::chrono::minutes(1);
/// Failures do not count any more after this time, or twice the time in which a replica must be ready.
constexpr Duration kForgetsOldFailures = std::chrono::minutes(10);

constexpr std::string_view kForeign = "no process of its owner listens at its port; it gets no requests";

Duration Span(double seconds) { return Duration(std::llround(seconds * 1e9)); }

}  // namespace

std::optional<double> SumOfMetric(const std::vector<std::optional<double>>& of_ready) {
  if (of_ready.empty()) return 0;
  double sum = 0;
  double known = 0;
  for (const std::optional<double>& value : of_ready) {
    if (!value || !std::isfinite(*value) || *value < 0) continue;
    sum += *value;
    ++known;
  }
  if (known == 0) return std::nullopt;
  const double total = sum / known * static_cast<double>(of_ready.size());
  return std::isfinite(total) ? std::optional(total) : std::nullopt;
}

ServiceScaler::ServiceScaler(wire::KeptService& kept, Time now)
    : kept_(kept), autoscaler_(ScalingOf(kept.settings)), loaded_at_(now) {
  // An update has replicas of two revisions, and the load needs only one set of them.
  wanted_ = std::max(CountOf("ready"), HotOf(Of(true)));
  // A new service has its least replicas before the front reports a load. Parked replicas stay parked.
  if (Of(true).empty() && Of(false).empty()) wanted_ = static_cast<int>(kept_.settings.min_replicas);
  else if (wanted_ == 0 && CountOf("parked") + CountOf("parking") > 0) loaded_at_ = now - Span(kept_.settings.idle_s);
  // The front must count again before anything is parked or stopped.
  for (wire::ServiceReplica& replica : kept_.replicas) {
    if (replica.state == "parking" || replica.state == "draining") replica.since = ToSeconds(now);
  }
}

void ServiceScaler::OnSettings() { autoscaler_ = autoscale::Autoscaler(ScalingOf(kept_.settings)); }

wire::ServiceRevision* ServiceScaler::FindRevision(std::int64_t number) {
  const auto found = std::ranges::find(kept_.revisions, number, &wire::ServiceRevision::number);
  return found == kept_.revisions.end() ? nullptr : &*found;
}

void ServiceScaler::AddEvent(const std::string& text, Time now) {
  events_.push_back({ToSeconds(now), text});
  if (events_.size() > kMostEvents) events_.pop_front();
}

void ServiceScaler::OnNewTarget(const std::string& why, Time now) {
  failures_ = delays_ = 0;
  retry_at_ = kNoTime;
  note_.clear();
  AddEvent(why, now);
  is_changed_ = true;
}

void ServiceScaler::OnStartRefused(std::int64_t revision, const std::string& why, Time now) {
  if (kept_.canary_revision != 0 && revision == kept_.canary_revision) {
    if (now < canary_retry_at_) return;  // Another one of the same step.
    ++canary_refusals_;
    canary_retry_at_ =
        now + std::min<Duration>(std::chrono::seconds(1) * (1 << std::min(canary_refusals_, 6)), kLongestRetry);
    note_ = "a replica of the canary could not be started: " + why;
    return;
  }
  refusal_ = "a replica could not be started: " + why;
  if (now < retry_at_) return;  // Another one of the same step.
  ++failures_;
  failed_at_ = now;
  retry_at_ = now + std::min<Duration>(std::chrono::seconds(1) * (1 << std::min(++delays_, 6)), kLongestRetry);
}

void ServiceScaler::OnStartLost(std::int64_t replica) {
  std::erase_if(kept_.replicas, [&](const wire::ServiceReplica& known) { return known.number == replica; });
  runtime_.erase(replica);
  is_changed_ = true;
}

void ServiceScaler::OnMetric(bool is_known) { is_metric_missing_ = !is_known; }

std::string ServiceScaler::Note() const {
  if (!refusal_.empty()) return refusal_;
  if (!note_.empty() || !is_metric_missing_ || kept_.settings.metric.empty()) return note_;
  return "no replica reports a number from 0 on as " + dialect::Quoted(OneLine(kept_.settings.metric)) +
         " (NaN does not count); until one does, the number of replicas stays";
}

const std::string& ServiceScaler::NoteOf(std::int64_t replica) const {
  static const std::string none;
  const auto found = runtime_.find(replica);
  return found == runtime_.end() ? none : found->second.note;
}

bool ServiceScaler::IsWaking(std::int64_t replica) const {
  const auto found = runtime_.find(replica);
  return found != runtime_.end() && found->second.waking_since != kNoTime;
}

int ServiceScaler::CountOf(std::string_view state) const {
  return static_cast<int>(std::ranges::count_if(kept_.replicas, [&](const wire::ServiceReplica& replica) {
    return replica.state == state && !IsCanary(replica);
  }));
}

bool ServiceScaler::HasNoReady() const { return CountOf("ready") == 0; }

std::string ServiceScaler::StateName() const {
  if (kept_.is_deleted) return "deleting";
  const int ready = CountOf("ready");
  if (ready == 0 && (failures_ >= kFailuresToReport || !refusal_.empty())) return "failing";
  const bool has_others = std::ranges::any_of(kept_.replicas, [this](const wire::ServiceReplica& replica) {
    return replica.revision != kept_.target_revision && replica.state != "draining" && !IsCanary(replica);
  });
  if (has_others) return "updating";
  if (kept_.canary_revision != 0 && ready > 0) return "canary";
  if (ready > 0) return "hot";
  if (CountOf("starting") > 0) return "starting";
  return CountOf("parked") + CountOf("parking") > 0 ? "parked" : "cold";
}

ServiceScaler::Replicas ServiceScaler::Of(bool is_target) {
  Replicas found;
  for (wire::ServiceReplica& replica : kept_.replicas) {
    if (replica.state != "draining" && (replica.revision == kept_.target_revision) == is_target && !IsCanary(replica))
      found.push_back(&replica);
  }
  return found;
}

int ServiceScaler::HotOf(const Replicas& replicas) {
  return static_cast<int>(std::ranges::count_if(replicas, [](const wire::ServiceReplica* replica) {
    return replica->state == "ready" || replica->state == "starting";
  }));
}

void ServiceScaler::Set(wire::ServiceReplica& replica, std::string state, Time now) {
  replica.state = std::move(state);
  replica.since = ToSeconds(now);
  runtime_[replica.number].was_asked = false;
  is_changed_ = true;
}

void ServiceScaler::RollBack(const std::string& why, Time now) {
  wire::ServiceRevision* failed = FindRevision(kept_.target_revision);
  const wire::ServiceRevision* before = nullptr;
  for (const wire::ServiceRevision& revision : kept_.revisions) {
    if (revision.number != kept_.target_revision && revision.number != kept_.canary_revision && revision.was_healthy &&
        revision.note.empty())
      before = &revision;
  }
  if (failed == nullptr || before == nullptr) return;
  failed->note = why;
  const std::string text = "revision " + std::to_string(failed->number) + " was rolled back to " +
                           std::to_string(before->number) + ": " + why;
  kept_.target_revision = before->number;
  OnNewTarget(text, now);
  note_ = text;
}

void ServiceScaler::OnNewCanary(const std::string& why, Time now) {
  canary_failures_ = canary_refusals_ = 0;
  canary_retry_at_ = kNoTime;
  note_.clear();
  AddEvent(why, now);
  is_changed_ = true;
}

void ServiceScaler::EndCanary(const std::string& why, Time now) {
  const std::int64_t revision = std::exchange(kept_.canary_revision, 0);
  if (revision == 0) return;
  kept_.canary_share = 0;
  // A rollback does not go to a revision that was rejected.
  if (wire::ServiceRevision* ended = FindRevision(revision); ended != nullptr && ended->note.empty()) {
    ended->note = "canary: " + why;
    ended->was_withdrawn = true;
  }
  if (std::exchange(canary_failures_, 0) + std::exchange(canary_refusals_, 0) > 0) note_.clear();
  AddEvent("revision " + std::to_string(revision) + " is no canary any more: " + why, now);
  is_changed_ = true;
}

void ServiceScaler::ClearNote() {
  if (!note_.starts_with("revision ")) note_.clear();
}

void ServiceScaler::OnFailure(std::int64_t revision, const std::string& what, Time now) {
  failed_at_ = now;
  if (kept_.canary_revision != 0 && revision == kept_.canary_revision) {
    ++canary_failures_;
    if (now >= canary_retry_at_)
      canary_retry_at_ =
          now + std::min<Duration>(std::chrono::seconds(1) * (1 << std::min(canary_failures_ - 1, 6)), kLongestRetry);
    AddEvent(what, now);
    note_ = what;
    wire::ServiceRevision* canary = FindRevision(revision);
    if (canary == nullptr || canary->was_healthy || canary_failures_ < kFailuresOfUpdate) return;
    canary->note = what;
    EndCanary(what, now);
    note_ = "revision " + std::to_string(revision) + ", a canary, was rolled back to " +
            std::to_string(kept_.target_revision) + ": " + what;
    return;
  }
  ++failures_;
  // Several failures at once, as when a node is lost, make one delay.
  if (now >= retry_at_)
    retry_at_ = now + std::min<Duration>(std::chrono::seconds(1) * (1 << std::min(delays_++, 6)), kLongestRetry);
  AddEvent(what, now);
  note_ = what;
  const wire::ServiceRevision* failed = FindRevision(revision);
  if (failed == nullptr || failed->was_healthy || revision != kept_.target_revision) return;
  if (failures_ >= kFailuresOfUpdate) RollBack(what, now);
}

void ServiceScaler::ForgetEnded(const ServiceFacts& facts) {
  std::vector<std::pair<std::int64_t, std::string>> failed;
  std::erase_if(kept_.replicas, [&](const wire::ServiceReplica& replica) {
    const ReplicaFacts& seen = facts.replicas.at(replica.number);
    if (seen.job != ReplicaFacts::Job::kEnded) return false;
    if (replica.state != "draining")
      failed.emplace_back(
          replica.revision,
          "replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) + ") " + seen.end +
              (replica.state == "starting" && !runtime_[replica.number].was_ready ? " before it was ready" : "") +
              "; see divvy logs " + ToString(replica.job));
    runtime_.erase(replica.number);
    is_changed_ = true;
    return true;
  });
  for (const auto& [revision, what] : failed) OnFailure(revision, what, facts.now);
}

void ServiceScaler::FollowStarts(const ServiceFacts& facts) {
  std::vector<std::pair<std::int64_t, std::string>> late;
  for (wire::ServiceReplica& replica : kept_.replicas) {
    const ReplicaFacts& seen = facts.replicas.at(replica.number);
    Runtime& runtime = runtime_[replica.number];
    const bool was_ready = replica.state == "ready" || replica.state == "parking" || replica.state == "parked";
    const bool has_restarted = std::exchange(runtime.attempt, seen.attempt).value_or(seen.attempt) != seen.attempt;
    if (was_ready && (seen.job == ReplicaFacts::Job::kWaiting || has_restarted)) {
      AddEvent("replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) + ") was queued again",
               facts.now);
      runtime.waking_since = kNoTime;
      Set(replica, "starting", facts.now);
    } else if (replica.state == "ready" && seen.is_foreign) {
      AddEvent("replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) +
                   "): " + std::string(kForeign),
               facts.now);
      Set(replica, "starting", facts.now);
    }
    std::string& note = runtime.note;
    if (replica.state == "starting" && seen.is_foreign) note = kForeign;
    else if (note == kForeign) note.clear();
    if (replica.state == "ready") {
      if (seen.fails_checks) note = "its health check fails; it gets no requests until it succeeds";
      else if (note.starts_with("its health")) note.clear();
    }
    if (replica.state == "starting" && seen.job == ReplicaFacts::Job::kRunning) {
      if (seen.answers) {
        Set(replica, "ready", facts.now);
        runtime.was_ready = true;
        if (wire::ServiceRevision* revision = FindRevision(replica.revision)) revision->was_healthy = true;
        if (replica.revision == kept_.target_revision) {
          refusal_.clear();
          if (failures_ == 0) ClearNote();
        } else if (IsCanary(replica)) {
          canary_refusals_ = 0;
          if (canary_failures_ == 0) ClearNote();
        }
        AddEvent("replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) + ") is ready",
                 facts.now);
      } else if (facts.now - std::max(seen.running_since, TimeFromSeconds(replica.since)) >
                 Span(kept_.settings.ready_within_s)) {
        if (seen.is_foreign) {  // Nothing is wrong with the revision. The next replica has another port.
          AddEvent("replica " + std::to_string(replica.number) + " is replaced: " + std::string(kForeign), facts.now);
          runtime.why_stopped = kForeign;
          Set(replica, "draining", facts.now);
          continue;
        }
        const std::string what = "did not answer on port " + std::to_string(replica.port) +
                                 (kept_.settings.health.empty() ? "" : " at " + kept_.settings.health) + " within " +
                                 DurationText(Span(kept_.settings.ready_within_s)) +
                                 "; it must listen on the port in $PORT";
        late.emplace_back(replica.revision,
                          "replica " + std::to_string(replica.number) + " (job " + ToString(replica.job) + ") " + what);
        runtime.why_stopped = "it " + what;
        Set(replica, "draining", facts.now);
      }
    } else if (replica.state != "draining" && seen.job == ReplicaFacts::Job::kStopping) {
      Set(replica, "draining", facts.now);  // Someone else ends it.
    }
  }
  for (const auto& [revision, what] : late) OnFailure(revision, what, facts.now);
  ForgetOldFailures(facts.now);
}

void ServiceScaler::ForgetOldFailures(Time now) {
  // Replicas of a service with few requests may never stay ready for long.
  const Duration longest = std::max<Duration>(kForgetsOldFailures, 2 * Span(kept_.settings.ready_within_s));
  if (failures_ + canary_failures_ > 0 && now - failed_at_ >= longest) {
    failures_ = canary_failures_ = delays_ = 0;
    ClearNote();
  }
  for (const wire::ServiceReplica& replica : kept_.replicas) {
    int* failures = IsCanary(replica)                           ? &canary_failures_
                    : replica.revision == kept_.target_revision ? &failures_
                                                                : nullptr;
    const bool is_stable = replica.state == "ready" && now - TimeFromSeconds(replica.since) >= kForgetsFailures;
    if (failures == nullptr || *failures == 0 || !is_stable || now - failed_at_ < kForgetsFailures) continue;
    *failures = 0;
    if (failures == &failures_) delays_ = 0;
    ClearNote();
  }
}

// Observed about once a second, and at once while requests are held.
void ServiceScaler::Scale(const ServiceFacts& facts) {
  const bool is_held = HasNoReady() && facts.load.value_or(0) > 0;
  if (facts.now - observed_at_ < kObserveEvery && !is_held) return;
  observed_at_ = facts.now;
  int ready = CountOf("ready");
  int starting = CountOf("starting");
  // The load did not need the replicas that an update has beside the old ones.
  if (!Of(false).empty()) {
    ready = std::min(ready, std::max(wanted_, 1));
    starting = std::min(starting, std::max(wanted_, 1) - ready);
  }
  const autoscale::Decision decision = autoscaler_.Observe({facts.now, facts.load, ready, starting});
  // Without the front's numbers, an idle service stays idle.
  if (facts.load ? *facts.load > 0 : wanted_ > 0) loaded_at_ = facts.now;
  // The least number exists in any case; if they can be parked, idle ones are not hot.
  const bool is_idle = facts.now - loaded_at_ >= Span(kept_.settings.idle_s);
  const int wanted =
      is_idle ? 0
              : std::clamp(facts.load ? decision.replicas : wanted_, 0, static_cast<int>(kept_.settings.max_replicas));
  const int before = std::exchange(wanted_, wanted);
  if (before == wanted) return;
  const std::string reason = is_idle ? "no requests for " + DurationText(Span(kept_.settings.idle_s)) : decision.reason;
  growth_ = wanted > before ? reason : "";
  if (reason.empty()) return;
  scaled_ = reason;
  AddEvent(reason, facts.now);
}

void ServiceScaler::Start(int count, const std::string& reason, Time now, std::vector<ServiceAction>& actions) {
  if (now < retry_at_) return;
  for (int i = 0; i < count; ++i) actions.push_back({ServiceAction::Kind::kStart, 0, kept_.target_revision, reason});
}

bool ServiceScaler::CanPark(const wire::ServiceReplica& replica, const ServiceFacts& facts) const {
  const auto known = runtime_.find(replica.number);
  return kept_.settings.parks && facts.replicas.at(replica.number).can_park &&
         (known == runtime_.end() || facts.now >= known->second.parks_from);
}

void ServiceScaler::Update(const ServiceFacts& facts, std::vector<ServiceAction>& actions) {
  const int want = std::max(wanted_, static_cast<int>(kept_.settings.min_replicas));
  int old_ready = 0;
  Replicas olds = Of(false);
  for (wire::ServiceReplica* old : olds) {
    if (old->state != "ready") Set(*old, "draining", facts.now);
    else ++old_ready;
  }
  const Replicas news = Of(true);
  if (old_ready > 0) WakeParked(news, want - HotOf(news), facts, actions);
  int new_ready = 0;
  bool is_stuck = false;
  for (const wire::ServiceReplica* replica : news) {
    if (replica->state == "ready") ++new_ready;
    is_stuck |= replica->state == "starting" && facts.replicas.at(replica->number).job == ReplicaFacts::Job::kWaiting &&
                facts.now - TimeFromSeconds(replica->since) > kWaitsForRoom;
  }
  int drains = std::min(old_ready, new_ready + old_ready - want);
  if (is_stuck && CountOf("draining") == 0) drains = std::max(drains, 1);
  for (wire::ServiceReplica* old : olds) {
    if (drains <= 0) break;
    if (old->state != "ready") continue;
    Set(*old, "draining", facts.now);
    --old_ready;
    --drains;
  }
  const int surge = std::max(1, want / 4);
  const int present = static_cast<int>(news.size());
  const int count = std::min(want - present, want + surge - present - old_ready);
  if (count > 0) Start(count, "revision " + std::to_string(kept_.target_revision), facts.now, actions);
}

// It has replicas for its share of what the load needs. They are beside those of the target, so that the target can
// take all requests at any moment. A canary that was never healthy gets one without load, so that its failures show.
void ServiceScaler::AdjustCanary(const ServiceFacts& facts, std::vector<ServiceAction>& actions) {
  const wire::ServiceRevision* canary = kept_.canary_revision == 0 ? nullptr : FindRevision(kept_.canary_revision);
  if (canary == nullptr) return;
  const int want =
      std::max(static_cast<int>(std::ceil(wanted_ * kept_.canary_share - 1e-9)), canary->was_healthy ? 0 : 1);
  Replicas all;
  for (wire::ServiceReplica& replica : kept_.replicas) {
    if (IsCanary(replica) && replica.state != "draining") all.push_back(&replica);
  }
  for (int i = static_cast<int>(all.size()); i < want && facts.now >= canary_retry_at_; ++i)
    actions.push_back({ServiceAction::Kind::kStart, 0, kept_.canary_revision,
                       "canary, revision " + std::to_string(kept_.canary_revision)});
  // When there are too many, replicas that are still starting are stopped first.
  std::ranges::stable_sort(all, {}, [](const wire::ServiceReplica* replica) { return replica->state == "starting"; });
  for (int i = static_cast<int>(all.size()); i > want; --i)
    Set(*all[static_cast<std::size_t>(i) - 1], "draining", facts.now);
}

int ServiceScaler::WakeParked(const Replicas& all, int need, const ServiceFacts& facts,
                              std::vector<ServiceAction>& actions) {
  for (wire::ServiceReplica* replica : all) {
    if (need <= 0) break;
    if (replica->state != "parked" && replica->state != "parking") continue;
    if (facts.now < runtime_[replica->number].wakes_from) {
      --need;  // It is woken soon.
      continue;
    }
    const bool was_parked = replica->state == "parked" || runtime_[replica->number].was_asked;
    Set(*replica, "ready", facts.now);
    --need;
    if (!was_parked) continue;
    runtime_[replica->number].waking_since = facts.now;
    actions.push_back({ServiceAction::Kind::kWake, replica->number, 0, scaled_});
    AddEvent("waking replica " + std::to_string(replica->number), facts.now);
  }
  return need;
}

void ServiceScaler::Adjust(const ServiceFacts& facts, std::vector<ServiceAction>& actions) {
  const int least = static_cast<int>(kept_.settings.min_replicas);
  const int most = static_cast<int>(kept_.settings.max_replicas);
  Replicas all = Of(true);
  int exist = static_cast<int>(all.size());
  int need = WakeParked(all, wanted_ - HotOf(all), facts, actions);
  const int starts = std::max(std::min(need, most - exist), least - exist);
  const std::string reason = exist < least      ? "at least " + std::to_string(least)
                             : !growth_.empty() ? growth_
                                                : "the load needs " + std::to_string(wanted_);
  if (starts > 0) Start(starts, reason, facts.now, actions);
  if (need >= 0) return;
  // The ones that serve least go first, and the newest of them.
  std::ranges::sort(all, [&](const wire::ServiceReplica* a, const wire::ServiceReplica* b) {
    const auto rank = [&](const wire::ServiceReplica* replica) {
      return std::tuple(replica->state != "starting", facts.replicas.at(replica->number).in_flight, -replica->number);
    };
    return rank(a) < rank(b);
  });
  for (wire::ServiceReplica* replica : all) {
    if (need >= 0) break;
    if (replica->state == "ready" && CanPark(*replica, facts)) {
      Set(*replica, "parking", facts.now);
    } else if ((replica->state == "ready" || replica->state == "starting") && exist > least) {
      Set(*replica, "draining", facts.now);
      --exist;
    } else {
      continue;
    }
    ++need;
  }
}

void ServiceScaler::FinishParkingAndDraining(const ServiceFacts& facts, std::vector<ServiceAction>& actions) {
  const Duration patience = kept_.is_deleted ? std::min<Duration>(Span(kept_.settings.answer_within_s), 30s)
                                             : Span(kept_.settings.answer_within_s);
  int exist = static_cast<int>(Of(true).size());
  for (wire::ServiceReplica& replica : kept_.replicas) {
    const ReplicaFacts& seen = facts.replicas.at(replica.number);
    const Time since = TimeFromSeconds(replica.since);
    Runtime& runtime = runtime_[replica.number];
    if (facts.is_memory_short && replica.state == "parked" && exist > kept_.settings.min_replicas) {
      runtime.why_stopped = "the host is short of memory";
      Set(replica, "draining", facts.now);
      AddEvent("parked replica " + std::to_string(replica.number) + " is stopped: " + runtime.why_stopped, facts.now);
      --exist;
    }
    if ((replica.state != "parking" && replica.state != "draining") || runtime.was_asked) continue;
    // The front must have counted after it was told.
    const bool is_counted = facts.stat_at > since;
    const bool is_idle = (is_counted && seen.in_flight == 0) || seen.job == ReplicaFacts::Job::kWaiting;
    const bool is_late = facts.now - since > patience;
    if (replica.state == "parking" && is_idle) {
      runtime.was_asked = true;
      actions.push_back({ServiceAction::Kind::kPark, replica.number, 0, "no requests"});
    } else if (replica.state == "draining" && (is_idle || is_late)) {
      runtime.was_asked = true;
      actions.push_back({ServiceAction::Kind::kStop, replica.number, 0,
                         runtime.why_stopped.empty()
                             ? "not needed by service " + kept_.settings.name
                             : "stopped by service " + kept_.settings.name + ": " + runtime.why_stopped});
    }
  }
}

std::vector<ServiceAction> ServiceScaler::Step(const ServiceFacts& facts) {
  std::vector<ServiceAction> actions;
  ForgetEnded(facts);
  FollowStarts(facts);
  if (kept_.is_deleted) {
    for (wire::ServiceReplica& replica : kept_.replicas) {
      if (replica.state != "draining") Set(replica, "draining", facts.now);
    }
  } else {
    Scale(facts);
    if (!Of(false).empty()) Update(facts, actions);
    else Adjust(facts, actions);
    AdjustCanary(facts, actions);
  }
  FinishParkingAndDraining(facts, actions);
  return actions;
}

void ServiceScaler::OnParked(std::int64_t number, const Status& done, Time now) {
  const auto replica = std::ranges::find(kept_.replicas, number, &wire::ServiceReplica::number);
  if (replica == kept_.replicas.end() || replica->state != "parking") return;
  if (done) {
    Set(*replica, "parked", now);
    AddEvent("replica " + std::to_string(number) + " is parked", now);
    return;
  }
  runtime_[number].parks_from = now + kActsAgain;
  runtime_[number].note = "it cannot be parked: " + done.error().message;
  AddEvent("replica " + std::to_string(number) + " cannot be parked: " + done.error().message, now);
  Set(*replica, "ready", now);
}

void ServiceScaler::OnWoken(std::int64_t number, const Status& done, Time now) {
  const auto known = runtime_.find(number);
  if (known == runtime_.end() || known->second.waking_since == kNoTime) return;
  Runtime& runtime = known->second;
  const Duration took = now - std::exchange(runtime.waking_since, kNoTime);
  runtime.note = done ? "" : "it waits to wake: " + done.error().message;
  if (!done) {
    AddEvent("replica " + std::to_string(number) + ": " + runtime.note, now);
    const auto replica = std::ranges::find(kept_.replicas, number, &wire::ServiceReplica::number);
    if (replica == kept_.replicas.end() || replica->state != "ready") return;
    runtime.wakes_from = now + kWakesAgain;
    return Set(*replica, "parked", now);
  }
  last_wake_s_ = ToSeconds(took);
  AddEvent("replica " + std::to_string(number) + " is awake after " + DurationText(took), now);
  const Duration bound = Span(kept_.settings.wake_within_s);
  if (bound > Duration(0) && took > bound)
    note_ = "replica " + std::to_string(number) + " needed " + DurationText(took) +
            " to wake, more than --wake-within " + DurationText(bound);
}

}  // namespace divvy
