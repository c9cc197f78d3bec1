// Routes that only the web page uses: a job's environment, the job that a valohai.yaml becomes, and GPUs held over
// time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "base/uuid.h"
#include "control/controller/start_reason.h"
#include "daemon/api/job_lookup.h"
#include "daemon/api/routes_call.h"
#include "daemon/api/routes_query.h"
#include "daemon/api/routes_reports.h"
#include "daemon/api/ui_auth.h"
#include "daemon/reports/shares_report.h"
#include "daemon/requests/valohai_reading.h"
#include "daemon/views/job_selector.h"
#include "daemon/views/views_samples.h"
#include "dialect/options/job_options.h"
#include "platform/net/tls.h"
#include "wire/messages/page_messages.h"

namespace divvy {
namespace {

constexpr std::int64_t kUsualSteps = 200;
constexpr std::int64_t kMostSteps = 2'000;
constexpr std::int64_t kUsualLines = 500;
constexpr std::int64_t kMostLines = 5'000;
constexpr std::int64_t kUsualElements = 5'000;
constexpr std::int64_t kMostElements = 10'000;
constexpr std::int64_t kUsualStarts = 5'000;
constexpr std::int64_t kMostStarts = 100'000;
/// A short limit, since the loop serves others as well.
constexpr auto kStartsTakeAtMost = std::chrono::milliseconds(15);

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

}  // namespace

// The environment may contain secrets, so it is shown to the same users as the script.
void Routes::Environment(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  Found found = FindHere(*id);
  ReadAsideUnless(found.record.has_value(), call,
                  [this, id = *id, caller = call.caller, found = std::move(found)]() mutable -> Finish {
                    if (!Complete(id, found) || found.spec == nullptr)
                      return [](Call& asked) { asked.Refuse(NotFound("there is no job " + asked.argument)); };
                    if (!MaySee(caller, *found.record)) {
                      return [name = found.record->user.name](Call& asked) {
                        asked.Refuse(PermissionDenied("job " + asked.argument + " belongs to " + name +
                                                      ", and only the owner may see its environment"));
                      };
                    }
                    return [view = EnvironmentOf(*found.spec)](Call& asked) { asked.Answer(view); };
                  });
}

// Parameters and reported numbers are visible to the same users as the job's command and output.
void Routes::Elements(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto limit = CountIn(call.request, "limit", kUsualElements, kMostElements);
  if (!limit) return call.Refuse(limit.error());
  Found found = FindHere(*id);
  ReadAsideUnless(found.record.has_value(), call,
                  [this, id = *id, limit = *limit, found = std::move(found)]() mutable -> Finish {
                    if (!Complete(id, found) || found.spec == nullptr)
                      return [](Call& asked) { asked.Refuse(NotFound("there is no job " + asked.argument)); };
                    if (found.record->array_count == 0) {
                      return [](Call& asked) {
                        asked.Refuse(FailedPrecondition("job " + asked.argument + " is not an array or a sweep"));
                      };
                    }
                    auto view = ElementsOf(*found.record, *found.spec, limit);
                    return [this, found = std::move(found), view = std::move(view)](Call& asked) {
                      AnswerElements(asked, found, view);
                    };
                  });
}

void Routes::AnswerElements(Call& call, const Found& found, wire::ElementsView view) {
  const JobRecord& array = *found.record;
  if (VisibleSpec(call.caller, found) == nullptr)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + array.user.name +
                                        "; its parameters and numbers are visible to its owner, the leaders of its "
                                        "team and administrators"));
  if (!ports_.samples) return call.Answer(view);
  std::set<std::uint64_t> begun;
  for (std::uint32_t ordinal = 0; ordinal < view.elements.size(); ++ordinal) {
    if (!array.array_waiting.Contains(ordinal)) begun.insert(view.elements[ordinal].id.value());
  }
  ports_.samples->AskReported(std::move(begun),
                              [call = std::make_shared<Call>(std::move(call)),
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

// Contains nothing that `divvy show` does not show to every user.
void Routes::LatestHistory(Call& call) {
  const auto limit = CountIn(call.request, "limit", kUsualLines, kMostLines);
  if (!limit) return call.Refuse(limit.error());
  ReadAside(call, [this, count = static_cast<std::uint64_t>(*limit), privacy = call.privacy]() -> Finish {
    auto lines = core_.store().LatestHistory(count);
    if (!lines) return [error = lines.error()](Call& from) { from.Refuse(error); };
    std::map<JobId, std::string> owners;
    for (Batch::HistoryLine& line : *lines) {
      if (privacy.sees_all() || !line.job.is_set()) continue;
      const auto [owner, is_new] = owners.try_emplace(line.job);
      if (is_new) {
        if (const auto record = core_.store().Find(line.job)) owner->second = record->user.name;
      }
      line.text = privacy.Reason(owner->second, std::move(line.text));
    }
    return [this, lines = *lines](Call& from) {
      const FindOutcome find = LiveNames();
      std::vector<wire::HistoryEvent> events;
      for (const Batch::HistoryLine& line : lines)
        events.push_back({ToSeconds(line.at), line.job.is_set() ? std::optional(line.job) : std::nullopt,
                          WithPublicIds(line.text, find)});
      from.Answer(events);
    };
  });
}

// Each value equals that of GET /v1/jobs/ID/why, at most a few seconds old.
void Routes::Starts(Call& call) {
  const auto limit = CountIn(call.request, "limit", kUsualStarts, kMostStarts);
  if (!limit) return call.Refuse(limit.error());
  const Controller& controller = core_.controller();
  const Time now = core_.Now();
  const std::vector<JobId> waiting = QueueOrder(controller.scheduler(), now, static_cast<std::size_t>(*limit));
  const auto until = std::chrono::steady_clock::now() + kStartsTakeAtMost;
  starts_.Update(
      waiting, now,
      [&, spread = controller.run_spread()](JobId job) { return StartOf(controller.scheduler(), job, now, spread); },
      [&] { return std::chrono::steady_clock::now() < until; });
  wire::StartsAnswer answer;
  answer.time = ToSeconds(now);
  const FindOutcome find = LiveNames();
  for (const JobId job : waiting) {
    const core::Estimate* start = starts_.Find(job);
    answer.is_complete &= start != nullptr;
    if (start == nullptr) continue;
    wire::StartView& view = answer.starts.emplace_back();
    view.id = job;
    if (start->typical != kNever) view.start = ToSeconds(std::max(start->typical, now));
    view.basis = WithPublicIds(WithTeamNames(start->basis), find);
  }
  call.Answer(answer);
}

void Routes::Valohai(Call& call) {
  auto question = wire::Decode<wire::ValohaiQuestion>(call.request.body);
  if (!question) return call.Refuse(question.error());
  ValohaiPlace place;
  place.around = ParseContextOf(call);
  const auto drawn = RandomHex(16);
  if (!drawn) return call.Refuse(drawn.error());
  place.execution_id = UuidOfRandom(*drawn);
  // As in vh: a daemon of one user keeps them with its other files.
  if (!about_.is_machine_wide && !about_.home.empty()) place.root = about_.home + "/executions/" + place.execution_id;
  place.default_gpus = core_.controller().scheduler().gpu_count() > 0 ? 1 : 0;
  // Parsing a long text may take a while.
  ReadAside(call, [question = *std::move(question), place = std::move(place)]() -> Finish {
    return [text = wire::Encode(ReadValohai(question, place))](Call& asked) { asked.Send(200, text); };
  });
}

void Routes::Shares(Call& call) {
  const auto by = ReportByOf(call.request, kSharesAreBy);
  if (!by) return call.Refuse(by.error());
  const auto stretch = StretchOf(call.request, core_.Now());
  if (!stretch) return call.Refuse(stretch.error());
  const auto points = CountIn(call.request, "points", kUsualSteps, kMostSteps);
  if (!points) return call.Refuse(points.error());
  const auto steps = static_cast<std::size_t>(*points);
  const auto answer = [this, by = *by, stretch = *stretch, steps](Call& asked, const MetricStore::Answer& kept) {
    ReportRuns(asked, by, stretch, PastRuns::kCount,
               [by, stretch, steps, kept](const std::vector<ReportedRun>& runs, bool is_cut) {
                 wire::SharesReport report = ReportShares(runs, by, stretch, steps);
                 AddTeamShares(kept, report);
                 report.is_cut = is_cut;
                 return wire::Encode(report);
               });
  };
  if (*by != ReportBy::kTeam || !ports_.samples) return answer(call, {});
  MetricStore::Question question;
  question.of = samples::Of::kTeam;
  question.range.since = static_cast<samples::Second>(ToSeconds(stretch->since));
  question.range.until = static_cast<samples::Second>(std::ceil(ToSeconds(stretch->until)));
  question.range.points = std::min(steps, samples::kMostChartPoints);
  auto shared = std::make_shared<Call>(std::move(call));
  ports_.samples->Ask(std::move(question), static_cast<samples::Second>(ToSeconds(core_.Now())),
                      [answer, shared](Result<MetricStore::Answer> kept) -> std::function<void()> {
                        // Without the recorded entitlements, the report shows only held GPUs.
                        if (!kept) return [answer, shared] { answer(*shared, {}); };
                        return [answer, shared, kept = *std::move(kept)] { answer(*shared, kept); };
                      });
}

}  // namespace divvy
