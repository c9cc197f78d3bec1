#include "daemon/api/cluster/cluster_routes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "engine/scheduler/idle_gpus.h"
#include "version.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_teams.h"

namespace divvy {
namespace {

std::string StateText(const Controller::FoundRun& found) {
  if (found.run.exit) return "ended";
  return found.is_ending ? "ending" : "running";
}

}  // namespace

ClusterRoutes::ClusterRoutes(ApiContext& api, RouteTable& table)
    : driver_(api.driver), node_(api.node), about_(api.about), ports_(api.ports) {
  table.Add(this, {{"GET", "/v1/status", &ClusterRoutes::DaemonStatus},
                   {"POST", "/v1/shutdown", &ClusterRoutes::Shutdown, RouteKind::kUnstored},
                   {"GET", "/v1/gpus", &ClusterRoutes::Gpus},
                   {"POST", "/v1/gpus/restrict", &ClusterRoutes::Restrict},
                   {"GET", "/v1/gpus/ignore", &ClusterRoutes::IgnoreRules},
                   {"POST", "/v1/gpus/ignore", &ClusterRoutes::Ignore},
                   {"GET", "/v1/found", &ClusterRoutes::FoundRuns},
                   {"POST", "/v1/found", &ClusterRoutes::ChangeFound}});
}

void ClusterRoutes::DaemonStatus(ApiCall& call) {
  const Controller& controller = driver_.controller();
  const Scheduler& cluster = controller.scheduler();
  wire::StatusView view;
  view.pid = about_.pid;
  view.version = kVersion;
  view.uptime_s = ToSeconds(driver_.Now() - about_.since);
  view.home = about_.home;
  view.socket = about_.socket;
  view.user = about_.user;
  view.is_machine_wide = about_.is_machine_wide;
  view.gpu_source = about_.gpu_source;
  view.policy = Name(controller.policy().order);
  view.time_sharing = controller.time_sharer().ModeText();
  view.isolation = about_.isolation;
  if (const auto count = node_.refused_devices(); count > 0)
    view.isolation += "; " + std::to_string(count) + " opens refused since the daemon began";
  if (ports_.remote->address.port != 0) view.listens = ToString(ports_.remote->address);
  view.gpus = cluster.gpu_count();
  const IdleGpus idle(cluster, driver_.Now());
  view.gpus_free = idle.free_count();
  view.gpus_reserved = idle.reserved_count();
  view.gpus_borrowed = LentCount(controller, idle, *ports_.shares);
  if (cluster.has_many()) view.node = cluster.node(kOwnNode).attributes.name;
  view.jobs_running = static_cast<std::int64_t>(cluster.running_jobs().size());
  for (const auto& [id, record] : controller.live()) {
    const std::int64_t members = record.array_count > 0 ? static_cast<std::int64_t>(record.array_waiting.size()) : 1;
    if (record.state == JobState::kHeld) view.jobs_held += members;
    if (record.state == JobState::kQueued) view.jobs_queued += members;
  }
  view.jobs_total = static_cast<std::int64_t>(controller.jobs_total());
  view.accepts_work = driver_.trouble().empty();
  view.trouble = driver_.trouble();
  view.warnings = about_.warnings;
  for (std::string& warning : FoundWarnings()) view.warnings.push_back(std::move(warning));
  call.Answer(view);
}

void ClusterRoutes::Shutdown(ApiCall& call) {
  if (!call.caller.is_admin)
    return call.Refuse(
        PermissionDenied("ending the daemon takes an administrator; " + call.caller.user.name + " is not one"));
  // The daemon ends even if changes cannot be stored, as on a full disk, because they were not acknowledged; and even
  // if the outcome of a commit is unknown, because the next daemon reads it from the store.
  driver_.store().StopWaiting();
  driver_.AfterCommit(
      [this, call = std::make_shared<ApiCall>(std::move(call))](const Status&) {
        call->Send(200, "{}");
        ports_.shut_down();
      },
      ControllerDriver::IfNotStored::kRefuse);
}

void ClusterRoutes::Gpus(ApiCall& call) {
  std::vector<wire::GpuView> views =
      GpuViews(driver_.controller(), about_.gpu_isolation, *ports_.shares, driver_.Now());
  for (wire::GpuView& view : views) {
    for (const JobId id : view.jobs) {
      const JobRecord* record = driver_.controller().Find(id);
      if (!call.privacy.hides_others() || record == nullptr || call.privacy.IsShown(record->user.name)) continue;
      view.reason = "a job of " + record->user.name;
    }
  }
  call.Answer(views);
}

void ClusterRoutes::Restrict(ApiCall& call) {
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
    const Controller& controller = driver_.controller();
    const auto machine = controller.IndexOf(request->nodes.empty() ? "" : request->nodes.front());
    const auto count = machine ? controller.scheduler().node(*machine).capacity.gpus.size() : 0;
    if ((*allowed - GpuSet::FirstN(static_cast<int>(count))).empty())
      return call.Refuse(InvalidArgument("there is no GPU " + std::to_string(*unknown)));
  }
  const auto now_allowed =
      driver_.controller().Restrict(allowed, call.caller, request->nodes.empty() ? own : request->nodes);
  if (!now_allowed) return call.Refuse(now_allowed.error());
  wire::RestrictAnswer answer;
  IndexRanges ranges;
  for (int gpu : now_allowed->ToVector()) {
    answer.gpus.push_back(gpu);
    ranges.Insert(static_cast<std::uint32_t>(gpu));
  }
  std::string where;
  for (const std::string& node : request->nodes) where += (where.empty() ? " on " : ", ") + node;
  const Scheduler& cluster = driver_.controller().scheduler();
  if (where.empty() && cluster.has_many()) where = " on " + cluster.node(kOwnNode).attributes.name;
  answer.message = request->is_all ? "New work" + where + " may use every GPU."
                   : answer.gpus.empty()
                       ? "New work" + where + " may use no GPU; running jobs stay, and GPU fractions are moved."
                       : "New work" + where + " uses GPU" + (answer.gpus.size() > 1 ? "s " : " ") + ranges.ToString() +
                             " only; running jobs stay, and GPU fractions are moved.";
  AnswerAfterCommit(driver_, call, std::move(answer));
}

void ClusterRoutes::Ignore(ApiCall& call) {
  const auto request = wire::Decode<wire::IgnoreRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  IgnoredProcess process;
  process.identity.pid = request->pid;
  // Processes of other nodes are known only to the controller, from observations of their GPUs.
  const bool is_own = request->node.empty() || driver_.controller().IndexOf(request->node) == kOwnNode;
  if (request->is_ignored && is_own) {
    auto found = ports_.look_up_process(request->pid);
    if (!found) return call.Refuse(NotFound("there is no process " + std::to_string(request->pid)));
    process = *std::move(found);
  }
  process.gpu = static_cast<int>(request->gpu);
  process.node = request->node;
  const auto done = driver_.controller().Ignore(process, request->is_ignored, call.caller);
  if (!done) return call.Refuse(done.error());
  AnswerAfterCommit(driver_, call, wire::IgnoreAnswer{{}, *done});
}

void ClusterRoutes::IgnoreRules(ApiCall& call) {
  wire::IgnoreAnswer answer;
  for (const IgnoredProcess& rule : driver_.controller().ignored()) {
    answer.rules.push_back({rule.gpu, rule.identity.pid, static_cast<std::int64_t>(rule.identity.start_ticks),
                            rule.user, rule.command, rule.node});
  }
  call.Answer(answer);
}

void ClusterRoutes::FoundRuns(ApiCall& call) {
  std::vector<wire::FoundView> views;
  for (const auto& [id, found] : driver_.controller().found()) {
    if (found.is_adopted) continue;
    const JobRecord& record = found.run.record;
    wire::FoundView& view = views.emplace_back();
    view.job = id;
    view.name = record.name;
    view.user = record.user.name.empty() ? ports_.user_name(record.user.uid) : record.user.name;
    view.node = record.node.empty() ? OwnNodeName(ports_) : record.node;
    for (const int gpu : record.gpus.ToVector()) view.gpus.push_back(gpu);
    view.started = ToSeconds(record.started);
    view.state = StateText(found);
    if (found.run.exit && found.run.exit->is_known) view.exit_code = found.run.exit->code;
  }
  call.Answer(views);
}

void ClusterRoutes::ChangeFound(ApiCall& call) {
  const auto request = wire::Decode<wire::FoundRequest>(call.request.body);
  if (!request) return call.Refuse(request.error());
  const auto done = request->ends ? driver_.controller().EndFound(request->job, call.caller)
                                  : driver_.controller().Adopt(request->job, call.caller, driver_.Now());
  if (!done) return call.Refuse(done.error());
  wire::MessageAnswer answer{ToString(request->job) + " " + *done};
  AnswerAfterCommit(driver_, call, std::move(answer), ControllerDriver::IfNotStored::kRefuse);
}

std::vector<std::string> ClusterRoutes::FoundWarnings() const {
  std::vector<std::string> warnings;
  for (const auto& [id, found] : driver_.controller().found()) {
    if (found.is_adopted) continue;
    const JobRecord& record = found.run.record;
    const std::string gpus = GpuListText(record.gpus);
    warnings.push_back("job " + ToString(id) + " of " +
                       (record.user.name.empty() ? "uid " + std::to_string(record.user.uid) : record.user.name) +
                       (found.run.exit ? " has ended" : " runs") +
                       (record.node.empty() ? "" : " on node " + record.node) +
                       (gpus.empty() ? "" : " on GPU " + gpus) + ", and the store does not know it: divvy adopt " +
                       ToString(id) + " takes it over, divvy adopt --end " + ToString(id) + " ends it");
  }
  return warnings;
}

}  // namespace divvy
