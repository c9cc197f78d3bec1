#include "daemon/daemon.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include "base/text.h"
#include "control/controller/controller.h"
#include "daemon/api/call/ui_auth.h"
#include "daemon/api/remote_listener.h"
#include "daemon/api/routes.h"
#include "daemon/auth/accounts.h"
#include "daemon/auth/user_right_cache.h"
#include "daemon/daemon_flags.h"
#include "daemon/fleet/agent_listener.h"
#include "daemon/fleet/fleet.h"
#include "daemon/fleet/local_controller.h"
#include "daemon/fleet/machine_events.h"
#include "daemon/fleet/remote_streams.h"
#include "daemon/leadership/follow_thread.h"
#include "daemon/leadership/leader_answers.h"
#include "daemon/leadership/lease_thread.h"
#include "daemon/leadership/standby.h"
#include "daemon/node/machine.h"
#include "daemon/node/node_host.h"
#include "daemon/node/run_journal.h"
#include "daemon/notify/notify_host.h"
#include "daemon/providers/provider_host.h"
#include "daemon/requests/submission_keys.h"
#include "daemon/runtime/counters.h"
#include "daemon/runtime/fair_workers.h"
#include "daemon/runtime/log.h"
#include "daemon/runtime/worker.h"
#include "daemon/services/service_host.h"
#include "daemon/standby_reads.h"
#include "daemon/storage/committer.h"
#include "daemon/storage/housekeeping.h"
#include "daemon/storage/open_store.h"
#include "daemon/telemetry/metric_store.h"
#include "daemon/telemetry/sweep_reports.h"
#include "daemon/views/cluster_sample.h"
#include "daemon/waste/waste_actor.h"
#include "daemon/waste/waste_tracker.h"
#include "dialect/config/config.h"
#include "driver/controller_driver.h"
#include "platform/gpu/gpu_process.h"
#include "platform/net/tcp.h"
#include "platform/os/clock.h"
#include "platform/os/kept_descriptor.h"
#include "platform/os/runtime_paths.h"
#include "platform/supervisor/launcher_service.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/users/user_identity.h"
#include "store/store.h"
#include "version.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

/// How long a controller that runs alone waits for the lease of one that has just ended.
constexpr Duration kAwaitsLease = std::chrono::seconds(5);
constexpr Duration kBetweenConnects = std::chrono::milliseconds(500);
/// With several controllers, an agent notices within seconds that this one hangs.
constexpr Duration kHeartbeatWithStandbys = std::chrono::seconds(2);
constexpr std::string_view kBootKey = "node.boot_id";
constexpr std::string_view kPageListener = "page";
constexpr std::string_view kLatestKey = "clock.latest";  // Nanoseconds since 1970, as of the last start or stop.
/// The number of ended jobs that are read at the start to learn run times.
constexpr std::uint64_t kRunsLearnt = 2'000;

Duration SinceBoot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

std::optional<IgnoredProcess> LookUpProcess(std::int64_t pid) {
  const auto stat = ReadGpuProcessStat(pid);
  if (!stat) return std::nullopt;
  IgnoredProcess process;
  process.identity = {pid, stat->start_ticks};
  struct stat status {};
  const std::string directory = "/proc/" + std::to_string(pid);
  if (::stat(directory.c_str(), &status) == 0) process.user = UserName(status.st_uid);
  if (const auto comm = ReadWhole(directory + "/comm")) process.command = Trim(*comm);
  return process;
}

bool IsUserInGroup(const User& user, const std::string& group) {
  return IsInGroup(static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid), group);
}

class Daemon {
 public:
  Daemon(RuntimePaths places, DaemonFlags flags)
      : places_(std::move(places)), flags_(std::move(flags)), signals_(loop_) {}

  /// Reads the configuration and takes the state folder. With several controllers, also joins them.
  Status Prepare();
  bool has_standbys() const { return config_.has_standbys; }
  /// Serves as a standby until this controller leads; false: the process is to end. Calls `is_ready` once it serves.
  Result<bool> StandBy(const std::function<void()>& is_ready);
  Status Start();
  void Run() {
    log_.Write(LogLevel::kInfo, "event=up pid=" + std::to_string(::getpid()) + " home=" + LogQuoted(places_.state));
    loop_.run();
  }
  /// Gives the lease back, so that another controller can take it at once.
  void GiveLeaseBack() {
    lease_thread_.reset();
    if (keeper_) keeper_->Release();
  }
  /// Leaves the lease to the others, and starts again as a standby.
  [[noreturn]] void BecomeStandby(const Error& why) {
    log_.Write(LogLevel::kError, "event=starts_again reason=" + LogQuoted(why.message));
    GiveLeaseBack();
    StartAgain();
  }
  /// Stops the daemon after everything acknowledged is committed. Jobs continue under their supervisors.
  void Close();

 private:
  Status JoinControllers();
  /// Until the loop runs, standard error belongs to the command that waits for the start. Any thread.
  void LogLater(const std::string& line) {
    asio::post(loop_, [this, line] { log_.Write(LogLevel::kInfo, line); });
  }
  Status TakeLease();
  /// Starts this program again in this process: no state of a controller that no longer leads is left. Any thread.
  [[noreturn]] void StartAgain();
  /// Returns the address at which other machines reach this controller.
  HostPort OwnAddress() const;
  Status CheckHasNoOwnJobs(const std::map<JobId, JobRecord>& live) const;
  /// Returns a new Controller object with the settings of the configuration and without jobs. Any thread.
  Result<std::unique_ptr<Controller>> MakeController() const;
  /// The present state in the database, for reads while this controller stands by. Any thread.
  Result<std::shared_ptr<StateCopy>> CopyState(FollowThread& follow);
  Status Recover();
  void LogTakeOver();
  std::string LatestText() const { return std::to_string(clock_.Latest().time_since_epoch().count()); }
  void KeepJournal(const std::function<Status(RunJournal&)>& write);
  Status ReplayJournal();
  void JoinFleet();
  // With several controllers, no node has this name: their own machines run jobs only through agents.
  std::string OwnName() const { return has_standbys() ? "(controllers)" : HostName(); }
  /// Returns true if jobs run as their submitters: the daemon is root, or has a launcher.
  bool ActsAsOthers() const { return errands_ != nullptr || ::geteuid() == 0; }
  std::optional<User> FindUserHere(std::string_view name) const {
    return FindUserOf(errands_ != nullptr || places_.is_machine_wide, name);
  }
  // A daemon of one user runs that user's jobs, even root's.
  bool RunsRootJobs() const { return config_.root_jobs || !places_.is_machine_wide; }
  Status ApplyRestriction();
  About MakeAbout();
  Admins MakeAdmins() const;
  Result<ApiPorts> RoutePorts();
  std::shared_ptr<ServiceHost> MakeServices();
  Status Serve();
  Status ListenForOthers();
  std::shared_ptr<UiAuth> MakeUiAuth(std::shared_ptr<Audit> audit);
  void KeepHouse();
  void OpenProviders();
  void TakeSamples();
  void LogChanges();
  ControllerDriver::Ports DriverPorts();
  void After(Duration delay, std::function<void()> task);
  void GiveUp(const Error& error);

  RuntimePaths places_;
  DaemonFlags flags_;
  dialect::Config config_;
  Log log_;
  asio::io_context loop_{1};
  asio::signal_set signals_;
  RealClock clock_;
  int lock_ = -1;
  std::optional<HostPort> listen_;  // The address for other machines; nullopt: none.
  ControllerSelf self_;
  std::shared_ptr<LeaseKeeper> keeper_;  // Null for a store without a lease.
  bool is_elected_ = false;
  std::int64_t elected_epoch_ = 0;  // Of this process's time as leader. Stays when the lease is lost.
  Duration elected_at_{0};          // When it took the lease, since the machine's boot.
  std::atomic<bool> is_closing_ = false;
  std::shared_ptr<FollowedJobs> followed_;  // As read while this controller stood by.
  std::string cluster_secret_;              // With several controllers: their common identity.pem.
  // The launcher's services on a served machine; null for a daemon of a single user.
  std::shared_ptr<RootErrands> errands_;
  UserRightCache rights_;
  std::unique_ptr<Store> store_;
  std::optional<RunJournal> journal_;
  bool is_journal_broken_ = false;  // The failure was logged.
  std::unique_ptr<Controller> controller_;
  NodeHost host_{loop_, log_, [this](const Error& error) { GiveUp(error); }};
  std::shared_ptr<SharingSnapshot> share_board_ = std::make_shared<SharingSnapshot>();
  std::unique_ptr<Fleet> fleet_;
  std::unique_ptr<ControllerDriver> driver_;
  std::unique_ptr<LocalController> controller_port_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::shared_ptr<ProviderHost> providers_;
  std::shared_ptr<SubmissionKeys> submission_keys_ = std::make_shared<SubmissionKeys>();
  TokenRegistry tokens_;
  UiSessions ui_sessions_;
  // Taken before any other process is started, which would inherit it.
  Descriptor kept_page_listener_ = TakeKeptDescriptor(kPageListener);
  std::shared_ptr<AgentListener> agent_listener_ = std::make_shared<AgentListener>();
  std::shared_ptr<RemoteAccess> remote_;
  std::shared_ptr<UiAuth> ui_;
  std::shared_ptr<RemoteStreams> remote_streams_;
  std::shared_ptr<MetricStore> samples_;  // Null: no samples are taken.
  std::unique_ptr<SweepReports> sweep_reports_;
  ClusterSampler cluster_sampler_;
  MachineEvents machine_events_;
  std::shared_ptr<WasteTracker> waste_;                          // Null: waste is not watched.
  std::vector<std::pair<std::string, std::string>> waste_rows_;  // Rows loaded for waste_.
  std::shared_ptr<Notifier> notifier_;
  std::shared_ptr<ServiceHost> services_;
  std::vector<std::pair<std::string, std::string>> service_rows_;  // Rows loaded for services_.
  std::unique_ptr<WasteActor> waste_actor_;                        // Set if waste_ is.
  std::unique_ptr<HttpServer> server_;
  bool was_rebooted_ = false;
  // Declared last, so that they end first: their tasks use the store and the probe.
  std::unique_ptr<Worker> writer_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<FairWorkers> readers_;
  std::unique_ptr<LeaseThread> lease_thread_;
  std::jthread ended_reads_;  // Waits for the end of reads from the time when this controller stood by.
};

void Daemon::After(Duration delay, std::function<void()> task) {
  auto timer =
      std::make_shared<asio::steady_timer>(loop_, std::chrono::duration_cast<asio::steady_timer::duration>(delay));
  timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
    if (!error) task();
  });
}

void Daemon::GiveUp(const Error& error) {
  // The daemon recovers by a restart from the store, so this must not look like a clean exit.
  log_.Write(LogLevel::kError, "event=give_up error=" + LogQuoted(error.message));
  if (has_standbys()) StartAgain();
  std::_Exit(70);
}

ControllerDriver::Ports Daemon::DriverPorts() {
  ControllerDriver::Ports ports;
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
    std::uint64_t next_id = 0;
    for (const Batch& batch : batches) next_id = std::max(next_id, batch.next_id.value_or(0));
    KeepJournal([&](RunJournal& journal) { return journal.ReserveIds(next_id); });
    committer_->Commit(std::move(batches), std::move(done));
  };
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.give_up = [this](const Error& error) { GiveUp(error); };
  if (has_standbys()) ports.may_act = [this] { return keeper_->may_act(); };
  ports.on_trouble = [this](const std::string& trouble) {
    if (trouble.empty()) return log_.Write(LogLevel::kInfo, "event=takes_work_again");
    log_.Write(LogLevel::kWarning, "event=takes_no_work error=" + LogQuoted(trouble));
  };
  ports.complete = [this](Effects& effects) { notifier_->Complete(effects); };
  ports.on_durable = [this](const Effects& effects) {
    KeepJournal([&](RunJournal& journal) { return journal.Write(effects); });
    notifier_->Carried(effects);
    if (waste_actor_) waste_actor_->OnDurable(effects);
  };
  return ports;
}

// With several controllers, the store is replicated, and this journal would miss what the others did.
void Daemon::KeepJournal(const std::function<Status(RunJournal&)>& write) {
  if (has_standbys()) return;
  const Status kept = write(*journal_);
  if (is_journal_broken_ == !kept) return;
  is_journal_broken_ = !kept;
  log_.Write(LogLevel::kWarning,
             kept ? "event=journal_kept_again" : "event=journal_not_kept error=" + LogQuoted(kept.error().message));
}

// The journal holds the runs that an emptied or restored store does not know.
Status Daemon::ReplayJournal() {
  if (has_standbys()) return {};
  const auto wants = [this](JobId job, std::uint32_t attempt) { return controller_->MayReplay(job, attempt); };
  DIVVY_TRY(const RunJournal::Kept kept,
            journal_->Read(wants, [this](const RunDescription& run) { controller_->Replay(run, clock_.Now()); }));
  controller_->ReserveIds(kept.next_id);
  agent_listener_->ReserveEpochs(kept.epoch);
  return {};
}

Result<std::unique_ptr<Controller>> Daemon::MakeController() const {
  Limits limits;
  limits.max_queued = config_.max_queued;
  limits.max_queued_of_user = config_.max_queued_of_user;
  limits.users_may_raise = config_.users_may_raise;
  limits.max_time_limit = config_.max_time_limit;
  limits.default_time_limit = config_.default_time_limit;
  limits.ignore_unmanaged_below = config_.ignore_unmanaged_below;
  auto controller = std::make_unique<Controller>(config_.policy, limits, RandomSeed());
  if (const Status teams = controller->UseTeamsFile(config_.teams); !teams)
    return InvalidArgument(places_.config + ": " + teams.error().message);
  if (const Status pools = controller->UsePools(config_.pools); !pools)
    return InvalidArgument(places_.config + ": " + pools.error().message);
  controller->SetOffers(providers::OfferedNodes(config_.providers, config_.pools));
  return controller;
}

Result<std::shared_ptr<StateCopy>> Daemon::CopyState(FollowThread& follow) {
  auto copy = std::make_shared<StateCopy>();
  auto followed = follow.Copy();
  if (!followed) return Unreachable("this controller no longer stands by");
  DIVVY_TRY(copy->store, OpenReadStore(config_.store_url, places_, std::move(followed)));
  DIVVY_TRY(Store::Loaded loaded, copy->store->Load());
  for (const auto& [key, text] : loaded.settings) {
    if (const auto latest = key == kLatestKey ? ParseInteger(text) : std::nullopt)
      copy->clock.StartNotBefore(Time(Duration(*latest)));
    copy->tokens.LoadSetting(key, text);
    copy->nodes->LoadSetting(key, text);
  }
  DIVVY_TRY(copy->controller, MakeController());
  copy->controller->SetCapacity({});
  copy->nodes->SetOwn(OwnName(), {});
  copy->controller->SetOwnName(OwnName());
  for (const auto& [name, row] : copy->nodes->registry().nodes()) copy->controller->OnNodeRow(row);
  ControllerDriver::Ports driver;
  driver.post = [](const std::function<void()>&) {};  // It never decides.
  driver.commit = [](const std::vector<Batch>&, const std::function<void(Status)>&) {};
  driver.after = [](Duration, const std::function<void()>&) {};
  driver.give_up = [](const Error&) {};
  driver.may_act = [] { return false; };
  copy->driver = std::make_unique<ControllerDriver>(*copy->controller, *copy->store, copy->clock, copy->node, driver);
  copy->controller->Load(std::move(loaded.live), loaded.settings, loaded.next_id, loaded.jobs_total,
                         copy->driver->Outcomes());
  // Which nodes are connected is not stored. For the reasons why jobs wait, all of them count.
  for (const auto& [name, row] : copy->nodes->registry().nodes()) copy->controller->OnNodeReconciled(name);
  copy->controller->OnNodeTrouble("", "one of several controllers, which run no jobs themselves");
  const auto find_user = [this](std::string_view name) { return FindUserHere(name); };
  copy->remote = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(copy->tokens, find_user), OwnAddress(), ""});
  ApiPorts ports;
  ports.takes_root_jobs = RunsRootJobs();
  ports.hides_others_jobs = config_.hides_others_jobs;
  ports.user_name = UserName;
  ports.is_in_group = IsUserInGroup;
  ports.find_user = KeptUsers(find_user);
  ports.read = [](std::int64_t, const std::function<std::function<void()>()>& work) { work()(); };
  ports.remote = copy->remote;
  ports.agents = copy->nodes;
  copy->routes =
      std::make_unique<Routes>(*copy->driver, copy->node, About{.since = copy->clock.Now()}, MakeAdmins(), ports);
  return copy;
}

Status Daemon::Recover() {
  DIVVY_TRY(Store::Loaded loaded, store_->Load());
  if (has_standbys()) DIVVY_CHECK(CheckHasNoOwnJobs(loaded.live));
  notifier_ = MakeNotifier(
      config_, places_,
      {loop_, log_, [this](Duration delay, std::function<void()> task) { After(delay, task); }, listen_.has_value(),
       RunsRootJobs(), errands_, [this](const User& user) { return rights_.Of(user); }});
  providers_ = std::make_shared<ProviderHost>(config_.providers);
  std::string boot_before;
  for (const auto& [key, value] : loaded.settings) {
    if (key == kBootKey) boot_before = value;
    if (const auto latest = key == kLatestKey ? ParseInteger(value) : std::nullopt)
      clock_.StartNotBefore(Time(Duration(*latest)));
    if (notifier_->LoadSetting(key, value) || submission_keys_->LoadSetting(key, value)) continue;
    if (key.starts_with(WasteTracker::kRow)) waste_rows_.emplace_back(key, value);
    if (key.starts_with(ServiceHost::kRow)) service_rows_.emplace_back(key, value);
    if (providers_->LoadSetting(key, value)) continue;
    rights_.LoadSetting(key, value);
    tokens_.LoadSetting(key, value);
    ui_sessions_.LoadSetting(key, value);
    agent_listener_->LoadSetting(key, value);
  }
  const std::string boot = BootId(places_);
  was_rebooted_ = !boot_before.empty() && boot_before != boot;

  DIVVY_TRY(controller_, MakeController());
  NodeCapacity capacity;
  if (!has_standbys()) {
    const MachineFacts machine = LearnMachine(host_.gpus(), places_);
    capacity = {machine.gpus, machine.cpus, machine.memory};
  }
  controller_->SetCapacity(std::move(capacity));
  agent_listener_->SetOwn(OwnName(), host_.gpus().gpus);
  controller_->SetOwnName(OwnName());
  controller_->SetOwnGpuSource(host_.gpus().text);
  for (const auto& [name, row] : agent_listener_->registry().nodes()) controller_->OnNodeRow(row);
  DIVVY_TRY(std::string key_seed, RandomHex(32));
  fleet_ = std::make_unique<Fleet>(host_.shares(), std::move(key_seed));
  driver_ = std::make_unique<ControllerDriver>(*controller_, *store_, clock_, *fleet_, DriverPorts());
  JoinFleet();
  controller_port_ = std::make_unique<LocalController>(*driver_, share_board_);
  host_.Join(*controller_port_);
  HistoryFilter recent;
  recent.states = {JobState::kSucceeded, JobState::kFailed, JobState::kTimedOut, JobState::kCancelled};
  recent.limit = kRunsLearnt;
  DIVVY_TRY(std::vector<JobRecord> finished, store_->History(recent));
  std::ranges::reverse(finished);
  controller_->LearnRunTimes(finished);
  notifier_->Join(*driver_);
  controller_->Load(std::move(loaded.live), loaded.settings, loaded.next_id, loaded.jobs_total, driver_->Outcomes());
  notifier_->OnLoaded();
  DIVVY_CHECK(ReplayJournal());
  // Observes the GPUs before any are allocated.
  controller_->OnGpusObserved(host_.LookNow());
  DIVVY_CHECK(host_.AdoptRuns(was_rebooted_));
  host_.LookAtEnds();
  controller_->OnGpusObserved(host_.LookNow());
  if (has_standbys()) controller_->OnNodeTrouble("", "one of several controllers, which run no jobs themselves");
  // Stored together with the effects of the reboot on jobs: if the daemon is killed before that is durable, it must
  // detect the reboot again.
  if (boot != boot_before) controller_->KeepSetting(kBootKey, boot);
  controller_->KeepSetting(kLatestKey, LatestText());
  DIVVY_CHECK(ApplyRestriction());
  driver_->Touch();
  return {};
}

void Daemon::LogTakeOver() {
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(SinceBoot() - elected_at_);
  log_.Write(LogLevel::kInfo, "event=decides jobs=" + std::to_string(controller_->live().size()) +
                                  " ms_after_lease=" + std::to_string(took.count()));
}

// Commands that need an agent's answer are given once the loop runs.
void Daemon::JoinFleet() {
  fleet_->Join(*driver_);
  Fleet::Ports ports;
  ports.find = [this](const std::string& node) -> NodeCommandPort* {
    Agents* agents = agent_listener_->agents();
    return agents == nullptr ? nullptr : agents->Find(node);
  };
  ports.address = [this](const std::string& node) {
    Agents* agents = agent_listener_->agents();
    return agents == nullptr ? std::string() : agents->AddressOf(node);
  };
  ports.on_presence = [this](const std::string& node, bool is_there) {
    is_there ? remote_streams_->OnBack(node) : remote_streams_->OnAway(node);
  };
  ports.set_own_key = [this](JobId job, std::uint32_t attempt, std::string key) {
    host_.node().SetGangKey(job, attempt, std::move(key));
  };
  ports.own_name = OwnName();
  ports.before_own = [this](JobId job) {
    if (remote_streams_) remote_streams_->Drop(job);
  };
  ports.shares = share_board_;
  ports.withhold = [this](const std::string& node, const std::vector<wire::WithheldGpu>& gpus) {
    if (node.empty()) {
      host_.Withhold(gpus);
      return true;
    }
    Agents* agents = agent_listener_->agents();
    RemoteNode* remote = agents == nullptr ? nullptr : agents->Find(node);
    return remote != nullptr && remote->Withhold(gpus);
  };
  fleet_->SetPorts(std::move(ports));
}

// The command line has priority over the file, and both over earlier settings at run time.
Status Daemon::ApplyRestriction() {
  std::optional<GpuSet> allowed = config_.use;
  if (!flags_.gpus.empty()) {
    DIVVY_TRY(const IndexRanges ranges, IndexRanges::Parse(flags_.gpus, "--gpus"));
    if (ranges.back() >= GpuSet::kCapacity)
      return InvalidArgument("--gpus '" + flags_.gpus + "': there is no GPU " + std::to_string(ranges.back()));
    allowed.emplace();
    for (const auto& range : ranges.ranges()) {
      for (std::uint32_t gpu = range.first; gpu <= range.last; ++gpu) allowed->Insert(static_cast<GpuIndex>(gpu));
    }
  }
  if (!allowed) return {};
  Caller self;
  self.is_admin = true;
  DIVVY_TRY(const GpuSet set, controller_->Restrict(allowed, self));
  static_cast<void>(set);
  return {};
}

void Daemon::KeepHouse() {
  Housekeeping::Keep keep;
  keep.finished = config_.keep_finished;
  keep.logs = config_.keep_logs;
  keep.log_directory = places_.logs;
  Housekeeping::Ports ports;
  ports.write = [this](std::function<void()> task) { committer_->Do(std::move(task)); };
  ports.read = [this](std::function<void()> task) { readers_->Do(FairWorkers::kOwn, std::move(task)); };
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  housekeeping_ = std::make_unique<Housekeeping>(*store_, clock_, log_, std::move(keep), std::move(ports));
  // Posted to the loop: until it runs, standard error belongs to the command that waits for the start.
  asio::post(loop_, [this] { housekeeping_->Start(); });
}

void Daemon::OpenProviders() {
  ProviderHost::Ports ports;
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.log = &log_;
  ports.divvy = OwnPath();
  ports.folder = places_.state;
  ports.join_line = [this] {
    TokenLine line{remote_->address, "", "", remote_->fingerprint};
    if (remote_->others) line.others = remote_->others();
    if (const auto key = errands_ ? ReadWhole(places_.launcher_key) : NotFound(""); key) line.launcher_key = Trim(*key);
    return line;
  };
  providers_->Open(loop_, *driver_, *agent_listener_, tokens_, std::move(ports));
}

void Daemon::TakeSamples() {
  if (!config_.takes_samples) return;
  MetricStore::Options options;
  options.path = places_.state + "/samples.db";
  options.most = config_.most_samples;
  options.keep_jobs = config_.keep_finished;
  options.every = std::chrono::duration_cast<std::chrono::seconds>(config_.sample_every).count();
  MetricStore::Ports ports;
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.note = [this](const std::string& line) { log_.Write(LogLevel::kWarning, line); };
  samples_ = std::make_shared<MetricStore>(std::move(options), std::move(ports));
  if (config_.waste.is_on) {
    waste_ = std::make_shared<WasteTracker>(
        config_.waste, OwnName(), [this](const JobRecord& job) { return notifier_->registry().OnWasteOf(job); });
    for (const auto& [key, text] : std::exchange(waste_rows_, {})) waste_->LoadSetting(key, text);
    const auto park = [this](const JobRecord& job, auto done) { routes_->ParkTenant(job, std::move(done)); };
    waste_actor_ = std::make_unique<WasteActor>(*driver_, *waste_, *notifier_, log_, park);
  }
  sweep_reports_ = std::make_unique<SweepReports>(*driver_);
  sweep_reports_->CatchUp(
      {[this](const JobRecord& record, const JobSpec& spec) { return host_.node().LogOf(record, spec, false); },
       [this](std::int64_t uid, std::function<std::function<void()>()> work) {
         readers_->Do(uid, [this, work = std::move(work)] { asio::post(loop_, work()); });
       }});
  host_.Sample({OwnName(), config_.sample_every}, [this](const samples::Snapshot& seen) {
    samples_->Add(seen, seen.at);
    sweep_reports_->Look(seen);
    samples_->Add(cluster_sampler_.Look(*controller_, *samples_, seen.at), seen.at);
    machine_events_.Look(*driver_, *agent_listener_, OwnName());
    routes_->OnSecond();
    if (Agents* agents = agent_listener_->agents()) agents->SetWatched(routes_->is_watched());
    if (waste_actor_) waste_actor_->Look(*samples_, seen.at);
  });
}

void Daemon::LogChanges() {
  if (!log_.Writes(LogLevel::kDebug)) return;
  driver_->Subscribe([this](const std::vector<Change>& changes, Time) {
    for (const Change& change : changes) {
      const std::string which = change.job.is_set() ? "job=" + ToString(change.job) +
                                                          " event=changed state=" + std::string(Name(change.state))
                                                    : "event=gpus_changed";
      log_.Write(LogLevel::kDebug, which + " reason=" + LogQuoted(change.reason));
    }
  });
}

About Daemon::MakeAbout() {
  About about;
  about.pid = ::getpid();
  about.since = clock_.Now();
  about.home = places_.home;
  about.socket = places_.socket;
  about.user = UserName(::geteuid());
  about.is_machine_wide = places_.is_machine_wide;
  about.gpu_source = host_.gpus().text;
  about.isolation = host_.node().isolation().text;
  about.gpu_isolation = host_.node().isolation().gpus;
  about.warnings = controller_->team_warnings();
  about.warnings.insert(about.warnings.end(), config_.notes.begin(), config_.notes.end());
  return about;
}

Admins Daemon::MakeAdmins() const {
  Admins::Names names;
  names.uids.insert(::geteuid());
  names.users.insert(config_.admin_users.begin(), config_.admin_users.end());
  names.groups.insert(config_.admin_groups.begin(), config_.admin_groups.end());
  return Admins(std::move(names), IsUserInGroup);
}

Result<ApiPorts> Daemon::RoutePorts() {
  ApiPorts ports;
  ports.default_grace = config_.grace;
  ports.takes_root_jobs = RunsRootJobs();
  ports.hides_others_jobs = config_.hides_others_jobs;
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.is_in_group = IsUserInGroup;
  ports.read = [this](std::int64_t uid, std::function<std::function<void()>()> work) {
    readers_->Do(uid, [this, work = std::move(work)] { asio::post(loop_, work()); });
  };
  ports.user_name = UserName;
  const auto find_user = [this](std::string_view name) { return FindUserHere(name); };
  ports.find_user = KeptUsers(find_user);
  remote_ = std::make_shared<RemoteAccess>(RemoteAccess{RemoteCallers(tokens_, find_user), {}, ""});
  ports.remote = remote_;
  ports.agents = agent_listener_;
  ports.leadership = keeper_;
  ports.submission_keys = submission_keys_;
  remote_streams_ = std::make_shared<RemoteStreams>(loop_, *driver_, [this](Descriptor connection, const Peer& peer) {
    server_->Adopt(std::move(connection), peer);
  });
  ports.remote_streams = remote_streams_;
  ports.shares = share_board_;
  ports.own_shares = &host_.shares();
  ports.samples = samples_;
  ports.has_dcgm_names = config_.has_dcgm_names;
  auto counters = std::make_shared<Counters>();
  counters->Begin(*controller_);
  driver_->Subscribe([this, counters](const std::vector<Change>& changes, Time now) {
    counters->OnChanges(*controller_, changes, now);
  });
  ports.counters = std::move(counters);
  ports.waste = waste_;
  ports.providers = providers_;
  ports.notifier = notifier_;
  ports.step_callers = std::make_shared<StepCallers>(loop_);
  ports.login_environment = LoginEnvironment;
  DIVVY_TRY(Audit audit, Audit::Open(places_.state + "/audit.log"));
  ports.audit = std::make_shared<Audit>(std::move(audit));
  ui_ = MakeUiAuth(ports.audit);
  ports.ui = ui_;
  ports.shut_down = [this] { After(1ms, [this] { loop_.stop(); }); };
  ports.look_up_process = LookUpProcess;
  return ports;
}

std::shared_ptr<ServiceHost> Daemon::MakeServices() {
  Haproxy::Options front;
  front.program = FindHaproxy(config_.haproxy, places_.is_machine_wide);
  front.keeps_environment = !places_.is_machine_wide;
  front.place.directory = places_.state + "/services";
  front.place.listen_host = !config_.services_address.empty() ? config_.services_address
                            : places_.is_machine_wide         ? "0.0.0.0"
                                                              : "127.0.0.1";
  front.place.listen_host6 = FrontHost6(front.place.listen_host);
  front.place.most_connections = FrontConnections();
  ServiceHost::Ports ports;
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  // Until the loop runs, standard error belongs to the command that waits for the start.
  ports.log = [this](bool is_warning, const std::string& line) {
    asio::post(loop_,
               [this, is_warning, line] { log_.Write(is_warning ? LogLevel::kWarning : LogLevel::kInfo, line); });
  };
  ports.caller_of = [this](const User& user) { return routes_->CallerOf(user); };
  ports.address_of = [this](const std::string& node) {
    Agents* agents = agent_listener_->agents();
    return agents == nullptr ? std::string() : agents->AddressOf(node);
  };
  ports.act = [this](const JobRecord& job, const std::string& action, std::function<void(const Status&)> done) {
    routes_->ActOnTenant(job, action, std::move(done));
  };
  ports.shares = share_board_;
  ports.gpus_used = [this](const JobRecord& record) -> std::optional<double> {
    if (!samples_) return std::nullopt;
    const samples::Subject subject{samples::Of::kJob, record.node.empty() ? OwnName() : record.node, -1, -1,
                                   record.id.value()};
    const auto now = static_cast<samples::Second>(ToSeconds(clock_.Now()));
    const auto share = samples_->MeanOf(subject, samples::Metric::kGpuUtilization, 60, now);
    return share ? std::optional(*share * GpuCountOf(record)) : std::nullopt;
  };
  ports.metric_of = [this](const JobRecord& record, const std::string& name) -> std::optional<double> {
    if (!samples_) return std::nullopt;
    const samples::Subject subject{samples::Of::kJob, record.node.empty() ? OwnName() : record.node, -1, -1,
                                   record.id.value()};
    return samples_->OwnOf(subject, name, static_cast<samples::Second>(ToSeconds(clock_.Now())));
  };
  ports.cluster_secret = cluster_secret_;
  ports.shown_host = front.place.listen_host == "0.0.0.0" ? HostName() : front.place.listen_host;
  auto services = std::make_shared<ServiceHost>(loop_, *driver_, std::move(front), std::move(ports));
  for (const auto& [key, text] : std::exchange(service_rows_, {})) services->LoadSetting(key, text);
  asio::post(loop_, [services] { services->Open(); });
  return services;
}

Status Daemon::Serve() {
  DIVVY_TRY(ApiPorts ports, RoutePorts());
  routes_ = std::make_unique<Routes>(*driver_, host_.node(), MakeAbout(), MakeAdmins(), std::move(ports));
  if (keeper_) routes_->SetAge([this] { return keeper_->may_act() ? std::string() : AgeText(*keeper_); });
  services_ = MakeServices();
  routes_->SetServices(services_);
  HttpServerOptions options;
  options.path = places_.socket;
  options.mode = places_.is_machine_wide ? 0666 : 0600;
  if (errands_) {
    rights_.SetPorts({[this](int connection) { return errands_->RightOf(connection); },
                      [this](const UserWithRight& user) { return errands_->RightByName(user); },
                      [this](const std::string& key, std::string text) {
                        controller_->KeepSetting(key, std::move(text));
                        driver_->Touch();
                      },
                      [this](const std::string& line) { log_.Write(LogLevel::kWarning, line); }});
    options.on_local = [this](int connection, const Peer& peer) { rights_.Learn(connection, peer.uid, peer.gid); };
  }
  DIVVY_TRY(server_, HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
              if (log_.Writes(LogLevel::kTrace)) {
                log_.Write(LogLevel::kTrace, "uid=" + std::to_string(peer.uid) + " pid=" + std::to_string(peer.pid) +
                                                 " event=request method=" + request.method +
                                                 " path=" + LogQuoted(request.path));
              }
              if (const auto probe = AnswerProbe(request, keeper_.get(), self_)) return Reply(reply).Answer(*probe);
              if (ui_->Answers(peer, request, reply)) return;
              // An agent looks for the leader elsewhere.
              if (request.path == wire::kAgentPath && has_standbys() && !keeper_->may_act())
                return Reply(reply).Answer(ErrorResponse(503, "unreachable", WhoLeadsText(*keeper_)));
              if (request.path == wire::kAgentPath && !peer.is_plain)
                return agent_listener_->OnRequest(peer, std::move(request), std::move(reply));
              routes_->Handle(peer, std::move(request), std::move(reply));
            }));
  DIVVY_CHECK(ListenForOthers());
  return ui_->Open();
}

std::shared_ptr<UiAuth> Daemon::MakeUiAuth(std::shared_ptr<Audit> audit) {
  // The page is off, so connections that wait at this listener would never be accepted.
  if (!config_.has_ui) kept_page_listener_.Reset();
  UiAuth::Ports ports;
  ports.host = HostName();
  ports.listen = [this](const HostPort& address) -> Result<std::uint16_t> {
    DIVVY_TRY(const int fd, ListenTcp(address.host, address.port));
    KeepDescriptor(kPageListener, fd);
    server_->ListenPlain(Descriptor(fd));
    return server_->plain_port();
  };
  ports.listen_again = [this]() -> std::uint16_t {
    const std::uint16_t port = kept_page_listener_.is_open() ? PortOf(kept_page_listener_.get()) : std::uint16_t{0};
    const bool is_wanted = port != 0 && (!config_.ui_listen || config_.ui_listen->port == port);
    Descriptor listener = std::exchange(kept_page_listener_, Descriptor());
    if (!is_wanted) return 0;
    server_->ListenPlain(std::move(listener));
    return port;
  };
  return std::make_shared<UiAuth>(*driver_, ui_sessions_, remote_, std::move(audit),
                                  UiAuth::Wishes{!config_.has_ui, config_.ui_listen, config_.is_ui_remote},
                                  std::move(ports));
}

Status Daemon::ListenForOthers() {
  if (!listen_) return {};
  DIVVY_TRY(const TlsIdentity identity, LoadTlsIdentity(places_.state + "/identity.pem", "divvy controller",
                                                        clock_.Now(), {HostName(), "localhost"}));
  std::function<void(const std::vector<samples::Snapshot>&)> on_samples;
  if (samples_) {
    on_samples = [this](const std::vector<samples::Snapshot>& seen) {
      for (const samples::Snapshot& snapshot : seen) {
        samples_->Add(snapshot, static_cast<samples::Second>(ToSeconds(clock_.Now())));
        sweep_reports_->Look(snapshot);
      }
    };
  }
  Agents::Terms terms = {config_.lost_after, config_.requeue_lost_after};
  AgentListener::Ports ports = {[this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); },
                                &log_,
                                [this](JobId job, std::uint32_t attempt) { return fleet_->GangKey(job, attempt); },
                                [this](RemoteNode& node, std::uint64_t number, std::string_view purpose) {
                                  remote_streams_->OnChannel(node, number, purpose);
                                },
                                [this](RemoteNode& node, JobId job) {
                                  host_.node().DropStreams(job);
                                  remote_streams_->OnForeground(node, job);
                                },
                                on_samples,
                                [this](const User& user) { return rights_.ByName(user); }};
  ports.may_join = [this](std::string_view token, const std::string& name) {
    return providers_->CheckJoin(token, name);
  };
  if (has_standbys()) {
    terms.longest_heartbeat = kHeartbeatWithStandbys;
    ports.lease = static_cast<std::uint64_t>(elected_epoch_);
    ports.may_act = [this] { return keeper_->may_act(); };
    ports.controllers = [this] {
      std::vector<std::string> addresses;
      for (const HostPort& address : AddressesOf(*keeper_, false)) addresses.push_back(ToString(address));
      return addresses;
    };
    remote_->others = [this] { return AddressesOf(*keeper_, true); };
  }
  agent_listener_->Open(*driver_, remote_->callers, terms, fleet_.get(), std::move(ports));
  if (!has_standbys()) DIVVY_CHECK(journal_->WriteEpoch(agent_listener_->epoch()));
  // Jobs that were active at the start may have been launched; agents that report them are believed.
  for (const auto& [id, record] : controller_->live()) {
    if (!IsActive(record.state) || record.array_count > 0) continue;
    for (const NodeAllocation& allocation : AllocationsOf(record)) {
      if (!allocation.node.empty()) agent_listener_->agents()->Of(allocation.node).Knows(id, record.attempt);
    }
  }
  DIVVY_CHECK(ListenRemotely(*server_, *listen_, {config_.name, HostName()}, identity, *remote_));
  // Posted to the loop: until it runs, standard error belongs to the command that waits for the start.
  asio::post(loop_, [this, text = ToString(*listen_)] {
    OpenProviders();
    log_.Write(LogLevel::kInfo, "event=listens address=" + LogQuoted(text));
  });
  return {};
}

Status Daemon::Prepare() {
  RaiseFileLimit();
  // A job brings its own umask; the daemon's files are writable only for its own user.
  ::umask(022);
  DIVVY_TRY(config_, LoadConfig(places_));
  log_.SetLevel(LogLevelFromName(config_.log_level));
  for (const std::string& note : config_.notes) log_.Write(LogLevel::kWarning, "event=config note=" + LogQuoted(note));
  if (flags_.emulate.empty()) flags_.emulate = config_.emulate;
  listen_ = config_.listen;
  if (!flags_.listen.empty()) {
    DIVVY_TRY(listen_, ParseHostPort(flags_.listen));
  }
  if (!config_.providers.empty() && !listen_)
    return InvalidArgument(places_.config + ": [[providers]] needs listen in [controller], such as \"0.0.0.0:7433\": " +
                           "the nodes of providers connect there");
  if (const Status complete = ProviderHost::Complete(config_.providers, OwnPath()); !complete)
    return FailedPrecondition(places_.config + ": " + complete.error().message);
  DIVVY_CHECK(MakeDirectory(places_.state, places_.is_machine_wide ? 0711 : 0700));
  DIVVY_CHECK(MakeDirectory(places_.logs, 0711));
  DIVVY_CHECK(
      MakeDirectory(places_.socket.substr(0, places_.socket.rfind('/')), places_.is_machine_wide ? 0755 : 0700));
  DIVVY_TRY(lock_, LockFile(places_.state + "/daemon.lock", "daemon"));
  DIVVY_CHECK(ForbidBeside(places_.state + "/agent/agent.lock", "agent"));
  self_.name = HostName();
  self_.version = kVersion;
  if (has_standbys()) return JoinControllers();
  if (listen_) self_.address = ToString(OwnAddress());
  return {};
}

HostPort Daemon::OwnAddress() const {
  // The any-address is no address to connect to.
  const bool is_any = listen_->host == "0.0.0.0" || listen_->host == "::";
  const auto chosen = ParseHostPort(config_.name, listen_->port);
  return chosen ? *chosen : HostPort{is_any ? HostName() : listen_->host, listen_->port};
}

Status Daemon::JoinControllers() {
  const std::string where = places_.config + ": high_availability = true in [controller]";
  if (config_.store_url.empty())
    return InvalidArgument(where + " needs url in [store], a database of PostgreSQL that all controllers use");
  if (!listen_ || listen_->port == 0) {
    return InvalidArgument(where + " needs listen in [controller] with a port, such as \"0.0.0.0:7433\": agents and " +
                           "clients must reach each controller");
  }
  self_.address = self_.name = ToString(OwnAddress());
  const std::string path = places_.state + "/identity.pem";
  if (::access(path.c_str(), F_OK) != 0) {
    // Agents and clients know one certificate, which all controllers have.
    DIVVY_TRY(const auto lease, OpenLease(config_.store_url, places_, self_));
    DIVVY_TRY(const LeaseView seen, lease->Beat(0));
    for (const ControllerRow& row : seen.controllers) {
      if (row.certificate.empty() || row.name == self_.name) continue;
      return FailedPrecondition("this controller has no certificate yet, and the cluster has one: copy identity.pem " +
                                ("from the state folder of controller " + row.name) + " to " + path);
    }
  }
  DIVVY_TRY(const TlsIdentity identity,
            LoadTlsIdentity(path, "divvy controller", clock_.Now(), {HostName(), "localhost"}));
  self_.certificate = identity.fingerprint;
  cluster_secret_ = identity.pem;
  auto opened = OpenLease(config_.store_url, places_, self_);
  // A controller that was started with a wrong URL says so; one that has served waits for its database.
  while (!opened && flags_.yields && opened.error().code == ErrorCode::kUnreachable) {
    std::this_thread::sleep_for(kBetweenConnects);
    opened = OpenLease(config_.store_url, places_, self_);
  }
  DIVVY_TRY(auto lease, std::move(opened));
  LeaseKeeper::Ports ports;
  ports.since_boot = SinceBoot;
  ports.log = [this](const std::string& event, const std::string& value) {
    LogLater(value.empty() ? event : event + LogQuoted(value));
  };
  ports.on_elected = [this](std::int64_t epoch) {
    asio::post(loop_, [this, epoch, at = SinceBoot()] {
      elected_epoch_ = epoch;
      elected_at_ = at;
      is_elected_ = true;
      loop_.stop();
    });
  };
  ports.on_lost = [this](const std::string& why) {
    if (is_closing_) return;
    flags_.yields = true;
    log_.Write(LogLevel::kWarning, "event=starts_again reason=" + LogQuoted(why));
    StartAgain();
  };
  keeper_ = std::make_shared<LeaseKeeper>(std::move(lease), self_, std::move(ports), flags_.yields);
  keeper_->Step();
  const LeaseKeeper::View view = keeper_->view();
  if (!view.conflict.empty()) return FailedPrecondition(view.conflict);
  return {};
}

Result<bool> Daemon::StandBy(const std::function<void()>& is_ready) {
  DIVVY_TRY(const TlsIdentity identity, LoadTlsIdentity(places_.state + "/identity.pem", "divvy controller",
                                                        clock_.Now(), {HostName(), "localhost"}));
  DIVVY_TRY(auto follower, OpenFollower(config_.store_url, places_));
  // Connections to the page would wait until this controller leads. It may lead already, with the lease that it had
  // before it was killed; then it keeps the listener, and with it the logins of the page.
  if (kept_page_listener_.is_open() && keeper_->epoch() == 0) {
    DropKeptDescriptor(kPageListener);
    kept_page_listener_.Reset();
  }
  // A front that an earlier leader here has left would send requests to replicas that may be gone.
  if (keeper_->epoch() == 0) Haproxy::EndLeft(places_.state + "/services");
  const auto follow =
      std::make_shared<FollowThread>(std::move(follower), [this](const std::string& line) { LogLater(line); });
  StandbyReads::Ports reading;
  reading.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  reading.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  reading.make = [this, follow] { return CopyState(*follow); };
  auto reads = std::make_shared<StandbyReads>(std::move(reading));
  Standby standby(
      *keeper_, {places_, *listen_, [this] { After(1ms, [this] { loop_.stop(); }); },
                 [&reads](const Peer& peer, HttpRequest& request, const Reply& reply, const Standby::SendOn& send_on) {
                   return reads->Answer(peer, request, reply, send_on);
                 }});
  DIVVY_CHECK(standby.Open(loop_, identity));
  is_ready();
  log_.Write(LogLevel::kInfo, "event=stands_by pid=" + std::to_string(::getpid()) + " name=" + LogQuoted(self_.name));
  lease_thread_ = std::make_unique<LeaseThread>(*keeper_);
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) loop_.stop();
  });
  loop_.run();
  reads->Close();
  // Its threads may still be reading, and this controller must not wait for them before it leads.
  ended_reads_ = std::jthread([ended = std::move(reads)]() mutable { ended.reset(); });
  followed_ = follow->Stop();
  signals_.cancel();
  loop_.restart();
  if (is_elected_) return true;
  lease_thread_.reset();
  keeper_->Release();
  log_.Write(LogLevel::kInfo, "event=down");
  return false;
}

void Daemon::StartAgain() {
  // A standby serves no page. The port must be free when this controller leads again.
  DropKeptDescriptor(kPageListener);
  std::vector<std::string> words = {"divvy", "internal-daemon", "--yields"};
  if (!flags_.emulate.empty()) words.insert(words.end(), {"--emulate", flags_.emulate});
  if (!flags_.gpus.empty()) words.insert(words.end(), {"--gpus", flags_.gpus});
  if (!flags_.listen.empty()) words.insert(words.end(), {"--listen", flags_.listen});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // The launcher and clients must notice that this daemon is gone. Nothing is inherited by mistake.
  constexpr unsigned kCloseAtExec = 4;  // CLOSE_RANGE_CLOEXEC
  static_cast<void>(::syscall(SYS_close_range, 3U, ~0U, kCloseAtExec));
  ::execv("/proc/self/exe", arguments.data());
  std::_Exit(70);
}

// A controller that runs alone has the lease, too, so that no other one starts beside it.
Status Daemon::TakeLease() {
  if (config_.store_url.empty() || has_standbys()) return {};
  ControllerSelf self = self_;
  self.address.clear();
  DIVVY_TRY(auto lease, OpenLease(config_.store_url, places_, self));
  LeaseKeeper::Ports ports;
  ports.since_boot = SinceBoot;
  ports.log = [this](const std::string& event, const std::string& value) {
    LogLater(value.empty() ? event : event + LogQuoted(value));
  };
  ports.on_elected = [this](std::int64_t epoch) { elected_epoch_ = epoch; };
  ports.on_lost = [this](const std::string& why) { GiveUp(Internal(why)); };
  keeper_ = std::make_shared<LeaseKeeper>(std::move(lease), std::move(self), std::move(ports));
  const Duration end = SinceBoot() + kAwaitsLease;
  while (keeper_->epoch() == 0) {
    const Duration pause = keeper_->Step();
    if (keeper_->epoch() != 0) break;
    const LeaseKeeper::View view = keeper_->view();
    if (!view.trouble.empty()) return Unreachable(view.trouble);
    if (SinceBoot() >= end) {
      const std::string other = view.seen.lease.left > Duration(0) ? WhoLeadsText(*keeper_) : "other controllers live";
      return FailedPrecondition("the database in [store] url is in use by another divvy (" + other +
                                "): stop it with \"divvy down\" there, or let this controller stand by with "
                                "high_availability = true in [controller] of both");
    }
    std::this_thread::sleep_for(std::max<Duration>(pause, 1ms));
  }
  lease_thread_ = std::make_unique<LeaseThread>(*keeper_);
  return {};
}

Status Daemon::CheckHasNoOwnJobs(const std::map<JobId, JobRecord>& live) const {
  for (const auto& [id, record] : live) {
    if (!IsActive(record.state) || record.array_count > 0) continue;
    for (const NodeAllocation& allocation : AllocationsOf(record)) {
      if (!allocation.node.empty()) continue;
      return FailedPrecondition("job " + ToString(record.id) +
                                " runs on the machine of a controller that ran alone: start that one again without "
                                "high_availability in [controller], and let its jobs end first");
    }
  }
  return {};
}

Status Daemon::Start() {
  DIVVY_TRY(const LauncherHelp help, ReachLauncher(places_, "daemon"));
  errands_ = help.errands;
  GpuWishes wishes = {flags_.emulate, config_.mig, places_.runs};
  if (errands_) wishes.emulation = places_.emulation;
  GpuSource gpus;
  if (has_standbys()) {
    gpus.text = "none: a controller with standbys has no GPUs of its own";
  } else {
    DIVVY_TRY(gpus, OpenGpus(wishes, places_));
  }
  DIVVY_CHECK(TakeLease());
  DIVVY_TRY(store_, OpenStore(config_.store_url, places_, elected_epoch_, std::move(followed_)));
  DIVVY_TRY(journal_, RunJournal::Open(places_.state + "/runs.journal"));
  writer_ = std::make_unique<Worker>();
  committer_ = std::make_unique<Committer>(*store_, *writer_, clock_,
                                           [this](std::function<void()> task) { asio::post(loop_, std::move(task)); });
  readers_ = std::make_unique<FairWorkers>();
  NodeOptions options;
  options.run_directory = places_.runs;
  options.log_directory = places_.logs;
  options.log_limit = config_.log_limit;
  options.slurm_directory = places_.state + "/slurm";
  options.names = {HostName(), places_.home};
  options.may_change_user = ActsAsOthers();
  options.errands = errands_;
  options.right_of = [this](const User& user) { return rights_.Of(user); };
  options.uid = ::geteuid();
  options.lowest_uid = config_.lowest_uid;
  options.runs_root_jobs = RunsRootJobs();
  options.divvy = OwnPath();
  options.grace = config_.grace;
  options.container = config_.container;
  DIVVY_TRY(options.isolation, ChooseIsolation(config_.isolation, gpus.gpus, !flags_.emulate.empty(), help.ways));
  DIVVY_CHECK(host_.Open(std::move(options), std::move(gpus)));
  DIVVY_CHECK(Recover());
  // Runs after the first decision, which Recover has requested.
  if (has_standbys()) asio::post(loop_, [this] { LogTakeOver(); });
  host_.Run(config_.poll, [this](const std::vector<GpuObservation>& seen) {
    controller_->OnGpusObserved(seen);
    driver_->Touch();
  });
  // Trouble of the own node is that it runs nothing.
  if (!has_standbys())
    host_.WatchDisks({places_.runs, places_.logs}, [this](const std::string& what) {
      log_.Write(LogLevel::kWarning, what.empty() ? "event=trouble_over" : "event=trouble what=" + LogQuoted(what));
      driver_->controller().OnNodeTrouble("", what);
      driver_->Touch();
    });
  KeepHouse();
  TakeSamples();
  LogChanges();
  asio::post(loop_, [this] { notifier_->Open(); });
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) loop_.stop();
  });
  return Serve();
}

void Daemon::Close() {
  is_closing_ = true;
  server_.reset();
  if (store_ != nullptr) store_->StopWaiting();
  writer_.reset();
  // No commit is under way any more. If this one fails, only minutes of decayed usage and seconds of progress are lost.
  if (store_ != nullptr && controller_ != nullptr) {
    Batch batch = controller_->UnkeptProgress();
    if (auto used = controller_->TeamUsageSetting(clock_.Now())) batch.settings.push_back(*std::move(used));
    batch.settings.emplace_back(kLatestKey, LatestText());
    static_cast<void>(store_->Commit({batch}));
  }
  GiveLeaseBack();
  host_.Stop();
  if (samples_) samples_->Close();
  readers_.reset();
  log_.Write(LogLevel::kInfo, "event=down");
}

}  // namespace

int DaemonMain(const std::vector<std::string>& words) {
  SetServiceSignals();
  const auto flags = ReadDaemonFlags(words);
  if (!flags) {
    std::fprintf(stderr, "divvy: %s\n", flags.error().message.c_str());
    return 2;
  }
  const RuntimePaths places = FindPlaces();
  Daemon daemon(places, *flags);
  bool is_announced = false;
  const auto announce = [&] {
    if (std::exchange(is_announced, true) || !flags->is_detached) return;
    const int caller = ::dup(STDERR_FILENO);
    const int log = ::open((places.state + "/daemon.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0) ::dup2(log, STDERR_FILENO);
    if (log >= 0) ::close(log);
    static_cast<void>(!::write(caller, "ready\n", 6));
    ::close(caller);
    // So that the directory in which it was started can be unmounted.
    static_cast<void>(!::chdir("/"));
  };
  Status done = daemon.Prepare();
  if (done && daemon.has_standbys()) {
    const Result<bool> is_elected = daemon.StandBy(announce);
    if (is_elected && !*is_elected) return 0;
    if (!is_elected) done = is_elected.error();
  }
  const bool is_elected = done && daemon.has_standbys();
  if (done) done = daemon.Start();
  // The database may fail over just now, as the leader before did.
  if (is_elected && !done && done.error().code == ErrorCode::kUnreachable) daemon.BecomeStandby(done.error());
  if (!done) {
    std::fprintf(stderr, "divvy: %s\n", done.error().message.c_str());
    daemon.GiveLeaseBack();
    return 1;
  }
  announce();
  daemon.Run();
  daemon.Close();
  return 0;
}

}  // namespace divvy
