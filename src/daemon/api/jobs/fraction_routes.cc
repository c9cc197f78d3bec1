#include "daemon/api/jobs/fraction_routes.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/node/node_shares.h"
#include "daemon/views/job_selector.h"

namespace divvy {

struct FractionRoutes::PortionAct {
  std::string action;  // "park", "wake", "move"; "resize": apply the planned size.
  wire::ActionAnswer answer;
  std::size_t open = 0;  // The number of pending results.
};

namespace {

/// `was_there` is the state known at the time of the request, which may be a moment old.
std::string DoneText(const std::string& action, const std::vector<std::int64_t>& to, bool was_there) {
  if (action == "park")
    return "parked: its GPU memory is on the host; it wakes when it uses its GPU again, or with divvy wake";
  if (action == "wake") return was_there ? "not parked" : "awake";
  std::string gpus;
  for (const std::int64_t gpu : to) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
  return std::string(was_there ? "already on GPU" : "moved to GPU") + std::string(to.size() > 1 ? "s " : " ") + gpus;
}

/// Returns the node's reason for a failure, with the job if the reason does not name it.
std::string FailureText(const std::string& display_id, const std::string& why) {
  return why.starts_with("job ") ? why : "job " + display_id + ": " + why;
}

}  // namespace

FractionRoutes::FractionRoutes(ApiContext& api, RouteTable& table)
    : driver_(api.driver), ports_(api.ports), labels_(api.labels) {
  table.Add(this, {{"POST", "/v1/jobs/resize", &FractionRoutes::ResizePortions},
                   {"POST", "/v1/jobs/park", &FractionRoutes::Park},
                   {"POST", "/v1/jobs/wake", &FractionRoutes::Wake},
                   {"POST", "/v1/jobs/move", &FractionRoutes::MovePortions}});
}

void FractionRoutes::ResizePortions(ApiCall& call) {
  const auto request = wire::Decode<wire::PortionRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto ids = SelectIds(driver_, labels_, request->select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  auto act = std::make_shared<PortionAct>();
  act->action = "resize";
  for (const JobId id : *ids) {
    const auto done =
        driver_.controller().ResizePortion(id, request->portion, call.caller, driver_.Now(), driver_.Outcomes());
    const auto record = driver_.FindJob(id);
    act->answer.results.push_back(
        {id, record ? PublicId(*record) : ToString(id), done.has_value(), done ? *done : done.error().message});
  }
  driver_.AfterCommit(
      [this, call = std::make_shared<ApiCall>(std::move(call)), act](const Status& status) {
        if (!status) return call->Refuse(status.error());
        SettlePortions(call, act);
      },
      ControllerDriver::IfNotStored::kReport);
  driver_.Touch();
}

// The commands of this commit have told the job's node. The answer waits until the node confirms.
void FractionRoutes::SettlePortions(const std::shared_ptr<ApiCall>& call, const std::shared_ptr<PortionAct>& act) {
  act->open = act->answer.results.size() + 1;
  const auto count = [act, call] {
    if (--act->open == 0) call->Answer(act->answer);
  };
  for (std::size_t i = 0; i < act->answer.results.size(); ++i) {
    const auto record = driver_.controller().FindTenant(act->answer.results[i].id, call->caller, act->action);
    if (!act->answer.results[i].is_done || !record) {
      count();
      continue;
    }
    ActOnTenant(**record, act->action, {}, [act, i, count](const Status& done) {
      wire::ActionResult& result = act->answer.results[i];
      result.is_done = done.has_value();
      if (!done) result.message += " in the plan, but not yet on its node: " + done.error().message;
      count();
    });
  }
  count();
}

void FractionRoutes::ActOnTenant(const JobRecord& record, const std::string& action, const std::vector<int>& to,
                                 std::function<void(const Status&)> done) {
  if (record.node.empty()) {
    if (ports_.own_shares == nullptr) return done(FailedPrecondition("no GPU is shared on this node"));
    return ports_.own_shares->Act(record.id, action, to, std::move(done));
  }
  RemoteNode* there = FindRemoteNode(ports_, record.node);
  if (there == nullptr || !there->is_connected())
    return done(Unreachable("node " + record.node + " is away; try again when it is back"));
  wire::AgentQuestion question;
  question.record = record;
  question.share_action = action;
  question.share_to = to;
  there->Ask(std::move(question), [node = record.node, done = std::move(done)](Result<wire::NumberedAnswer> answered) {
    if (!answered) return done(answered.error());
    if (!answered->answer.share_error.empty()) return done(FailedPrecondition(answered->answer.share_error));
    if (!answered->answer.is_share_done)
      return done(FailedPrecondition("the agent of node " + node + " does not support shared GPUs; update it"));
    done({});
  });
}

const wire::KeptTenant* FractionRoutes::FindOnGpu(const JobRecord& record) const {
  const wire::KeptTenant* tenant = ports_.shares ? ports_.shares->Find(record.node, record.id) : nullptr;
  const bool is_on_gpu = tenant != nullptr && tenant->attempt == record.attempt &&
                         (tenant->state == wire::ShareState::kRunning || tenant->state == wire::ShareState::kIdle);
  return is_on_gpu ? tenant : nullptr;
}

bool FractionRoutes::IsThere(const JobRecord& record, const std::vector<int>& to) const {
  const wire::KeptTenant* tenant = FindOnGpu(record);
  return tenant != nullptr && std::ranges::equal(to, tenant->shares, {}, {}, &wire::KeptShare::gpu);
}

void FractionRoutes::ActOnPortions(ApiCall& call, const std::string& action) {
  const auto request = wire::Decode<wire::PortionRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto ids = SelectIds(driver_, labels_, request->select, call.caller);
  if (!ids) return call.Refuse(ids.error());
  std::vector<int> to;
  for (const std::int64_t gpu : request->to) {
    if (gpu < 0 || gpu >= GpuSet::kCapacity)
      return call.Refuse(InvalidArgument("--to " + std::to_string(gpu) + " is not a GPU; divvy gpus lists them"));
    to.push_back(static_cast<int>(gpu));
  }
  auto act = std::make_shared<PortionAct>();
  act->action = action;
  act->answer.results.resize(ids->size());
  act->open = ids->size() + 1;  // One extra, because an answer may arrive at once.
  auto shared = std::make_shared<ApiCall>(std::move(call));
  const auto count = [act, shared] {
    if (--act->open == 0) shared->Answer(act->answer);
  };
  for (std::size_t i = 0; i < ids->size(); ++i) {
    wire::ActionResult& result = act->answer.results[i];
    result.id = (*ids)[i];
    const auto known = driver_.FindJob(result.id);
    result.display_id = known ? PublicId(*known) : ToString(result.id);
    const auto record = driver_.controller().FindTenant(result.id, shared->caller, action);
    if (!record) {
      result.message = record.error().message;
      count();
      continue;
    }
    // The request is sent to the keeper even if the job seems to be there already, because only the keeper knows the
    // present GPUs for certain.
    const bool was_there =
        (action == "move" && IsThere(**record, to)) || (action == "wake" && FindOnGpu(**record) != nullptr);
    ActOnTenant(**record, action, to, [act, i, count, wanted = request->to, was_there](const Status& done) {
      wire::ActionResult& acted = act->answer.results[i];
      acted.is_done = done.has_value();
      acted.message =
          done ? DoneText(act->action, wanted, was_there) : FailureText(acted.display_id, done.error().message);
      count();
    });
  }
  count();
}

void FractionRoutes::Park(ApiCall& call) { ActOnPortions(call, "park"); }
void FractionRoutes::Wake(ApiCall& call) { ActOnPortions(call, "wake"); }
void FractionRoutes::MovePortions(ApiCall& call) { ActOnPortions(call, "move"); }

}  // namespace divvy
