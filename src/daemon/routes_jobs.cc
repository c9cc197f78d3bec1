// The routes about jobs.
#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/routes_call.h"
#include "daemon/select.h"
#include "dialect/job_options.h"
#include "dialect/quantities.h"

namespace divvy {
namespace {

Status CheckSpec(const JobSpec& spec) {
  DIVVY_CHECK(dialect::CheckComplete(spec));
  if (spec.directory.empty() || spec.directory.front() != '/')
    return InvalidArgument("spec.directory: give an absolute path");
  if (spec.request.gpus < 0 || spec.request.cpus < 0 || spec.request.memory < Bytes(0) ||
      spec.request.gpu_memory < Bytes(0)) {
    return InvalidArgument("spec.request: a quantity is negative");
  }
  if (spec.time_limit < Duration(0) || spec.grace < Duration(0) || spec.retry_delay < Duration(0))
    return InvalidArgument("spec: a duration is negative");
  if (spec.priority < -1'000'000 || spec.priority > 1'000'000)
    return InvalidArgument("spec.priority: give a whole number within a million");
  if (spec.name.size() > 1024 || spec.comment.size() > 65536)
    return InvalidArgument("spec: the name may have 1024 characters and the comment 65536");
  return {};
}

std::string DefaultName(const JobSpec& spec) {
  const std::string& word = spec.command.empty() ? spec.script.substr(0, 0) : spec.command.front();
  if (word.empty()) return "script";
  const auto slash = word.rfind('/');
  return slash == std::string::npos || slash + 1 == word.size() ? word : word.substr(slash + 1);
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

wire::JobSelector SelectorOf(const HttpRequest& request) {
  wire::JobSelector select;
  select.user = "all";
  for (const auto& [name, value] : request.query) {
    if (name == "ids") {
      for (std::string_view id : Split(value, ',')) select.ids.emplace_back(id);
    } else if (name == "user") {
      select.user = value;
    } else if (name == "states") {
      for (std::string_view state : Split(value, ',')) select.states.emplace_back(state);
    } else if (name == "name") {
      select.name = value;
    } else if (name == "project") {
      select.project = value;
    } else if (name == "group") {
      select.group = value;
    } else if (name == "includes_final" || name == "all") {
      select.includes_final = value != "0" && value != "false";
    } else if (name == "limit") {
      select.limit = ParseInteger(value).value_or(0);
    } else if (name == "since") {
      select.since = ParseNumber(value).value_or(0);
    }
  }
  return select;
}

}  // namespace

void Routes::Submit(Call& call) {
  if (!core_.trouble().empty()) return call.Refuse(LimitExceeded("no new work is taken: " + core_.trouble()));
  auto request = wire::Decode<wire::SubmitRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  JobSpec& spec = request->spec;
  if (const divvy::Status good = CheckSpec(spec); !good) return call.Refuse(good.error());
  if (spec.name.empty()) spec.name = DefaultName(spec);
  const auto elements = spec.array || !spec.parameters.empty() ? dialect::ElementCount(spec) : Result<std::uint64_t>(0);
  if (!elements) return call.Refuse(elements.error());
  if (spec.is_foreground && call.request.fds.size() != 3)
    return call.Refuse(InvalidArgument("a foreground job needs its caller's three streams"));
  std::ranges::sort(spec.capture.environment);

  wire::SubmitAnswer answer;
  answer.summary = dialect::Summarise(spec);
  answer.notes = spec.notes;
  const bool is_foreground = spec.is_foreground;
  const auto result = core_.controller().Submit(std::move(spec), *elements, call.caller, core_.Now(), core_.Outcomes());
  if (!result) return call.Refuse(result.error());
  answer.id = result->id;
  answer.count = static_cast<std::int64_t>(result->count);
  if (is_foreground) {
    Streams streams;
    const std::vector<int> fds = call.request.fds.Take();
    for (std::size_t i = 0; i < streams.size(); ++i) streams[i].Reset(fds[i]);
    node_.KeepStreams(answer.id, std::move(streams));
  }
  core_.AfterCommit(
      [this, call = std::make_shared<Call>(std::move(call)), answer](const divvy::Status& status) mutable {
        if (!status) {
          node_.DropStreams(answer.id);
          return call->Refuse(status.error());
        }
        // As it is by now: on a free server it has its GPUs already.
        const auto record = core_.FindJob(answer.id);
        answer.state = record ? Name(record->state) : "queued";
        call->Answer(answer);
      },
      true);
}

std::vector<JobRecord> Routes::LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                           std::map<JobId, std::uint64_t>& positions) {
  const Controller& controller = core_.controller();
  const std::size_t limit = select.limit > 0 ? static_cast<std::size_t>(select.limit) : 0;
  const auto is_full = [&](const std::vector<JobRecord>& out) { return limit > 0 && out.size() >= limit; };
  std::vector<JobRecord> out;
  for (const auto& [id, running] : controller.cluster().running_jobs()) {
    const JobRecord* record = controller.Find(id);
    if (record != nullptr && !is_full(out) && Passes(*record, select, caller)) out.push_back(*record);
  }
  const bool filters = select.user != "all" || !select.states.empty() || !select.name.empty() ||
                       !select.project.empty() || !select.group.empty();
  const std::size_t wanted = filters || limit == 0 ? 0 : limit;
  std::uint64_t position = 0;
  for (JobId id : QueueOrder(controller.cluster(), controller.policy(), core_.Now(), wanted)) {
    const JobRecord* record = controller.Find(id);
    if (record == nullptr) continue;
    const WaitingEntry* entry = controller.cluster().waiting(id);
    const bool is_in_line =
        entry != nullptr && !entry->is_held && entry->unmet_dependencies.empty() && entry->begin <= core_.Now();
    if (is_in_line) positions[id] = position + 1, position += entry->count;
    if (!is_full(out) && Passes(*record, select, caller)) out.push_back(*record);
  }
  return out;
}

void Routes::AnswerJobs(Call& call, const wire::JobSelector& select) {
  const Controller& controller = core_.controller();
  std::vector<JobRecord> records;
  std::map<JobId, std::uint64_t> positions;
  if (!select.ids.empty()) {
    const auto ids = SelectIds(core_, select, call.caller);
    if (!ids) return call.Refuse(ids.error());
    for (JobId id : *ids) {
      auto record = core_.FindJob(id);
      if (!record) return call.Refuse(record.error());
      if (select.includes_final || !IsFinal(record->state)) records.push_back(*std::move(record));
    }
  } else {
    records = LiveInOrder(select, call.caller, positions);
    if (select.includes_final) {
      HistoryFilter filter;
      filter.user = select.user == "@me" || select.user.empty() ? call.caller.user.name
                    : select.user == "all"                      ? ""
                                                                : select.user;
      filter.name = select.name;
      filter.project = select.project;
      filter.group = select.group;
      for (const std::string& state : select.states) {
        if (const auto known = JobStateFromName(state)) filter.states.push_back(*known);
      }
      filter.since = TimeFromSeconds(select.since);
      filter.limit = select.limit > 0 ? static_cast<std::uint64_t>(select.limit) : 0;
      const auto history = core_.store().History(filter);
      if (!history) return call.Refuse(history.error());
      for (const JobRecord& record : *history) {
        if (IsFinal(record.state)) records.push_back(record);
      }
      if (filter.limit > 0 && records.size() > filter.limit) records.resize(filter.limit);
    }
  }
  std::vector<wire::JobView> views;
  views.reserve(records.size());
  for (const JobRecord& record : records) {
    const bool waits = record.state == JobState::kQueued || record.state == JobState::kHeld;
    views.push_back(ViewOf(record, waits ? controller.WaitingReason(record) : record.reason));
    if (const auto at = positions.find(record.id); at != positions.end())
      views.back().position = static_cast<std::int64_t>(at->second);
  }
  call.Answer(views);
}

void Routes::Select(Call& call) {
  const auto select = wire::Decode<wire::JobSelector>(call.request.body);
  if (!select) return call.Refuse(select.error());
  AnswerJobs(call, *select);
}

void Routes::List(Call& call) { AnswerJobs(call, SelectorOf(call.request)); }

void Routes::Show(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = core_.FindJob(*id);
  if (!record) return call.Refuse(NotFound("there is no job " + call.argument));
  const auto spec = core_.SpecOf(*record);
  const auto history = core_.store().HistoryOf(*id);
  const bool waits = record->state == JobState::kQueued || record->state == JobState::kHeld;
  // A job's script, directory and environment may hold secrets; its place in the queue does not.
  const bool may_see = call.caller.is_admin || call.caller.user.uid == record->user.uid;
  const JobSpec* shown = spec && may_see ? spec->get() : nullptr;
  wire::JobDetail detail =
      DetailOf(*record, shown, waits ? core_.controller().WaitingReason(*record) : record->reason,
               core_.controller().cluster().capacity().gpus, history ? *history : std::vector<Batch::HistoryLine>());
  detail.pid = node_.pid_of(*id);
  if (shown != nullptr) {
    detail.output = node_.OutputOf(*record, *shown);
    detail.error = node_.ErrorOf(*record, *shown);
  }
  call.Answer(detail);
}

void Routes::Why(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto record = core_.FindJob(*id);
  if (!record) return call.Refuse(NotFound("there is no job " + call.argument));
  if (IsFinal(record->state)) return call.Answer(WhyFinal(*record, core_.Now()));
  const Controller& controller = core_.controller();
  // An element that is not on its own yet waits as its array does.
  const JobId entry = controller.Find(*id) == nullptr && record->array.is_set() ? record->array : *id;
  const Explanation explanation = Explain(controller.cluster(), controller.policy(), entry, core_.Now());
  const bool waits = record->state == JobState::kQueued || record->state == JobState::kHeld;
  call.Answer(WhyOf(*record, explanation, waits ? controller.WaitingReason(*record) : record->reason, core_.Now()));
}

void Routes::AnswerWhenFinal(Call& call, JobId id, std::function<void()> on_closed) {
  auto shared = std::make_shared<Call>(std::move(call));
  auto waiter = std::make_shared<std::uint64_t>(0);
  const auto handle = core_.WaitFor(id, [shared](const JobRecord& record) { shared->Answer(WaitAnswerOf(record)); });
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
  // A foreground job ends with the one who waits for it at its terminal.
  std::function<void()> on_closed;
  if (record != nullptr && record->is_foreground && record->user.uid == call.caller.user.uid) {
    on_closed = [this, id = *id, caller = call.caller] {
      static_cast<void>(core_.controller().Cancel(id, 0, Duration(-1), "its terminal went away", caller, core_.Now()));
      node_.DropStreams(id);
      core_.Touch();
    };
  }
  AnswerWhenFinal(call, *id, std::move(on_closed));
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
  const PassedFds fds = std::move(call.request.fds);
  Reply reply = call.reply;
  const auto attached = node_.Attach(*id, fds.peek()[0], fds.peek()[1], WindowSize(), [reply, id = *id]() mutable {
    wire::WaitAnswer answer;
    answer.id = id;
    answer.was_detached = true;
    HttpResponse response;
    response.body = wire::Encode(answer);
    reply.Answer(response);
  });
  if (!attached) return call.Refuse(attached.error());
  AnswerWhenFinal(call, *id, nullptr);
}

void Routes::Resize(Call& call) {
  const auto id = SelectOne(core_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  const auto size = wire::Decode<wire::WinsizeRequest>(call.request.body);
  if (!size) return call.Refuse(size.error());
  const JobRecord* record = core_.controller().Find(*id);
  if (record == nullptr) return call.Refuse(NotFound("there is no live job " + call.argument));
  if (!call.caller.is_admin && call.caller.user.uid != record->user.uid)
    return call.Refuse(PermissionDenied("job " + call.argument + " belongs to " + record->user.name));
  const auto in_range = [](std::int64_t value) { return value >= 0 && value <= 10'000; };
  if (!in_range(size->rows) || !in_range(size->columns))
    return call.Refuse(InvalidArgument("rows and columns go from 0 to 10000"));
  const auto resized = node_.Resize(*id, {static_cast<int>(size->rows), static_cast<int>(size->columns)});
  if (!resized) return call.Refuse(resized.error());
  call.Send(200, "{}");
}

void Routes::Act(Call& call, const Action& action) {
  const auto request = wire::Decode<wire::ActionRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto ids = SelectIds(core_, request->select, call.caller);
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
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return core_.controller().Requeue(id, caller, core_.Now());
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
    return core_.controller().Signal(id, static_cast<int>(request.signal), caller);
  });
}

void Routes::Update(Call& call) {
  const auto update = wire::Decode<wire::JobUpdate>(call.request.body);
  if (!update) return call.Refuse(update.error());
  if (update->command || update->output)
    return call.Refuse(
        FailedPrecondition("a job's command and output are kept as submitted; submit it anew to change them"));
  JobChanges changes;
  changes.priority =
      update->priority
          ? std::optional<int>(static_cast<int>(std::clamp<std::int64_t>(*update->priority, -1'000'000, 1'000'000)))
          : std::nullopt;
  if (update->time_limit_s)
    changes.time_limit = Duration(static_cast<std::int64_t>(std::clamp(*update->time_limit_s, 0.0, 1e9) * 1e9));
  if (update->begin) changes.begin = TimeFromSeconds(*update->begin);
  changes.name = update->name;
  changes.project = update->project;
  changes.comment = update->comment;
  changes.group = update->group;
  if (update->array_at_once)
    changes.array_at_once = static_cast<int>(std::clamp<std::int64_t>(*update->array_at_once, 0, 4'000'000));
  if (update->retries) changes.retries = static_cast<int>(std::clamp<std::int64_t>(*update->retries, 0, 1'000'000));
  if (update->dependencies) {
    JobSpec read;
    for (const std::string& text : *update->dependencies) {
      if (const auto parsed = dialect::ParseDependencies(text, dialect::Surroundings(), read); !parsed)
        return call.Refuse(parsed.error());
    }
    changes.dependencies = read.dependencies;
  }
  call.request.body = wire::Encode(wire::ActionRequest{update->select, 0, std::nullopt, "", 0});
  Act(call,
      [this, changes, update = *update](JobId id, const wire::ActionRequest&,
                                        const Caller& caller) mutable -> Result<std::string> {
        const bool changes_request =
            update.gpus || update.gpu_type || update.gpu_memory_bytes || update.cpus || update.memory_bytes;
        if (changes_request) {
          DIVVY_TRY(const JobRecord record, core_.FindJob(id));
          Request request = record.request;
          if (update.gpus) request.gpus = static_cast<int>(std::clamp<std::int64_t>(*update.gpus, 0, 1'000'000));
          if (update.gpu_type) request.gpu_type = *update.gpu_type;
          if (update.gpu_memory_bytes) request.gpu_memory = Bytes(std::max<std::int64_t>(*update.gpu_memory_bytes, 0));
          if (update.cpus) request.cpus = static_cast<int>(std::clamp<std::int64_t>(*update.cpus, 0, 1'000'000));
          if (update.memory_bytes) request.memory = Bytes(std::max<std::int64_t>(*update.memory_bytes, 0));
          changes.request = request;
        }
        return core_.controller().Update(id, changes, caller, core_.Now(), core_.Outcomes());
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
