#include "control/jobs/sweeps.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/text.h"
#include "control/books/record_parts.h"

namespace divvy {
namespace {

using Phase = sweep::Halving::Phase;

constexpr std::size_t kMostOtherNames = 8;
constexpr std::size_t kMostValueBytes = 4096;
const std::string kNotParked = "; it is not parked: ";

/// The sweep itself acts on its trials.
Caller SweepItself() {
  Caller self;
  self.user.name = "its sweep";
  self.is_admin = true;
  return self;
}

bool Pauses(const sweep::SweepRule& rule) {
  return rule.halving.stop == sweep::EarlyStop::kAshaPromotion || rule.halving.stop == sweep::EarlyStop::kHyperband;
}

std::string Numbered(std::string_view name, double value) { return std::string(name) + " " + sweep::NumberText(value); }

std::string MetricText(double value) {
  if (std::isnan(value)) return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Returns true if the trial is parked although it was promoted: it waits for GPUs of its node.
bool IsPromoted(const TimeSharer& time_sharer, const JobRecord& record) {
  const Displacement* state = time_sharer.Find(record);
  return state != nullptr && state->set_aside == SetAside::kPromoted;
}

/// A trial has ended without its metric.
void NoteMissing(const sweep::SweepRule& rule, SweepTrial& trial) {
  if (rule.metric.empty()) return;
  trial.note =
      "it ended without reporting '" + rule.metric + "'" +
      (trial.names.empty() ? "; print it as a JSON line: {\"" + rule.metric + "\": 0.3, \"" + rule.resource + "\": 1}"
                           : "; it reported " + Join(trial.names, ", "));
}

}  // namespace

Result<std::optional<sweep::SweepRule>> Sweeps::RuleOf(const JobSpec& spec, std::uint64_t elements) {
  const auto label = spec.labels.find(std::string(sweep::kRuleLabel));
  if (label == spec.labels.end()) return std::nullopt;
  DIVVY_TRY(sweep::SweepRule rule, sweep::ParseRule(label->second));
  if (elements == 0)
    return InvalidArgument("a sweep needs parameters with values; add parameters: {lr: {values: [0.1, 0.01]}}");
  if (elements > kMostTrials)
    return InvalidArgument("the sweep has " + std::to_string(elements) + " trials, and at most " +
                           std::to_string(kMostTrials) + " are allowed; use fewer values, or method: random");
  if (Pauses(rule) && (spec.is_run_once || spec.is_foreground))
    return InvalidArgument("early_terminate of type " + std::string(sweep::Name(rule.halving.stop)) +
                           " pauses trials and starts them again, which --no-requeue forbids; use type: asha");
  const Request& request = spec.request;
  const bool has_whole_gpus = request.gpus > 0 && !request.is_portioned() && request.slice.empty();
  if (rule.parks_losers && (!has_whole_gpus || request.is_gang() || request.is_elastic()))
    return InvalidArgument(
        "park_losers needs trials with a fixed number of whole GPUs on one node; use --gpus 1, or omit park_losers");
  if (rule.parks_losers && spec.is_preemptible_set && spec.preemptible == Preemptible::kNever)
    return InvalidArgument(
        "park_losers parks trials, which --no-pause and --preemptible never forbid; omit one of them");
  if (rule.parks_losers && spec.end_by != kNoTime)
    return InvalidArgument("park_losers parks trials, and a job with --deadline is never parked; omit one of them");
  return std::optional(std::move(rule));
}

void Sweeps::Begin(JobId id, const sweep::SweepRule& rule) {
  JobRecord* array = nullptr;
  if (const auto at = jobs_.live().find(id); at != jobs_.live().end()) array = &at->second;
  if (array == nullptr) return;  // It was cancelled at once, since a dependency can never be met.
  const auto [at, is_new] = sweeps_.try_emplace(id, id, rule, array->user.name, array->name, array->array_count);
  effects_.ReplaceSetting(SweepRow(at->second));
  if (rule.parallel > 0) {
    array->array_at_once = rule.parallel;
    feed_.SetArrayLimit(*array);
    feed_.Put(*array);
    effects_.Persist(*array);
  }
}

Sweep* Sweeps::FindOf(JobId job) {
  auto at = sweeps_.upper_bound(job);
  if (at == sweeps_.begin()) return nullptr;
  Sweep& sweep = std::prev(at)->second;
  return job.value() <= sweep.id.value() + sweep.halving.trials() ? &sweep : nullptr;
}

// --- Reports ------------------------------------------------------------------------------------------------------

void Sweeps::OnMetrics(JobId job, const Numbers& numbers, Time now) {
  FollowEnds(now);  // The rule must know which trials have ended.
  Sweep* sweep = FindOf(job);
  if (sweep == nullptr || job == sweep->id || sweep->rule.metric.empty()) return;
  const auto find = [&](const std::string& name) -> std::optional<double> {
    const auto at = std::ranges::find(numbers, name, [](const auto& one) { return one.first; });
    return at == numbers.end() ? std::nullopt : std::optional(at->second);
  };
  const auto ordinal = static_cast<std::uint32_t>(job.value() - sweep->id.value() - 1);
  SweepTrial& trial = TrialOf(*sweep, ordinal);
  const SweepTrial before = trial;
  const std::optional<double> resource = find(sweep->rule.resource), value = find(sweep->rule.metric);
  if (resource && std::isfinite(*resource)) trial.last_at = *resource;
  if (!value) {
    if (trial.last || trial.names.size() >= kMostOtherNames) return;
    for (const auto& [name, number] : numbers) {
      if (std::ranges::find(trial.names, name) == trial.names.end()) trial.names.push_back(name);
    }
    if (trial.phase != Phase::kEnded) return;
    NoteMissing(sweep->rule, trial);  // Its last lines are read after its end.
    return Keep(*sweep, ordinal);
  }
  trial.last = *value;
  if (std::isfinite(*value) && (!trial.best || sweep->IsBetter(*value, *trial.best))) {
    trial.best = *value;
    trial.best_at = trial.last_at;
  }
  while ((trial.phase == Phase::kActive || trial.phase == Phase::kEnded) &&
         sweep->halving.NextRung(ordinal) <= trial.last_at) {
    const std::size_t passed = sweep->halving.losses(ordinal).size();
    const auto decisions = sweep->halving.Report(ordinal, std::isnan(*value) ? *value : sweep->LossOf(*value));
    if (sweep->halving.losses(ordinal).size() == passed) break;  // It does not count.
    trial.rungs.push_back(*value);
    CarryOut(*sweep, decisions, now);
  }
  const bool has_passed = trial.rungs.size() > before.rungs.size();
  const bool never_counts = sweep->rule.halving.stop != sweep::EarlyStop::kNone && !resource && trial.last_at == 0;
  if (never_counts)
    trial.note = "it reports '" + sweep->rule.metric + "' but not '" + sweep->rule.resource +
                 "', so it reaches no rung; name its counter: resource: step";
  else if (!std::isfinite(*value))
    trial.note = "'" + sweep->rule.metric + "' was NaN at " + Numbered(sweep->rule.resource, trial.last_at) +
                 (has_passed ? "; it counts as the worst value" : "");
  if (trial != before) Keep(*sweep, ordinal);
  const bool reaches = sweep->rule.target && std::isfinite(*value) && !sweep->IsBetter(*sweep->rule.target, *value);
  if (reaches) EndAtTarget(*sweep, ordinal, now);
}

void Sweeps::CarryOut(Sweep& sweep, const std::vector<sweep::Decision>& decisions, Time now) {
  for (const sweep::Decision& decision : decisions) {
    const std::uint32_t ordinal = decision.trial;
    SweepTrial& trial = TrialOf(sweep, ordinal);
    trial.phase = sweep.halving.phase(ordinal);
    switch (decision.verdict) {
      case sweep::Verdict::kContinue:
        Continue(sweep, ordinal, now);
        break;
      case sweep::Verdict::kPause:
        Pause(sweep, ordinal, now);
        break;
      case sweep::Verdict::kStop: {
        const std::string rung =
            "rung " + std::to_string(trial.rungs.size()) +
            (sweep.rule.halving.max > 0 ? " of " + std::to_string(sweep.halving.RungsOf(ordinal)) : "");
        std::string why = sweep.rule.metric + " " + MetricText(trial.rungs.back()) + " is not among the best 1/" +
                          std::to_string(sweep.rule.halving.eta);
        if (const std::size_t all = sweep.halving.ReachedRung(trial.rungs.size() - 1); all > 0)
          why += " of " + std::to_string(all) + (all == 1 ? " trial" : " trials");
        Stop(sweep, ordinal, why + " at " + rung + " (" + Numbered(sweep.rule.resource, trial.last_at) + ")", now);
      }
    }
    Keep(sweep, ordinal);
  }
}

void Sweeps::Continue(Sweep& sweep, std::uint32_t ordinal, Time now) {
  sweep.trials[ordinal].note.clear();
  const auto at = jobs_.live().find(ElementId(sweep.id, ordinal));
  if (at == jobs_.live().end()) return;
  JobRecord& record = at->second;
  time_sharer_.Promote(record, now);
  // A parked trial is followed until it has returned.
  if (!IsPromoted(time_sharer_, record)) sweep.parked.erase(ordinal);
  if (!record.is_held) return;
  if (record.stop_intent == StopIntent::kRequeue) {  // It is still being paused: it then waits instead.
    record.is_held = false;
    record.reason = "promoted to the next rung of its sweep";
    effects_.Persist(record);
    return;
  }
  static_cast<void>(commands_.Release(record.id, kNoTime, SweepItself(), now));
  // A promoted trial goes before trials that have not begun.
  if (const JobRecord* array = jobs_.Find(sweep.id)) {
    record.queued_at = array->queued_at - Duration(1);
    effects_.Persist(record);
    feed_.Put(record);
  }
  sweep.is_dirty = true;
}

void Sweeps::Pause(Sweep& sweep, std::uint32_t ordinal, Time now) {
  SweepTrial& trial = sweep.trials[ordinal];
  trial.note = "paused at " + Numbered(sweep.rule.resource, trial.last_at) + " until it is promoted to rung " +
               std::to_string(trial.rungs.size() + 1) + " of " + std::to_string(sweep.halving.RungsOf(ordinal));
  sweep.is_dirty = true;
  const auto live = jobs_.live().find(ElementId(sweep.id, ordinal));
  if (sweep.rule.parks_losers && live != jobs_.live().end()) {
    const Status parked = time_sharer_.SetAsideUntilPromoted(live->second, now);
    if (parked) {
      sweep.parked.insert(ordinal);
      return;
    }
    trial.note += kNotParked + parked.error().message;
  }
  PauseInQueue(sweep, ordinal, now);
}

void Sweeps::PauseInQueue(Sweep& sweep, std::uint32_t ordinal, Time now) {
  const SweepTrial& trial = sweep.trials.at(ordinal);
  const JobId id = ElementId(sweep.id, ordinal);
  if (!commands_.Requeue(id, RequeueAs::kHeld, SweepItself(), now)) return;  // It is ending.
  JobRecord& record = jobs_.live().at(id);
  record.reason = "its sweep has " + trial.note;
  effects_.Persist(record);
}

void Sweeps::Stop(Sweep& sweep, std::uint32_t ordinal, const std::string& why, Time now) {
  sweep.trials[ordinal].note = why;
  static_cast<void>(commands_.Cancel(ElementId(sweep.id, ordinal), 0, Duration(-1), std::string(kStoppedBySweep) + why,
                                     SweepItself(), now));
}

void Sweeps::EndAtTarget(Sweep& sweep, std::uint32_t ordinal, Time now) {
  if (!jobs_.live().contains(sweep.id) || !sweep.note.empty()) return;
  sweep.note = "trial " + std::to_string(ordinal) + " reached the target: " + sweep.rule.metric + " " +
               MetricText(*sweep.trials[ordinal].last);
  effects_.ReplaceSetting(SweepRow(sweep));
  static_cast<void>(
      commands_.Cancel(sweep.id, 0, Duration(-1), std::string(kStoppedBySweep) + sweep.note, SweepItself(), now));
}

// --- Ends ---------------------------------------------------------------------------------------------------------

void Sweeps::OnFinished(const JobRecord& ended) {
  Sweep* sweep = FindOf(ended.id);
  if (sweep == nullptr || ended.id == sweep->id) return;
  const auto ordinal = static_cast<std::uint32_t>(ended.id.value() - sweep->id.value() - 1);
  SweepTrial& trial = TrialOf(*sweep, ordinal);
  if (trial.phase != Phase::kStopped) trial.phase = Phase::kEnded;
  trial.end = Name(ended.state);
  if (!trial.last && ended.started != kNoTime) NoteMissing(sweep->rule, trial);
  Keep(*sweep, ordinal);
  sweep->is_dirty = true;
  ended_.emplace_back(sweep->id, ordinal);
}

void Sweeps::Follow(Time now) {
  FollowEnds(now);
  for (auto at = sweeps_.begin(); at != sweeps_.end();) {
    Sweep& sweep = at->second;
    if (!sweep.parked.empty()) FollowParked(sweep, now);
    if (sweep.is_dirty) EndIfOnlyPaused(sweep, now);
    const bool is_over = sweep.trials.empty() && !jobs_.live().contains(sweep.id);
    if (is_over) effects_.ReplaceSetting({SweepRow(sweep).first, ""});
    at = is_over ? sweeps_.erase(at) : std::next(at);
  }
  FollowEnds(now);
}

void Sweeps::FollowEnds(Time now) {
  while (!ended_.empty()) {
    for (const auto& [id, ordinal] : std::exchange(ended_, {})) {
      const auto at = sweeps_.find(id);
      if (at != sweeps_.end()) CarryOut(at->second, at->second.halving.End(ordinal), now);
    }
  }
}

void Sweeps::FollowParked(Sweep& sweep, Time now) {
  for (const std::uint32_t ordinal : std::vector<std::uint32_t>(sweep.parked.begin(), sweep.parked.end())) {
    const auto live = jobs_.live().find(ElementId(sweep.id, ordinal));
    if (live != jobs_.live().end() && IsPromoted(time_sharer_, live->second)) {
      JobRecord& record = live->second;
      const std::string failure = time_sharer_.Find(record)->failure;
      if (failure.empty() || record.stop_intent != StopIntent::kNone) continue;
      if (!commands_.Requeue(record.id, RequeueAs::kQueued, SweepItself(), now)) continue;
      sweep.trials[ordinal].note = "it was promoted, and starts again as a new run: " + failure;
      record.reason = sweep.trials[ordinal].note;
      effects_.Persist(record);
      Keep(sweep, ordinal);
      continue;
    }
    const bool is_over = live == jobs_.live().end() || sweep.halving.phase(ordinal) != Phase::kPaused;
    // While the run is stopped for another reason, it is not known whether the job will wait again.
    if (!is_over && (live->second.state == JobState::kStopping || time_sharer_.IsSetAside(live->second))) continue;
    sweep.parked.erase(ordinal);
    if (is_over) continue;
    const Displacement* state = time_sharer_.Find(live->second);
    const bool has_failed = state != nullptr && !state->failure.empty();
    sweep.trials[ordinal].note += kNotParked + (has_failed ? state->failure : "its run has ended");
    PauseInQueue(sweep, ordinal, now);
    Keep(sweep, ordinal);
  }
}

bool Sweeps::IsParkedWhenPaused(const JobRecord& record) const {
  const Sweep* sweep = record.array.is_set() ? Of(record.id) : nullptr;
  return sweep != nullptr && sweep->rule.parks_losers;
}

// Without a trial that runs or may start, no report can promote a paused one.
void Sweeps::EndIfOnlyPaused(Sweep& sweep, Time now) {
  const JobRecord* array = jobs_.Find(sweep.id);
  sweep.is_dirty = array != nullptr && Pauses(sweep.rule);
  if (!sweep.is_dirty || !array->array_waiting.empty()) return;
  std::vector<std::uint32_t> paused;
  for (auto at = jobs_.live().upper_bound(sweep.id); at != jobs_.live().end(); ++at) {
    const std::uint64_t place = at->first.value() - sweep.id.value() - 1;
    if (place >= sweep.halving.trials()) break;
    const auto ordinal = static_cast<std::uint32_t>(place);
    const bool is_idle = IsWaiting(at->second.state) || sweep.parked.contains(ordinal);
    if (sweep.halving.phase(ordinal) != Phase::kPaused || !is_idle) return;
    paused.push_back(ordinal);
  }
  for (const std::uint32_t ordinal : paused) {
    SweepTrial& trial = TrialOf(sweep, ordinal);
    trial.phase = Phase::kStopped;
    Stop(sweep, ordinal,
         sweep.rule.metric + " " + MetricText(trial.rungs.back()) + " was never promoted beyond rung " +
             std::to_string(trial.rungs.size()),
         now);
  }
}

// --- Parameters from outside --------------------------------------------------------------------------------------

Result<JobId> Sweeps::Tell(JobId id, const std::map<std::string, std::string>& parameters,
                           const std::shared_ptr<const JobSpec>& spec, const Caller& caller, Time now) {
  const auto at = sweeps_.find(id);
  if (at == sweeps_.end()) return NotFound("there is no sweep " + ToString(id) + "; divvy sweep list shows them");
  if (!at->second.rule.is_told)
    return FailedPrecondition("sweep " + ToString(id) +
                              " draws its parameters itself; divvy sweep tell needs a sweep with "
                              "method: ask in its file");
  const auto live = jobs_.live().find(id);
  if (live == jobs_.live().end()) return FailedPrecondition("sweep " + ToString(id) + " has ended");
  JobRecord& array = live->second;
  DIVVY_CHECK(access_.Authorise(array, caller, "set the parameters of"));
  if (array.array_waiting.empty())
    return FailedPrecondition("sweep " + ToString(id) + " has all of its " + Plural(array.array_count, "trial") +
                              "; run_cap in its file sets how many");
  auto changed = std::make_shared<JobSpec>(*spec);
  const std::uint32_t ordinal = array.array_waiting.front();
  for (const auto& [name, value] : parameters) {
    if (value.size() > kMostValueBytes || value.find('\0') != std::string::npos)
      return InvalidArgument("the value of '" + OneLine(name.substr(0, 64)) + "' must have at most " +
                             std::to_string(kMostValueBytes) + " bytes, and no zero byte");
    const auto column = std::ranges::find(changed->parameters, name, &Parameter::name);
    if (column == changed->parameters.end() || ordinal >= column->values.size()) {
      std::vector<std::string> known;
      for (const Parameter& one : changed->parameters) known.push_back(one.name);
      return InvalidArgument("sweep " + ToString(id) + " has no parameter '" + OneLine(name.substr(0, 64)) +
                             "'; it has " + Join(known, ", "));
    }
    column->values[ordinal] = value;
  }
  for (const Parameter& column : changed->parameters) {
    if (!parameters.contains(column.name))
      return InvalidArgument("trial " + std::to_string(ordinal) + " needs a value of '" + column.name +
                             "' too: divvy sweep tell " + ToString(id) + " " + column.name + "=VALUE ...");
  }
  effects_.KeepSpec(id, std::move(changed));
  const JobId element = lifecycle_.SplitElement(array, ordinal)->id;
  if (array.array_waiting.empty()) array.is_held = false;
  static_cast<void>(commands_.Release(element, kNoTime, SweepItself(), now));
  return element;
}

Status Sweeps::CheckRelease(JobId id) const {
  const Sweep* sweep = Of(id);
  if (sweep == nullptr) return {};
  if (sweep->id == id && sweep->rule.is_told)
    return FailedPrecondition("sweep " + ToString(id) +
                              " waits for parameters; divvy sweep tell starts its next trial");
  return {};
}

// --- The store ----------------------------------------------------------------------------------------------------

bool Sweeps::LoadSetting(std::string_view key, std::string_view text) {
  const auto of = SweepKeyOf(key);
  if (!of) return false;
  if (of->trial) {
    if (auto trial = TrialOfRow(text)) loaded_trials_[of->sweep][*of->trial] = *std::move(trial);
  } else if (auto sweep = SweepOfRow(of->sweep, text)) {
    sweeps_.emplace(of->sweep, *std::move(sweep));
  }
  return true;
}

void Sweeps::Restore(const FindOutcome& outcome) {
  for (auto at = sweeps_.begin(); at != sweeps_.end();) {
    Sweep& sweep = at->second;
    auto& trials = loaded_trials_[sweep.id];
    const JobRecord* array = jobs_.Find(sweep.id);
    if (array == nullptr && !outcome(sweep.id)) {
      effects_.KeepSetting(SweepRow(sweep).first, "");
      for (const auto& [ordinal, trial] : trials) effects_.KeepSetting(TrialRow(sweep.id, ordinal, trial).first, "");
      at = sweeps_.erase(at);
      continue;
    }
    ++at;
    std::erase_if(trials, [&](const auto& one) { return one.first >= sweep.halving.trials(); });
    sweep.trials = std::move(trials);
    for (auto& [ordinal, trial] : sweep.trials) {
      std::vector<double> losses;
      for (const double value : trial.rungs)
        losses.push_back(std::isnan(value) ? std::numeric_limits<double>::infinity() : sweep.LossOf(value));
      sweep.halving.Restore(ordinal, losses, trial.phase);
    }
    if (array == nullptr) continue;
    for (const JobId id : jobs_.ElementsOf(*array)) {
      const JobRecord& record = jobs_.live().at(id);
      if (!IsActive(record.state)) continue;
      restored_.push_back(id);
      // One that is being stopped already waits in the queue when its run has ended.
      const bool is_parked = record.stop_intent == StopIntent::kNone || time_sharer_.IsSetAside(record);
      const bool is_paused = is_parked && sweep.halving.phase(record.array_ordinal) == Phase::kPaused;
      if (sweep.rule.parks_losers && (is_paused || IsPromoted(time_sharer_, record)))
        sweep.parked.insert(record.array_ordinal);
    }
    // For trials that had ended before the restart, decides again what follows for other trials; that may not have been
    // carried out.
    for (const auto& [ordinal, trial] : sweep.trials) {
      if (trial.phase == Phase::kEnded) ended_.emplace_back(sweep.id, ordinal);
    }
  }
  loaded_trials_.clear();
}

}  // namespace divvy
