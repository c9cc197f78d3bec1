// The API: the handler of each path. docs/api.md and GET /v1/openapi.json describe it for users.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/auth/admins.h"
#include "daemon/auth/audit.h"
#include "daemon/auth/remote_callers.h"
#include "daemon/fleet/step_callers.h"
#include "daemon/http/http_server.h"
#include "daemon/node/node.h"
#include "daemon/shares/sharing_snapshot.h"
#include "daemon/views/label_cache.h"
#include "daemon/views/start_estimate_cache.h"
#include "daemon/views/user_loads.h"
#include "driver/controller_driver.h"
#include "wire/messages/messages.h"

namespace divvy {

class AgentListener;
class Counters;
class RemoteStreams;
class FirstBlockers;
class MetricStore;
class NodeShares;
class Notifier;
class RemoteNode;
class UiAuth;
class WasteTracker;
namespace samples {
struct JobUse;
}
namespace dialect {
struct ParseContext;
}
namespace wire {
struct AgentQuestion;
struct ElementsView;
struct KeptTenant;
struct LatestAnswer;
struct NodeRequest;
struct WasteAnswer;
struct WasteFinding;
}  // namespace wire
struct ReportedRun;
enum class ReportBy;
struct ReportStretch;

/// The daemon's description of itself.
struct About {
  std::int64_t pid = 0;
  Time since = kNoTime;
  std::string home;
  std::string socket;
  std::string user;
  bool is_machine_wide = false;
  std::string gpu_source;
  std::string isolation;      // A description for the whole node.
  std::string gpu_isolation;  // A short description for one GPU.
  std::vector<std::string> warnings;
};

class Routes {
 public:
  /// The access from other machines.
  struct Remote {
    RemoteCallers callers;
    HostPort address;         // The address that other machines use; port 0: remote access is off.
    std::string fingerprint;  // The fingerprint of our certificate.
  };

  struct Ports {
    std::function<std::string(std::int64_t uid)> user_name;
    std::function<void()> shut_down;
    /// Returns start ticks, user and command of a live process, for ignore rules; nullopt if it does not exist.
    std::function<std::optional<IgnoredProcess>(std::int64_t pid)> look_up_process;
    /// Runs `work` on the thread that reads the store, and then the function that it returns on the loop's thread.
    std::function<void(std::function<std::function<void()>()> work)> read;
    /// Optional. For team membership by group. May query the network, so results are cached for half a minute.
    Admins::IsInGroup is_in_group;
    /// Optional. Looks up a user that jobs can run as. Null: any name is accepted.
    std::function<std::optional<User>(const std::string& name)> find_user;
    /// Optional. The environment of a login of this user: HOME, USER, LOGNAME, SHELL and PATH.
    std::function<std::vector<std::string>(const User& user)> login_environment;
    /// Must not be null.
    std::shared_ptr<Remote> remote;
    std::shared_ptr<Audit> audit;
    /// Optional. The nodes of agents.
    std::shared_ptr<AgentListener> agents;
    /// True if jobs may be submitted by uid 0.
    bool takes_root_jobs = true;
    /// Optional. Streams to the nodes of agents.
    std::shared_ptr<RemoteStreams> remote_streams;
    /// The tenants of shared GPUs. Must not be null.
    std::shared_ptr<const SharingSnapshot> shares = std::make_shared<SharingSnapshot>();
    /// Optional. The shared GPUs of this node.
    NodeShares* own_shares = nullptr;
    /// Optional. Callers that start steps in jobs from outside. Null: not allowed.
    std::shared_ptr<StepCallers> step_callers;
    /// Optional. Usage samples.
    std::shared_ptr<MetricStore> samples;
    /// Optional. Jobs that waste GPUs.
    std::shared_ptr<const WasteTracker> waste;
    /// Optional. Sends notifications.
    std::shared_ptr<Notifier> notifier;
    /// Optional. The web page.
    std::shared_ptr<UiAuth> ui;
    /// Optional. Event counters for metrics scrapers.
    std::shared_ptr<const Counters> counters;
    bool has_dcgm_names = false;  // Also exports GPUs under the names of NVIDIA's DCGM exporter.
    /// Shows names, commands and reasons of jobs only to their owners and to administrators.
    bool hides_others_jobs = false;
    /// Runs a task on the loop's thread later. Null: submissions are not rate-limited.
    std::function<void(Duration, std::function<void()>)> after;
    /// The time from the stop signal to SIGKILL, for jobs that set no grace.
    Duration default_grace = std::chrono::seconds(30);
  };

  Routes(ControllerDriver& core, Node& node, About about, Admins admins, Ports ports);

  void Handle(const Peer& peer, HttpRequest&& request, Reply reply);
  static std::string OpenApiText();
  /// The samples of another second have arrived.
  void OnSecond();
  /// Moves the GPU memory of a job with GPU fractions to the host, on whichever node it runs.
  void ParkTenant(const JobRecord& record, std::function<void(const divvy::Status&)> done) {
    ActOnTenant(record, "park", {}, std::move(done));
  }
  /// True while a client watches samples.
  bool is_watched() const;

 private:
  struct Call;
  using Handler = void (Routes::*)(Call& call);
  struct Route {
    std::string_view method;
    std::string_view path;  // "*" stands for one segment.
    Handler handler;
    /// The purpose of a POST: a change, a question, or a job's report about itself, which needs no audit entry.
    enum class Kind { kChange, kQuestion, kOwnJob } kind = Kind::kChange;
    Touches touches() const {
      return method == "GET" || kind == Kind::kQuestion ? Touches::kNothing : Touches::kSomething;
    }
  };
  static const std::vector<Route>& Table();

  void TurnAway(Call& call, const Error& error);
  /// Authenticates a caller on an agent's node: a user who has a job there, without administrator rights.
  Result<Caller> CallerOnNode(const Peer& peer);
  /// Authenticates a logged-in browser (routes_ui.cc).
  Result<Caller> CallerAtPage(const Peer& peer, const HttpRequest& request, const Route* route);
  Caller LocalCaller(User user);
  const std::string& NameOf(std::int64_t uid);
  Result<Caller> CallerOf(const Peer& peer, const HttpRequest& request, const Route* route);

  void Status(Call& call);
  void Gpus(Call& call);
  void Restrict(Call& call);
  void Ignore(Call& call);
  void IgnoreRules(Call& call);
  void Submit(Call& call);
  /// Submits when the rate limit allows it (UserLoads).
  void TakeSubmission(Call& call);
  void Select(Call& call);
  void List(Call& call);
  void Show(Call& call);
  void Log(Call& call);
  void Why(Call& call);
  void NameMachines(const core::Explanation& explanation, wire::WhyView& view) const;
  void Steps(Call& call);
  void Wait(Call& call);
  void Rejoin(Call& call);
  void Attach(Call& call);
  void Resize(Call& call);
  void Checkpoint(Call& call);
  void ReportProgress(Call& call);
  void Cancel(Call& call);
  void Hold(Call& call);
  void Release(Call& call);
  void Requeue(Call& call);
  void Pause(Call& call);
  void Resume(Call& call);
  void Signal(Call& call);
  void Update(Call& call);
  // routes_portions.cc
  void ResizePortions(Call& call);
  void Park(Call& call);
  void Wake(Call& call);
  void MovePortions(Call& call);
  struct PortionAct;
  void SettlePortions(const std::shared_ptr<Call>& call, const std::shared_ptr<PortionAct>& act);
  void ActOnPortions(Call& call, const std::string& action);
  /// Returns the job's tenant if it is on its GPUs, neither parked nor on its way; null otherwise.
  const wire::KeptTenant* FindOnGpu(const JobRecord& record) const;
  /// Returns true if the job is on exactly these GPUs, in this order.
  bool IsThere(const JobRecord& record, const std::vector<int>& to) const;
  void ActOnTenant(const JobRecord& record, const std::string& action, const std::vector<int>& to,
                   std::function<void(const divvy::Status&)> done);
  void GroupLimit(Call& call);
  void Events(Call& call);
  void OpenApiDocument(Call& call);
  void Shutdown(Call& call);
  // routes_samples.cc
  void Latest(Call& call);
  void Series(Call& call);
  void Metrics(Call& call);
  void AddOwnMetrics(Call& call);
  void WatchSamples(const Caller& caller, std::uint64_t handle, Reply reply);
  wire::LatestAnswer LatestFor(const Caller& caller) const;
  /// The number of nodes in each state that `divvy nodes` shows, including the controller's own.
  std::map<std::string, int> NodesByState() const;
  // routes_teams.cc
  void Teams(Call& call);
  void SetTeam(Call& call);
  void RemoveTeam(Call& call);
  void SetTeamUser(Call& call);
  void SetQuotas(Call& call);
  std::vector<std::string> GroupsOf(const User& user);
  // routes_reservations.cc
  void Reservations(Call& call);
  void Reserve(Call& call);
  void CancelReservation(Call& call);
  // routes_reports.cc
  void Predictions(Call& call);
  void Speeds(Call& call);
  void Usage(Call& call);
  void Fairness(Call& call);
  // routes_waste.cc
  void Waste(Call& call);
  void WasteReport(Call& call);
  void JobWaste(Call& call);
  void AnswerWaste(Call& call, const JobRecord& record, const samples::JobUse& use,
                   std::vector<wire::WasteFinding> findings);
  void Efficiency(Call& call);
  wire::WasteAnswer WasteNow() const;
  /// Builds the body of an answer from runs; called on the reader's thread.
  using ReportOfRuns = std::function<std::string(const std::vector<ReportedRun>& runs, bool is_cut)>;
  /// Whether to count earlier runs of jobs that were started again. Uses are only known per job.
  enum class PastRuns { kCount, kLeaveOut };
  /// By node, a run on several nodes is one entry per node.
  void ReportRuns(Call& call, ReportBy by, const ReportStretch& stretch, PastRuns past, ReportOfRuns report);
  /// The name of the controller's own node.
  std::string OwnNodeName() const;
  // routes_notify.cc
  void Notify(Call& call);
  void AddReceiver(Call& call);
  void RemoveReceiver(Call& call);
  void TestReceiver(Call& call);
  // routes_ui.cc
  void UiLink(Call& call);
  void UiMe(Call& call);
  // routes_page.cc
  void Environment(Call& call);
  void Elements(Call& call);
  void Valohai(Call& call);
  // routes_submit_page.cc
  void Again(Call& call);
  void Words(Call& call);
  void Script(Call& call);
  /// The caller's home and login, as far as the daemon knows them, and the present time.
  dialect::ParseContext ParseContextOf(const Call& call) const;
  // routes_page.cc
  void Shares(Call& call);
  void LatestHistory(Call& call);
  void Starts(Call& call);
  // routes_tokens.cc
  void Tokens(Call& call);
  void CreateToken(Call& call);
  void RemoveToken(Call& call);
  // job_lookup.cc
  void FoundRuns(Call& call);
  void ChangeFound(Call& call);
  std::vector<std::string> FoundWarnings() const;
  // routes_nodes.cc
  void Nodes(Call& call);
  void Pools(Call& call);
  void CordonNodes(Call& call);
  void DrainNodes(Call& call);
  void ResumeNodes(Call& call);
  void RemoveNodes(Call& call);
  void LabelNodes(Call& call);
  using NodeChange = std::function<Result<std::string>(AgentListener& door, const std::string& name,
                                                       const wire::NodeRequest& request)>;
  void ChangeNodes(Call& call, const NodeChange& change);
  static std::string ReasonOf(AgentListener& door, const std::string& name, const wire::NodeRequest& request,
                              const Caller& caller);
  /// Answers once everything applied so far is durable.
  void AnswerMessage(Call& call, const Result<std::string>& done);

  using Action = std::function<Result<std::string>(JobId id, const wire::ActionRequest& request, const Caller& caller)>;
  /// The action for a job that has ended. Without it such a job is refused.
  using ActionOnEnded = std::function<Result<std::string>(const JobRecord& ended, const wire::ActionRequest& request,
                                                          const Caller& caller)>;
  void Act(Call& call, const Action& action, const ActionOnEnded& on_ended = {});
  void AnswerForecast(Call& call, JobSpec spec, std::uint64_t elements, wire::SubmitAnswer answer);
  /// Turns the result of a read into the call's answer, on the loop's thread.
  using Finish = std::function<void(Call& call)>;
  /// `read` runs on the reader's thread and may use only the store and labels_.OfStored. Takes the call over.
  void ReadAside(Call& call, std::function<Finish()> read);
  /// Runs at once on the loop's thread if `is_quick`.
  void ReadAsideUnless(bool is_quick, Call& call, std::function<Finish()> read);
  struct Listing;
  struct Found;
  void AnswerElements(Call& call, const Found& found, wire::ElementsView view);
  /// `has_labels`: all unknown labels of live jobs were read just now.
  void AnswerJobs(Call& call, const wire::JobSelector& select, bool has_labels = false);
  void AnswerNamed(Call& call, const wire::JobSelector& select);
  Finish ReadListing(Listing& listing);
  /// `blockers` is shared by all jobs of a listing; null for a single job.
  wire::JobView LiveView(const JobRecord& record, const FindOutcome& find, FirstBlockers* blockers = nullptr);
  /// The present GPUs of a job with GPU fractions.
  std::optional<wire::ShareView> ShareOf(const JobRecord& record) const;
  void AnswerDetail(Call& call, const Found& found);
  static Error CannotRead(const std::string& what, int error);
  static void AnswerPiece(Call& call, std::string text, std::int64_t next);
  // routes_far_logs.cc
  static wire::AgentQuestion QuestionOf(const JobRecord& record, const JobSpec& spec, bool is_error, std::int64_t at,
                                        std::int64_t last);
  /// Asks the agent of the job's node for a piece of its log, and answers when the agent does.
  void AskForLog(Call& call, const wire::AgentQuestion& question);
  /// Asks the agent of the job's node for its steps; answers with none if the agent is not connected. `has_commands`:
  /// the caller may see the commands.
  void AskForSteps(Call& call, const JobRecord& record, bool has_commands);
  /// The path of the job's output or error file, present or future; for a job that waits for its next run, of the last
  /// one. It is "n1:/home/ada/out.txt" on an agent's node, and a path without a node if it is the same on every
  /// possible node. Empty if there is no such file, or it is not certain yet.
  std::string PathOf(const Found& found, const JobSpec& spec, bool is_error) const;
  /// Restricts a foreground job to this node, because its caller's terminal is here.
  divvy::Status KeepHere(JobSpec& spec) const;
  /// Returns true if the caller may see a job's script, directory, environment and output, which may hold secrets. Its
  /// place in the queue is public.
  static bool MaySee(const Caller& caller, const JobRecord& record);
  /// Returns the specification if the caller may see it: the whole of their own jobs; for jobs of a team that they
  /// lead, all but the script.
  std::shared_ptr<const JobSpec> VisibleSpec(const Caller& caller, const Found& found) const;
  /// Returns what the loop knows of the job. Complete reads the rest from the store, on the reader's thread.
  Found FindHere(JobId id);
  divvy::Status Complete(JobId id, Found& found);
  std::vector<JobRecord> LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                     std::map<JobId, std::uint64_t>& positions);
  void AnswerWhenFinal(Call& call, JobId id, std::function<void()> on_closed);
  std::function<void()> EndsWithItsTerminal(JobId id, const Caller& caller);
  /// Answers the caller of a foreground job once the job is final, or the caller has detached (Ctrl-P Ctrl-Q in its
  /// terminal).
  void AnswerCaller(Call& call, JobId id);
  void OnTerminalLeft(JobId id);
  // routes_remote_streams.cc
  /// Keeps the streams that a foreground job's caller passed: three streams, and a relay of each if the caller pumps
  /// them (remote_streams.h).
  using Had = std::optional<std::array<std::uint64_t, 2>>;  // See RemoteStreams::Had.
  divvy::Status KeepCaller(JobId id, PassedFds& fds, const Had& had = std::nullopt);
  void DropCaller(JobId id);
  /// A client outside a job starts a step in it, or signals one.
  void CallStep(Call& call);
  /// Attaches to the terminal of a job on an agent's node.
  void AttachFar(Call& call, const JobRecord& record);
  /// Returns the agent's node of this name, or null if it has never connected.
  RemoteNode* FarNode(const std::string& name) const;
  /// Finds live jobs only, without reading the store; for listings, which may be long.
  FindOutcome LiveNames() const;

  ControllerDriver& core_;
  Node& node_;
  About about_;
  Admins admins_;
  Ports ports_;
  LabelCache labels_;
  StartEstimateCache starts_;
  std::map<std::uint64_t, std::shared_ptr<Call>> reads_;  // Calls whose answers are being read.
  std::uint64_t next_read_ = 1;
  std::map<JobId, Reply> callers_;  // The callers of foreground jobs, which wait at their terminals.
  std::set<JobId> submitted_;       // Foreground jobs whose callers are about to wait for them.
  std::set<JobId> left_;            // Foreground jobs that continue after their caller has detached.
  struct Watcher {
    Caller caller;
    Reply reply;
  };
  std::map<std::uint64_t, Watcher> watchers_;  // Clients that watch samples, by subscription.
  Time latest_asked_ = kNoTime;                // The time of the last request for the latest samples.
  struct Groups {
    std::vector<std::string> asked;
    std::vector<std::string> of;
    Time at = kNoTime;
  };
  static constexpr std::uint64_t kTurnedAwayWritten = 1000;
  Time turned_away_since_ = kNoTime;
  std::uint64_t turned_away_ = 0;          // Counted since turned_away_since_.
  std::map<std::int64_t, Groups> groups_;  // By uid.
  struct KeptName {
    std::string name;
    Time until = kNoTime;  // The name is looked up again after this time.
  };
  static constexpr Duration kNamesLive = std::chrono::seconds(30);
  std::map<std::int64_t, KeptName> names_;  // By uid.
  UserLoads loads_;
};

}  // namespace divvy
