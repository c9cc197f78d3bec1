// The daemon's hands on its own node: turns orders into launches and words to supervisors, and reports into facts for
// the controller. Knows every run that is alive, and adopts those of an earlier daemon.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/runtime/controller_port.h"
#include "daemon/runtime/order_port.h"
#include "model/container_plan.h"
#include "model/gpus/share_grant.h"
#include "model/run_description.h"
#include "node/job_environment.h"
#include "platform/gpu/use_probe.h"
#include "platform/isolation/isolation.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/supervisor/launch.h"
#include "platform/supervisor/root_errand.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {

struct NodeOptions {
  std::string run_directory;
  std::string log_directory;
  Bytes log_limit;  // Of each log there, the newest that is kept; 0: all.
  /// Where jobs in Slurm's words find srun and its kin before all others; empty: nowhere. The links are made by Open.
  std::string slurm_directory;
  LeasePlace lease;  // Of an agent, for the supervisors of its jobs.
  NodeNames names;
  std::string divvy = "divvy";   // This executable's path: jobs start their tasks by it.
  std::int64_t uid = 0;          // The daemon's own.
  bool may_change_user = false;  // Each job runs as its submitter: we are root, or the launcher is.
  /// What a launcher with more rights than ours does for us; null: we do it ourselves.
  std::shared_ptr<RootErrands> errands;
  /// The right to run jobs as this user, which such a launcher asks for; none where nobody gave it.
  std::function<UserRight(const User& user)> right_of;
  /// Of an agent that may: the account of that name on this machine, where it may have other numbers than on the
  /// controller's. From any thread. Null: users are known by their numbers.
  std::function<std::optional<User>(const std::string& name)> find_user;
  std::int64_t lowest_uid = 0;                // Of a machine whose launcher starts nothing as a system user.
  bool runs_root_jobs = true;                 // Else a job of uid 0 is refused, as whoever it comes.
  Duration grace = std::chrono::seconds(30);  // Of jobs that name none.
  Isolation isolation;
  // Where the GPUs are stand-ins: what makes a program find them.
  std::string gpu_libraries;                 // A folder that the loader looks into first; empty: none.
  std::vector<std::string> gpu_environment;  // NAME=value.
  ContainerSettings container;
  Duration awaits_callers{0};  // How long a foreground job at its turn waits for its caller's streams, restart or not.
};

struct JobLog;
struct GangFile;
struct ContainerRemoval;

/// The streams of a foreground job's caller, until its process has them. Closed when dropped.
using Streams = std::array<ForeignDescriptor, 3>;

class Node final : public OrderPort {
 public:
  Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus);

  /// Whom the processes of this user's jobs run as here; nothing: this machine does not know the user. From any thread.
  std::optional<User> UserHere(const User& user) const;

  /// The same with the numbers of the daemon's own where all jobs run as that; fails where the user may run no jobs
  /// here.
  Result<User> OwnerHere(const User& user) const;

  /// Before anything else; the controller and the node know each other.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Looks again at the GPUs of an ended job before they are given away; calls back on the loop's thread.
  using LookAtGpus = std::function<void(GpuSet, std::function<void(std::vector<GpuObservation>)>)>;
  void SetLookAtGpus(LookAtGpus look) { look_ = std::move(look); }
  /// Watches a pid file descriptor: calls back on the loop's thread when it becomes readable.
  using WatchDescriptor = std::function<void(int fd, std::function<void()>)>;
  void SetWatch(WatchDescriptor watch) { watch_ = std::move(watch); }
  /// Hears what whoever looks after the node should know: "event=... ".
  void SetNote(std::function<void(const std::string& line)> note) { note_ = std::move(note); }

  /// Compares what the controller believes to be active with what runs. `was_rebooted`: no process of before is alive.
  /// Once, when the node begins.
  Status AdoptRuns(bool was_rebooted);
  /// The same for a node that has been there all the time, when its controller has begun anew: says again what it may
  /// not have heard, and ends what it does not know of.
  void Reconcile();

  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;
  /// Of a part of a gang, before its LaunchOrder: 64 hexadecimal digits.
  void SetGangKey(JobId job, std::uint32_t attempt, std::string key) { gang_keys_[job] = {attempt, std::move(key)}; }
  /// Where a job with parts of GPUs begins, before its LaunchOrder; by the plan it may be on others.
  void SetShareGrant(JobId job, ShareGrant grant) { grants_[job] = std::move(grant); }
  /// Hears of runs whose processes are gone, before the controller does.
  void SetOver(std::function<void(JobId job, std::uint32_t attempt)> over) { over_ = std::move(over); }
  void OnReport(const SupervisorReport& report);
  /// The launcher has refused to start it (ProcessLauncher::TakeRefused).
  void OnRefused(JobId job, std::uint32_t attempt);
  /// What it has on this machine, by the plan.
  GpuSet GpusHere(const JobRecord& record) const;
  /// Finds runs whose supervisor was killed, or whose report was lost. To be called every second or so.
  void CheckSupervisors();

  /// Somebody outside starts a step of a job that runs here, or signals one, over a copy of `socket` (SendStepCall).
  Status CallStep(JobId job, int socket, bool stops_only);
  /// Runs here that the controller does not know (ControllerPort::OnFound).
  std::vector<const RunDescription*> found() const;
  /// It was launched here, and its end is not over for us.
  bool Runs(JobId job) const { return runs_.contains(job); }
  /// For the job's start, which may be at once: after a restart a job may have its GPUs and wait for its caller alone.
  /// Dropped when it runs already.
  void KeepStreams(JobId job, Streams streams);
  void DropStreams(JobId job) {
    streams_.erase(job);
    held_.erase(job);
  }
  /// Their outputs are to be held by its supervisor as well, from the start (LaunchRequest::held). Before KeepStreams.
  struct Held {
    ForeignDescriptor output, error, life;
  };
  void HoldOutputs(JobId job, Held held) { held_[job] = std::move(held); }

  /// Attaches a terminal; `on_detached` when the viewer leaves. kFailedPrecondition without a pty.
  Status Attach(JobId job, int in, int out, WindowSize window, std::function<void()> on_detached);
  Status Resize(JobId job, WindowSize window);
  /// Hears of jobs whose caller, on whose terminal they were started, has left it (Ctrl-P Ctrl-Q). They go on.
  void SetTerminalLeft(std::function<void(JobId job)> left) { terminal_left_ = std::move(left); }

  std::set<std::int64_t> supervisors() const;
  /// Ends what is left of a run without supervisor and guard; false: something was (node_errands.cc).
  bool EndLeftovers(const RunRecord& record) const;
  /// Whose supervisor that is; not set: nobody's here.
  JobId JobUnder(std::int64_t supervisor) const;
  std::int64_t pid_of(JobId job) const;
  /// Jobs that have a process here, or soon will.
  std::set<JobId> runs() const;
  /// What runs here, and by which processes; none that waits for others or has ended.
  struct RunHere {
    JobId job;
    std::uint32_t attempt = 0;
    UseTarget use;
  };
  std::vector<RunHere> runs_here() const;
  /// Where the output of a run here goes; nothing where that is not known.
  std::optional<JobLog> LogOfRun(JobId job) const;
  /// What it takes to read this log, where the launcher opens users' files for us.
  void LendRights(JobLog& log) const;
  /// Whose processes a run here are, as it was launched; -1: it does not run here, or has not said so yet.
  std::int64_t uid_of(JobId job) const;
  const Isolation& isolation() const { return options_.isolation; }
  /// "enforced (cgroup v2); 2 opens of other GPUs refused": of a job that runs, or ended lately. Empty: nothing to say.
  std::string IsolationTextOf(JobId job) const;
  /// The file in which a job that runs here lists its steps (platform/records/step_list_file.h).
  std::string StepsOf(const JobRecord& record) const;
  /// Of jobs that have ended since we began.
  std::int64_t refused_devices() const { return refused_devices_; }
  /// The files of a started job with all patterns filled; the log that divvy keeps where the spec names none.
  std::string OutputOf(const JobRecord& record, const JobSpec& spec) const;
  std::string ErrorOf(const JobRecord& record, const JobSpec& spec) const;

 private:
  struct Run {
    RunRecord record;
    /// Set while the controller does not know the run: it is watched and reported, and otherwise left alone.
    std::unique_ptr<RunDescription> found;
    int stop_signal = 15;
    int resize_signal = 0;
    Duration grace{0};
    DeviceLock lock = DeviceLock::kNone;
    std::vector<Order> waiting;  // Until its supervisor has said where it listens.
    std::unique_ptr<AdoptedProcess> adopted;
    // What nobody else does for an adopted one; kNever: nothing.
    Time limit_at = kNever;
    bool hit_limit = false;
    bool awaits_leftovers = false;  // Its exit is known, and it keeps its GPUs until the last process has gone.
    Time kill_at = kNever;
    bool was_let_go = false;  // A part of a gang: the word to go lies ready.
    std::string failure;      // Why we ended it.
  };

  /// A supervisor has said where it takes commands.
  static bool IsListening(const RunRecord& record) { return !record.control.empty(); }
  Duration GraceOf(const JobSpec& spec) const { return spec.grace < Duration(0) ? options_.grace : spec.grace; }
  void StartTasks(const JobRecord& record, const JobSpec& spec, LaunchRequest& request) const;

  // Containers (node_containers.cc).
  void IntoContainer(const JobSpec& spec, const ShareGrant* grant, LaunchRequest& request) const;
  ContainerNeeds NeedsInside(const ShareGrant* grant) const;

  /// Whom a job of this user runs as here, where it may; -1 for both numbers: the daemon's own. Asked once for a
  /// launch: a name service that does not answer a second time must not make it somebody else's.
  Result<User> CheckUser(const User& user) const;
  LaunchRequest RequestFor(const LaunchOrder& order, const JobSpec& spec, const User& here,
                           const ShareGrant* grant) const;
  /// Whom a run was launched as, by its record; the name service is asked only where that is an older release's.
  /// Nothing: nobody knows.
  std::optional<User> OwnerOf(const RunRecord& run, const JobRecord* job) const;
  /// `part`: the record as this machine has it. What the dialect of the job adds to what all jobs find.
  std::vector<std::string> DialectEnvironment(const LaunchOrder& order, const JobRecord& part,
                                              const JobSpec& spec) const;
  void Launch(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec);
  void Deliver(Run& run, const Order& order);

  // What takes root's rights on a served machine, and is the launcher's to do there (node_errands.cc).
  UserWithRight WithRight(const User& user) const;
  std::string MissingRight(const User& user) const;
  std::string RefusedRight(const User& user) const;
  Status SetGpusFile(JobId job, GpuSet gpus) const;
  Status Stage(const Run& run, const GangFile& gang, const User& owner) const;
  int SignalAdopted(const Run& run, int signal, OrphanReach reach) const;
  std::optional<Exit> ExitOfAdopted(const Run& run) const;
  std::optional<std::int64_t> RefusedDevicesOf(const Run& run) const;
  ContainerRemoval RemoveContainers(const User& user, const std::string& list) const;

  // Parts of gangs (node_gang.cc).
  /// Its record with what it has of the whole here.
  static JobRecord PartOf(const LaunchOrder& order);
  std::vector<std::string> SlurmVariables(const LaunchOrder& order, const JobRecord& part, const JobSpec& spec) const;
  const std::string& NameOf(const Seat& seat) const { return seat.node.empty() ? options_.names.name() : seat.node; }
  void TakeSeat(const LaunchOrder& order, LaunchRequest& request) const;
  void LetGo(Run& run, const GoOrder& order);
  /// Reports to the controller how far a run has come.
  void SayState(const Run& run);
  void LookAtAdoptedPart(Run& run);
  void Note(const std::string& line) const {
    if (note_) note_(line);
  }
  void OnEnded(const RunRecord& record);
  /// To the controller; `exit` may say more than the record does.
  void SayEnded(const RunRecord& record, const Exit& exit);
  void SayVanished(JobId job, std::uint32_t attempt, RunVanished how);
  void FailLaunch(const JobRecord& record, const std::string& why, int code = 127);
  void AdoptOrphan(const RunRecord& record);
  void OnVanished(const RunRecord& record, std::uint32_t attempt);
  void KeepTimeOfAdopted();
  void LoadStopTerms(Run& run);
  /// SIGKILL to what a job without supervisor, guard and first process left behind. True when nothing is left.
  /// Says again what a job's supervisor may not have heard before it was killed.
  void Remind(Run& run);
  /// Goes on with a run of which only the record is left.
  void TakeOn(const RunRecord& record, std::uint32_t attempt, bool was_rebooted);
  bool FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected, bool was_rebooted);
  /// The controller did not name this run. False: it is of an earlier release, which ends such runs.
  bool ReportFound(Run& run, const RunRecord& record);
  RunDescription Describe(const RunRecord& record) const;
  void Adopt(const AdoptOrder& order);
  void Forget(JobId job, std::uint32_t attempt);
  void NoteRefused(const RunRecord& record);
  void OnNeverStarted(JobId job, std::uint32_t attempt, bool was_rebooted);
  void AwaitCaller(const LaunchOrder& order, std::shared_ptr<const JobSpec> spec);
  void FailUnclaimed();

  NodeOptions options_;
  Launcher& launcher_;
  std::vector<GpuFacts> gpus_;
  ControllerPort* controller_ = nullptr;
  LookAtGpus look_;
  WatchDescriptor watch_;
  std::map<JobId, Run> runs_;
  bool has_adopted_ = false;               // AdoptRuns has looked at what an earlier process left.
  std::map<JobId, std::int64_t> refused_;  // Of ended jobs that were refused devices, the last of them.
  std::int64_t refused_devices_ = 0;
  std::map<JobId, Streams> streams_;
  std::map<JobId, Held> held_;  // Until its process has them, as `streams_`.
  /// Foreground jobs at their turn whose callers have not come back since the restart; they are given until
  /// callers_return_until_, or as NodeOptions say.
  struct Unclaimed {
    LaunchOrder order;
    std::shared_ptr<const JobSpec> spec;
    Time until = kNoTime;
  };
  std::map<JobId, Unclaimed> unclaimed_;
  Time callers_return_until_ = kNoTime;
  std::map<std::uint64_t, std::function<void()>> attachments_;
  std::map<JobId, WindowSize> windows_;  // Of terminals whose supervisors are not there yet.
  std::uint64_t last_attachment_ = 0;    // 0: the terminal that a job was started on.
  std::function<void(JobId job)> terminal_left_;
  std::map<JobId, ShareGrant> grants_;  // Of launches to come.
  std::function<void(JobId, std::uint32_t)> over_;
  std::map<JobId, std::pair<std::uint32_t, std::string>> gang_keys_;  // Of launches to come: attempt and key.
  std::function<void(const std::string&)> note_;
};

}  // namespace divvy
