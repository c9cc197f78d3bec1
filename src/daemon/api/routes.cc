#include "daemon/api/routes.h"

#include <algorithm>

#include "base/text.h"
#include "daemon/api/routes_call.h"
#include "daemon/api/ui_auth.h"
#include "daemon/fleet/remote_streams.h"
#include "daemon/views/job_selector.h"
#include "engine/scheduler/idle_gpus.h"
#include "version.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_remote.h"
#include "wire/messages/messages_reports.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/notify_messages.h"
#include "wire/messages/openapi.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/series_messages.h"
#include "wire/messages/submit_messages.h"
#include "wire/messages/ui_messages.h"
#include "wire/messages/waste_messages.h"

namespace divvy {

Routes::Routes(ControllerDriver& core, Node& node, About about, Admins admins, Ports ports)
    : core_(core),
      node_(node),
      about_(std::move(about)),
      admins_(std::move(admins)),
      ports_(std::move(ports)),
      labels_(core) {
  node_.SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
  if (ports_.remote_streams) ports_.remote_streams->SetTerminalLeft([this](JobId job) { OnTerminalLeft(job); });
}

const std::vector<Routes::Route>& Routes::Table() {
  static const std::vector<Route> table = {
      {"POST", "/v1/jobs", &Routes::Submit},
      {"GET", "/v1/jobs", &Routes::List},
      {"POST", "/v1/jobs/select", &Routes::Select, Route::Kind::kQuestion},
      {"POST", "/v1/jobs/cancel", &Routes::Cancel},
      {"POST", "/v1/jobs/hold", &Routes::Hold},
      {"POST", "/v1/jobs/release", &Routes::Release},
      {"POST", "/v1/jobs/requeue", &Routes::Requeue},
      {"POST", "/v1/jobs/pause", &Routes::Pause},
      {"POST", "/v1/jobs/resume", &Routes::Resume},
      {"POST", "/v1/jobs/signal", &Routes::Signal},
      {"POST", "/v1/jobs/update", &Routes::Update},
      {"POST", "/v1/jobs/resize", &Routes::ResizePortions},
      {"POST", "/v1/jobs/park", &Routes::Park},
      {"POST", "/v1/jobs/wake", &Routes::Wake},
      {"POST", "/v1/jobs/move", &Routes::MovePortions},
      {"GET", "/v1/jobs/*", &Routes::Show},
      {"GET", "/v1/jobs/*/log", &Routes::Log},
      {"GET", "/v1/jobs/*/environment", &Routes::Environment},
      {"GET", "/v1/jobs/*/elements", &Routes::Elements},
      {"GET", "/v1/jobs/*/again", &Routes::Again},
      {"GET", "/v1/jobs/*/steps", &Routes::Steps},
      {"POST", "/v1/jobs/*/steps", &Routes::CallStep},
      {"GET", "/v1/jobs/*/why", &Routes::Why},
      {"GET", "/v1/jobs/*/waste", &Routes::JobWaste},
      {"GET", "/v1/jobs/*/wait", &Routes::Wait},
      {"POST", "/v1/jobs/*/rejoin", &Routes::Rejoin, Route::Kind::kOwnJob},
      {"POST", "/v1/jobs/*/attach", &Routes::Attach},
      {"POST", "/v1/jobs/*/resize", &Routes::Resize, Route::Kind::kOwnJob},
      {"POST", "/v1/jobs/*/checkpoint", &Routes::Checkpoint, Route::Kind::kOwnJob},
      {"POST", "/v1/jobs/*/progress", &Routes::ReportProgress, Route::Kind::kOwnJob},
      {"POST", "/v1/jobs/*/metrics", &Routes::AddOwnMetrics, Route::Kind::kOwnJob},
      {"POST", "/v1/groups/limit", &Routes::GroupLimit},
      {"GET", "/v1/status", &Routes::Status},
      {"GET", "/v1/gpus", &Routes::Gpus},
      {"POST", "/v1/gpus/restrict", &Routes::Restrict},
      {"GET", "/v1/gpus/ignore", &Routes::IgnoreRules},
      {"POST", "/v1/gpus/ignore", &Routes::Ignore},
      {"GET", "/v1/teams", &Routes::Teams},
      {"POST", "/v1/teams", &Routes::SetTeam},
      {"POST", "/v1/teams/remove", &Routes::RemoveTeam},
      {"POST", "/v1/teams/users", &Routes::SetTeamUser},
      {"POST", "/v1/teams/quotas", &Routes::SetQuotas},
      {"GET", "/v1/reservations", &Routes::Reservations},
      {"POST", "/v1/reservations", &Routes::Reserve},
      {"POST", "/v1/reservations/cancel", &Routes::CancelReservation},
      {"GET", "/v1/tokens", &Routes::Tokens},
      {"POST", "/v1/tokens", &Routes::CreateToken},
      {"POST", "/v1/tokens/remove", &Routes::RemoveToken},
      {"GET", "/v1/nodes", &Routes::Nodes},
      {"GET", "/v1/found", &Routes::FoundRuns},
      {"POST", "/v1/found", &Routes::ChangeFound},
      {"GET", "/v1/pools", &Routes::Pools},
      {"POST", "/v1/nodes/cordon", &Routes::CordonNodes},
      {"POST", "/v1/nodes/drain", &Routes::DrainNodes},
      {"POST", "/v1/nodes/resume", &Routes::ResumeNodes},
      {"POST", "/v1/nodes/remove", &Routes::RemoveNodes},
      {"POST", "/v1/nodes/label", &Routes::LabelNodes},
      {"GET", "/v1/reports/predictions", &Routes::Predictions},
      {"GET", "/v1/reports/speeds", &Routes::Speeds},
      {"GET", "/v1/reports/usage", &Routes::Usage},
      {"GET", "/v1/reports/fairness", &Routes::Fairness},
      {"GET", "/v1/reports/shares", &Routes::Shares},
      {"GET", "/v1/reports/waste", &Routes::WasteReport},
      {"GET", "/v1/reports/efficiency", &Routes::Efficiency},
      {"GET", "/v1/history", &Routes::LatestHistory},
      {"GET", "/v1/starts", &Routes::Starts},
      {"GET", "/v1/waste", &Routes::Waste},
      {"GET", "/v1/notify", &Routes::Notify},
      {"POST", "/v1/notify", &Routes::AddReceiver},
      {"POST", "/v1/notify/remove", &Routes::RemoveReceiver},
      {"POST", "/v1/notify/test", &Routes::TestReceiver},
      {"GET", "/metrics", &Routes::Metrics},
      {"GET", "/v1/latest", &Routes::Latest},
      {"GET", "/v1/series", &Routes::Series},
      {"POST", "/v1/ui/links", &Routes::UiLink, Route::Kind::kQuestion},
      {"GET", "/v1/ui/me", &Routes::UiMe},
      {"POST", "/v1/valohai", &Routes::Valohai, Route::Kind::kQuestion},
      {"POST", "/v1/words", &Routes::Words, Route::Kind::kQuestion},
      {"POST", "/v1/script", &Routes::Script, Route::Kind::kQuestion},
      {"GET", "/v1/events", &Routes::Events},
      {"GET", "/v1/openapi.json", &Routes::OpenApiDocument},
      {"POST", "/v1/shutdown", &Routes::Shutdown},
  };
  return table;
}

namespace {

/// Returns the segment that "*" matched; nullopt if the path does not match.
std::optional<std::string> Match(std::string_view pattern, std::string_view path) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (!path.starts_with(head) || path.size() < head.size() + tail.size() + 1 || !path.ends_with(tail))
    return std::nullopt;
  const std::string_view middle = path.substr(head.size(), path.size() - head.size() - tail.size());
  if (middle.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(middle);
}

}  // namespace

Result<Caller> Routes::CallerOnNode(const Peer& peer) {
  // Checked for each request, because a connection may outlive its job.
  const User* user =
      RemoteStreams::UserOn(core_.controller(), peer.node, [&](const User& known) { return known.uid == peer.uid; });
  if (user == nullptr) return PermissionDenied("no job of yours runs on node " + peer.node + " any more");
  Caller caller;
  caller.user = *user;
  caller.groups = GroupsOf(caller.user);
  return caller;
}

Result<Caller> Routes::CallerOf(const Peer& peer, const HttpRequest& request, const Route* route) {
  if (!peer.node.empty()) return CallerOnNode(peer);
  if (peer.is_remote() && ports_.ui != nullptr && UiAuth::IsFromPage(request))
    return CallerAtPage(peer, request, route);
  if (peer.is_remote()) {
    // An unknown path changes nothing, but the caller is authenticated nevertheless.
    const Touches touches = route == nullptr ? Touches::kNothing : route->touches();
    DIVVY_TRY(Caller caller, ports_.remote->callers.Identify(request.header("authorization"), touches, core_.Latest()));
    caller.groups = GroupsOf(caller.user);
    return caller;
  }
  return LocalCaller({peer.uid, peer.gid, ""});
}

// A uid may be reassigned to another user while the daemon runs, so its name is looked up again after a while.
const std::string& Routes::NameOf(std::int64_t uid) {
  KeptName& kept = names_[uid];
  if (const Time now = core_.Now(); kept.until <= now) kept = {ports_.user_name(uid), now + kNamesLive};
  return kept.name;
}

// The kernel reports the uid; the name is looked up here.
Caller Routes::LocalCaller(User user) {
  user.name = NameOf(user.uid);
  Caller caller;
  caller.user = std::move(user);
  caller.is_admin = admins_.Contains(caller.user, core_.Now());
  caller.groups = GroupsOf(caller.user);
  return caller;
}

void Routes::Handle(const Peer& peer, HttpRequest&& request, Reply reply) {
  const Route* found = nullptr;
  std::string argument;
  bool knows_path = false;
  for (const Route& route : Table()) {
    auto star = Match(route.path, request.path);
    if (!star) continue;
    knows_path = true;
    if (route.method != request.method) continue;
    found = &route;
    argument = *std::move(star);
    break;
  }
  auto caller = CallerOf(peer, request, found);
  Call call{caller ? *caller : Caller(), std::move(request), std::move(reply), std::move(argument), peer.address};
  call.is_on_node = !peer.node.empty();
  call.is_plain = peer.is_plain;
  call.is_at_page = peer.is_remote() && UiAuth::IsFromPage(call.request);
  if (call.is_on_node) call.address = "node " + peer.node;
  const bool is_change = found != nullptr && found->touches() == Touches::kSomething;
  // A read-only user of the page stays logged in when a change is refused.
  if (!caller && call.is_at_page && is_change) {
    if (auto viewer = CallerOf(peer, call.request, nullptr)) {
      call.caller = *std::move(viewer);
      call.refusals = ports_.audit.get();
      call.clock = &core_.clock();
      return call.Refuse(caller.error());
    }
  }
  if (!caller) return TurnAway(call, caller.error());
  call.refusals = ports_.audit.get();
  call.clock = &core_.clock();
  if (is_change && found->kind == Route::Kind::kChange) call.audit = ports_.audit.get();
  call.privacy = JobPrivacy(*caller, ports_.hides_others_jobs);
  const auto by = call.request.query.find("by");
  if (call.privacy.hides_others() && by != call.request.query.end() && (by->second == "name" || by->second == "job"))
    return call.Refuse(PermissionDenied("reports by " + by->second + " are for administrators here: jobs are private"));
  if (!caller->is_admin) {
    const std::shared_ptr<void> ticket = loads_.Begin(caller->user.uid);
    if (!ticket) {
      return call.Refuse(LimitExceeded("you have " + std::to_string(UserLoads::kMostInFlight) +
                                       " requests that are not answered yet, which is the limit of a user"));
    }
    call.reply.Keep(ticket);
  }
  if (found != nullptr) return (this->*found->handler)(call);
  if (knows_path)
    return call.Send(405, wire::Encode(wire::ErrorView{"invalid_argument",
                                                       call.request.path + " does not take " + call.request.method}));
  call.Refuse(NotFound("there is no " + call.request.method + " " + call.request.path +
                       "; GET /v1/openapi.json lists what there is"));
}

// Closes the connection of a caller without a valid token. The audit log records only a limited number of such requests
// per hour.
void Routes::TurnAway(Call& call, const Error& error) {
  const Time now = core_.Now();
  if (now - turned_away_since_ >= std::chrono::hours(1)) {
    turned_away_since_ = now;
    turned_away_ = 0;
  }
  if (++turned_away_ <= kTurnedAwayWritten && ports_.audit)
    ports_.audit->Write({now, "", -1, call.address, call.request.method, call.request.path, "", 401, error.message});
  HttpResponse response;
  response.status = 401;
  response.body = wire::Encode(ErrorViewOf(error));
  response.ends_connection = true;
  Reply(call.reply).Answer(response);
}

void Routes::Status(Call& call) {
  const Controller& controller = core_.controller();
  const Scheduler& cluster = controller.scheduler();
  wire::StatusView view;
  view.pid = about_.pid;
  view.version = kVersion;
  view.uptime_s = ToSeconds(core_.Now() - about_.since);
  view.home = about_.home;
  view.socket = about_.socket;
  view.user = about_.user;
  view.is_machine_wide = about_.is_machine_wide;
  view.gpu_source = about_.gpu_source;
  view.policy = Name(controller.policy().order);
  view.isolation = about_.isolation;
  if (const auto count = node_.refused_devices(); count > 0)
    view.isolation += "; " + std::to_string(count) + " opens refused since the daemon began";
  if (ports_.remote->address.port != 0) view.listens = ToString(ports_.remote->address);
  view.gpus = cluster.gpu_count();
  const IdleGpus idle(cluster, core_.Now());
  view.gpus_free = idle.free_count();
  view.gpus_reserved = idle.reserved_count();
  view.gpus_lent = LentCount(controller, idle, *ports_.shares);
  if (cluster.has_many()) view.node = cluster.node(kOwnNode).words.name;
  view.jobs_running = static_cast<std::int64_t>(cluster.running_jobs().size());
  for (const auto& [id, record] : controller.live()) {
    const std::int64_t members = record.array_count > 0 ? static_cast<std::int64_t>(record.array_waiting.size()) : 1;
    if (record.state == JobState::kHeld) view.jobs_held += members;
    if (record.state == JobState::kQueued) view.jobs_queued += members;
  }
  view.jobs_total = static_cast<std::int64_t>(controller.jobs_total());
  view.accepts_work = core_.trouble().empty();
  view.trouble = core_.trouble();
  view.warnings = about_.warnings;
  for (std::string& warning : FoundWarnings()) view.warnings.push_back(std::move(warning));
  call.Answer(view);
}

void Routes::Gpus(Call& call) {
  std::vector<wire::GpuView> views = GpuViews(core_.controller(), about_.gpu_isolation, *ports_.shares, core_.Now());
  for (wire::GpuView& view : views) {
    for (const JobId id : view.jobs) {
      const JobRecord* record = core_.controller().Find(id);
      if (!call.privacy.hides_others() || record == nullptr || call.privacy.IsShown(record->user.name)) continue;
      view.reason = "a job of " + record->user.name;
    }
  }
  call.Answer(views);
}

void Routes::Restrict(Call& call) {
  const auto request = wire::Decode<wire::RestrictRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  std::optional<GpuSet> allowed;
  std::optional<std::int64_t> unknown;
  if (!request->is_all) {
    allowed.emplace();
    for (std::int64_t gpu : request->gpus) {
      if (gpu >= 0 && gpu < GpuSet::kCapacity) allowed->Insert(static_cast<GpuIndex>(gpu));
      else if (!unknown) unknown = gpu;
    }
  }
  const std::vector<std::string> own = {""};
  if (unknown) {
    // For a range such as 0-99, the first GPU that the node does not have is named below, with the GPUs that it has.
    const Controller& controller = core_.controller();
    const auto machine = controller.IndexOf(request->nodes.empty() ? "" : request->nodes.front());
    const auto count = machine ? controller.scheduler().node(*machine).capacity.gpus.size() : 0;
    if ((*allowed - GpuSet::FirstN(static_cast<int>(count))).empty())
      return call.Refuse(InvalidArgument("there is no GPU " + std::to_string(*unknown)));
  }
  const auto now_allowed =
      core_.controller().Restrict(allowed, call.caller, request->nodes.empty() ? own : request->nodes);
  if (!now_allowed) return call.Refuse(now_allowed.error());
  wire::RestrictAnswer answer;
  IndexRanges ranges;
  for (int gpu : now_allowed->ToVector()) {
    answer.gpus.push_back(gpu);
    ranges.Insert(static_cast<std::uint32_t>(gpu));
  }
  std::string where;
  for (const std::string& node : request->nodes) where += (where.empty() ? " on " : ", ") + node;
  answer.message = request->is_all ? "New work" + where + " may use every GPU."
                   : answer.gpus.empty()
                       ? "New work" + where + " may use no GPU; running jobs stay, and GPU fractions are moved."
                       : "New work" + where + " uses GPU" + (answer.gpus.size() > 1 ? "s " : " ") + ranges.ToString() +
                             " only; running jobs stay, and GPU fractions are moved.";
  core_.AfterCommit(
      [call = std::make_shared<Call>(std::move(call)), answer](const divvy::Status&) { call->Answer(answer); });
}

void Routes::Ignore(Call& call) {
  const auto request = wire::Decode<wire::IgnoreRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  IgnoredProcess process;
  process.identity.pid = request->pid;
  // Processes of other nodes are known only to the controller, from observations of their GPUs.
  const bool is_own = request->node.empty() || core_.controller().IndexOf(request->node) == kOwnNode;
  if (request->is_ignored && is_own) {
    auto found = ports_.look_up_process(request->pid);
    if (!found) return call.Refuse(NotFound("there is no process " + std::to_string(request->pid)));
    process = *std::move(found);
  }
  process.gpu = static_cast<int>(request->gpu);
  process.node = request->node;
  const auto done = core_.controller().Ignore(process, request->is_ignored, call.caller);
  if (!done) return call.Refuse(done.error());
  core_.AfterCommit([call = std::make_shared<Call>(std::move(call)), message = *done](const divvy::Status&) {
    call->Answer(wire::IgnoreAnswer{{}, message});
  });
}

void Routes::IgnoreRules(Call& call) {
  wire::IgnoreAnswer answer;
  for (const IgnoredProcess& rule : core_.controller().ignored()) {
    answer.rules.push_back({rule.gpu, rule.identity.pid, static_cast<std::int64_t>(rule.identity.start_ticks),
                            rule.user, rule.command, rule.node});
  }
  call.Answer(answer);
}

void Routes::Events(Call& call) {
  // Both callbacks need the handle, which is known only after the subscription.
  auto handle = std::make_shared<std::uint64_t>(0);
  call.reply.BeginStream("text/event-stream");
  call.reply.OnClosed([this, handle] {
    core_.Unsubscribe(*handle);
    watchers_.erase(*handle);
  });
  *handle = core_.Subscribe(
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
            const auto record = core_.FindUnstored(change.job);
            event.reason = privacy.Reason(record ? record->user.name : "", change.reason);
          }
          text += "event: " + event.kind + "\ndata: " + wire::Encode(event) + "\n\n";
        }
        if (!reply.Send(text)) core_.Unsubscribe(*handle);
      });
  if (call.request.query.contains("samples")) WatchSamples(call.caller, *handle, call.reply);
}

void Routes::Shutdown(Call& call) {
  if (!call.caller.is_admin)
    return call.Refuse(
        PermissionDenied("ending the daemon takes an administrator; " + call.caller.user.name + " is not one"));
  // Also on a full disk: changes that could not be stored were not acknowledged.
  core_.AfterCommit(
      [this, call = std::make_shared<Call>(std::move(call))](const divvy::Status&) {
        call->Send(200, "{}");
        ports_.shut_down();
      },
      true);
}

void Routes::OpenApiDocument(Call& call) { call.Send(200, OpenApiText()); }

std::string Routes::OpenApiText() {
  using namespace wire;
  OpenApi document("divvy", std::string(kVersion));
  document.SetErrorType(TypeOf<ErrorView>());
  const auto add = [&](std::string method, std::string path, std::string summary, const JsonType* request,
                       const JsonType* response) {
    OpenApiRoute route;
    route.method = std::move(method);
    route.path = std::move(path);
    route.summary = std::move(summary);
    route.request = request;
    route.response = response;
    document.AddRoute(std::move(route));
  };
  const JsonType* action = &TypeOf<ActionRequest>();
  const JsonType* actions = &TypeOf<ActionAnswer>();
  add("POST", "/v1/jobs", "Submit a job, an array or a sweep", &TypeOf<SubmitRequest>(), &TypeOf<ForecastAnswer>());
  add("GET", "/v1/jobs", "List jobs; the filters are query parameters", &TypeOf<JobSelector>(),
      &TypeOf<std::vector<JobView>>());
  add("POST", "/v1/jobs/select", "List jobs; the filters are the body", &TypeOf<JobSelector>(),
      &TypeOf<std::vector<JobView>>());
  add("POST", "/v1/jobs/cancel", "Cancel jobs", action, actions);
  add("POST", "/v1/jobs/hold", "Keep queued jobs from starting", action, actions);
  add("POST", "/v1/jobs/release", "Release held jobs", action, actions);
  add("POST", "/v1/jobs/requeue", "Stop running jobs and queue them again", action, actions);
  add("POST", "/v1/jobs/pause", "Stop the processes of running jobs", action, actions);
  add("POST", "/v1/jobs/resume", "Resume paused jobs", action, actions);
  add("POST", "/v1/jobs/signal", "Send a signal to running jobs", action, actions);
  add("POST", "/v1/jobs/update", "Change jobs", &TypeOf<JobUpdate>(), actions);
  const JsonType* portion = &TypeOf<PortionRequest>();
  add("POST", "/v1/jobs/resize", "Change the GPU fractions of jobs, also while they run", portion, actions);
  add("POST", "/v1/jobs/park", "Move the GPU memory of jobs with GPU fractions to the host; their processes stay alive",
      portion, actions);
  add("POST", "/v1/jobs/wake", "Move it back to the GPU", portion, actions);
  add("POST", "/v1/jobs/move", "Move running jobs with GPU fractions to other GPUs", portion, actions);
  add("GET", "/v1/jobs/{id}", "One job in detail; with `optional=1` null if it is unknown", nullptr,
      &TypeOf<JobInFull>());
  add("GET", "/v1/jobs/{id}/why", "Why it waits", nullptr, &TypeOf<WhyView>());
  add("POST", "/v1/jobs/{id}/steps",
      "Start a step of it from outside, or signal one (`stop=1`): with `Upgrade: divvy-step/1`, frames from then on",
      nullptr, nullptr);
  add("GET", "/v1/jobs/{id}/steps", "Its steps; queried from its node if it runs on another one", nullptr,
      &TypeOf<std::vector<StepView>>());
  add("GET", "/v1/jobs/{id}/log",
      "A part of its output as bytes, from byte `at`, or the last `last` lines if `at` is -1; `error=1`: of its "
      "errors; `run=2`: from the node of that run. The header Divvy-Next is the start of the next part",
      nullptr, nullptr);
  add("GET", "/v1/jobs/{id}/wait", "Wait for the end of the job", nullptr, &TypeOf<WaitAnswer>());
  add("POST", "/v1/jobs/{id}/rejoin",
      "Reconnect the caller of a foreground job after a restart; its descriptors come with the request; answers like "
      "wait",
      &TypeOf<RejoinRequest>(), &TypeOf<WaitAnswer>());
  add("POST", "/v1/jobs/{id}/attach", "Join its terminal; descriptors come with the request", nullptr,
      &TypeOf<WaitAnswer>());
  add("POST", "/v1/jobs/{id}/resize", "The size of its terminal", &TypeOf<WinsizeRequest>(), nullptr);
  add("POST", "/v1/jobs/{id}/checkpoint",
      "Report that an elastic job can change its GPUs now; returns the GPUs it may use", &TypeOf<CheckpointRequest>(),
      &TypeOf<CheckpointAnswer>());
  add("POST", "/v1/jobs/{id}/progress", "Report the progress of a running job: a fraction, or steps of a total",
      &TypeOf<ProgressRequest>(), &TypeOf<ProgressAnswer>());
  add("POST", "/v1/jobs/{id}/metrics", "Report metrics of a running job, like a line of its output",
      &TypeOf<OwnMetricsRequest>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/groups/limit", "Limit how many jobs of a group run at once", &TypeOf<GroupLimitRequest>(), actions);
  add("GET", "/v1/status", "The daemon", nullptr, &TypeOf<StatusView>());
  add("GET", "/v1/gpus", "The GPUs and their jobs", nullptr, &TypeOf<std::vector<GpuView>>());
  add("POST", "/v1/gpus/restrict", "Limit the GPUs that new work may use", &TypeOf<RestrictRequest>(),
      &TypeOf<RestrictAnswer>());
  add("GET", "/v1/gpus/ignore", "The processes that are ignored", nullptr, &TypeOf<IgnoreAnswer>());
  add("POST", "/v1/gpus/ignore", "Ignore a process, or stop ignoring it", &TypeOf<IgnoreRequest>(),
      &TypeOf<IgnoreAnswer>());
  add("GET", "/v1/teams", "The teams and what they use", nullptr, &TypeOf<TeamsView>());
  add("POST", "/v1/teams", "Add or change a team", &TypeOf<TeamChange>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/teams/remove", "Remove a team", &TypeOf<TeamName>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/teams/users", "Change a user's limits and default team", &TypeOf<UserChange>(),
      &TypeOf<MessageAnswer>());
  add("POST", "/v1/teams/quotas", "Turn quotas on or off", &TypeOf<QuotasRequest>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/reservations", "Reserved GPUs", nullptr, &TypeOf<std::vector<ReservationView>>());
  add("POST", "/v1/reservations", "Reserve GPUs", &TypeOf<ReservationRequest>(), &TypeOf<ReservationView>());
  add("POST", "/v1/reservations/cancel", "Cancel a reservation", &TypeOf<ReservationName>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/tokens", "Tokens of the caller; all of them for administrators", nullptr,
      &TypeOf<std::vector<TokenView>>());
  add("POST", "/v1/tokens", "Create a token for a command line on another machine", &TypeOf<TokenRequest>(),
      &TypeOf<TokenAnswer>());
  add("POST", "/v1/tokens/remove", "Remove a token", &TypeOf<TokenName>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/nodes", "The nodes", nullptr, &TypeOf<std::vector<NodeView>>());
  add("GET", "/v1/found", "Runs on nodes whose jobs are not in the store", nullptr, &TypeOf<std::vector<FoundView>>());
  add("POST", "/v1/found", "Adopt such a run as a job, or end it; for its owner or an administrator",
      &TypeOf<FoundRequest>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/pools", "The pools of nodes and their limits", nullptr, &TypeOf<std::vector<PoolView>>());
  add("POST", "/v1/nodes/cordon", "Give nodes no new work", &TypeOf<NodeRequest>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/nodes/drain", "Give nodes no new work, and stop what runs there at a deadline",
      &TypeOf<NodeRequest>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/nodes/resume", "Give nodes work again", &TypeOf<NodeRequest>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/nodes/remove", "Remove nodes; they need a new token to join again", &TypeOf<NodeRequest>(),
      &TypeOf<MessageAnswer>());
  add("POST", "/v1/nodes/label", "Label nodes", &TypeOf<NodeRequest>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/reports/predictions",
      "Accuracy of predicted run times of jobs that ended in the period; by user, team, name, model, pool or "
      "hour",
      nullptr, &TypeOf<PredictionsReport>());
  add("GET", "/v1/reports/speeds", "Learned speeds of jobs by GPU model", nullptr, &TypeOf<SpeedsReport>());
  add("GET", "/v1/reports/usage", "GPU-hours and waiting by user, team, name, model, pool, node, hour or job", nullptr,
      &TypeOf<UsageReport>());
  add("GET", "/v1/reports/fairness",
      "Waiting and GPU-hours by user, team, name, model, pool or hour, and how even they are", nullptr,
      &TypeOf<FairnessReport>());
  add("GET", "/v1/reports/shares",
      "GPUs held over time: `by` (as in the report of usage, but hours), `since`, `until`, `points`; by "
      "team also the share, quota and limit of each at that time",
      nullptr, &TypeOf<SharesReport>());
  add("GET", "/v1/jobs/{id}/waste", "GPU waste of the last run of a job, and the request that would have fit", nullptr,
      &TypeOf<wire::JobWaste>());
  add("GET", "/v1/jobs/{id}/environment", "The environment of a job; for its owner and administrators", nullptr,
      &TypeOf<EnvironmentView>());
  add("GET", "/v1/jobs/{id}/elements",
      "The elements of an array or a sweep: the parameters of each and the last value of each number that it reported; "
      "`limit`",
      nullptr, &TypeOf<ElementsView>());
  add("POST", "/v1/valohai", "Errors of a valohai.yaml, its steps, and the specification of one",
      &TypeOf<ValohaiQuestion>(), &TypeOf<ValohaiAnswer>());
  add("GET", "/v1/jobs/{id}/again", "The specification of a job for resubmission; for its owner and administrators",
      nullptr, &TypeOf<AgainView>());
  add("POST", "/v1/words", "A specification as options of divvy submit", &TypeOf<WordsQuestion>(),
      &TypeOf<WordsAnswer>());
  add("POST", "/v1/script", "The options in a script's own lines (#SBATCH, # GFLOW, # DIVVY)",
      &TypeOf<ScriptQuestion>(), &TypeOf<ScriptAnswer>());
  add("GET", "/v1/reports/waste",
      "GPU-hours wasted by user, team, name, model, pool, node, hour or job, and jobs that waste GPUs now", nullptr,
      &TypeOf<wire::WasteReport>());
  add("GET", "/v1/reports/efficiency", "Utilization of GPUs and CPUs, by the same", nullptr,
      &TypeOf<EfficiencyReport>());
  add("GET", "/v1/history", "Events of jobs, nodes and GPUs, newest first; ?limit=500", nullptr,
      &TypeOf<std::vector<HistoryEvent>>());
  add("GET", "/v1/starts", "Estimated starts of waiting jobs, in queue order; ?limit=5000", nullptr,
      &TypeOf<StartsAnswer>());
  add("GET", "/v1/waste", "Running jobs that waste GPUs, with remedies", nullptr, &TypeOf<WasteAnswer>());
  add("GET", "/v1/notify", "Receivers and their deliveries: the caller's own; all for administrators", nullptr,
      &TypeOf<NotifyAnswer>());
  add("POST", "/v1/notify", "Add or replace a receiver of the caller: a webhook, a command or an address",
      &TypeOf<ReceiverRequest>(), &TypeOf<ReceiverAnswer>());
  add("POST", "/v1/notify/remove", "Remove a receiver", &TypeOf<ReceiverName>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/notify/test", "Send a test notification now and return its result", &TypeOf<ReceiverName>(),
      &TypeOf<NotifyTestAnswer>());
  add("POST", "/v1/ui/links", "A one-time login link for the web page", &TypeOf<UiLinkRequest>(),
      &TypeOf<UiLinkAnswer>());
  add("GET", "/v1/ui/me", "The caller and its permissions", nullptr, &TypeOf<wire::UiMe>());
  add("POST", "/v1/shutdown", "End the daemon; jobs continue", nullptr, nullptr);
  add("GET", "/v1/latest", "The latest samples of every GPU, node and running job", nullptr, &TypeOf<LatestAnswer>());
  add("GET", "/v1/series",
      "Usage over time: `of` (gpu, slice, node, job, cluster), `node`, `gpu`, `id` (of a job), `metrics` "
      "(with commas between; all unless given), `since` and `until` (seconds since 1970; below 0: before now), "
      "`points`",
      nullptr, &TypeOf<SeriesAnswer>());
  OpenApiRoute metrics;
  metrics.method = "GET";
  metrics.path = "/metrics";
  metrics.summary = "Current values for scrapers: Prometheus' text format, or OpenMetrics where they accept it";
  metrics.response_content_type = "text/plain";
  document.AddRoute(std::move(metrics));
  OpenApiRoute events;
  events.method = "GET";
  events.path = "/v1/events";
  events.summary =
      "Every change, as server-sent events; with `samples=1` also, each second, `event: samples` with what /v1/latest "
      "says";
  events.response = &TypeOf<ChangeEvent>();
  events.response_content_type = "text/event-stream";
  document.AddRoute(std::move(events));
  return document.Text();
}

}  // namespace divvy
