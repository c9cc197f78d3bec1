#include "daemon/agent/agent.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/text.h"
#include "daemon/agent/agent_jobs_listener.h"
#include "daemon/agent/agent_logs.h"
#include "daemon/agent/agent_samples.h"
#include "daemon/agent/agent_session.h"
#include "daemon/agent/agent_state.h"
#include "daemon/agent/agent_streams.h"
#include "daemon/auth/accounts.h"
#include "daemon/node/machine.h"
#include "daemon/node/node_host.h"
#include "daemon/runtime/log.h"
#include "daemon/runtime/worker.h"
#include "dialect/config/config.h"
#include "platform/os/clock.h"
#include "platform/os/lease_file.h"
#include "platform/os/process_tree.h"
#include "platform/os/runtime_paths.h"
#include "wire/http/token_line.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr Duration kTickEvery = std::chrono::milliseconds(100);
constexpr Duration kOnDemandFailureHold = std::chrono::seconds(2);
/// A key is replaced after this time.
constexpr std::time_t kRenewAfterSeconds = std::time_t{30} * 24 * 3600;
/// The pause before the state is written again after a failure.
constexpr Duration kKeepStateAgain = std::chrono::seconds(5);
constexpr Duration kLookAtKeyEvery = std::chrono::hours(1);
constexpr std::size_t kSessionBytes = 16;
/// The number of connection attempts before a first join in the background is given up.
constexpr int kFirstDials = 5;
/// Time limits of connection attempts with several controllers: one that hangs must not delay the search for the
/// leader.
constexpr DialPatience kSearchPatience{std::chrono::seconds(2), std::chrono::seconds(3)};
/// How long a foreground job waits for its caller, who reconnects after a restart of the controller.
constexpr Duration kAwaitsCallers = std::chrono::seconds(10);

struct Flags {
  std::string name;
  std::string emulate;
  std::map<std::string, std::string> labels;
  int join_fd = -1;
  bool is_on_demand = false;
  bool is_detached = false;
};

Duration SinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// Stops all jobs on this node without waiting for them: for a node that is disconnected, whether or not its agent
/// knows the controller's view. Supervisors also do so by themselves, but orphans have no supervisor.
void StopRuns(const std::string& run_directory, const Node& node) {
  const auto records = ScanRunDirectory(run_directory);
  if (!records) return;
  for (const RunRecord& record : *records) {
    const RunState state = StateOf(record);
    if (state == RunState::kWatched) static_cast<void>(SendStop(record, SIGTERM, kFenceGrace));
    if (state == RunState::kOrphaned || state == RunState::kVanished) node.errands().EndLeftovers(record);
  }
}

class Agent {
 public:
  Agent(RuntimePaths places, Flags flags)
      : places_(std::move(places)),
        flags_(std::move(flags)),
        folder_(places_.state + "/agent"),
        runs_(places_.is_machine_wide ? places_.runs : folder_ + "/runs"),
        signals_(loop_) {}

  Status Start();
  /// Returns the exit code.
  int Run();
  /// Reports an error to the process that started us.
  void Complain(const Error& error) const {
    ::dprintf(caller_ >= 0 ? caller_ : STDERR_FILENO, "divvy: %s\n", error.message.c_str());
  }

 private:
  Status WhoseNode();
  UserRight RightOf(const User& user) const;
  bool ActsAsOthers() const { return help_.errands != nullptr || ::geteuid() == 0; }
  Status OpenNode(const dialect::Config& config);
  Status OpenSession();
  void OpenLogs(Duration keep);
  Status OpenJobsListener();
  std::string UserWithJob(std::int64_t uid);
  AgentSession::Ports SessionPorts();
  void Dial();
  void Tick();
  void RenewOldKey();
  void LookAtKey();
  Status DetachLog();
  void OnRenewed(const std::string& fingerprint);
  void KeepState();
  void KeepControllers(const std::vector<std::string>& addresses);
  void UseController(const HostPort& at);
  void SayReady();
  void After(Duration delay, std::function<void()> task);
  void GiveUp(const Error& error) {
    log_.Write(LogLevel::kError, "event=give_up error=" + LogQuoted(error.message));
    if (caller_ >= 0) Complain(error);
    std::_Exit(70);
  }

  RuntimePaths places_;
  Flags flags_;
  std::string folder_;
  std::string runs_;  // The folder of run records; it belongs to the launcher if there is one.
  LauncherHelp help_;
  Log log_;
  asio::io_context loop_{1};
  asio::signal_set signals_;
  RealClock clock_;
  int lock_ = -1;
  AgentState state_;
  std::string kept_state_;          // The text of agent.state; empty before the first join.
  bool keeps_state_later_ = false;  // True while a timer is set to write the state again.
  bool has_joined_ = false;         // The agent has joined at some time, as agent.state says.
  bool was_welcome_ = false;        // True once this process has received a Welcome.
  std::string bearer_;              // The token, until the agent is admitted.
  TlsIdentity identity_;
  std::string boot_id_;
  NodeHost host_{loop_, log_, [this](const Error& error) { GiveUp(error); }};
  FindUserByName find_user_ =
      KeptUsers([this](std::string_view name) { return help_.errands ? FindAccount(name) : FindUser(name); });
  mutable std::mutex rights_mutex_;          // Needed because logs are read on another thread.
  std::string missing_key_;                  // A remedy for a missing key; empty if the key is there.
  std::map<std::string, UserRight> rights_;  // By user name, as sent by the controller during the life of this process.
  std::unique_ptr<AgentStreams> streams_;
  std::unique_ptr<AgentSession> session_;
  std::unique_ptr<AgentJobsListener> jobs_listener_;
  int caller_ = -1;  // The descriptor of the process that waits for "ready", if detached.
  int failed_dials_ = 0;
  std::optional<Error> refused_;
  std::unique_ptr<AgentLogs> logs_;
  std::unique_ptr<AgentSamples> samples_;
  std::unique_ptr<Worker> dialler_;  // Declared last, so that it ends first.
};

void Agent::After(Duration delay, std::function<void()> task) {
  auto timer =
      std::make_shared<asio::steady_timer>(loop_, std::chrono::duration_cast<asio::steady_timer::duration>(delay));
  timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
    if (!error) task();
  });
}

/// Reads at most one token line from the process that started us.
Result<std::optional<TokenLine>> ReadJoinLine(int fd) {
  if (fd < 0) return std::optional<TokenLine>();
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while (text.size() < sizeof buffer && (got = ::read(fd, buffer, sizeof buffer)) > 0)
    text.append(buffer, static_cast<std::size_t>(got));
  ::close(fd);
  DIVVY_TRY(TokenLine line, ParseTokenLine(text));
  return std::optional(std::move(line));
}

// Determines controller and node name, from the token line or from the stored state.
Status Agent::WhoseNode() {
  DIVVY_TRY(const auto line, ReadJoinLine(flags_.join_fd));
  const std::string path = folder_ + "/agent.state";
  DIVVY_TRY(const auto kept, LoadAgentState(path));
  if (kept) {
    state_ = *kept;
    kept_state_ = FormatAgentState(state_);
  }
  has_joined_ = kept.has_value();
  if (!line && !kept) {
    return FailedPrecondition(
        "this machine has not joined a controller; divvy token create --node on the controller prints the line for "
        "divvy agent --join");
  }
  if (line) {
    if (kept && kept->controller.fingerprint != line->fingerprint) {
      return FailedPrecondition("this machine is node " + kept->name + " of the controller at " +
                                ToString(kept->controller.at) +
                                "; to join another controller, end the agent's jobs and remove " + folder_ + " first");
    }
    state_.controller = {line->controller, line->fingerprint};
    state_.others = line->others;
    bearer_ = BearerOf(*line);
  }
  if (!flags_.name.empty()) {
    if (kept && kept->name != flags_.name) {
      return FailedPrecondition("this machine is node " + kept->name + "; to rename it, run divvy node remove " +
                                kept->name + " on the controller, and remove " + folder_);
    }
    state_.name = flags_.name;
  }
  if (state_.name.empty()) state_.name = HostName();
  if (!flags_.emulate.empty()) {
    // Stored as an absolute path, so that the file is found from another directory.
    char whole[PATH_MAX];
    state_.emulate = ::realpath(flags_.emulate.c_str(), whole) != nullptr ? whole : flags_.emulate;
  }
  for (const auto& [label, value] : flags_.labels) state_.labels.insert_or_assign(label, value);
  return {};
}

Status Agent::OpenNode(const dialect::Config& config) {
  const std::string emulate = state_.emulate.empty() ? config.emulate : state_.emulate;
  RuntimePaths inside = places_;
  inside.state = folder_;
  GpuWishes wishes = {emulate, config.mig, runs_, state_.name};
  if (help_.errands) wishes.emulation = places_.emulation;
  DIVVY_TRY(GpuSource gpus, OpenGpus(wishes, inside));
  NodeOptions options;
  options.run_directory = runs_;
  options.log_directory = folder_ + "/logs";
  options.log_limit = config.log_limit;
  options.slurm_directory = folder_ + "/slurm";
  options.lease = {.file = folder_ + "/lease", .boot_id = BootId(places_)};
  options.names = {HostName(), places_.home, state_.name, folder_ + "/jobs.sock"};
  options.awaits_callers = kAwaitsCallers;
  options.may_change_user = ActsAsOthers();
  options.errands = help_.errands;
  options.right_of = [this](const User& user) { return RightOf(user); };
  options.uid = ::geteuid();
  if (options.may_change_user) options.find_user = find_user_;
  options.lowest_uid = config.lowest_uid;
  options.runs_root_jobs = config.root_jobs || !places_.is_machine_wide;
  options.divvy = OwnPath();
  options.grace = config.grace;
  options.container = config.container;
  DIVVY_TRY(options.isolation, ChooseIsolation(config.isolation, gpus.gpus, !emulate.empty(), help_.ways));
  return host_.Open(std::move(options), std::move(gpus));
}

// The owner of a found run is known only by uid.
UserRight Agent::RightOf(const User& user) const {
  const std::string name = user.name.empty() ? UserName(user.uid) : user.name;
  const std::lock_guard lock(rights_mutex_);
  const auto right = rights_.find(name);
  return right == rights_.end() ? UserRight{} : right->second;
}

AgentSession::Ports Agent::SessionPorts() {
  AgentSession::Ports ports;
  ports.now = [this] { return clock_.Now(); };
  ports.since_boot = SinceBoot;
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.log = [this](const std::string& line) { log_.Write(LogLevel::kInfo, line); };
  ports.dial = [this] { Dial(); };
  ports.node = &host_.shares();
  ports.set_gang_key = [this](JobId job, std::uint32_t attempt, std::string key) {
    host_.node().SetGangKey(job, attempt, std::move(key));
  };
  ports.learn_right = [this](const User& user, const std::string& right) {
    const std::lock_guard lock(rights_mutex_);
    rights_.insert_or_assign(user.name, ReadRight(right));
  };
  ports.adopt_runs = [this](bool was_rebooted) {
    auto adopted = host_.AdoptRuns(was_rebooted);
    host_.LookAtEnds();
    return adopted;
  };
  ports.reconcile = [this] { host_.Reconcile(); };
  ports.look = [this](GpuSet which) {
    host_.LookAtGpus(which & host_.AllGpus(),
                     [this](const std::vector<GpuObservation>& seen) { session_->OnGpusObserved(seen); });
  };
  ports.withhold = [this](const std::vector<wire::WithheldGpu>& gpus) { host_.Withhold(gpus); };
  ports.answer = [this](const wire::AgentQuestion& question, AgentSession::Ports::Told told) {
    if (question.share_action.empty()) return logs_->Answer(question, std::move(told));
    host_.shares().Act(question.record.id, question.share_action, question.share_to,
                       [told = std::move(told)](const Status& done) {
                         wire::AgentAnswer answer;
                         answer.is_share_done = done.has_value();
                         if (!done) answer.share_error = done.error().message;
                         told(std::move(answer), "");
                       });
  };
  ports.on_channel = [this](std::uint64_t number, std::string_view purpose) {
    streams_->OnChannel(*session_->channels(), number, purpose);
  };
  ports.on_disconnected = [this] {
    if (jobs_listener_) jobs_listener_->CutAll();
  };
  ports.stop_all = [this] { StopRuns(runs_, host_.node()); };
  ports.keep_epoch = [this](std::uint64_t epoch) {
    state_.epoch = epoch;
    KeepState();
  };
  ports.keep_controllers = [this](const std::vector<std::string>& addresses) { KeepControllers(addresses); };
  // For the supervisors of this node's jobs, and for the next agent; a power cut may lose it.
  ports.keep_lease = [this, file = LeaseFile(folder_ + "/lease"), was_kept = true](const Lease& lease) mutable {
    const Status kept = file.Keep(lease.ToText(boot_id_));
    if (!kept && was_kept)
      log_.Write(LogLevel::kWarning, "event=lease_not_kept error=" + LogQuoted(kept.error().message));
    was_kept = kept.has_value();
  };
  ports.on_welcome = [this] {
    has_joined_ = true;
    // From now on the agent knows which jobs still run on this node, and keeps their logs.
    if (!std::exchange(was_welcome_, true)) logs_->RemoveOldLogs();
    bearer_.clear();
    KeepState();
    SayReady();
    RenewOldKey();
  };
  ports.on_refused = [this](const Error& error, bool is_final) {
    // An agent that was admitted before keeps trying; a new one reports to the process that started it.
    if (was_welcome_ || !is_final) return;
    refused_ = error;
    loop_.stop();
  };
  // The controller knows no runs of this node, and every further attempt would be refused.
  ports.on_removed = [this](const Error& error) {
    refused_ = error;
    log_.Write(LogLevel::kInfo, "event=removed");
    loop_.stop();
  };
  ports.on_renewed = [this](const std::string& fingerprint) { OnRenewed(fingerprint); };
  return ports;
}

Status Agent::OpenSession() {
  AgentSession::Start start;
  start.name = state_.name;
  DIVVY_TRY(start.session, RandomHex(kSessionBytes));
  start.newest_epoch = state_.epoch;
  start.seed = RandomSeed();
  start.logs = folder_ + "/logs";
  start.has_standbys = !state_.others.empty();
  if (flags_.is_on_demand) start.failure_hold = kOnDemandFailureHold;
  start.facts = LearnMachine(host_.gpus(), places_);
  for (const auto& [label, value] : state_.labels) start.facts.labels.insert_or_assign(label, value);
  boot_id_ = start.facts.boot_id;
  if (const auto text = ReadWhole(folder_ + "/lease")) start.lease = Lease::FromText(*text, boot_id_);
  streams_ = std::make_unique<AgentStreams>(loop_, host_.node());
  session_ = std::make_unique<AgentSession>(std::move(start), SessionPorts());
  host_.Join(*session_);
  return {};
}

Status Agent::OpenJobsListener() {
  AgentJobsListener::Ports ports;
  ports.channels = [this]() -> Channels* { return session_->is_welcome() ? session_->channels() : nullptr; };
  ports.user_name = [this](std::int64_t uid) { return UserWithJob(uid); };
  DIVVY_TRY(jobs_listener_, AgentJobsListener::Open(loop_, folder_ + "/jobs.sock",
                                                    places_.is_machine_wide ? 0666 : 0600, std::move(ports)));
  return {};
}

// An agent of a single user runs all jobs as that user. Only if all jobs belong to one user is it clear who the client
// is.
std::string Agent::UserWithJob(std::int64_t uid) {
  if (!ActsAsOthers() && uid != ::geteuid()) return "";
  std::string name;
  for (const JobId job : session_->ActiveRuns()) {
    const User& user = session_->Find(job)->user;
    // Compares the uid of the launched processes. Looking up the account may be slow, and this runs on the loop.
    if (ActsAsOthers() && host_.node().uid_of(job) != uid) continue;
    if (!name.empty() && user.name != name) return "";
    name = user.name;
  }
  return name;
}

void Agent::OpenLogs(Duration keep) {
  AgentLogs::Ports ports;
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.alive = [this] {
    std::set<JobId> alive;
    for (const JobId job : session_->ActiveRuns()) alive.insert(job);
    return alive;
  };
  logs_ = std::make_unique<AgentLogs>(host_.node(), clock_, log_, folder_ + "/logs", keep, std::move(ports));
}

Status Agent::Start() {
  RaiseFileLimit();
  ::umask(022);
  DIVVY_TRY(const dialect::Config config, LoadConfig(places_));
  log_.SetLevel(LogLevelFromName(config.log_level));
  DIVVY_CHECK(MakeDirectory(folder_, places_.is_machine_wide ? 0711 : 0700));
  DIVVY_CHECK(MakeDirectory(folder_ + "/logs", 0711));
  DIVVY_TRY(lock_, LockFile(folder_ + "/agent.lock", "agent"));
  DIVVY_CHECK(ForbidBeside(places_.state + "/daemon.lock", "daemon"));
  if (flags_.is_detached) DIVVY_CHECK(DetachLog());
  DIVVY_CHECK(WhoseNode());
  DIVVY_TRY(help_, ReachLauncher(places_, "agent"));
  DIVVY_TRY(identity_, LoadTlsIdentity(folder_ + "/identity.pem", "divvy agent", clock_.Now()));
  DIVVY_CHECK(OpenNode(config));
  DIVVY_CHECK(OpenSession());
  OpenLogs(config.keep_logs);
  DIVVY_CHECK(OpenJobsListener());
  dialler_ = std::make_unique<Worker>();
  host_.Run(config.poll, [this](const std::vector<GpuObservation>& seen) { session_->Glance(seen); });
  if (config.takes_samples) {
    samples_ =
        std::make_unique<AgentSamples>([this](const std::string& bytes) { return session_->SendSamples(bytes); });
    host_.Sample({state_.name, config.sample_every},
                 [this](samples::Snapshot seen) { samples_->Add(std::move(seen), session_->is_watched()); });
  }
  host_.WatchDisks({runs_, folder_ + "/logs"}, [this](const std::string& what) {
    log_.Write(LogLevel::kWarning, what.empty() ? "event=trouble_over" : "event=trouble what=" + LogQuoted(what));
    session_->SetTrouble(what.empty() ? missing_key_ : what);
  });
  if (help_.errands && ::access(places_.controllers_key.c_str(), F_OK) != 0) {
    missing_key_ =
        "its launcher does not have the key of the controller's launcher; as root there: divvy agent --stop, then "
        "divvy agent "
        "--join with a new token";
    log_.Write(LogLevel::kWarning, "event=trouble what=" + LogQuoted(missing_key_));
    session_->SetTrouble(missing_key_);
  }
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) loop_.stop();
  });
  session_->Begin();
  Tick();
  LookAtKey();
  return {};
}

// With several controllers, the one that led last comes last: it is the most likely to be gone.
void Agent::Dial() {
  std::vector<ControllerAddress> addresses;
  for (const HostPort& other : state_.others) addresses.push_back({other, state_.controller.fingerprint});
  addresses.push_back(state_.controller);
  dialler_->Do([this, addresses = std::move(addresses), identity = identity_, bearer = bearer_] {
    auto dialled = std::make_shared<Result<Dialled>>(Unreachable(""));
    for (const ControllerAddress& controller : addresses) {
      auto next = DialController(controller, identity, bearer, addresses.size() > 1 ? kSearchPatience : DialPatience());
      // A refusal says more than silence. But the address may belong to another program by now, so the search goes on.
      const bool says_more = !next && next.error().code != ErrorCode::kUnreachable;
      if (next || says_more || dialled->error().code == ErrorCode::kUnreachable) *dialled = std::move(next);
      if (*dialled) break;
    }
    asio::post(loop_, [this, dialled] {
      if (*dialled) {
        UseController((*dialled)->at);
        return session_->OnDialled(MakeStream(loop_, std::move(**dialled)));
      }
      const Error error = dialled->error();
      const bool is_final = error.code == ErrorCode::kPermissionDenied || error.code == ErrorCode::kFailedPrecondition;
      session_->OnDialFailed(error, is_final);
      if (has_joined_ && !is_final) return SayReady();  // The agent keeps trying.
      // A user who waits for a first join gets the error, rather than no answer.
      if (caller_ < 0 || is_final || ++failed_dials_ < kFirstDials) return;
      refused_ = Error{error.code, error.message + "; nothing was joined, and no agent runs"};
      loop_.stop();
    });
  });
}

// Stored with the next Welcome.
void Agent::UseController(const HostPort& at) {
  if (at == state_.controller.at) return;
  std::erase(state_.others, at);
  state_.others.push_back(std::exchange(state_.controller.at, at));
}

// A list without this controller's own address is kept beside it: the address may be that of a proxy.
void Agent::KeepControllers(const std::vector<std::string>& addresses) {
  std::vector<HostPort> others;
  for (const std::string& address : addresses) {
    auto at = ParseHostPort(address);
    if (at && *at != state_.controller.at) others.push_back(*std::move(at));
  }
  if (others == state_.others) return;
  state_.others = std::move(others);
  KeepState();
}

void Agent::Tick() {
  session_->Tick();
  After(kTickEvery, [this] { Tick(); });
}

// A full disk must not end an agent that has joined: its jobs would be stopped with its lease. Until the state can be
// written, only this process knows the newest controller.
void Agent::KeepState() {
  const std::string text = FormatAgentState(state_);
  if (text == kept_state_) return;
  const Status kept = ReplaceFile(folder_ + "/agent.state", text);
  if (kept) {
    kept_state_ = text;
    return;
  }
  if (kept_state_.empty()) GiveUp(kept.error());
  if (std::exchange(keeps_state_later_, true)) return;
  log_.Write(LogLevel::kWarning, "event=state_not_kept error=" + LogQuoted(kept.error().message));
  After(kKeepStateAgain, [this] {
    keeps_state_later_ = false;
    KeepState();
  });
}

// Standard error belongs to the command that waits for the start until SayReady.
Status Agent::DetachLog() {
  const std::string path = folder_ + "/agent.log";
  const int log = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return FailedPrecondition("cannot open " + path);
  caller_ = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
  return {};
}

void Agent::SayReady() {
  if (caller_ < 0) return;
  static_cast<void>(!::write(caller_, "ready\n", 6));
  ::close(std::exchange(caller_, -1));
  // So that the directory in which it was started can be unmounted.
  static_cast<void>(!::chdir("/"));
}

// Replaces an old key: tells the controller the next key's fingerprint over the connection that the old key has
// authenticated. The controller accepts both until the next key has been used.
void Agent::RenewOldKey() {
  struct stat status {};
  const std::string next = folder_ + "/identity.next.pem";
  const bool is_old = ::stat((folder_ + "/identity.pem").c_str(), &status) == 0 &&
                      ::time(nullptr) - status.st_mtime > kRenewAfterSeconds;
  if (!is_old && ::access(next.c_str(), F_OK) != 0) return;
  const auto identity = LoadTlsIdentity(next, "divvy agent", clock_.Now());
  if (identity) return session_->Renew(identity->fingerprint);
  log_.Write(LogLevel::kWarning, "event=no_new_key error=" + LogQuoted(identity.error().message));
}

void Agent::LookAtKey() {
  After(kLookAtKeyEvery, [this] {
    if (session_->is_welcome()) RenewOldKey();
    LookAtKey();
  });
}

void Agent::OnRenewed(const std::string& fingerprint) {
  const std::string next = folder_ + "/identity.next.pem", path = folder_ + "/identity.pem";
  const auto identity = LoadTlsIdentity(next, "divvy agent", clock_.Now());
  if (!identity || identity->fingerprint != fingerprint || ::rename(next.c_str(), path.c_str()) != 0) return;
  identity_ = *identity;
  log_.Write(LogLevel::kInfo, "event=key_renewed fingerprint=" + fingerprint);
}

int Agent::Run() {
  log_.Write(LogLevel::kInfo, "event=agent_up node=" + state_.name + " pid=" + std::to_string(::getpid()) +
                                  " controller=" + LogQuoted(ToString(state_.controller.at)));
  loop_.run();
  dialler_.reset();
  host_.Stop();
  if (refused_) {
    Complain(*refused_);
    return 1;
  }
  log_.Write(LogLevel::kInfo, "event=agent_down");
  return 0;
}

Result<Flags> ReadFlags(const std::vector<std::string>& words) {
  Flags flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (words[i] == "--detached") {
      flags.is_detached = true;
    } else if (words[i] == "--on-demand") {
      flags.is_on_demand = true;
    } else if (words[i] == "--emulate" && has_value) {
      flags.emulate = words[++i];
    } else if (words[i] == "--name" && has_value) {
      flags.name = words[++i];
    } else if (words[i] == "--label" && has_value) {
      const std::string& label = words[++i];
      const std::size_t equals = label.find('=');
      if (equals == std::string::npos || equals == 0)
        return InvalidArgument("--label " + label + ": a label must have the form NAME=VALUE");
      flags.labels.insert_or_assign(label.substr(0, equals), label.substr(equals + 1));
    } else if (words[i] == "--join-fd" && has_value) {
      const auto fd = ParseInteger(words[++i]);
      if (!fd || *fd < 0) return InvalidArgument("--join-fd takes a descriptor");
      flags.join_fd = static_cast<int>(*fd);
    } else {
      return InvalidArgument("unknown agent option '" + words[i] + "'");
    }
  }
  return flags;
}

}  // namespace

int AgentMain(const std::vector<std::string>& words) {
  SetServiceSignals();
  const auto flags = ReadFlags(words);
  if (!flags) {
    std::fprintf(stderr, "divvy: %s\n", flags.error().message.c_str());
    return 2;
  }
  Agent agent(FindPlaces(), *flags);
  if (const Status started = agent.Start(); !started) {
    agent.Complain(started.error());
    return 1;
  }
  return agent.Run();
}

}  // namespace divvy
