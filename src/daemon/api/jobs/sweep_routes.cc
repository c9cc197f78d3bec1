#include "daemon/api/jobs/sweep_routes.h"

#include <cmath>
#include <memory>
#include <utility>

#include "base/text.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/views/job_selector.h"
#include "dialect/options/job_options.h"
#include "wire/messages/sweep_messages.h"

namespace divvy {
namespace {

using Phase = sweep::Halving::Phase;

std::optional<double> IfFinite(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string TrialStateOf(const Controller& controller, const SweepTrial* trial, const JobRecord* record) {
  if (trial != nullptr && trial->phase == Phase::kStopped) return "stopped";
  if (trial != nullptr && trial->phase == Phase::kPaused)
    return record != nullptr && controller.time_sharer().IsSetAside(*record) ? "parked" : "paused";
  if (record == nullptr) return trial == nullptr || trial->end.empty() ? "waiting" : trial->end;
  return IsActive(record->state) ? "running" : "waiting";
}

/// Fills everything but the trials.
void FillSweep(const Sweep& sweep, const Controller& controller, wire::SweepView& view) {
  const JobRecord* array = controller.Find(sweep.id);
  view.id = sweep.id;
  view.name = sweep.name;
  view.user = sweep.user;
  view.state = array != nullptr ? "running" : "ended";
  view.method = sweep.rule.method;
  view.metric = sweep.rule.metric;
  view.goal = sweep.rule.goal == sweep::Goal::kMaximize ? "maximize" : "minimize";
  view.resource = sweep.rule.resource;
  view.target = sweep.rule.target;
  view.early_terminate = sweep::Name(sweep.rule.halving.stop);
  view.min_iter = sweep.rule.halving.min;
  view.max_iter = sweep.rule.halving.max;
  view.eta = sweep.rule.halving.eta;
  view.park_losers = sweep.rule.parks_losers;
  view.parallel = array != nullptr ? array->array_at_once : sweep.rule.parallel;
  view.trials = sweep.halving.trials();
  std::int64_t told = 0;  // Trials that may start and have not.
  const auto& live = controller.live();
  for (auto at = live.upper_bound(sweep.id); at != live.end() && at->second.array == sweep.id; ++at) {
    const auto trial = sweep.trials.find(at->second.array_ordinal);
    const std::string state =
        TrialStateOf(controller, trial == sweep.trials.end() ? nullptr : &trial->second, &at->second);
    if (state == "running") ++view.running;
    if (state == "parked") ++view.parked;
    if (state == "waiting") ++told;
  }
  std::int64_t without = 0;  // Ended trials without the metric.
  std::int64_t with_nan = 0;
  const SweepTrial* with_others = nullptr;
  for (const auto& [ordinal, trial] : sweep.trials) {
    if (trial.phase == Phase::kPaused) ++view.paused;
    if (trial.phase == Phase::kStopped) ++view.stopped;
    if (trial.phase == Phase::kEnded) ++view.ended;
    if (trial.phase == Phase::kEnded && !trial.last) ++without;
    if (trial.last && !std::isfinite(*trial.last)) ++with_nan;
    if (!trial.last && !trial.names.empty()) with_others = &trial;
  }
  const std::int64_t unbegun = array != nullptr ? static_cast<std::int64_t>(array->array_waiting.size()) : 0;
  view.waiting = told + unbegun;
  view.wanted = sweep.rule.is_told && told == 0 && unbegun > 0 ? 1 : 0;
  if (const auto best = sweep.BestTrial()) {
    view.best_trial = *best;
    view.best = sweep.trials.at(*best).best;
  }
  view.note = sweep.note;
  if (!view.note.empty() || view.best || sweep.rule.metric.empty()) return;
  const std::string missing = "no trial has reported '" + sweep.rule.metric + "'";
  if (with_nan > 0)
    view.note = "no trial has reported a number as '" + sweep.rule.metric + "', but " + Plural(with_nan, "trial") +
                " reported NaN; look at the training and its parameters";
  else if (without > 0)
    view.note = missing + ", and " + Plural(without, "trial") +
                " ended without it; metric: {name: ...} must be a number that trials print as JSON lines";
  else if (with_others != nullptr)
    view.note = missing + " yet, but " + Join(with_others->names, ", ") + "; metric: {name: ...} must be one of these";
}

/// Returns what is wrong with a trial, or why it was stopped or paused. `record`: its job; null if that has ended.
std::string NoteOfTrial(const Sweep& sweep, const SweepTrial& trial, const JobRecord* record) {
  if (!trial.note.empty() || record == nullptr || trial.last || trial.names.empty()) return trial.note;
  return "it has not reported '" + sweep.rule.metric + "' yet, but " + Join(trial.names, ", ");
}

// Parameters and values are visible to the same users as the command and output of the trials.
bool MaySeeSweep(const Controller& controller, const Caller& caller, const Sweep& sweep) {
  if (caller.is_admin || caller.user.name == sweep.user) return true;
  const JobRecord* array = controller.Find(sweep.id);
  return array != nullptr && controller.Leads(caller, *array);
}

wire::SweepDetail SweepDetailOf(const Sweep& sweep, const Controller& controller, const JobSpec* spec) {
  wire::SweepDetail view;
  FillSweep(sweep, controller, view);
  if (spec != nullptr) {
    for (const Parameter& parameter : spec->parameters) view.parameters.push_back(parameter.name);
  }
  for (std::uint32_t ordinal = 0; ordinal < sweep.halving.trials(); ++ordinal) {
    const auto known = sweep.trials.find(ordinal);
    const SweepTrial* trial = known == sweep.trials.end() ? nullptr : &known->second;
    const JobRecord* record = controller.Find(ElementId(sweep.id, ordinal));
    if (trial == nullptr && record == nullptr) continue;
    wire::SweepTrialView& row = view.list.emplace_back();
    row.id = ElementId(sweep.id, ordinal);
    row.trial = ordinal;
    row.state = TrialStateOf(controller, trial, record);
    if (spec != nullptr) row.parameters = dialect::ElementAt(*spec, ordinal).parameters;
    if (trial == nullptr) continue;
    row.best = trial->best;
    row.best_at = trial->best_at;
    row.last = IfFinite(trial->last);
    row.last_at = trial->last_at;
    for (const double value : trial->rungs) row.rungs.push_back(IfFinite(value));
    row.note = NoteOfTrial(sweep, *trial, record);
  }
  return view;
}

}  // namespace

std::string SweepNoteOf(const Controller& controller, const Caller& caller, JobId job) {
  const Sweep* sweep = controller.sweeps().Of(job);
  if (sweep == nullptr || !MaySeeSweep(controller, caller, *sweep)) return "";
  if (job == sweep->id) {
    wire::SweepView view;
    FillSweep(*sweep, controller, view);
    return view.note;
  }
  const auto trial = sweep->trials.find(static_cast<std::uint32_t>(job.value() - sweep->id.value() - 1));
  return trial == sweep->trials.end() ? "" : NoteOfTrial(*sweep, trial->second, controller.Find(job));
}

SweepRoutes::SweepRoutes(ApiContext& api, RouteTable& table) : api_(api), driver_(api.driver) {
  table.Add(this, {{"GET", "/v1/sweeps", &SweepRoutes::List},
                   {"GET", "/v1/sweeps/*", &SweepRoutes::Show},
                   {"POST", "/v1/sweeps/*/tell", &SweepRoutes::Tell}});
}

const Sweep* SweepRoutes::Find(ApiCall& call) const {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) {
    call.Refuse(id.error());
    return nullptr;
  }
  const Sweep* sweep = driver_.controller().sweeps().Of(*id);
  if (sweep == nullptr) {
    call.Refuse(NotFound("job " + call.argument + " is not a sweep; divvy sweep list shows them"));
  } else if (!MaySeeSweep(driver_.controller(), call.caller, *sweep)) {
    call.Refuse(PermissionDenied("sweep " + ToString(sweep->id) + " belongs to " + sweep->user +
                                 "; its parameters and numbers are visible to its owner, the leaders of its team and "
                                 "administrators"));
    sweep = nullptr;
  }
  return sweep;
}

void SweepRoutes::List(ApiCall& call) {
  std::vector<wire::SweepView> views;
  const auto& all = driver_.controller().sweeps().all();
  for (auto at = all.rbegin(); at != all.rend(); ++at) {
    if (MaySeeSweep(driver_.controller(), call.caller, at->second))
      FillSweep(at->second, driver_.controller(), views.emplace_back());
  }
  call.Answer(views);
}

void SweepRoutes::Show(ApiCall& call) {
  const Sweep* sweep = Find(call);
  if (sweep == nullptr) return;
  FoundJob found = FindHere(driver_, sweep->id);
  const bool is_quick = found.record && found.spec != nullptr;
  api_.reader.ReadUnless(is_quick, call, [this, id = sweep->id, found = std::move(found)]() mutable -> FinishCall {
    static_cast<void>(Complete(driver_.store(), id, found));
    return [this, id, spec = found.spec](ApiCall& asked) {
      const Sweep* known = driver_.controller().sweeps().Of(id);
      if (known == nullptr) return asked.Refuse(NotFound("the sweep is not known any more"));
      asked.Answer(SweepDetailOf(*known, driver_.controller(), spec.get()));
    };
  });
}

void SweepRoutes::Tell(ApiCall& call) {
  const auto request = wire::Decode<wire::SweepTell>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const Sweep* sweep = Find(call);
  if (sweep == nullptr) return;
  const JobRecord* array = driver_.controller().Find(sweep->id);
  if (array == nullptr) return call.Refuse(FailedPrecondition("sweep " + ToString(sweep->id) + " has ended"));
  const auto spec = driver_.NewestSpecOf(*array);
  if (!spec) return call.Refuse(spec.error());
  const auto told = driver_.controller().TellSweep(sweep->id, request->parameters, *spec, call.caller, driver_.Now());
  if (!told) return call.Refuse(told.error());
  AnswerAfterCommit(driver_, call,
                    wire::SweepTold{*told, static_cast<std::int64_t>(told->value() - sweep->id.value() - 1)});
}

}  // namespace divvy
