#include "daemon/daemon.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "control/controller.h"
#include "daemon/accounts.h"
#include "daemon/committer.h"
#include "daemon/core.h"
#include "daemon/housekeeping.h"
#include "daemon/log.h"
#include "daemon/node.h"
#include "daemon/remote_door.h"
#include "daemon/routes.h"
#include "daemon/worker.h"
#include "dialect/config.h"
#include "platform/clock.h"
#include "platform/emulation.h"
#include "platform/gpu_probe.h"
#include "platform/gpu_process.h"
#include "platform/places.h"
#include "platform/user_identity.h"
#include "store/store.h"

namespace divvy {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kBootKey = "node.boot_id";
/// Ended jobs that are read at the start, to know how long their like run.
constexpr std::uint64_t kRunsLearnt = 2'000;

struct Flags {
  std::string emulate;
  std::string gpus;
  std::string listen;
  bool is_detached = false;
};

Status MakeDirectory(const std::string& path, mode_t mode) {
  for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
    const std::string part = path.substr(0, at);
    const bool is_last = at == std::string::npos;
    if (::mkdir(part.c_str(), is_last ? mode : 0755) != 0 && errno != EEXIST) {
      return FailedPrecondition("cannot make the directory " + part + ": " + std::strerror(errno));
    }
    if (is_last) return {};
  }
}

Result<std::string> ReadWhole(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return NotFound("cannot read " + path + ": " + std::strerror(errno));
  std::string text;
  char buffer[4096];
  std::size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0) text.append(buffer, got);
  std::fclose(file);
  return text;
}

std::uint64_t RandomSeed() {
  std::uint64_t seed = 0;
  static_cast<void>(!::getrandom(&seed, sizeof seed, 0));
  return seed;
}

std::string HostName() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

/// The processor time and files of thousands of jobs at once take more descriptors than a shell's usual limit.
void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

/// Where the GPUs come from, in words, and the probe; without one there are no GPUs and everything else works.
struct GpuSource {
  std::unique_ptr<GpuProbe> probe;
  std::vector<GpuFacts> gpus;
  std::string text;
};

Result<GpuSource> OpenGpus(const std::string& emulate, const Places& places) {
  GpuSource source;
  if (!emulate.empty()) {
    DIVVY_TRY(const std::vector<GpuFacts> described, LoadGpuDescription(emulate));
    DIVVY_TRY(const std::string library, WriteEmulation(described, places.state + "/emulate"));
    DIVVY_TRY(source.probe, OpenNvml(library));
    source.text = "emulated: " + emulate;
  } else {
    auto probe = OpenNvml("");
    if (!probe) {
      source.text = "none: " + probe.error().message;
      return source;
    }
    source.probe = *std::move(probe);
    source.text = "NVML (driver " + source.probe->driver() + ")";
  }
  auto facts = source.probe->Facts();
  if (!facts) {
    source.text = "none: " + facts.error().message;
    source.probe.reset();
    return source;
  }
  source.gpus = *std::move(facts);
  return source;
}

class Daemon {
 public:
  Daemon(Places places, Flags flags) : places_(std::move(places)), flags_(std::move(flags)), signals_(loop_) {}

  Status Start();
  void Run() {
    log_.Write(LogLevel::kInfo, "event=up pid=" + std::to_string(::getpid()) + " home=" + LogQuoted(places_.state));
    loop_.run();
  }
  /// Everything that was acknowledged is committed; jobs go on under their supervisors.
  void Close();

 private:
  Status Lock();
  Status OpenStore();
  Status Recover();
  Status ApplyRestriction();
  Status Serve();
  Status OpenDoorToOthers();
  void WatchReports();
  void WatchLauncher();
  void Poll();
  void KeepHouse();
  void LogChanges();
  void LookAtGpus(GpuSet which, std::function<void(std::vector<GpuObservation>)> done);
  Core::Ports CorePorts();
  void After(Duration delay, std::function<void()> task);
  void GiveUp(const Error& error);

  Places places_;
  Flags flags_;
  dialect::Config config_;
  Log log_;
  asio::io_context loop_{1};
  asio::signal_set signals_;
  RealClock clock_;
  int lock_ = -1;
  GpuSource gpu_source_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ProcessLauncher> launcher_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<Core> core_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<asio::posix::stream_descriptor> reports_;
  std::unique_ptr<asio::posix::stream_descriptor> launcher_socket_;
  std::map<int, std::unique_ptr<asio::posix::stream_descriptor>> watched_;
  TokenBook tokens_;
  std::shared_ptr<Routes::Remote> remote_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<asio::steady_timer> poll_timer_;
  bool is_looking_ = false;
  bool was_rebooted_ = false;
  // Last, so that they end first: their tasks use the store and the probe.
  std::unique_ptr<Worker> writer_;
  std::unique_ptr<Committer> committer_;
  std::unique_ptr<Worker> prober_;
  std::unique_ptr<Worker> reader_;
};

Status Daemon::Lock() {
  const std::string path = places_.state + "/daemon.lock";
  lock_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return FailedPrecondition("cannot open " + path + ": " + std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock_, 0) == 0) static_cast<void>(!::pwrite(lock_, pid.data(), pid.size(), 0));
    return {};
  }
  const auto owner = ReadWhole(path);
  return Error{ErrorCode::kAlreadyExists,
               "another daemon (pid " + (owner ? std::string(Trim(*owner)) : "?") + ") has " + places_.state};
}

Status Daemon::OpenStore() {
  DIVVY_TRY(store_, OpenSqliteStore(places_.state + "/divvy.db"));
  return {};
}

void Daemon::After(Duration delay, std::function<void()> task) {
  auto timer =
      std::make_shared<asio::steady_timer>(loop_, std::chrono::duration_cast<asio::steady_timer::duration>(delay));
  timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
    if (!error) task();
  });
}

void Daemon::GiveUp(const Error& error) {
  // A restart from the store is the way back, so it must not look like a clean end.
  log_.Write(LogLevel::kError, "event=give_up error=" + LogQuoted(error.message));
  std::_Exit(70);
}

Core::Ports Daemon::CorePorts() {
  Core::Ports ports;
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.commit = [this](std::vector<Batch> batches, std::function<void(Status)> done) {
    committer_->Commit(std::move(batches), std::move(done));
  };
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  ports.give_up = [this](const Error& error) { GiveUp(error); };
  ports.on_trouble = [this](const std::string& trouble) {
    if (trouble.empty()) return log_.Write(LogLevel::kInfo, "event=takes_work_again");
    log_.Write(LogLevel::kWarning, "event=takes_no_work error=" + LogQuoted(trouble));
  };
  return ports;
}

void Daemon::LookAtGpus(GpuSet which, std::function<void(std::vector<GpuObservation>)> done) {
  prober_->Do([this, which, supervisors = node_->supervisors(), done = std::move(done)] {
    auto seen = gpu_source_.probe->Observe(which, true, supervisors);
    asio::post(loop_, [done, seen = std::move(seen)]() mutable { done(std::move(seen)); });
  });
}

Status Daemon::Recover() {
  DIVVY_TRY(Store::Loaded loaded, store_->Load());
  std::string boot_before;
  for (const auto& [key, value] : loaded.settings) {
    if (key == kBootKey) boot_before = value;
    tokens_.LoadSetting(key, value);
  }
  const auto boot_id = ReadWhole(places_.boot_id);
  const std::string boot(boot_id ? Trim(*boot_id) : "");
  was_rebooted_ = !boot_before.empty() && boot_before != boot;

  Limits limits;
  limits.max_queued = config_.max_queued;
  limits.max_time_limit = config_.max_time_limit;
  limits.default_time_limit = config_.default_time_limit;
  limits.ignore_unmanaged_below = config_.ignore_unmanaged_below;
  controller_ = std::make_unique<Controller>(config_.policy, limits, RandomSeed());
  if (const Status teams = controller_->UseTeamsFile(config_.teams); !teams)
    return InvalidArgument(places_.config + ": " + teams.error().message);
  NodeCapacity capacity;
  capacity.gpus = gpu_source_.gpus;
  capacity.cpus = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
  struct sysinfo system {};
  if (::sysinfo(&system) == 0) capacity.memory = Bytes(static_cast<std::int64_t>(system.totalram) * system.mem_unit);
  controller_->SetCapacity(std::move(capacity));

  NodeOptions options;
  options.run_directory = places_.runs;
  options.log_directory = places_.logs;
  options.names = {HostName(), places_.home};
  options.may_change_user = ::geteuid() == 0;
  options.grace = config_.grace;
  node_ = std::make_unique<Node>(options, *launcher_, gpu_source_.gpus);
  core_ = std::make_unique<Core>(*controller_, *store_, clock_, *node_, CorePorts());
  node_->Join(*core_);
  node_->SetWatch([this](int fd, std::function<void()> on_readable) {
    auto& descriptor = watched_[fd];
    descriptor = std::make_unique<asio::posix::stream_descriptor>(loop_, ::dup(fd));
    descriptor->async_wait(asio::posix::stream_descriptor::wait_read,
                           [this, fd, on_readable = std::move(on_readable)](const boost::system::error_code& error) {
                             if (error) return;
                             on_readable();
                             watched_.erase(fd);
                           });
  });
  HistoryFilter recent;
  recent.states = {JobState::kSucceeded, JobState::kFailed, JobState::kTimedOut, JobState::kCancelled};
  recent.limit = kRunsLearnt;
  DIVVY_TRY(std::vector<JobRecord> finished, store_->History(recent));
  std::ranges::reverse(finished);
  controller_->LearnRunTimes(finished);
  controller_->Load(std::move(loaded.live), loaded.settings, loaded.next_id, loaded.jobs_total, core_->Outcomes());
  // What is on the GPUs now, before anything is given away.
  if (gpu_source_.probe)
    controller_->OnGpusObserved(
        gpu_source_.probe->Observe(GpuSet::FirstN(static_cast<int>(gpu_source_.gpus.size())), true, {}));
  DIVVY_CHECK(node_->AdoptRuns(was_rebooted_));
  if (gpu_source_.probe) {
    node_->SetLookAtGpus([this](GpuSet which, auto done) { LookAtGpus(which, std::move(done)); });
    controller_->OnGpusObserved(gpu_source_.probe->Observe(GpuSet::FirstN(static_cast<int>(gpu_source_.gpus.size())),
                                                           true, node_->supervisors()));
  }
  // With what the reboot did to the jobs: a daemon that is killed before that is durable must see the reboot again.
  if (boot != boot_before) controller_->KeepSetting(kBootKey, boot);
  DIVVY_CHECK(ApplyRestriction());
  core_->Touch();
  return {};
}

// What the command line says wins over the file, and both over what was said at run time before.
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

void Daemon::WatchReports() {
  reports_->async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
    if (error) return;
    while (const auto report = ReceiveReport(reports_->native_handle())) node_->OnReport(*report);
    WatchReports();
  });
}

void Daemon::WatchLauncher() {
  launcher_socket_ = std::make_unique<asio::posix::stream_descriptor>(loop_, ::dup(launcher_->fd()));
  launcher_socket_->async_wait(
      asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        const std::int64_t before = launcher_->launcher_pid();
        if (const Status again = launcher_->OnReadable(); !again) return GiveUp(again.error());
        const bool is_new = launcher_->launcher_pid() != before;
        log_.Write(LogLevel::kWarning, is_new ? "event=launcher_died" : "event=supervisor_died");
        WatchLauncher();
      });
  // A full pipe is rare, so it is looked at again and again rather than watched.
  if (launcher_->WantsWrite()) After(1ms, [this] { launcher_->OnWritable(); });
}

void Daemon::Poll() {
  poll_timer_->expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(config_.poll));
  poll_timer_->async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    node_->CheckSupervisors();
    if (launcher_->WantsWrite()) launcher_->OnWritable();
    if (gpu_source_.probe && !is_looking_) {
      is_looking_ = true;
      LookAtGpus(GpuSet::FirstN(static_cast<int>(gpu_source_.gpus.size())), [this](std::vector<GpuObservation> seen) {
        is_looking_ = false;
        controller_->OnGpusObserved(seen);
        core_->Touch();
      });
    }
    Poll();
  });
}

void Daemon::KeepHouse() {
  Housekeeping::Keep keep;
  keep.finished = config_.keep_finished;
  keep.logs = config_.keep_logs;
  keep.log_directory = places_.logs;
  Housekeeping::Ports ports;
  ports.write = [this](std::function<void()> task) { committer_->Do(std::move(task)); };
  ports.read = [this](std::function<void()> task) { reader_->Do(std::move(task)); };
  ports.post = [this](std::function<void()> task) { asio::post(loop_, std::move(task)); };
  ports.after = [this](Duration delay, std::function<void()> task) { After(delay, std::move(task)); };
  housekeeping_ = std::make_unique<Housekeeping>(*store_, clock_, log_, std::move(keep), std::move(ports));
  // From the loop: until it runs, standard error belongs to the command that waits for us.
  asio::post(loop_, [this] { housekeeping_->Start(); });
}

void Daemon::LogChanges() {
  if (!log_.Writes(LogLevel::kDebug)) return;
  core_->Subscribe([this](const std::vector<Change>& changes, Time) {
    for (const Change& change : changes) {
      const std::string which = change.job.is_set() ? "job=" + ToString(change.job) +
                                                          " event=changed state=" + std::string(Name(change.state))
                                                    : "event=gpus_changed";
      log_.Write(LogLevel::kDebug, which + " reason=" + LogQuoted(change.reason));
    }
  });
}

Status Daemon::Serve() {
  About about;
  about.pid = ::getpid();
  about.since = clock_.Now();
  about.home = places_.home;
  about.socket = places_.socket;
  about.user = UserName(::geteuid());
  about.is_machine_wide = places_.is_machine_wide;
  about.gpu_source = gpu_source_.text;
  about.isolation = "advisory (CUDA_VISIBLE_DEVICES)";
  about.warnings = controller_->team_warnings();
  if (gpu_source_.gpus.size() > Server::kMostGpus) {
    about.warnings.push_back("this server has " + std::to_string(gpu_source_.gpus.size()) +
                             " GPUs, of which the first " + std::to_string(Server::kMostGpus) + " are given to jobs");
  }
  Admins::Names names;
  names.uids.insert(::geteuid());
  names.users.insert(config_.admin_users.begin(), config_.admin_users.end());
  names.groups.insert(config_.admin_groups.begin(), config_.admin_groups.end());
  Admins admins(std::move(names), [](const User& user, const std::string& group) {
    return IsInGroup(static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid), group);
  });
  Routes::Ports ports;
  ports.default_grace = config_.grace;
  ports.is_in_group = [](const User& user, const std::string& group) {
    return IsInGroup(static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid), group);
  };
  ports.read = [this](std::function<std::function<void()>()> work) {
    reader_->Do([this, work = std::move(work)] { asio::post(loop_, work()); });
  };
  ports.user_name = UserName;
  remote_ = std::make_shared<Routes::Remote>(Routes::Remote{RemoteCallers(tokens_, FindUser), {}, ""});
  ports.remote = remote_;
  ports.login_environment = LoginEnvironment;
  DIVVY_TRY(Audit audit, Audit::Open(places_.state + "/audit.log"));
  ports.audit = std::make_shared<Audit>(std::move(audit));
  ports.shut_down = [this] { After(1ms, [this] { loop_.stop(); }); };
  ports.look_up_process = [](std::int64_t pid) -> std::optional<IgnoredProcess> {
    const auto stat = ReadGpuProcessStat(pid);
    if (!stat) return std::nullopt;
    IgnoredProcess process;
    process.identity = {pid, stat->start_ticks};
    struct stat status {};
    const std::string directory = "/proc/" + std::to_string(pid);
    if (::stat(directory.c_str(), &status) == 0) process.user = UserName(status.st_uid);
    if (const auto comm = ReadWhole(directory + "/comm")) process.command = Trim(*comm);
    return process;
  };
  routes_ = std::make_unique<Routes>(*core_, *node_, std::move(about), std::move(admins), std::move(ports));
  HttpServerOptions options;
  options.path = places_.socket;
  options.mode = places_.is_machine_wide ? 0666 : 0600;
  DIVVY_TRY(server_, HttpServer::Listen(loop_, options, [this](const Peer& peer, HttpRequest&& request, Reply reply) {
              if (log_.Writes(LogLevel::kTrace)) {
                log_.Write(LogLevel::kTrace, "uid=" + std::to_string(peer.uid) + " pid=" + std::to_string(peer.pid) +
                                                 " event=request method=" + request.method +
                                                 " path=" + LogQuoted(request.path));
              }
              routes_->Handle(peer, std::move(request), std::move(reply));
            }));
  return OpenDoorToOthers();
}

Status Daemon::OpenDoorToOthers() {
  std::optional<HostPort> listen = config_.listen;
  if (!flags_.listen.empty()) {
    DIVVY_TRY(listen, ParseHostPort(flags_.listen));
  }
  if (!listen) return {};
  DIVVY_TRY(const TlsIdentity identity,
            LoadTlsIdentity(places_.state + "/identity.pem", "divvy controller", clock_.Now()));
  DIVVY_CHECK(OpenRemoteDoor(*server_, *listen, {config_.name, HostName()}, identity, *remote_));
  // From the loop: until it runs, standard error belongs to the command that waits for us.
  asio::post(loop_, [this, text = ToString(*listen)] {
    log_.Write(LogLevel::kInfo, "event=listens address=" + LogQuoted(text));
  });
  return {};
}

Status Daemon::Start() {
  RaiseFileLimit();
  // A job's own umask comes with it; the daemon's files are nobody else's.
  ::umask(022);
  if (auto text = ReadWhole(places_.config)) {
    DIVVY_TRY(config_, dialect::ParseConfig(*text, places_.config));
  }
  log_.SetLevel(LogLevelFromName(config_.log_level));
  if (flags_.emulate.empty()) flags_.emulate = config_.emulate;
  DIVVY_CHECK(MakeDirectory(places_.state, places_.is_machine_wide ? 0711 : 0700));
  DIVVY_CHECK(MakeDirectory(places_.logs, 0711));
  DIVVY_CHECK(
      MakeDirectory(places_.socket.substr(0, places_.socket.rfind('/')), places_.is_machine_wide ? 0755 : 0700));
  DIVVY_CHECK(Lock());
  DIVVY_TRY(gpu_source_, OpenGpus(flags_.emulate, places_));
  DIVVY_CHECK(OpenStore());
  writer_ = std::make_unique<Worker>();
  committer_ = std::make_unique<Committer>(*store_, *writer_, clock_,
                                           [this](std::function<void()> task) { asio::post(loop_, std::move(task)); });
  prober_ = std::make_unique<Worker>();
  reader_ = std::make_unique<Worker>();
  ProcessLauncherOptions launching;
  launching.run_directory = places_.runs;
  DIVVY_TRY(launcher_, ProcessLauncher::Start(launching));
  DIVVY_TRY(const int report_socket, BindReportSocket(places_.runs));
  reports_ = std::make_unique<asio::posix::stream_descriptor>(loop_, report_socket);
  DIVVY_CHECK(Recover());
  WatchReports();
  WatchLauncher();
  poll_timer_ = std::make_unique<asio::steady_timer>(loop_);
  Poll();
  KeepHouse();
  LogChanges();
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) loop_.stop();
  });
  return Serve();
}

void Daemon::Close() {
  server_.reset();
  writer_.reset();
  // No commit is under way any more. What is lost if this one fails is minutes of decayed use and seconds of progress.
  if (store_ != nullptr && controller_ != nullptr) {
    Batch batch = controller_->UnkeptProgress();
    if (auto used = controller_->TeamUsageSetting(clock_.Now())) batch.settings.push_back(*std::move(used));
    if (!batch.empty()) static_cast<void>(store_->Commit({batch}));
  }
  prober_.reset();
  reader_.reset();
  log_.Write(LogLevel::kInfo, "event=down");
}

Result<Flags> ReadFlags(const std::vector<std::string>& words) {
  Flags flags;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--detached") {
      flags.is_detached = true;
    } else if (words[i] == "--emulate" && i + 1 < words.size()) {
      flags.emulate = words[++i];
    } else if (words[i] == "--gpus" && i + 1 < words.size()) {
      flags.gpus = words[++i];
    } else if (words[i] == "--listen" && i + 1 < words.size()) {
      flags.listen = words[++i];
    } else {
      return InvalidArgument("the daemon does not understand '" + words[i] + "'");
    }
  }
  return flags;
}

}  // namespace

int DaemonMain(const std::vector<std::string>& words) {
  ::signal(SIGPIPE, SIG_IGN);
  // A file that may not grow any more is a full disk, and not the end of us. A caught signal, other than an ignored
  // one, is itself again in the programs that jobs run.
  ::signal(SIGXFSZ, [](int) {});
  const auto flags = ReadFlags(words);
  if (!flags) {
    std::fprintf(stderr, "divvy: %s\n", flags.error().message.c_str());
    return 2;
  }
  const Places places = FindPlaces();
  Daemon daemon(places, *flags);
  if (const Status started = daemon.Start(); !started) {
    std::fprintf(stderr, "divvy: %s\n", started.error().message.c_str());
    return 1;
  }
  if (flags->is_detached) {
    const int caller = ::dup(STDERR_FILENO);
    const int log = ::open((places.state + "/daemon.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log >= 0) ::dup2(log, STDERR_FILENO);
    if (log >= 0) ::close(log);
    static_cast<void>(!::write(caller, "ready\n", 6));
    ::close(caller);
    // Not to keep the directory that it was started from busy.
    static_cast<void>(!::chdir("/"));
  }
  daemon.Run();
  daemon.Close();
  return 0;
}

}  // namespace divvy
