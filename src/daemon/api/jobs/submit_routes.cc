#include "daemon/api/jobs/submit_routes.h"

#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/auth/accounts.h"
#include "daemon/notify/notifier.h"
#include "daemon/providers/provider_host.h"
#include "daemon/requests/check_spec.h"
#include "daemon/requests/submission_keys.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/slurm/slurm.h"
#include "sweep/sweep_rule.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/series_messages.h"

namespace divvy {
namespace {

/// Returns "5 elements over lr, 2 at a time; each asks for 1 GPU, at most 2 h": the count, and then the request of each
/// element.
std::string SummaryOf(const JobSpec& spec, std::uint64_t elements) {
  if (elements <= 1) return dialect::Summarise(spec);
  JobSpec one = spec;
  one.array.reset();
  one.parameters.clear();
  JobSpec many;
  many.array = spec.array;
  many.parameters = spec.parameters;
  return Join(dialect::ReadBack(many).request, ", ") + "; each asks for " + dialect::Summarise(one);
}

/// Replaces variables from another machine's environment by those of `login`, such as the user's home. The job runs in
/// that home, unless it names a directory.
void LogIn(const std::vector<std::string>& login, JobSpec& spec) {
  const auto name_of = [](std::string_view pair) { return pair.substr(0, pair.find('=')); };
  std::vector<std::string>& environment = spec.capture.environment;
  std::erase_if(environment, [&](const std::string& pair) {
    return std::ranges::any_of(login, [&](const std::string& own) { return name_of(own) == name_of(pair); });
  });
  environment.insert(environment.end(), login.begin(), login.end());
  constexpr std::string_view kHome = "HOME=";
  for (const std::string& pair : login) {
    if (spec.directory.empty() && pair.starts_with(kHome)) spec.directory = pair.substr(kHome.size());
  }
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// Restricts a foreground job to this node, because its caller's terminal is here.
Status KeepHere(const Scheduler& cluster, JobSpec& spec) {
  if (!cluster.has_many()) return {};
  const std::string& own = cluster.node(kOwnNode).attributes.name;
  const auto refuse = [&own](const std::string& why) {
    return FailedPrecondition(why + "; a job in the foreground has its terminal on this machine (" + own +
                              ") and runs here only. Use divvy submit, and divvy logs -f for its output");
  };
  Request here = spec.request;
  if (here.nodes > 1) return refuse("asks for " + std::to_string(here.nodes) + " nodes");
  const bool is_named = here.node_list.empty() || Contains(here.node_list, own);
  if (!is_named || Contains(here.excluded_nodes, own)) return refuse("must run on other nodes");
  here.node_list = {own};
  if (!spec.queues_anyway) {
    // A request that no node can satisfy gets the usual error.
    DIVVY_CHECK(CheckFeasible(cluster, spec.request, spec.pool));
    if (const Status fits = CheckFeasible(cluster, here, spec.pool); !fits) return refuse(fits.error().message);
  }
  spec.request = std::move(here);
  return {};
}

}  // namespace

SubmitRoutes::SubmitRoutes(ApiContext& api, RouteTable& table, TerminalRoutes& terminals)
    : api_(api), driver_(api.driver), ports_(api.ports), terminals_(terminals) {
  table.Add(this, {{"POST", "/v1/jobs", &SubmitRoutes::Submit}});
}

void SubmitRoutes::Submit(ApiCall& call) {
  const Duration wait = call.caller.is_admin || !ports_.after
                            ? Duration(0)
                            : api_.loads.NextSubmission(call.caller.user.uid, driver_.Now());
  if (wait <= Duration(0)) return TakeSubmission(call);
  ports_.after(wait, [this, call = std::make_shared<ApiCall>(std::move(call))] { TakeSubmission(*call); });
}

void SubmitRoutes::TakeSubmission(ApiCall& call) {
  if (!driver_.trouble().empty()) {
    const ErrorCode code = driver_.may_act() ? ErrorCode::kLimitExceeded : ErrorCode::kUnreachable;
    return call.Refuse({code, "no new work is taken: " + driver_.trouble()});
  }
  std::vector<std::string> renamed;
  auto request = wire::Decode<wire::SubmitRequest>(call.request.body, &renamed);
  if (!request) return call.Refuse(request.error());
  if (!request->key.empty() && !request->is_test && ports_.submission_keys) {
    if (const Status good = SubmissionKeys::Check(request->key); !good) return call.Refuse(good.error());
    if (const auto done = ports_.submission_keys->Find(call.caller.user.uid, request->key, driver_.Now()))
      return AnswerAgain(call, done->job, done->count);
  }
  JobSpec& spec = request->spec;
  if (const Status complete = CompleteSpec(call, spec); !complete) return call.Refuse(complete.error());
  // If the jobs of a sweep have their own names, this shows the template.
  if (!spec.name_template.empty()) spec.name = spec.name_template;
  if (spec.name.empty()) spec.name = DefaultName(spec);
  const auto elements = spec.array || !spec.parameters.empty() ? dialect::ElementCount(spec) : Result<std::uint64_t>(0);
  if (!elements) return call.Refuse(elements.error());
  const std::size_t streams = call.request.fds.size();
  if (spec.is_foreground && streams != 3 && streams != 6 && !request->is_test)
    return call.Refuse(InvalidArgument("a foreground job needs the three standard streams of its caller"));
  if (const auto good = CheckCallersStreams(call.request.fds, spec.wants_pty, call.caller.user.uid); !good)
    return call.Refuse(good.error());
  std::ranges::sort(spec.capture.environment);

  if (ports_.notifier) {
    const NotifyRegistry& notify = ports_.notifier->registry();
    const bool has_sendmail = ::access(notify.settings().sendmail.c_str(), X_OK) == 0;
    for (const std::string& note : notify.NotesOn(spec, call.caller.user, HasAccount, has_sendmail))
      dialect::AddNote(spec, note);
  }
  wire::SubmitAnswer answer;
  answer.summary = SummaryOf(spec, *elements);
  // Notes on old names of fields concern the caller, not the job.
  const auto take_notes = [&](const JobSpec& noted) {
    answer.notes = noted.notes;
    answer.notes.insert(answer.notes.end(), renamed.begin(), renamed.end());
  };
  take_notes(spec);
  if (spec.grace < Duration(0)) spec.grace = ports_.default_grace;
  if (request->is_test) return AnswerForecast(call, std::move(spec), *elements, std::move(answer));
  const bool is_foreground = spec.is_foreground;
  if (const Status here = is_foreground && streams == 3 ? KeepHere(driver_.controller().scheduler(), spec) : Status();
      !here)
    return call.Refuse(here.error());
  SpecLabels labels = LabelsOf(spec);
  const auto given_labels = spec.labels;
  const auto result =
      driver_.controller().Submit(std::move(spec), *elements, call.caller, driver_.Now(), driver_.Outcomes());
  if (!result) return call.Refuse(result.error());
  if (ports_.providers) ports_.providers->Learn(result->id, given_labels);
  // The accepted specification includes the defaults of its pool.
  if (const auto kept = driver_.controller().PendingSpec(result->id)) {
    labels.pool = kept->pool;
    take_notes(*kept);
    answer.summary = SummaryOf(*kept, *elements);
  }
  api_.labels.Learn(result->id, labels);
  answer.id = result->id;
  answer.count = static_cast<std::int64_t>(result->count);
  const std::int64_t uid = call.caller.user.uid;
  if (!request->key.empty() && ports_.submission_keys) {
    for (auto& [row, text] : ports_.submission_keys->Add(uid, request->key, {answer.id, answer.count}, driver_.Now()))
      driver_.controller().KeepSetting(row, std::move(text));
  }
  if (is_foreground) {
    if (const Status kept = terminals_.KeepCaller(answer.id, call.request.fds); !kept) {
      static_cast<void>(
          driver_.controller().Cancel(answer.id, 0, Duration(-1), kept.error().message, call.caller, driver_.Now()));
      driver_.Touch();
      return call.Refuse(kept.error());
    }
    terminals_.ExpectCaller(answer.id);
  }
  driver_.AfterCommit(
      [this, call = std::make_shared<ApiCall>(std::move(call)), answer, uid,
       key = request->key](const Status& status) mutable {
        if (!status) {
          if (!key.empty() && ports_.submission_keys) ports_.submission_keys->Drop(uid, key);
          terminals_.DropCaller(answer.id);
          return call->Refuse(status.error());
        }
        // The present state: with free GPUs the job has already started.
        const auto record = driver_.FindJob(answer.id);
        answer.state = record ? Name(record->state) : "queued";
        call->Answer(answer);
      },
      ControllerDriver::IfNotStored::kRefuse);
}

Status SubmitRoutes::CompleteSpec(const ApiCall& call, JobSpec& spec) const {
  // The page sends the environment of a job that was submitted here before (GET /v1/jobs/ID/again), or none.
  const bool has_environment = call.is_at_page && !spec.capture.environment.empty();
  if (!call.address.empty() && !call.is_on_node && ports_.login_environment) {
    std::vector<std::string> login = ports_.login_environment(call.caller.user);
    if (has_environment) std::erase_if(login, [](const std::string& pair) { return !pair.starts_with("HOME="); });
    LogIn(login, spec);
  }
  if (const Status good = CheckSpec(spec); !good) return good;
  if (ports_.providers) DIVVY_CHECK(ports_.providers->CheckWishes(spec));
  if (spec.labels.contains(std::string(sweep::kRuleLabel)) && !ports_.samples)
    return FailedPrecondition("sweeps compare metrics of jobs, and " + std::string(wire::kSamplesDisabled));
  if (call.caller.user.uid == 0 && !ports_.takes_root_jobs) {
    return PermissionDenied(
        "jobs of root are refused here; submit as another user, or set root_jobs = true "
        "under [jobs] in divvy.toml and restart the daemon");
  }
  if (const Scheduler& cluster = driver_.controller().scheduler(); !cluster.has_many()) {
    DIVVY_CHECK(dialect::CompleteSlurmOnOne(spec, cluster.node(kOwnNode).attributes.name));
  }
  return {};
}

// The first request may still be on its way to the store, or be refused there.
void SubmitRoutes::AnswerAgain(ApiCall& call, JobId job, std::int64_t count) {
  driver_.AfterCommit(
      [this, call = std::make_shared<ApiCall>(std::move(call)), job, count](const Status& status) {
        if (!status) return call->Refuse(status.error());
        wire::SubmitAnswer answer;
        answer.id = job;
        answer.count = count;
        const auto record = driver_.FindJob(job);
        answer.state = record ? Name(record->state) : "queued";
        answer.summary = "submitted before with the same key";
        call->Answer(answer);
      },
      ControllerDriver::IfNotStored::kRefuse);
}

void SubmitRoutes::AnswerForecast(ApiCall& call, JobSpec spec, std::uint64_t elements, wire::SubmitAnswer answer) {
  const Time now = driver_.Now();
  const JobSpec submitted = spec;
  const auto forecast = driver_.controller().Foresee(std::move(spec), elements, call.caller, now, driver_.Outcomes());
  if (!forecast) return call.Refuse(forecast.error());
  answer.id = forecast->id;
  answer.count = static_cast<std::int64_t>(std::max<std::uint64_t>(elements, 1));
  answer.state = "queued";
  if (forecast->start != kNever) answer.predicted_start = ToSeconds(forecast->start);
  // Without a basis, it would start at once, on a node that exists.
  if (ports_.providers && !forecast->basis.empty()) {
    if (forecast->is_kept && ports_.providers->has_providers())
      answer.notes.push_back("nodes on demand: none while something else keeps the job from starting: " +
                             WithPublicIds(forecast->basis, driver_.Outcomes()) + ". After that:");
    for (std::string& line : ports_.providers->Foresee(forecast->id, submitted, elements, call.caller))
      answer.notes.push_back("nodes on demand: " + std::move(line));
  }
  answer.prediction_basis = WithPublicIds(forecast->basis, driver_.Outcomes());
  wire::ForecastAnswer full;
  for (const NodeAllocation& allocation : forecast->allocations) {
    const std::string node =
        allocation.node.empty() ? driver_.controller().scheduler().node(kOwnNode).attributes.name : allocation.node;
    answer.nodes.push_back(node);
    const std::vector<int> gpus = allocation.gpus.ToVector();
    full.allocations.push_back({node, {gpus.begin(), gpus.end()}, allocation.tasks, {}});
  }
  static_cast<wire::SubmitAnswer&>(full) = std::move(answer);
  call.Answer(full);
}

}  // namespace divvy
