// The API: what each path does. docs/api.md and GET /v1/openapi.json say the same for readers.
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
#include "daemon/driver/core.h"
#include "daemon/fleet/step_callers.h"
#include "daemon/http/http_server.h"
#include "daemon/node/node.h"
#include "daemon/shares/share_board.h"
#include "daemon/views/routes_labels.h"
#include "daemon/views/start_book.h"
#include "daemon/views/user_loads.h"
#include "wire/messages/messages.h"

namespace divvy {

class AgentDoor;
class Counters;
class FarStreams;
class FirstBlockers;
class SampleBook;
class NodeShares;
class Notifier;
class RemoteNode;
class UiDoor;
class WasteBook;
namespace samples {
struct JobUse;
}
namespace dialect {
struct Surroundings;
}
namespace wire {
struct AgentQuestion;
struct ElementsView;
struct LatestAnswer;
struct NodeRequest;
struct WasteAnswer;
struct WasteFinding;
}  // namespace wire
struct ReportedRun;
enum class ReportBy;
struct ReportStretch;

/// What the daemon tells about itself.
struct About {
  std::int64_t pid = 0;
  Time since = kNoTime;
  std::string home;
  std::string socket;
  std::string user;
  bool is_machine_wide = false;
  std::string gpu_source;
  std::string isolation;      // Of everything.
  std::string gpu_isolation;  // Of one GPU, in a few words.
  std::vector<std::string> warnings;
};

class Routes {
 public:
  /// The door to other machines.
  struct Remote {
    RemoteCallers callers;
    HostPort address;         // As others may reach it; port 0: it is shut.
    std::string fingerprint;  // Of our certificate.
  };

  struct Ports {
    std::function<std::string(std::int64_t uid)> user_name;
    std::function<void()> shut_down;
    /// Start ticks, user and command of a live process, for ignore rules; nothing if there is none.
    std::function<std::optional<IgnoredProcess>(std::int64_t pid)> look_up_process;
    /// Runs `work` on the thread that reads the store, and what that returns on the loop's.
    std::function<void(std::function<std::function<void()>()> work)> read;
    /// For members of teams by group. May ask the network, so its answers are kept for half a minute. May be null.
    Admins::IsInGroup is_in_group;
    /// A user that jobs can run as. Null: any may be named.
    std::function<std::optional<User>(const std::string& name)> find_user;
    /// What a login of this user has in its environment: HOME, USER, LOGNAME, SHELL and PATH. May be null.
    std::function<std::vector<std::string>(const User& user)> login_environment;
    /// Must not be null.
    std::shared_ptr<Remote> remote;
    std::shared_ptr<Audit> audit;
    /// The nodes of agents. Null: there are none.
    std::shared_ptr<AgentDoor> agents;
    /// Jobs of uid 0 may be submitted.
    bool takes_root_jobs = true;
    /// Streams to them. Null: there are none.
    std::shared_ptr<FarStreams> far_streams;
    /// Who shares which GPUs. Must not be null.
    std::shared_ptr<const ShareBoard> shares = std::make_shared<ShareBoard>();
    /// Of this machine. Null: nothing is shared.
    NodeShares* own_shares = nullptr;
    /// Who starts steps in jobs from outside them. Null: nobody may.
    std::shared_ptr<StepCallers> step_callers;
    /// How everything is used. Null: no samples are taken.
    std::shared_ptr<SampleBook> samples;
    /// Who wastes GPUs. Null: nobody looks.
    std::shared_ptr<const WasteBook> waste;
    /// Who is told of what. Null: nobody.
    std::shared_ptr<Notifier> notifier;
    /// The page's. Null: there is none.
    std::shared_ptr<UiDoor> ui;
    /// For scrapers. Null: nothing is counted.
    std::shared_ptr<const Counters> counters;
    bool has_dcgm_names = false;  // They get GPUs under the names of NVIDIA's exporter as well.
    /// Names, commands and reasons of jobs are shown to their owners and to administrators only.
    bool hides_others_jobs = false;
    /// Runs a task on the loop's thread later. Null: no submission has to wait for its turn.
    std::function<void(Duration, std::function<void()>)> after;
    /// From the stop signal to SIGKILL, for jobs that name no grace.
    Duration default_grace = std::chrono::seconds(30);
  };

  Routes(Core& core, Node& node, About about, Admins admins, Ports ports);

  void Handle(const Peer& peer, HttpRequest&& request, Reply reply);
  static std::string OpenApiText();
  /// Another second's samples have come.
  void OnSecond();
  /// A job with parts of GPUs, wherever it runs: their memory goes to the host.
  void ParkTenant(const JobRecord& record, std::function<void(const divvy::Status&)> done) {
    ActOnTenant(record, "park", {}, std::move(done));
  }
  /// Somebody hears of each second's samples.
  bool is_watched() const;

 private:
  struct Call;
  using Handler = void (Routes::*)(Call& call);
  struct Route {
    std::string_view method;
    std::string_view path;  // "*" stands for one segment.
    Handler handler;
    /// What a POST is for: to change something, to ask, or a job's own word about itself, which no audit needs.
    enum class Kind { kChange, kQuestion, kOwnJob } kind = Kind::kChange;
    Touches touches() const {
      return method == "GET" || kind == Kind::kQuestion ? Touches::kNothing : Touches::kSomething;
    }
  };
  static const std::vector<Route>& Table();

  void TurnAway(Call& call, const Error& error);
  /// Who asks from an agent's machine: a user who has a job there, with no more rights than any.
  Result<Caller> CallerOnNode(const Peer& peer);
  /// A browser that is logged in (routes_ui.cc).
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
  /// When its turn has come (UserLoads).
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
  /// On just these GPUs, in this order.
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
  /// How many machines are in each state that divvy nodes has, the controller's own included.
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
  /// Makes an answer's body of runs; on the reader's thread.
  using ReportOfRuns = std::function<std::string(const std::vector<ReportedRun>& runs, bool is_cut)>;
  /// Of jobs that were started again, the runs before: uses are known of jobs as wholes.
  enum class PastRuns { kCount, kLeaveOut };
  /// By machine, a run on several is one on each.
  void ReportRuns(Call& call, ReportBy by, const ReportStretch& stretch, PastRuns past, ReportOfRuns report);
  /// What the controller's own machine is called.
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
  /// As far as the daemon knows them: home and login of the caller, who is there in this moment.
  dialect::Surroundings SurroundingsOf(const Call& call) const;
  // routes_page.cc
  void Shares(Call& call);
  void LatestHistory(Call& call);
  void Starts(Call& call);
  // routes_tokens.cc
  void Tokens(Call& call);
  void CreateToken(Call& call);
  void RemoveToken(Call& call);
  // routes_found.cc
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
  using NodeChange =
      std::function<Result<std::string>(AgentDoor& door, const std::string& name, const wire::NodeRequest& request)>;
  void ChangeNodes(Call& call, const NodeChange& change);
  static std::string ReasonOf(AgentDoor& door, const std::string& name, const wire::NodeRequest& request,
                              const Caller& caller);
  /// Once all that is applied so far is durable.
  void AnswerMessage(Call& call, const Result<std::string>& done);

  using Action = std::function<Result<std::string>(JobId id, const wire::ActionRequest& request, const Caller& caller)>;
  /// Of a job that has ended; without it such a job is refused.
  using ActionOnEnded = std::function<Result<std::string>(const JobRecord& ended, const wire::ActionRequest& request,
                                                          const Caller& caller)>;
  void Act(Call& call, const Action& action, const ActionOnEnded& on_ended = {});
  void AnswerForecast(Call& call, JobSpec spec, std::uint64_t elements, wire::SubmitAnswer answer);
  /// What a read found, made into the call's answer on the loop's thread.
  using Finish = std::function<void(Call& call)>;
  /// `read` runs on the reader's thread and may use the store and labels_.OfStored alone. The call is given away.
  void ReadAside(Call& call, std::function<Finish()> read);
  /// Where it `is_quick`, here and now.
  void ReadAsideUnless(bool is_quick, Call& call, std::function<Finish()> read);
  struct Listing;
  struct Found;
  void AnswerElements(Call& call, const Found& found, wire::ElementsView view);
  /// `has_labels`: all labels of live jobs that are not known were read just now.
  void AnswerJobs(Call& call, const wire::JobSelector& select, bool has_labels = false);
  void AnswerNamed(Call& call, const wire::JobSelector& select);
  Finish ReadListing(Listing& listing);
  /// `idle`: of the same listing; null: of one job.
  wire::JobView LiveView(const JobRecord& record, const FindOutcome& find, FirstBlockers* blockers = nullptr);
  /// Where a job with parts of GPUs is at this moment.
  std::optional<wire::ShareView> ShareOf(const JobRecord& record) const;
  void AnswerDetail(Call& call, const Found& found);
  static Error CannotRead(const std::string& what, int error);
  static void AnswerPiece(Call& call, std::string text, std::int64_t next);
  // routes_far_logs.cc
  static wire::AgentQuestion QuestionOf(const JobRecord& record, const JobSpec& spec, bool is_error, std::int64_t at,
                                        std::int64_t last);
  /// Of a job on an agent's machine: answered when the agent has.
  void AskForLog(Call& call, const wire::AgentQuestion& question);
  /// Of a job that runs on an agent's machine; none where that cannot be asked now. `has_commands`: the caller may see
  /// what they run.
  void AskForSteps(Call& call, const JobRecord& record, bool has_commands);
  /// Where its output or errors are, or will be: of a job that waits for its next run those of the last one;
  /// "n1:/home/ada/out.txt" on an agent's machine, a path without one where it is the same on each that it may get.
  /// Empty where there is no such file, or not yet one that is sure.
  std::string PathOf(const Found& found, const JobSpec& spec, bool is_error) const;
  /// A foreground job has its caller's terminal, which is on this machine.
  divvy::Status KeepHere(JobSpec& spec) const;
  /// A job's script, directory, environment and output may hold secrets; its place in the queue does not.
  static bool MaySee(const Caller& caller, const JobRecord& record);
  /// The spec where the caller may see it: their own, all of it; of the team that they lead, all but the script.
  std::shared_ptr<const JobSpec> VisibleSpec(const Caller& caller, const Found& found) const;
  /// What is known of it here and now; the rest is to be read from the store by Complete, on the reader's thread.
  Found FindHere(JobId id);
  divvy::Status Complete(JobId id, Found& found);
  std::vector<JobRecord> LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                     std::map<JobId, std::uint64_t>& positions);
  void AnswerWhenFinal(Call& call, JobId id, std::function<void()> on_closed);
  std::function<void()> EndsWithItsTerminal(JobId id, const Caller& caller);
  /// Answers the caller of a foreground job once it is final, or was left to itself (Ctrl-P Ctrl-Q in its terminal).
  void AnswerCaller(Call& call, JobId id);
  void OnTerminalLeft(JobId id);
  // routes_far_streams.cc
  /// What a foreground job's caller passed: three streams, and relays of them where it pumps (far_streams.h).
  using Had = std::optional<std::array<std::uint64_t, 2>>;  // FarStreams::Had
  divvy::Status KeepCaller(JobId id, PassedFds& fds, const Had& had = std::nullopt);
  void DropCaller(JobId id);
  /// Somebody outside a job who starts a step in it, or signals one.
  void CallStep(Call& call);
  /// The terminal of a job on an agent's machine.
  void AttachFar(Call& call, const JobRecord& record);
  /// Of this name, if its agent was ever here.
  RemoteNode* FarNode(const std::string& name) const;
  /// How a listing, which may be long, learns the names of other jobs: no look into the store.
  FindOutcome LiveNames() const;

  Core& core_;
  Node& node_;
  About about_;
  Admins admins_;
  Ports ports_;
  LabelBook labels_;
  StartBook starts_;
  std::map<std::uint64_t, std::shared_ptr<Call>> reads_;  // Whose answers are being read.
  std::uint64_t next_read_ = 1;
  std::map<JobId, Reply> callers_;  // Of foreground jobs, waiting at their terminals.
  std::set<JobId> submitted_;       // Foreground jobs whose callers are about to wait for them.
  std::set<JobId> left_;            // Foreground jobs whose terminal was left, and that go on.
  struct Watcher {
    Caller caller;
    Reply reply;
  };
  std::map<std::uint64_t, Watcher> watchers_;  // Of samples, by their subscription.
  Time latest_asked_ = kNoTime;                // Somebody asked for the latest.
  struct Groups {
    std::vector<std::string> asked;
    std::vector<std::string> of;
    Time at = kNoTime;
  };
  static constexpr std::uint64_t kTurnedAwayWritten = 1000;
  Time turned_away_since_ = kNoTime;
  std::uint64_t turned_away_ = 0;          // Since then.
  std::map<std::int64_t, Groups> groups_;  // By uid.
  struct KeptName {
    std::string name;
    Time until = kNoTime;  // From then on it is looked up again.
  };
  static constexpr Duration kNamesLive = std::chrono::seconds(30);
  std::map<std::int64_t, KeptName> names_;  // By uid.
  UserLoads loads_;
};

}  // namespace divvy
