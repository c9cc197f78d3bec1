#include "daemon/api/jobs/job_detail_routes.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "base/text.h"
#include "control/books/pool_parts.h"
#include "control/controller/start_reason.h"
#include "daemon/api/call/request_query.h"
#include "daemon/api/jobs/sweep_routes.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/providers/provider_host.h"
#include "daemon/services/service_host.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/views/job_selector.h"
#include "daemon/views/start_waits.h"
#include "daemon/views/views_samples.h"
#include "dialect/options/job_options.h"
#include "model/steps/step_list.h"
#include "platform/records/step_list_file.h"
#include "wire/messages/agent_messages.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/step_views.h"

namespace divvy {
namespace {

constexpr std::int64_t kUsualElements = 5'000;
constexpr std::int64_t kMostElements = 10'000;

/// Variables that the job sets override those captured at submission.
wire::EnvironmentView EnvironmentOf(const JobSpec& spec) {
  std::map<std::string, wire::VariableView> found;
  const auto add = [&](const std::vector<std::string>& pairs, bool is_asked) {
    for (const std::string& pair : pairs) {
      const std::size_t equals = std::min(pair.find('='), pair.size());
      const std::string name = pair.substr(0, equals);
      found[name] = {name, pair.substr(std::min(equals + 1, pair.size())), is_asked};
    }
  };
  add(spec.capture.environment, false);
  add(spec.extra_environment, true);
  wire::EnvironmentView view;
  for (auto& [name, variable] : found) view.variables.push_back(std::move(variable));
  return view;
}

wire::ElementsView ElementsOf(const JobRecord& array, const JobSpec& spec, std::int64_t limit) {
  wire::ElementsView view;
  const auto shown = static_cast<std::uint32_t>(std::min<std::int64_t>(array.array_count, limit));
  view.is_cut = shown < array.array_count;
  view.elements.reserve(shown);
  for (std::uint32_t ordinal = 0; ordinal < shown; ++ordinal)
    view.elements.push_back({ElementId(array.id, ordinal), dialect::ElementAt(spec, ordinal).parameters, {}});
  return view;
}

/// Returns the number of waiting elements of the array before this one, which waits as well.
std::uint64_t ElementsBefore(const JobRecord& array, JobId element) {
  const std::uint64_t ordinal = element.value() - array.id.value() - 1;
  std::uint64_t before = 0;
  for (const IndexRanges::Range& range : array.array_waiting.ranges()) {
    if (range.first >= ordinal) break;
    before += std::min<std::uint64_t>(range.last, ordinal - 1) - range.first + 1;
  }
  return before;
}

/// Adds the name of its node if there are several.
JobRecord Named(JobRecord record, const Scheduler& cluster) {
  if (cluster.has_many() && record.node.empty() && record.started != kNoTime)
    record.node = cluster.node(kOwnNode).attributes.name;
  return record;
}

}  // namespace

JobDetailRoutes::JobDetailRoutes(ApiContext& api, RouteTable& table)
    : api_(api), driver_(api.driver), node_(api.node), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/jobs/*", &JobDetailRoutes::Show},
                   {"GET", "/v1/jobs/*/log", &JobDetailRoutes::Log},
                   {"GET", "/v1/jobs/*/environment", &JobDetailRoutes::Environment},
                   {"GET", "/v1/jobs/*/elements", &JobDetailRoutes::Elements},
                   {"GET", "/v1/jobs/*/steps", &JobDetailRoutes::Steps},
                   {"GET", "/v1/jobs/*/why", &JobDetailRoutes::Why}});
}

void JobDetailRoutes::Show(ApiCall& call) {
  // A browser reports each 404 as an error of the page; with `optional=1` an unknown job is `null`.
  const auto refuse = [is_optional = call.request.query.contains("optional")](ApiCall& asked, const Error& error) {
    if (is_optional && error.code == ErrorCode::kNotFound) asked.Send(200, "null");
    else asked.Refuse(error);
  };
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return refuse(call, id.error());
  FoundJob found = FindHere(driver_, *id);
  api_.reader.ReadUnless(
      found.record.has_value(), call, [this, refuse, id = *id, found = std::move(found)]() mutable -> FinishCall {
        const Status done = Complete(driver_.store(), id, found);
        if (!done) {
          return [refuse, error = done.error()](ApiCall& asked) { refuse(asked, MissingJob(error, asked.argument)); };
        }
        if (auto history = driver_.store().HistoryOf(id)) found.history = *std::move(history);
        return [this, found = std::move(found)](ApiCall& asked) { AnswerDetail(asked, found); };
      });
}

void JobDetailRoutes::AnswerDetail(ApiCall& call, const FoundJob& found) {
  const JobRecord& record = *found.record;
  const std::shared_ptr<const JobSpec> visible = VisibleSpec(driver_.controller(), call.caller, found);
  const JobSpec* shown = visible.get();
  const Reason reason = ReasonNow(driver_, ports_.agents.get(), record);
  static const std::vector<GpuFacts> kNone;
  const auto node = driver_.controller().IndexOf(record.node);
  wire::JobDetail detail =
      DetailOf(record, shown, reason, found.spec ? LabelsOf(*found.spec) : SpecLabels(), driver_.Outcomes(),
               node ? driver_.controller().scheduler().node(*node).capacity.gpus : kNone, found.history);
  if (!IsFinal(record.state)) detail.speeds = driver_.controller().SpeedsOf(record);
  detail.share = ShareOf(driver_.controller(), ports_.shares.get(), record);
  detail.time_sharing = TimeSharingOf(driver_, record);
  detail.pid = node_.pid_of(record.id);
  if (IsActive(record.state) && record.node.empty())
    detail.steps =
        wire::StepViewsOf(ReadStepListFile(node_.StepsOf(record)), kNoTime, shown != nullptr, detail.allocations);
  if (shown != nullptr) detail.isolation = node_.IsolationTextOf(record.id);
  if (shown != nullptr) {
    detail.output = PathOf(found, *shown, false);
    detail.error = PathOf(found, *shown, true);
  }
  if (!MaySee(call.caller, record)) detail.script.clear();
  call.Answer(InFull(std::move(detail), record, driver_.Outcomes(), found.history));
}

void JobDetailRoutes::Steps(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = driver_.FindJob(*id);
  if (!record) return call.Refuse(MissingJob(record.error(), call.argument));
  const bool has_commands = MaySee(call.caller, *record) || driver_.controller().Leads(call.caller, *record);
  if (!IsActive(record->state)) {
    const std::string kept = record->exit ? record->exit->steps : "";
    return call.Answer(wire::StepViewsOf(ReadStepList(kept), record->ended, has_commands, AllocationViewsOf(*record)));
  }
  if (!record->node.empty()) return AskForSteps(call, *record, has_commands);
  call.Answer(
      wire::StepViewsOf(ReadStepListFile(node_.StepsOf(*record)), kNoTime, has_commands, AllocationViewsOf(*record)));
}

void JobDetailRoutes::AskForSteps(ApiCall& call, const JobRecord& record, bool has_commands) {
  Agents* agents = ports_.agents == nullptr ? nullptr : ports_.agents->agents();
  RemoteNode* asked = agents == nullptr ? nullptr : agents->Find(record.node);
  // The job does not depend on its steps, so a list omits those that are unavailable now.
  if (asked == nullptr || !asked->is_connected()) return call.Answer(std::vector<wire::StepView>());
  wire::AgentQuestion question;
  question.record = record;
  question.wants_steps = true;
  auto shared = std::make_shared<ApiCall>(std::move(call));
  asked->Ask(std::move(question),
             [shared, has_commands, allocations = AllocationViewsOf(record)](Result<wire::NumberedAnswer> answered) {
               if (!answered || !answered->answer.are_steps) return shared->Answer(std::vector<wire::StepView>());
               shared->Answer(wire::StepViewsOf(ReadStepList(answered->bytes), kNoTime, has_commands, allocations));
             });
}

// For holders on several nodes, names the node where they hold, or have reserved, the missing resources.
void JobDetailRoutes::NameMachines(const core::Explanation& explanation, wire::WhyView& view) const {
  const Controller& controller = driver_.controller();
  if (!controller.scheduler().has_many()) return;
  for (std::size_t i = 0; i < std::min(explanation.blockers.size(), view.blockers.size()); ++i) {
    const std::vector<core::Holder>& holders = explanation.blockers[i].holders;
    std::vector<wire::HolderView>& shown = view.blockers[i].held_by;
    for (std::size_t k = 0; k < std::min(holders.size(), shown.size()); ++k) {
      const JobRecord* record = controller.Find(holders[k].job);
      const std::vector<core::TaskPlacement>& placements = holders[k].placements;
      if (record != nullptr && (IsActive(record->state) || !placements.empty()))
        shown[k].node =
            controller.scheduler().node(placements.empty() ? kOwnNode : placements.front().node).attributes.name;
    }
  }
}

bool JobDetailRoutes::NamesService(const ApiCall& call, bool is_job) const {
  if (services_ == nullptr || !services_->Has(call.argument)) return false;
  const std::string owner = services_->OwnerOf(call.argument);
  if (call.privacy.hides_others() && !call.privacy.IsShown(owner)) return false;
  // Ids have no letters.
  const bool is_name = std::ranges::any_of(call.argument, [](unsigned char c) { return std::isalpha(c) != 0; });
  return is_name && (!is_job || owner == call.caller.user.name);
}

void JobDetailRoutes::AddNotes(JobId job, const Caller& caller, wire::WhyView& view) const {
  const auto add = [&](const std::string& what, const std::string& note) {
    // The reason for which a trial was stopped or paused is already in the summary.
    if (!note.empty() && view.summary.find(note) == std::string::npos) view.summary += " " + what + note + ".";
  };
  if (services_ != nullptr) add("It is ", services_->NoteOfJob(job));
  if (const Sweep* sweep = driver_.controller().sweeps().Of(job)) {
    const std::string trial = std::to_string(job.value() - sweep->id.value() - 1);
    add(job == sweep->id ? "It is a sweep: " : "It is trial " + trial + " of sweep " + ToString(sweep->id) + ": ",
        SweepNoteOf(driver_.controller(), caller, job));
  }
}

void JobDetailRoutes::Why(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (NamesService(call, id.has_value())) return call.Answer(services_->WhyOf(call.argument));
  if (!id) return call.Refuse(id.error());
  const auto record = driver_.FindJob(*id);
  if (!record) return call.Refuse(MissingJob(record.error(), call.argument));
  const Controller& controller = driver_.controller();
  const FindOutcome names = call.privacy.Names(driver_.Outcomes());
  if (IsFinal(record->state)) {
    wire::WhyView view = WhyFinal(Named(*record, controller.scheduler()), names, driver_.Now());
    AddNotes(*id, call.caller, view);
    return call.Answer(view);
  }
  // An element that is not separate yet waits as part of its array.
  const JobRecord* array = controller.ArrayOf(*id);
  core::Explanation explanation = Explain(controller.scheduler(), array != nullptr ? array->id : *id, driver_.Now(),
                                          controller.run_spread(), array != nullptr ? ElementsBefore(*array, *id) : 0);
  for (core::Blocker& blocker : explanation.blockers) NameBlocker(controller, blocker);
  explanation.start.basis = WithTeamNames(std::move(explanation.start.basis));
  const bool waits = IsWaiting(record->state);
  if (auto no_pool = waits ? PoolBlocker(controller, *record) : std::nullopt) {
    explanation.blockers.assign(1, std::move(*no_pool));
    explanation.change.reset();
  }
  wire::WhyView view =
      WhyOf(Named(*record, controller.scheduler()), explanation, ReasonNow(driver_, ports_.agents.get(), *record),
            names, driver_.Now(), ShareOf(driver_.controller(), ports_.shares.get(), *record));
  NameMachines(explanation, view);
  if (waits && !view.blockers.empty()) {
    for (std::string& closed : controller.ClosedPools(*record)) {
      wire::BlockerView& other = view.blockers.emplace_back();
      other.kind = "pool";
      other.text = std::move(closed);
    }
  }
  if (record->state == JobState::kStarting && ports_.shares)
    view.summary += StartWaitsText(*record, *ports_.shares, LiveNames(driver_.controller()));
  view.speeds = controller.SpeedsOf(*record);
  AddNotes(*id, call.caller, view);
  if (waits && ports_.providers) {
    for (std::string& line : ports_.providers->Why(array != nullptr ? array->id : *id)) {
      wire::BlockerView& growth = view.blockers.emplace_back();
      growth.kind = "growth";
      growth.text = std::move(line);
    }
  }
  call.Answer(view);
}

// The environment may contain secrets, so it is shown to the same users as the script.
void JobDetailRoutes::Environment(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  FoundJob found = FindHere(driver_, *id);
  api_.reader.ReadUnless(found.record.has_value(), call,
                         [this, id = *id, caller = call.caller, found = std::move(found)]() mutable -> FinishCall {
                           const Status done = Complete(driver_.store(), id, found);
                           if (!done || found.spec == nullptr) return RefuseMissing(done, found);
                           if (!MaySee(caller, *found.record)) {
                             return [name = found.record->user.name](ApiCall& asked) {
                               asked.Refuse(PermissionDenied("job " + asked.argument + " belongs to " + name +
                                                             ", and only the owner may see its environment"));
                             };
                           }
                           return [view = EnvironmentOf(*found.spec)](ApiCall& asked) { asked.Answer(view); };
                         });
}

// Parameters and reported numbers are visible to the same users as the job's command and output.
void JobDetailRoutes::Elements(ApiCall& call) {
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto limit = CountIn(call.request, "limit", kUsualElements, kMostElements);
  if (!limit) return call.Refuse(limit.error());
  FoundJob found = FindHere(driver_, *id);
  api_.reader.ReadUnless(
      found.record.has_value(), call,
      [this, id = *id, limit = *limit, found = std::move(found)]() mutable -> FinishCall {
        const Status done = Complete(driver_.store(), id, found);
        if (!done || found.spec == nullptr) return RefuseMissing(done, found);
        if (found.record->array_count == 0) {
          return [](ApiCall& asked) {
            asked.Refuse(FailedPrecondition("job " + asked.argument + " is not an array or a sweep"));
          };
        }
        auto view = ElementsOf(*found.record, *found.spec, limit);
        return [this, found = std::move(found), view = std::move(view)](ApiCall& asked) {
          AnswerElements(asked, found, view);
        };
      });
}

void JobDetailRoutes::AnswerElements(ApiCall& call, const FoundJob& found, wire::ElementsView view) {
  const JobRecord& array = *found.record;
  if (VisibleSpec(driver_.controller(), call.caller, found) == nullptr)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + array.user.name +
                                        "; its parameters and numbers are visible to its owner, the leaders of its "
                                        "team and administrators"));
  if (!ports_.samples) return call.Answer(view);
  std::set<std::uint64_t> begun;
  for (std::uint32_t ordinal = 0; ordinal < view.elements.size(); ++ordinal) {
    if (!array.array_waiting.Contains(ordinal)) begun.insert(view.elements[ordinal].id.value());
  }
  ports_.samples->AskReported(std::move(begun),
                              [call = std::make_shared<ApiCall>(std::move(call)),
                               view = std::move(view)](const MetricStore::Reported& reported) mutable {
                                for (wire::ElementView& element : view.elements) {
                                  const auto values = reported.find(element.id.value());
                                  if (values == reported.end()) continue;
                                  for (const auto& [name, value] : values->second) {
                                    if (std::isfinite(value))
                                      element.metrics.emplace(name, ShortestDecimal(static_cast<float>(value)));
                                  }
                                }
                                call->Answer(view);
                              });
}

}  // namespace divvy
