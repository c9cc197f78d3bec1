#include "daemon/api/reports/sample_routes.h"

#include <algorithm>

#include "base/text.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/api/call/request_query.h"
#include "daemon/api/cluster/node_routes.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/node/machine.h"
#include "daemon/node/own_metrics.h"
#include "daemon/providers/provider_host.h"
#include "daemon/views/job_selector.h"
#include "daemon/views/metrics_page.h"
#include "daemon/views/views_samples.h"
#include "wire/http/own_numbers.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/series_messages.h"

namespace divvy {
namespace {

constexpr std::int64_t kUsualPoints = 400;
constexpr Duration kLastWords = std::chrono::seconds(10);

Error IsOff() { return FailedPrecondition(std::string(wire::kSamplesDisabled)); }

// Returns a number of the query string; `otherwise` if it is missing.
Result<std::int64_t> NumberOf(const HttpRequest& request, const char* name, std::int64_t otherwise) {
  const auto at = request.query.find(name);
  if (at == request.query.end()) return otherwise;
  const auto number = ParseNumber(at->second);
  constexpr double kMost = 1e12;
  if (!number || *number > kMost || *number < -kMost)
    return InvalidArgument("'" + at->second + "' is not a number for '" + name + "'");
  return static_cast<std::int64_t>(*number);
}

Status CheckMetric(const std::string& name) {
  if (samples::MetricByName(name) || name.starts_with(samples::kOwnPrefix)) return {};
  std::vector<std::string_view> known;
  for (std::size_t i = 0; i < samples::kMetrics; ++i) known.push_back(FactsOf(static_cast<samples::Metric>(i)).name);
  const std::string_view near = Nearest(name, known);
  return InvalidArgument(
      "there is no metric '" + name.substr(0, 80) + "'" +
      (near.empty() ? "; those of a job's own begin with own." : "; did you mean '" + std::string(near) + "'?"));
}

Result<MetricStore::Question> SeriesAskedBy(const HttpRequest& request, samples::Second now) {
  MetricStore::Question question;
  const auto text = [&](const char* name) {
    const auto at = request.query.find(name);
    return at == request.query.end() ? std::string() : at->second;
  };
  const std::string of = text("of");
  const auto known = samples::OfByName(of);
  if (!known || *known == samples::Of::kTeam)
    return InvalidArgument("'of' is gpu, slice, node, job or cluster, not '" + of.substr(0, 80) + "'");
  question.of = *known;
  if (!text("node").empty()) question.node = text("node");
  DIVVY_TRY(const std::int64_t gpu, NumberOf(request, "gpu", -1));
  if (gpu >= GpuSet::kCapacity) return InvalidArgument("there is no GPU " + std::to_string(gpu));
  if (gpu >= 0) question.gpu = static_cast<int>(gpu);
  const std::string metrics = text("metrics");
  for (const std::string_view name : Split(metrics, ',')) {
    if (Trim(name).empty()) continue;
    question.metrics.emplace_back(Trim(name));
    DIVVY_CHECK(CheckMetric(question.metrics.back()));
  }
  // A negative value is relative to now, otherwise it is a time in seconds since 1970.
  const auto moment = [&](std::int64_t seconds) { return seconds < 0 ? now + seconds : seconds; };
  DIVVY_TRY(const std::int64_t since, NumberOf(request, "since", 0));
  DIVVY_TRY(const std::int64_t until, NumberOf(request, "until", 0));
  DIVVY_TRY(const std::int64_t points,
            CountIn(request, "points", kUsualPoints, static_cast<std::int64_t>(samples::kMostChartPoints)));
  question.range = {moment(since), moment(until), static_cast<std::size_t>(points)};
  if (question.range.until != 0 && question.range.until <= question.range.since)
    return InvalidArgument("'until' is not after 'since'");
  return question;
}

/// Checks a report about the job's present run. Its last metrics may arrive a moment after its end, because the process
/// that carries its output reads them then.
Status CheckSaysNumbers(const JobRecord& record, const wire::OwnMetricsRequest& request, Time now) {
  const bool has_just_ended = IsFinal(record.state) && now - record.ended < kLastWords;
  if (record.array_count > 0 || (!IsActive(record.state) && !has_just_ended))
    return FailedPrecondition("job " + DisplayId(record) + " does not run");
  if (request.attempt != 0 && request.attempt != record.attempt)
    return FailedPrecondition("job " + DisplayId(record) + " was restarted since: this run of it has ended");
  if (request.values.empty() || request.values.size() > wire::kMostOwnNames)
    return InvalidArgument("'values' has 1 to " + std::to_string(wire::kMostOwnNames) + " numbers");
  if (request.lines_left_out < 0 || request.names_left_out < 0)
    return InvalidArgument("the number of dropped values must not be negative");
  for (const auto& [name, value] : request.values) {
    if (!wire::IsOwnName(name))
      return InvalidArgument("'" + name.substr(0, wire::kMostOwnName) + "' is not a valid metric name: use up to " +
                             std::to_string(wire::kMostOwnName) + " bytes without control characters");
    if (!wire::IsOwnNumber(value))
      return InvalidArgument("'" + name + "': the number must be within the range of a float, 3.4e38");
  }
  return {};
}

Error NoMachine(const std::string& name) {
  return NotFound("there is no node '" + name.substr(0, 80) + "'; divvy nodes lists all nodes");
}

}  // namespace

SampleRoutes::SampleRoutes(ApiContext& api, RouteTable& table) : driver_(api.driver), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/latest", &SampleRoutes::Latest},
                   {"GET", "/v1/series", &SampleRoutes::Series},
                   {"GET", "/v1/events", &SampleRoutes::Events},
                   {"GET", "/metrics", &SampleRoutes::Metrics},
                   {"POST", "/v1/jobs/*/metrics", &SampleRoutes::AddOwnMetrics, RouteKind::kOwnJob}});
}

wire::LatestAnswer SampleRoutes::LatestFor(const Caller& caller) const {
  const Controller& controller = driver_.controller();
  const auto shown = [&](JobId id) {
    const JobRecord* record = controller.Find(id);
    if (record == nullptr || !IsActive(record->state)) return JobShown::kNothing;
    return MaySee(caller, *record) || controller.Leads(caller, *record) ? JobShown::kAll : JobShown::kUse;
  };
  return LatestViewOf(*ports_.samples, driver_.Now(), controller.scheduler().has_many(), shown,
                      [&](const std::string& node) { return controller.DisconnectReason(node).empty(); });
}

bool SampleRoutes::is_watched() const {
  // A client that has asked recently will probably ask again.
  return !watchers_.empty() || driver_.Now() - latest_asked_ < 10s;
}

void SampleRoutes::Latest(ApiCall& call) {
  latest_asked_ = driver_.Now();
  if (!ports_.samples) {
    wire::LatestAnswer answer;
    answer.time = ToSeconds(driver_.Now());
    answer.is_on = false;
    return call.Answer(answer);
  }
  call.Answer(LatestFor(call.caller));
}

void SampleRoutes::Series(ApiCall& call) {
  if (!ports_.samples) return call.Refuse(IsOff());
  const auto now = static_cast<samples::Second>(ToSeconds(driver_.Now()));
  auto question = SeriesAskedBy(call.request, now);
  if (!question) return call.Refuse(question.error());
  bool has_own = false;
  if (question->of == samples::Of::kJob) {
    const auto word = call.request.query.find("id");
    if (word == call.request.query.end()) return call.Refuse(InvalidArgument("of=job needs the 'id' of one"));
    const auto id = SelectOne(driver_, word->second, call.caller);
    if (!id) return call.Refuse(id.error());
    const auto record = driver_.FindJob(*id);
    if (!record) return call.Refuse(MissingJob(record.error(), word->second));
    has_own = MaySee(call.caller, *record) || driver_.controller().Leads(call.caller, *record);
    question->job = id->value();
  }
  const bool has_many = driver_.controller().scheduler().has_many();
  const bool is_known = !question->node || driver_.controller().IndexOf(*question->node) ||
                        *question->node == OwnNodeName(ports_) || *question->node == HostName();
  if (!has_many && !is_known) return call.Refuse(NoMachine(*question->node));
  const std::string missing = is_known ? "" : *question->node;
  // A single node has no name in answers, and is looked up without one.
  if (!has_many) question->node.reset();
  auto shared = std::make_shared<ApiCall>(std::move(call));
  ports_.samples->Ask(
      *std::move(question), now,
      [shared, has_many, has_own, missing](const Result<MetricStore::Answer>& answer) -> std::function<void()> {
        // A removed node may still have history.
        if (answer && answer->series.empty() && !missing.empty())
          return [shared, missing] { shared->Refuse(NoMachine(missing)); };
        if (!answer) return [shared, error = answer.error()] { shared->Refuse(error); };
        return [shared, text = wire::Encode(SeriesViewOf(*answer, has_many, has_own))] { shared->Send(200, text); };
      });
}

void SampleRoutes::AddOwnMetrics(ApiCall& call) {
  const auto request = wire::Decode<wire::OwnMetricsRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  if (!ports_.samples) return call.Refuse(IsOff());
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = driver_.FindJob(*id);
  if (!record) return call.Refuse(MissingJob(record.error(), call.argument));
  if (!MaySee(call.caller, *record))
    return call.Refuse(PermissionDenied("job " + DisplayId(*record) + " belongs to " + record->user.name));
  if (const Status speaks = CheckSaysNumbers(*record, *request, driver_.Now()); !speaks)
    return call.Refuse(speaks.error());
  wire::OwnNumbers numbers;
  for (const auto& [name, value] : request->values) wire::KeepNewest(numbers, name, value);
  std::vector<samples::Reading> readings = OwnReadings(numbers);
  const auto add = [&](samples::Metric metric, std::int64_t count) {
    if (count > 0) readings.push_back({metric, static_cast<double>(count)});
  };
  add(samples::Metric::kOwnLinesLeftOut, request->lines_left_out);
  add(samples::Metric::kOwnNamesLeftOut, request->names_left_out);
  ports_.samples->AddSaid(id->value(), readings, static_cast<samples::Second>(ToSeconds(driver_.Now())));
  if (driver_.controller().sweeps().Of(*id) == nullptr) return call.Answer(wire::MessageAnswer{"taken"});
  driver_.controller().OnMetrics(*id, numbers, driver_.Now());
  // The report counts already, so the trial gets no error if it is stored later.
  AnswerAfterCommit(driver_, call, wire::MessageAnswer{"taken"}, ControllerDriver::IfNotStored::kWait);
}

void SampleRoutes::Metrics(ApiCall& call) {
  const wire::Exposed form = wire::ExposedBy(call.request.header("accept"));
  std::map<std::string, MetricsAbout::TeamNodes> team_nodes;
  if (ports_.providers) {
    for (const auto& [team, its] : ports_.providers->TeamSpending())
      team_nodes[team] = {its.hourly.units(), its.this_month.units()};
  }
  HttpResponse response;
  response.content_type = wire::ContentTypeOf(form);
  response.body =
      MetricsText({driver_, ports_.samples.get(), ports_.counters.get(),
                   NodesByState(driver_.controller(), ports_.agents.get()), ports_.has_dcgm_names, ports_.waste.get(),
                   ports_.hides_others_jobs, ports_.leadership.get(), ports_.hides_others_jobs ? nullptr : add_others_,
                   ports_.providers ? ports_.providers->Views(driver_.Now()) : std::vector<wire::ProviderView>(),
                   std::move(team_nodes)},
                  form);
  Reply(call.reply).Answer(response);
}

void SampleRoutes::Events(ApiCall& call) {
  // Both callbacks need the handle, which is known only after the subscription.
  auto handle = std::make_shared<std::uint64_t>(0);
  call.reply.BeginStream("text/event-stream");
  call.reply.OnClosed([this, handle] {
    driver_.Unsubscribe(*handle);
    watchers_.erase(*handle);
  });
  *handle = driver_.Subscribe(
      [this, handle, reply = call.reply, privacy = call.privacy](const std::vector<Change>& changes, Time now) mutable {
        std::string text;
        for (const Change& change : changes) {
          wire::ChangeEvent event;
          event.time = ToSeconds(now);
          event.kind = change.job.is_set() ? "job" : "gpus";
          if (change.job.is_set()) {
            event.id = change.job;
            event.state = Name(change.state);
          }
          event.reason = change.reason;
          if (change.job.is_set() && !privacy.sees_all() && !change.reason.empty()) {
            const auto record = driver_.FindUnstored(change.job);
            event.reason = privacy.Reason(record ? record->user.name : "", change.reason);
          }
          text += "event: " + event.kind + "\ndata: " + wire::Encode(event) + "\n\n";
        }
        if (!reply.Send(text)) driver_.Unsubscribe(*handle);
      });
  if (call.request.query.contains("samples")) watchers_.emplace(*handle, Watcher{call.caller, call.reply});
}

void SampleRoutes::OnSecond() {
  if (!ports_.samples || watchers_.empty()) return;
  std::map<std::int64_t, std::string> texts;  // By viewer; administrators have -1.
  const auto watchers = watchers_;            // A copy, because a watcher may leave while it is being served.
  for (const auto& [handle, watcher] : watchers) {
    std::string& text = texts[watcher.caller.is_admin ? -1 : watcher.caller.user.uid];
    if (text.empty()) {
      text = "event: samples\ndata: " + wire::Encode(LatestFor(watcher.caller)) + "\n\n";
    }
    Reply reply = watcher.reply;
    if (!reply.Send(text)) watchers_.erase(handle);
  }
}

}  // namespace divvy
