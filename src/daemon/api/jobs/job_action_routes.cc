#include "daemon/api/jobs/job_action_routes.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "daemon/api/call/job_lookup.h"
#include "daemon/providers/provider_host.h"
#include "daemon/requests/job_update.h"
#include "daemon/views/job_selector.h"
#include "wire/messages/messages_remote.h"

namespace divvy {
namespace {

RequeueAs As(const wire::ActionRequest& request) { return request.holds ? RequeueAs::kHeld : RequeueAs::kQueued; }

}  // namespace

JobActionRoutes::JobActionRoutes(ApiContext& api, RouteTable& table)
    : api_(api), driver_(api.driver), ports_(api.ports), labels_(api.labels) {
  table.Add(this, {{"POST", "/v1/jobs/cancel", &JobActionRoutes::Cancel},
                   {"POST", "/v1/jobs/hold", &JobActionRoutes::Hold},
                   {"POST", "/v1/jobs/release", &JobActionRoutes::Release},
                   {"POST", "/v1/jobs/requeue", &JobActionRoutes::Requeue},
                   {"POST", "/v1/jobs/pause", &JobActionRoutes::Pause},
                   {"POST", "/v1/jobs/resume", &JobActionRoutes::Resume},
                   {"POST", "/v1/jobs/signal", &JobActionRoutes::Signal},
                   {"POST", "/v1/jobs/update", &JobActionRoutes::Update},
                   {"POST", "/v1/groups/limit", &JobActionRoutes::GroupLimit},
                   {"POST", "/v1/jobs/*/checkpoint", &JobActionRoutes::Checkpoint, RouteKind::kOwnJob},
                   {"POST", "/v1/jobs/*/progress", &JobActionRoutes::ReportProgress, RouteKind::kOwnJob}});
}

void JobActionRoutes::Act(ApiCall& call, const Action& action, const ActionOnEnded& on_ended) {
  const auto request = wire::Decode<wire::ActionRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto ids = SelectIds(driver_, labels_, request->select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  wire::ActionAnswer answer;
  for (JobId id : *ids) {
    wire::ActionResult result;
    result.id = id;
    const auto record = driver_.FindJob(id);
    result.display_id = record
                            ? (record->array.is_set() || record->array_count == 0 ? DisplayId(*record) : ToString(id))
                            : ToString(id);
    if (!record) {
      result.message = MissingJob(record.error(), ToString(id)).message;
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
  AnswerAfterCommit(driver_, call, std::move(answer));
}

void JobActionRoutes::Cancel(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
    if (request.signal < 0 || request.signal > 64)
      return InvalidArgument("there is no signal " + std::to_string(request.signal));
    const Duration grace = request.grace_s
                               ? Duration(static_cast<std::int64_t>(std::clamp(*request.grace_s, 0.0, 1e6) * 1e9))
                               : Duration(-1);
    return driver_.controller().Cancel(id, static_cast<int>(request.signal), grace, request.reason, caller,
                                       driver_.Now());
  });
}

void JobActionRoutes::Hold(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return driver_.controller().Hold(id, caller, driver_.Now());
  });
}

void JobActionRoutes::Release(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) {
    return driver_.controller().Release(id, request.at > 0 ? TimeFromSeconds(request.at) : kNoTime, caller,
                                        driver_.Now());
  });
}

void JobActionRoutes::Requeue(ApiCall& call) {
  const auto again = [this](JobId id, const wire::ActionRequest& request, const Caller& caller) {
    return driver_.controller().Requeue(id, As(request), caller, driver_.Now());
  };
  Act(call, again,
      [this](const JobRecord& ended, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
        DIVVY_TRY(const auto spec, driver_.NewestSpecOf(ended));
        std::optional<JobRecord> array;
        if (ended.array.is_set()) {
          DIVVY_TRY(array, driver_.FindJob(ended.array));
        }
        return driver_.controller().RequeueEnded(ended, *spec, std::move(array), api_.callers.GroupsOf(ended.user),
                                                 As(request), caller, driver_.Now());
      });
}

void JobActionRoutes::Pause(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return driver_.controller().Pause(id, caller, driver_.Now());
  });
}

void JobActionRoutes::Resume(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest&, const Caller& caller) {
    return driver_.controller().Resume(id, caller, driver_.Now());
  });
}

void JobActionRoutes::Signal(ApiCall& call) {
  Act(call, [this](JobId id, const wire::ActionRequest& request, const Caller& caller) -> Result<std::string> {
    if (request.signal < 1 || request.signal > 64)
      return InvalidArgument("there is no signal " + std::to_string(request.signal));
    SignalReach reach = SignalReach::kTree;
    if (request.reach == "script") reach = SignalReach::kFirstProcess;
    else if (request.reach == "others") reach = SignalReach::kOthers;
    else if (!request.reach.empty())
      return InvalidArgument("'reach' is \"script\", \"others\" or empty, not '" + request.reach + "'");
    return driver_.controller().Signal(id, static_cast<int>(request.signal), reach, caller);
  });
}

void JobActionRoutes::Update(ApiCall& call) {
  const auto update = wire::Decode<wire::JobUpdate>(call.request.body);
  if (!update) return call.Refuse(update.error());
  const auto changes = ChangesOf(*update);
  if (!changes) return call.Refuse(changes.error());
  call.asked = std::move(call.request.body);
  call.request.body = wire::Encode(wire::ActionRequest{update->select, 0, std::nullopt, "", 0, "", false});
  Act(call,
      [this, &changes, &update](JobId id, const wire::ActionRequest&, const Caller& caller) -> Result<std::string> {
        DIVVY_TRY(const JobRecord record, driver_.FindJob(id));
        DIVVY_CHECK(driver_.controller().Authorise(record, caller, "change"));
        DIVVY_TRY(const auto spec, driver_.NewestSpecOf(record));
        JobChanges own = *changes;
        DIVVY_CHECK(CompleteChanges(*update, record, *spec, own));
        const bool has_wishes = ports_.providers && (update->grows || update->providers || update->max_price);
        if (has_wishes) DIVVY_CHECK(ports_.providers->CheckWishes(*own.spec));
        DIVVY_TRY(std::string done, driver_.controller().Update(id, own, caller, driver_.Now(), driver_.Outcomes()));
        if (own.spec != nullptr) labels_.Replace(id, LabelsOf(*own.spec));
        if (has_wishes) ports_.providers->Learn(id, own.spec->labels);
        return done;
      });
}

void JobActionRoutes::GroupLimit(ApiCall& call) {
  const auto request = wire::Decode<wire::GroupLimitRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const int limit = static_cast<int>(std::clamp<std::int64_t>(request->limit, -1, 1'000'000));
  const auto done = driver_.controller().SetGroupLimit(request->group, limit, call.caller, driver_.Now());
  if (!done) return call.Refuse(done.error());
  wire::ActionAnswer answer;
  answer.results.push_back({JobId(), request->group, true, *done});
  AnswerAfterCommit(driver_, call, std::move(answer));
}

void JobActionRoutes::Checkpoint(ApiCall& call) {
  const auto request = wire::Decode<wire::CheckpointRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  // While nothing can be stored (the disk is full, or the database is away), the answer would have to wait. The call is
  // refused instead, and the job keeps its GPUs.
  if (!driver_.trouble().empty())
    return call.Refuse(LimitExceeded("no GPUs can be released now: " + driver_.trouble()));
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  if (request->attempt < 0 || request->attempt > UINT32_MAX)
    return call.Refuse(InvalidArgument("'attempt' must be the value of DIVVY_ATTEMPT"));
  const auto done =
      driver_.controller().Checkpoint(*id, static_cast<std::uint32_t>(request->attempt), call.caller, driver_.Now());
  if (!done) return call.Refuse(done.error());
  wire::CheckpointAnswer answer{*id, GpuListText(done->gpus), done->has_changed};
  // The job must learn which GPUs it has from now on.
  AnswerAfterCommit(driver_, call, std::move(answer), ControllerDriver::IfNotStored::kWait);
  driver_.Touch();
}

void JobActionRoutes::ReportProgress(ApiCall& call) {
  const auto request = wire::Decode<wire::ProgressRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto id = SelectOne(driver_, call.argument, call.caller);
  if (!id) return call.Refuse(id.error());
  if (request->attempt < 0 || request->attempt > UINT32_MAX)
    return call.Refuse(InvalidArgument("'attempt' must be the value of DIVVY_ATTEMPT"));
  const ProgressReport report{request->fraction, request->step, request->steps};
  const auto done = driver_.controller().ReportProgress(*id, static_cast<std::uint32_t>(request->attempt), report,
                                                        call.caller, driver_.Now());
  if (!done) return call.Refuse(done.error());
  wire::ProgressAnswer answer;
  answer.id = *id;
  answer.fraction = static_cast<double>(done->done) / static_cast<double>(Progress::kAll);
  if (const auto end = ExpectedEnd(*driver_.controller().Find(*id))) answer.expected_end = ToSeconds(*end);
  // Progress is not stored at once (control/state/progress_tracker.h), so the job need not wait for the disk either.
  call.Answer(answer);
  driver_.Touch();
}

}  // namespace divvy
