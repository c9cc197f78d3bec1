#include "daemon/node/node_host.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/auth/accounts.h"
#include "daemon/runtime/await_readable.h"
#include "daemon/shares/share_place.h"
#include "dialect/slurm/slurm.h"
#include "platform/gpu/slice_record.h"
#include "platform/os/disk_room.h"
#include "platform/supervisor/launcher_service.h"
#include "platform/supervisor/supervisor_control.h"

namespace divvy {

namespace asio = boost::asio;

struct NodeHost::Watches {
  explicit Watches(asio::io_context& loop) : poll_timer(loop) {}

  std::unique_ptr<asio::posix::stream_descriptor> reports;
  std::shared_ptr<asio::posix::stream_descriptor> launcher;
  std::map<int, std::shared_ptr<asio::posix::stream_descriptor>> processes;
  asio::steady_timer poll_timer;
};

namespace {

// Created again at each start, since the program may have moved.
Status MakeSlurmLinks(const std::string& directory, const std::string& divvy) {
  DIVVY_CHECK(MakeDirectory(directory, 0755));
  for (const std::string_view name : dialect::kSlurmCommands) {
    const std::string link = directory + "/" + std::string(name);
    ::unlink(link.c_str());
    if (::symlink(divvy.c_str(), link.c_str()) != 0)
      return FailedPrecondition("cannot make the link " + link + ": " + std::strerror(errno));
  }
  return {};
}

// Returns true if a keeper runs, was killed, or has left tenants behind.
bool HadKeeper(const std::string& directory) {
  std::error_code none;
  for (std::filesystem::directory_iterator at(directory, none), end; !none && at != end; at.increment(none)) {
    const std::string name = at->path().filename().native();
    if (name == wire::kKeeperSocket || name == kSliceRecordFile || name.ends_with(wire::kTenantRecordEnd)) return true;
  }
  return false;
}

// A machine's daemon and agent share a launcher, and so one folder of run records, but their job ids come from
// different controllers. Jobs of an agent have a lease.
Status CheckWhoseRuns(const NodeOptions& options) {
  const bool is_agent = options.lease.is_set();
  DIVVY_TRY(const std::vector<RunRecord> records, ScanRunDirectory(options.run_directory));
  for (const RunRecord& record : records) {
    if (record.process.pid <= 0 || record.lease.is_set() == is_agent) continue;
    const std::string job = ToString(record.job);
    return FailedPrecondition("the end of job " + job + " of this machine's " + (is_agent ? "daemon" : "agent") +
                              " is not known yet; start " +
                              (is_agent ? "divvy up, wait for the job, and divvy down"
                                        : "divvy agent, wait for the job, and divvy agent --stop") +
                              "; if its controller is gone for good, end the job and remove " + options.run_directory +
                              "/" + job);
  }
  return {};
}

}  // namespace

Result<LauncherHelp> ReachLauncher(const RuntimePaths& places, const std::string& what) {
  LauncherHelp help;
  if (!places.is_machine_wide) {
    help.ways = LearnIsolation();
    return help;
  }
  if (::geteuid() == 0) {
    return FailedPrecondition("the machine's " + what + " does not run as root; divvy " +
                              (what == "agent" ? what : "up") + " starts it correctly");
  }
  if (::access("/proc/1/stat", R_OK) != 0) {
    return FailedPrecondition("user " + UserName(::geteuid()) +
                              " does not see the processes of others (/proc is mounted with hidepid); mount it with "
                              "gid=divvy, or without hidepid");
  }
  help.errands = std::make_shared<RootErrands>(LauncherPaths().errands);
  DIVVY_TRY(help.ways, help.errands->Isolation());
  RelayRootCommands([errands = help.errands](const RunRecord& record, std::string_view text, std::span<const int> fds) {
    return errands->Command(record.job, text, fds);
  });
  return help;
}

NodeHost::NodeHost(asio::io_context& loop, const Log& log, GiveUp give_up)
    : loop_(loop), log_(log), give_up_(std::move(give_up)), watches_(std::make_unique<Watches>(loop)) {}

NodeHost::~NodeHost() = default;

Status NodeHost::Open(NodeOptions options, GpuSource gpus) {
  gpus_ = std::move(gpus);
  run_directory_ = options.run_directory;
  if (!options.slurm_directory.empty()) DIVVY_CHECK(MakeSlurmLinks(options.slurm_directory, options.divvy));
  prober_ = std::make_unique<Worker>();
  ProcessLauncherOptions launching;
  launching.run_directory = options.run_directory;
  if (options.errands) launching.served_at = LauncherPaths().launches;
  errands_ = options.errands;
  DIVVY_TRY(launcher_, ProcessLauncher::Start(launching));
  if (options.errands) DIVVY_CHECK(CheckWhoseRuns(options));
  DIVVY_TRY(const int report_socket, launcher_->OpenReports());
  watches_->reports = std::make_unique<asio::posix::stream_descriptor>(loop_, report_socket);
  if (options.log_limit > Bytes()) {
    log_limit_ = std::make_unique<LogLimit>(options.log_directory, options.log_limit, [this](const std::string& line) {
      asio::post(loop_, [this, line] { log_.Write(LogLevel::kWarning, line); });
    });
  }
  file_keeper_ = std::make_unique<Worker>();
  options.gpu_libraries = gpus_.libraries;
  options.gpu_environment = gpus_.environment;
  OpenShares(options);
  if (options.isolation.wishes.is_required)
    shares_->SetNeverParks("[isolation] require = true, and it could return to other GPUs");
  node_ = std::make_unique<Node>(std::move(options), *launcher_, gpus_.gpus);
  node_->SetOver([this](JobId job, std::uint32_t attempt) {
    if (sampler_) sampler_->OnOver(job, attempt);
    shares_->OnOver(job, attempt);
  });
  // Posted to the loop: until it runs, standard error belongs to the command that waits for the start.
  node_->SetNote(
      [this](const std::string& line) { asio::post(loop_, [this, line] { log_.Write(LogLevel::kWarning, line); }); });
  node_->SetWatch([this](int fd, std::function<void()> on_readable) {
    auto& descriptor = watches_->processes[fd];
    descriptor = std::make_shared<asio::posix::stream_descriptor>(loop_, ::dup(fd));
    AwaitReadable(descriptor, [this, fd, on_readable = std::move(on_readable)] {
      on_readable();
      watches_->processes.erase(fd);
    });
  });
  return {};
}

void NodeHost::OpenShares(const NodeOptions& options) {
  KeeperClient::Options client;
  client.directory = KeeperDirectory(options.run_directory);
  client.log = options.run_directory + "/keeper.log";
  client.command = {options.divvy, "keeper", "--directory", client.directory};
  for (const char* name : {"libnvidia-ml.so.1", "libcuda.so.1"}) {
    if (!gpus_.libraries.empty())
      client.command.insert(client.command.end(), {"--emulate-library", gpus_.libraries + "/" + name});
  }
  if (options.errands) {
    client.start = [errands = options.errands, is_emulated = !gpus_.libraries.empty()] {
      return errands->StartKeeper(is_emulated);
    };
  }
  client.note = [this](const std::string& line) { log_.Write(LogLevel::kInfo, line); };
  keeper_ = std::make_unique<KeeperClient>(loop_, std::move(client));
  NodeShares::Ports ports;
  ports.execute = [this](const NodeCommand& command, std::shared_ptr<const JobSpec> spec) {
    node_->Execute(command, std::move(spec));
  };
  ports.set_grant = [this](JobId job, ShareGrant grant) { node_->SetShareGrant(job, std::move(grant)); };
  ports.owner_of = [this](const User& user) { return node_->users().OwnerHere(user); };
  ports.note = [this](const std::string& line) { log_.Write(LogLevel::kWarning, line); };
  ports.tell = [this](const std::string& line) { log_.Write(LogLevel::kInfo, line); };
  ports.after = [this](Duration delay, std::function<void()> task) {
    auto timer = std::make_shared<asio::steady_timer>(loop_);
    timer->expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(delay));
    timer->async_wait([timer, task = std::move(task)](const boost::system::error_code& error) {
      if (!error) task();
    });
  };
  shares_ = std::make_unique<NodeShares>(gpus_.gpus, *keeper_, std::move(ports));
  shares_->SetMaySwitchMig(gpus_.mig == MigUse::kAuto);
  keeper_->SetListener(*shares_);
}

void NodeHost::Join(ControllerPort& controller) {
  controller_ = &controller;
  node_->Join(controller);
  shares_->Join(controller);
}

Status NodeHost::AdoptRuns(bool was_rebooted) {
  DIVVY_CHECK(node_->AdoptRuns(was_rebooted));
  for (const JobId job : node_->runs()) {
    const JobRecord* record = controller_->Find(job);
    if (record != nullptr && IsActive(record->state)) shares_->Adopt(*record, node_->GpusHere(*record));
  }
  // The keeper also continues with the tenants among them.
  for (const RunDescription* run : node_->found()) {
    if (!run->exit) shares_->Adopt(run->record, run->record.gpus);
  }
  if (HadKeeper(KeeperDirectory(run_directory_))) shares_->FindKeeper();
  return {};
}

void NodeHost::Reconcile() {
  shares_->DropWaiting();
  node_->Reconcile();
  for (const JobId job : node_->runs()) {
    const JobRecord* record = controller_->Find(job);
    if (record != nullptr && IsActive(record->state)) shares_->Refresh(*record, node_->GpusHere(*record));
  }
  shares_->RepeatPresence();
}

// GPUs that the driver reports as broken must not be used for shares. Use by others is reported by the controller,
// which knows the rules.
void NodeHost::KeepFromTenants(const std::vector<GpuObservation>& seen) {
  NodeShares::Reasons broken;
  for (const GpuObservation& gpu : seen) {
    if (!gpu.fault.empty()) broken[gpu.index] = "does not work: " + gpu.fault;
    else if (!gpu.is_present) broken[gpu.index] = "is no longer reported by the driver";
    else if (!gpu.cut_by_others.empty()) broken[gpu.index] = "is divided by others (" + gpu.cut_by_others + ")";
  }
  shares_->SetBroken(std::move(broken));
}

void NodeHost::Withhold(const std::vector<wire::WithheldGpu>& gpus) {
  NodeShares::Reasons withheld;
  for (const wire::WithheldGpu& gpu : gpus) withheld[gpu.gpu] = gpu.why;
  shares_->SetWithheld(std::move(withheld));
}

std::vector<GpuObservation> NodeHost::LookNow() {
  if (!gpus_.probe) return {};
  std::vector<GpuObservation> seen = gpus_.probe->Observe(AllGpus(), true, node_->supervisors());
  NameJobs(seen);
  return seen;
}

void NodeHost::NameJobs(std::vector<GpuObservation>& seen) const {
  for (GpuObservation& gpu : seen) {
    for (GpuProcess& process : gpu.processes) process.job = node_->JobUnder(process.supervisor_pid).value();
  }
}

void NodeHost::LookAtEnds() {
  if (!gpus_.probe) return;
  node_->SetLookAtGpus([this](GpuSet which, auto done) { LookAtGpus(which, std::move(done)); });
}

void NodeHost::LookAtGpus(GpuSet which, std::function<void(std::vector<GpuObservation>)> done) {
  if (!gpus_.probe) return done({});
  prober_->Do([this, which, supervisors = node_->supervisors(), done = std::move(done)] {
    auto seen = gpus_.probe->Observe(which, true, supervisors);
    asio::post(loop_, [this, done, seen = std::move(seen)]() mutable {
      NameJobs(seen);
      done(std::move(seen));
    });
  });
}

void NodeHost::Run(Duration period, std::function<void(std::vector<GpuObservation>)> on_seen) {
  period_ = period;
  on_seen_ = std::move(on_seen);
  WatchReports();
  WatchLauncher();
  Poll();
}

void NodeHost::WatchReports() {
  watches_->reports->async_wait(asio::posix::stream_descriptor::wait_read,
                                [this](const boost::system::error_code& error) {
                                  if (error) return;
                                  while (const auto report = ReceiveReport(watches_->reports->native_handle()))
                                    node_->OnReport(*report);
                                  WatchReports();
                                });
}

void NodeHost::WatchLauncher() {
  watches_->launcher = std::make_shared<asio::posix::stream_descriptor>(loop_, ::dup(launcher_->fd()));
  AwaitReadable(watches_->launcher, [this] {
    const std::int64_t before = launcher_->launcher_pid();
    if (const Status again = launcher_->OnReadable(); !again) return give_up_(again.error());
    const bool is_new = launcher_->launcher_pid() != before;
    for (const auto& [job, attempt] : launcher_->TakeRefused()) node_->OnRefused(job, attempt);
    if (is_new && errands_) {
      const auto reports = launcher_->OpenReports();
      if (!reports) return give_up_(reports.error());
      watches_->reports = std::make_unique<asio::posix::stream_descriptor>(loop_, *reports);
      WatchReports();
    }
    log_.Write(LogLevel::kWarning, is_new ? "event=launcher_died" : "event=supervisor_died");
    WatchLauncher();
  });
}

// On a separate thread, so that truncating a log blocks neither the loop nor the GPU probe.
void NodeHost::LimitLogs() {
  if (!log_limit_ || std::exchange(is_limiting_, true)) return;
  file_keeper_->Do([this, runs = node_->runs()]() mutable {
    log_limit_->Look(std::move(runs));
    asio::post(loop_, [this] { is_limiting_ = false; });
  });
}

void NodeHost::Poll() {
  watches_->poll_timer.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(period_));
  watches_->poll_timer.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    node_->CheckSupervisors();
    LimitLogs();
    if (launcher_->WantsWrite()) launcher_->OnWritable();
    if (gpus_.probe && !std::exchange(is_looking_, true)) {
      LookAtGpus(AllGpus(), [this](std::vector<GpuObservation> seen) {
        is_looking_ = false;
        KeepFromTenants(seen);
        shares_->SetSeen(seen);
        on_seen_(std::move(seen));
      });
    }
    LookAtDisks();
    Poll();
  });
}

void NodeHost::Sample(Sampler::Options options, Sampler::OnSnapshot on_snapshot) {
  options.parts_now = [this](JobId job) -> std::optional<Sampler::PartsNow> {
    const auto& tenants = shares_->state().tenants;
    const auto tenant = std::ranges::find(tenants, job, &wire::KeptTenant::job);
    if (tenant == tenants.end()) return std::nullopt;
    Sampler::PartsNow now{{}, IsOnHost(*tenant)};
    for (const wire::KeptShare& share : tenant->shares) {
      if (share.gpu >= 0 && share.gpu < GpuSet::kCapacity) now.gpus.Insert(static_cast<GpuIndex>(share.gpu));
    }
    return now;
  };
  sampler_ = std::make_unique<Sampler>(
      loop_, *node_, OpenUseProbe(gpus_.probe != nullptr, gpus_.library, "", ReadIoByErrand()), std::move(options));
  sampler_->Begin(std::move(on_snapshot));
}

ReadIo NodeHost::ReadIoByErrand() const {
  if (!errands_) return nullptr;
  return [errands = errands_](std::span<const std::int64_t> pids) { return errands->ReadIo(pids); };
}

void NodeHost::WatchDisks(std::vector<std::string> folders, std::function<void(const std::string& what)> on_change) {
  disks_ = std::move(folders);
  on_disks_ = std::move(on_change);
  LookAtDisks();
}

// Not on the loop's thread or the prober's, because a network file system may be slow.
void NodeHost::LookAtDisks() {
  if (disks_.empty() || std::exchange(is_looking_at_disks_, true)) return;
  file_keeper_->Do([this, folders = disks_, was_full = !full_disk_.empty()] {
    asio::post(loop_, [this, what = FullDisk(folders, was_full)] {
      is_looking_at_disks_ = false;
      // Only the change is reported, since the fill level changes constantly.
      if (what.empty() == full_disk_.empty()) return;
      full_disk_ = what;
      on_disks_(what);
    });
  });
}

}  // namespace divvy
