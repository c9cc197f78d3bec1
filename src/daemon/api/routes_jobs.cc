// The routes that submit jobs, act on them and wait for them. Read-only routes are in routes_reads.cc.
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/api/routes_call.h"
#include "daemon/auth/accounts.h"
#include "daemon/fleet/remote_streams.h"
#include "daemon/notify/notifier.h"
#include "daemon/requests/check_spec.h"
#include "daemon/requests/job_update.h"
#include "daemon/views/job_selector.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/slurm/slurm.h"
#include "wire/messages/messages_remote.h"
#include "wire/messages/page_messages.h"

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

/// The caller has detached from its terminal.
void AnswerLeft(Reply& reply, JobId id) {
  wire::WaitAnswer answer;
  answer.id = id;
  answer.was_detached = true;
  HttpResponse response;
  response.body = wire::Encode(answer);
  reply.Answer(response);
}

wire::WaitAnswer WaitAnswerOf(const JobRecord& record) {
  wire::WaitAnswer answer;
  answer.id = record.id;
  answer.state = Name(record.state);
  answer.exit_code = record.exit ? record.exit->code : 0;
  if (record.state != JobState::kSucceeded && answer.exit_code == 0) answer.exit_code = 1;
  answer.reason = record.reason;
  return answer;
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

}  // namespace

void Routes::Submit(Call& call) {
  const Duration wait =
      call.caller.is_admin || !ports_.after ? Duration(0) : loads_.NextSubmission(call.caller.user.uid, core_.Now());
  if (wait <= Duration(0)) return TakeSubmission(call);
  ports_.after(wait, [this, call = std::make_shared<Call>(std::move(call))] { TakeSubmission(*call); });
}

void Routes::TakeSubmission(Call& call) {
  if (!core_.trouble().empty()) return call.Refuse(LimitExceeded("no new work is taken: " + core_.trouble()));
  auto request = wire::Decode<wire::SubmitRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  JobSpec& spec = request->spec;
  // The page sends the environment of a job that was submitted here before (GET /v1/jobs/ID/again), or none.
  const bool has_environment = call.is_at_page && !spec.capture.environment.empty();
  if (!call.address.empty() && !call.is_on_node && ports_.login_environment) {
    std::vector<std::string> login = ports_.login_environment(call.caller.user);
    if (has_environment) std::erase_if(login, [](const std::string& pair) { return !pair.starts_with("HOME="); });
    LogIn(login, spec);
  }
  if (const divvy::Status good = CheckSpec(spec); !good) return call.Refuse(good.error());
  if (call.caller.user.uid == 0 && !ports_.takes_root_jobs) {
    return call.Refuse(
        PermissionDenied("jobs of root are refused here; submit as another user, or set root_jobs = true "
                         "under [jobs] in divvy.toml and restart the daemon"));
  }
  if (const Scheduler& cluster = core_.controller().scheduler(); !cluster.has_many()) {
    const divvy::Status is_one = dialect::CompleteSlurmOnOne(spec, cluster.node(kOwnNode).words.name);
    if (!is_one) return call.Refuse(is_one.error());
  }
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
    const NotifyRegistry& notify = ports_.notifier->book();
    const bool has_sendmail = ::access(notify.settings().sendmail.c_str(), X_OK) == 0;
    for (const std::string& note : notify.NotesOn(spec, call.caller.user, HasAccount, has_sendmail))
      dialect::AddNote(spec, note);
  }
  wire::SubmitAnswer answer;
  answer.summary = SummaryOf(spec, *elements);
  answer.notes = spec.notes;
  if (spec.grace < Duration(0)) spec.grace = ports_.default_grace;
  if (request->is_test) return AnswerForecast(call, std::move(spec), *elements, std::move(answer));
  const bool is_foreground = spec.is_foreground;
  if (const divvy::Status here = is_foreground && streams == 3 ? KeepHere(spec) : divvy::Status(); !here)
    return call.Refuse(here.error());
  SpecLabels labels = LabelsOf(spec);
  const auto result = core_.controller().Submit(std::move(spec), *elements, call.caller, core_.Now(), core_.Outcomes());
  if (!result) return call.Refuse(result.error());
  // The accepted specification includes the defaults of its pool.
  if (const auto kept = core_.controller().PendingSpec(result->id)) {
    labels.pool = kept->pool;
    answer.notes = kept->notes;
    answer.summary = SummaryOf(*kept, *elements);
  }
  labels_.Learn(result->id, labels);
  answer.id = result->id;
  answer.count = static_cast<std::int64_t>(result->count);
  if (is_foreground) {
    if (const divvy::Status kept = KeepCaller(answer.id, call.request.fds); !kept) {
      static_cast<void>(
          core_.controller().Cancel(answer.id, 0, Duration(-1), kept.error().message, call.caller, core_.Now()));
      core_.Touch();
      return call.Refuse(kept.error());
    }
    submitted_.insert(answer.id);
    static_cast<void>(core_.WaitFor(answer.id, [this, id = answer.id](const JobRecord&) { submitted_.erase(id); }));
  }
  core_.AfterCommit(
      [this, call = std::make_shared<Call>(std::move(call)), answer](const divvy::Status& status) mutable {
        if (!status) {
          DropCaller(answer.id);
          return call->Refuse(status.error());
        }
        // The present state: with free GPUs the job has already started.
        const auto record = core_.FindJob(answer.id);
        answer.state = record ? Name(record->state) : "queued";
        call->Answer(answer);
      },
      true);
}

void Routes::AnswerForecast(Call& call, JobSpec spec, std::uint64_t elements, wire::SubmitAnswer answer) {
  const Time now = core_.Now();
  const auto forecast = core_.controller().Foresee(std::move(spec), elements, call.caller, now, core_.Outcomes());
  if (!forecast) return call.Refuse(forecast.error());
  answer.id = forecast->id;
  answer.count = static_cast<std::int64_t>(std::max<std::uint64_t>(elements, 1));
  answer.state = "queued";
  if (forecast->start != kNever) answer.predicted_start = ToSeconds(forecast->start);
  answer.prediction_basis = WithPublicIds(forecast->basis, core_.Outcomes());
  wire::ForecastAnswer full;
  for (const Seat& seat : forecast->seats) {
    const std::string node = seat.node.empty() ? core_.controller().scheduler().node(kOwnNode).words.name : seat.node;
    answer.nodes.push_back(node);
    const std::vector<int> gpus = seat.gpus.ToVector();
    full.seats.push_back({node, {gpus.begin(), gpus.end()}, seat.tasks, {}});
  }
  static_cast<wire::SubmitAnswer&>(full) = std::move(answer);
  call.Answer(full);
}

void Routes::AnswerWhenFinal(Call& call, JobId id, std::function<void()> on_closed) {
  auto shared = std::make_shared<Call>(std::move(call));
  auto waiter = std::make_shared<std::uint64_t>(0);
  const auto handle = core_.WaitFor(id, [this, shared, id](const JobRecord& record) {
    DropCaller(id);
    wire::WaitAnswer answer = WaitAnswerOf(record);
    answer.reason = shared->privacy.Reason(record.user.name, std::move(answer.reason));
    shared->Answer(answer);
  });
  if (!handle) return shared->Refuse(NotFound("there is no job " + ToString(id)));
  *waiter = *handle;
  shared->reply.OnClosed([this, id, waiter, on_closed = std::move(on_closed)] {
    core_.StopWaiting(id, *waiter);
    if (on_closed) on_closed();
  });
}

void Routes::Wait(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const JobRecord* record = core_.controller().Find(*id);
  // Callers on other machines have no terminal here, and a caller that reconnects says so (Rejoin).
  const bool is_caller = call.address.empty() && record != nullptr && record->is_foreground &&
                         record->user.uid == call.caller.user.uid && submitted_.erase(*id) != 0;
  if (is_caller) return AnswerCaller(call, *id);
  AnswerWhenFinal(call, *id, nullptr);
}

void Routes::AnswerCaller(Call& call, JobId id) {
  callers_.insert_or_assign(id, call.reply);
  AnswerWhenFinal(call, id, EndsWithItsTerminal(id, call.caller));
}

// From now on the job is treated like one that was submitted with its own terminal. If its caller has not reconnected
// after a restart of the daemon, it is told when it does.
void Routes::OnTerminalLeft(JobId id) {
  auto caller = callers_.extract(id);
  const JobRecord* record = core_.controller().Find(id);
  if (record == nullptr || !record->is_foreground || !IsActive(record->state)) return;
  if (left_.insert(id).second) static_cast<void>(core_.WaitFor(id, [this, id](const JobRecord&) { left_.erase(id); }));
  if (!caller) return;
  DropCaller(id);  // After a restart of the daemon, the caller waits for the end of the streams that it passed.
  AnswerLeft(caller.mapped(), id);
}

// A foreground job ends when its caller's connection is closed.
std::function<void()> Routes::EndsWithItsTerminal(JobId id, const Caller& caller) {
  return [this, id, caller] {
    static_cast<void>(core_.controller().Cancel(id, 0, Duration(-1), "its terminal went away", caller, core_.Now()));
    DropCaller(id);
    core_.Touch();
  };
}

void Routes::Rejoin(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto request = wire::Decode<wire::RejoinRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  RemoteStreams::Had had;
  if (request->had_streams && request->output >= 0 && request->error >= 0)
    had = std::array{static_cast<std::uint64_t>(request->output), static_cast<std::uint64_t>(request->error)};
  const auto record = core_.FindJob(*id);
  if (!record) return AnswerWhenFinal(call, *id, nullptr);
  if (!record->is_foreground)
    return call.Refuse(FailedPrecondition("job " + PublicId(*record) + " has no caller's terminal; divvy wait " +
                                          PublicId(*record) + " waits for it"));
  if (record->user.uid != call.caller.user.uid)
    return call.Refuse(PermissionDenied("job " + PublicId(*record) + " belongs to " + record->user.name));
  if (request->has_left && IsActive(record->state)) OnTerminalLeft(*id);
  if (left_.contains(*id)) return AnswerLeft(call.reply, *id);
  if (call.request.fds.size() != 3 && call.request.fds.size() != 6)
    return call.Refuse(InvalidArgument("a foreground job needs the three standard streams of its caller"));
  if (const auto good = CheckCallersStreams(call.request.fds, record->wants_pty, call.caller.user.uid); !good)
    return call.Refuse(good.error());
  if (IsFinal(record->state) && !had) return AnswerWhenFinal(call, *id, nullptr);  // The job has ended meanwhile.
  if (const divvy::Status kept = KeepCaller(*id, call.request.fds, had); !kept) return call.Refuse(kept.error());
  // The rest of an ended job's output may still be available.
  RemoteNode* launched_on = IsActive(record->state) || IsFinal(record->state) ? FarNode(record->node) : nullptr;
  if (launched_on != nullptr && ports_.remote_streams) ports_.remote_streams->Rejoin(*launched_on, *id);
  if (IsFinal(record->state)) return AnswerWhenFinal(call, *id, nullptr);
  AnswerCaller(call, *id);
}

void Routes::Attach(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const JobRecord* record = core_.controller().Find(*id);
  if (record == nullptr || !IsActive(record->state))
    return call.Refuse(FailedPrecondition("job " + call.argument + " is not running"));
  if (!call.caller.is_admin && call.caller.user.uid != record->user.uid)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + record->user.name));
  if (!record->wants_pty)
    return call.Refuse(FailedPrecondition("job " + call.argument + " has no terminal; submit with --pty to have one"));
  if (call.request.fds.size() < 2) return call.Refuse(InvalidArgument("attach needs the caller's streams"));
  if (const auto good = CheckCallersStreams(call.request.fds, true, call.caller.user.uid); !good)
    return call.Refuse(good.error());
  if (!record->node.empty()) return AttachFar(call, *record);
  const PassedFds fds = std::move(call.request.fds);
  Reply reply = call.reply;
  const auto attached = node_.Attach(*id, fds.peek()[0], fds.peek()[1], WindowSize(),
                                     [reply, id = *id]() mutable { AnswerLeft(reply, id); });
  if (!attached) return call.Refuse(attached.error());
  if (fds.peek().size() == 6) RemoteStreams::TellHere(fds.peek()[3]);
  AnswerWhenFinal(call, *id, nullptr);
}

void Routes::Resize(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto size = wire::Decode<wire::WinsizeRequest>(call.request.body);
  if (!size) return call.Refuse(size.error());
  const JobRecord* record = core_.controller().Find(*id);
  if (record == nullptr) return call.Refuse(NotFound("there is no queued or running job " + call.argument));
  if (!call.caller.is_admin && call.caller.user.uid != record->user.uid)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + record->user.name));
  const auto in_range = [](std::int64_t value) { return value >= 0 && value <= 10'000; };
  if (!in_range(size->rows) || !in_range(size->columns))
    return call.Refuse(InvalidArgument("rows and columns must be from 0 to 10000"));
  const WindowSize window{static_cast<int>(size->rows), static_cast<int>(size->columns)};
  RemoteNode* there = FarNode(record->node);
  if (!record->node.empty() && (there == nullptr || !ports_.remote_streams))
    return call.Refuse(
        Unreachable("job " + call.argument + " has its terminal on node " + record->node + ", which is away"));
  const auto resized =
      there != nullptr ? ports_.remote_streams->Resize(*there, *id, window) : node_.Resize(*id, window);
  if (!resized) return call.Refuse(resized.error());
  call.Send(200, "{}");
}

void Routes::Checkpoint(Call& call) {
  const auto request = wire::Decode<wire::CheckpointRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  // The job keeps its GPUs rather than wait for the disk.
  if (!core_.trouble().empty()) return call.Refuse(LimitExceeded("no GPUs can be released now: " + core_.trouble()));
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  if (request->attempt < 0 || request->attempt > UINT32_MAX)
    return call.Refuse(InvalidArgument("'attempt' must be the value of DIVVY_ATTEMPT"));
  const auto done =
      core_.controller().Checkpoint(*id, static_cast<std::uint32_t>(request->attempt), call.caller, core_.Now());
  if (!done) return call.Refuse(done.error());
  wire::CheckpointAnswer answer{*id, GpuListText(done->gpus), done->has_changed};
  core_.AfterCommit([call = std::make_shared<Call>(std::move(call)), answer = std::move(answer)](const divvy::Status&) {
    call->Answer(answer);
  });
  core_.Touch();
}

void Routes::ReportProgress(Call& call) {
  const auto request = wire::Decode<wire::ProgressRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  if (request->attempt < 0 || request->attempt > UINT32_MAX)
    return call.Refuse(InvalidArgument("'attempt' must be the value of DIVVY_ATTEMPT"));
  const ProgressReport report{request->fraction, request->step, request->steps};
  const auto done = core_.controller().ReportProgress(*id, static_cast<std::uint32_t>(request->attempt), report,
                                                      call.caller, core_.Now());
  if (!done) return call.Refuse(done.error());
  wire::ProgressAnswer answer;
  answer.id = *id;
  answer.fraction = static_cast<double>(done->done) / static_cast<double>(Progress::kAll);
  if (const auto end = ExpectedEnd(*core_.controller().Find(*id))) answer.expected_end = ToSeconds(*end);
  // Progress is not stored at once (controller_progress.cc), so the job need not wait for the disk either.
  call.Answer(answer);
  core_.Touch();
}

void Routes::Act(Call& call, const Action& action, const ActionOnEnded& on_ended) {
  const auto request = wire::Decode<wire::ActionRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto ids = SelectIds(core_, labels_, request->select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  wire::ActionAnswer answer;
  for (JobId id : *ids) {
    wire::ActionResult result;
    result.id = id;
    const auto record = core_.FindJob(id);
    result.display_id = record
                            ? (record->array.is_set() || record->array_count == 0 ? DisplayId(*record) : ToString(id))
                            : ToString(id);
    if (!record) {
      result.message = "there is no job " + ToString(id);
    } else if (IsFinal(record->state) && on_ended) {
      const auto done = on_ended(*record, *request, call.caller);
      result.is_done = done.has_value();
      result.message = done ? *done : done.error().message;
    } else if (IsFinal(record->state)) {
      result.message = "job " + result.display_id + " has ended already (" + std::string(Name(record->state)) + ")";
    } else {
      const auto done = action(id, *request, call.caller);
      result.is_done = done.has_value();
      result.message = done ? *done : done.error().message;
    }
    answer.results.push_back(std::move(result));
  }
  core_.AfterCommit([call = std::make_shared<Call>(std::move(call)), answer = std::move(answer)](const divvy::Status&) {
    call->Answer(answer);
  });
}

void Routes::Cancel(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
    if (request.signal < 0 || request.signal > 64)
      return InvalidArgument("there is no signal " + std::to_string(request.signal));
    const Duration grace = request.grace_s
                               ? Duration(static_cast<std::int64_t>(std::clamp(*request.grace_s, 0.0, 1e6) * 1e9))
                               : Duration(-1);
    return core_.controller().Cancel(id, static_cast<int>(request.signal), grace, request.reason, caller, core_.Now());
  });
}

void Routes::Hold(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return core_.controller().Hold(id, caller, core_.Now());
  });
}

void Routes::Release(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) {
    return core_.controller().Release(id, request.at > 0 ? TimeFromSeconds(request.at) : kNoTime, caller, core_.Now());
  });
}

void Routes::Requeue(Call& call) {
  const auto again = [this](JobId id, const wire::ActionRequest& request, const Caller& caller) {
    return core_.controller().Requeue(id, request.holds, caller, core_.Now());
  };
  Act(call, again,
      [this](const JobRecord& ended, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
        DIVVY_TRY(const auto spec, core_.NewestSpecOf(ended));
        std::optional<JobRecord> array;
        if (ended.array.is_set()) {
          DIVVY_TRY(array, core_.FindJob(ended.array));
        }
        return core_.controller().RequeueEnded(ended, *spec, std::move(array), GroupsOf(ended.user), request.holds,
                                               caller, core_.Now());
      });
}

void Routes::Pause(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return core_.controller().Pause(id, true, caller, core_.Now());
  });
}

void Routes::Resume(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return core_.controller().Pause(id, false, caller, core_.Now());
  });
}

void Routes::Signal(Call& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
    if (request.signal < 1 || request.signal > 64)
      return InvalidArgument("there is no signal " + std::to_string(request.signal));
    SignalReach reach = SignalReach::kTree;
    if (request.reach == "script") reach = SignalReach::kFirstProcess;
    else if (request.reach == "others") reach = SignalReach::kOthers;
    else if (!request.reach.empty())
      return InvalidArgument("'reach' is \"script\", \"others\" or empty, not '" + request.reach + "'");
    return core_.controller().Signal(id, static_cast<int>(request.signal), reach, caller);
  });
}

void Routes::Update(Call& call) {
  const auto update = wire::Decode<wire::JobUpdate>(call.request.body);
  if (!update) return call.Refuse(update.error());
  const auto changes = ChangesOf(*update);
  if (!changes) return call.Refuse(changes.error());
  call.asked = std::move(call.request.body);
  call.request.body = wire::Encode(wire::ActionRequest{update->select, 0, std::nullopt, "", 0, "", false});
  Act(call,
      [this, &changes, &update](JobId id, const wire::ActionRequest&, const Caller& caller) -> Result<std::string> {
        DIVVY_TRY(const JobRecord record, core_.FindJob(id));
        DIVVY_CHECK(core_.controller().Authorise(record, caller, "change"));
        DIVVY_TRY(const auto spec, core_.NewestSpecOf(record));
        JobChanges own = *changes;
        DIVVY_CHECK(CompleteChanges(*update, record, *spec, own));
        DIVVY_TRY(std::string done, core_.controller().Update(id, own, caller, core_.Now(), core_.Outcomes()));
        if (own.spec != nullptr) labels_.Replace(id, LabelsOf(*own.spec));
        return done;
      });
}

void Routes::GroupLimit(Call& call) {
  const auto request = wire::Decode<wire::GroupLimitRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const int limit = static_cast<int>(std::clamp<std::int64_t>(request->limit, -1, 1'000'000));
  const auto done = core_.controller().SetGroupLimit(request->group, limit, call.caller, core_.Now());
  if (!done) return call.Refuse(done.error());
  wire::ActionAnswer answer;
  answer.results.push_back({JobId(), request->group, true, *done});
  core_.AfterCommit(
      [call = std::make_shared<Call>(std::move(call)), answer](const divvy::Status&) { call->Answer(answer); });
}

}  // namespace divvy
