#include "daemon/api/openapi_document.h"

#include <utility>

#include "version.h"
#include "wire/messages/codec.h"
#include "wire/messages/messages.h"
#include "wire/messages/messages_nodes.h"
#include "wire/messages/messages_remote.h"
#include "wire/messages/messages_reports.h"
#include "wire/messages/messages_teams.h"
#include "wire/messages/notify_messages.h"
#include "wire/messages/page_messages.h"
#include "wire/messages/provider_messages.h"
#include "wire/messages/series_messages.h"
#include "wire/messages/submit_messages.h"
#include "wire/messages/sweep_messages.h"
#include "wire/messages/ui_messages.h"
#include "wire/messages/waste_messages.h"
#include "wire/openapi/openapi.h"
#include "wire/services/service_messages.h"

namespace divvy {

std::string OpenApiDocument() {
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
  add("POST", "/v1/mcp",
      "A message of the Model Context Protocol, from an agent on another machine; `allow=submit,cancel` allows the "
      "tools "
      "that change something",
      nullptr, nullptr);
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
  add("GET", "/v1/sweeps", "The caller's sweeps, newest first; all of them for administrators", nullptr,
      &TypeOf<std::vector<SweepView>>());
  add("GET", "/v1/sweeps/{id}", "A sweep and its trials", nullptr, &TypeOf<SweepDetail>());
  add("POST", "/v1/sweeps/{id}/tell", "Set the parameters of the next trial of a sweep with method ask",
      &TypeOf<SweepTell>(), &TypeOf<SweepTold>());
  add("GET", "/v1/services", "The services, by name", nullptr, &TypeOf<std::vector<ServiceView>>());
  add("POST", "/v1/services", "Create a service: replicas behind one port, scaled by load",
      &TypeOf<ServiceDefinition>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/services/{name}", "A service, its replicas, revisions and latest events", nullptr,
      &TypeOf<ServiceDetail>());
  add("POST", "/v1/services/{name}", "Change a service; another command is a new revision, which is rolled out",
      &TypeOf<ServiceDefinition>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/services/{name}/definition",
      "Its settings and the specification of its replicas; for its owner and administrators", nullptr,
      &TypeOf<ServiceDefinition>());
  add("POST", "/v1/services/{name}/scale", "Change how many replicas it has", &TypeOf<ServiceScale>(),
      &TypeOf<MessageAnswer>());
  add("POST", "/v1/services/{name}/promote", "Run the canary's revision on all replicas", nullptr,
      &TypeOf<MessageAnswer>());
  add("POST", "/v1/services/{name}/rollback", "Run an earlier revision; 0: the healthy one before, or end the canary",
      &TypeOf<ServiceRollback>(), &TypeOf<MessageAnswer>());
  add("POST", "/v1/services/{name}/delete", "Delete it and its replicas", nullptr, &TypeOf<MessageAnswer>());
  add("GET", "/v1/providers", "Providers of nodes, and their nodes", nullptr, &TypeOf<std::vector<ProviderView>>());
  add("POST", "/v1/providers", "Enable, disable or drain a provider", &TypeOf<ProviderRequest>(),
      &TypeOf<MessageAnswer>());
  add("GET", "/v1/reservations", "Reserved GPUs", nullptr, &TypeOf<std::vector<ReservationView>>());
  add("POST", "/v1/reservations", "Reserve GPUs", &TypeOf<ReservationRequest>(), &TypeOf<ReservationView>());
  add("POST", "/v1/reservations/cancel", "Cancel a reservation", &TypeOf<ReservationName>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/tokens", "Tokens of the caller; all of them for administrators", nullptr,
      &TypeOf<std::vector<TokenView>>());
  add("POST", "/v1/tokens", "Create a token for a command line on another machine", &TypeOf<TokenRequest>(),
      &TypeOf<TokenAnswer>());
  add("POST", "/v1/tokens/remove", "Remove a token", &TypeOf<TokenName>(), &TypeOf<MessageAnswer>());
  add("GET", "/v1/controllers", "The controllers of the cluster, the leader first", nullptr,
      &TypeOf<std::vector<ControllerView>>());
  add("POST", "/v1/controllers/step-down", "Let a standby take over from this controller", nullptr,
      &TypeOf<MessageAnswer>());
  add("GET", "/leader", "Which controller leads; status 503 if another one does. Needs no login", nullptr,
      &TypeOf<LeaderView>());
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
