// Runs jobs on this node: turns node commands into launches and messages to supervisors, and turns supervisors' reports
// into events for the controller. Knows every live run, and adopts the runs of an earlier daemon.
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
#include "driver/order_port.h"
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
  Bytes log_limit;  // How much of each kept log is retained, newest bytes first; 0: all.
  /// The folder with srun and the other Slurm commands, put first in the PATH of Slurm jobs; empty: not used. Open
  /// creates the links.
  std::string slurm_directory;
  LeasePlace lease;  // Set for an agent; passed to the supervisors of its jobs.
  NodeNames names;
  std::string divvy = "divvy";   // The path of this executable, with which jobs start their tasks.
  std::int64_t uid = 0;          // The daemon's own uid.
  bool may_change_user = false;  // True if each job runs as its submitter: this process or the launcher is root.
  /// Operations that a launcher with root's rights does for this node; null: the node does them itself.
  std::shared_ptr<RootErrands> errands;
  /// Returns the right to run jobs as this user, which such a launcher requires; an empty right if there is none.
  std::function<UserRight(const User& user)> right_of;
  /// Set for an agent that may change users: returns the account of that name on this node, whose uid may differ from
  /// the controller's. Called from any thread. Null: users are identified by their uids.
  std::function<std::optional<User>(const std::string& name)> find_user;
  // The lowest uid that may run jobs, on a node whose launcher runs nothing as a system user.
  std::int64_t lowest_uid = 0;
  bool runs_root_jobs = true;                 // If false, a job that would run as uid 0 on this node is refused.
  Duration grace = std::chrono::seconds(30);  // The grace period of jobs that set none.
  Isolation isolation;
  // Emulated GPUs only: how programs find them.
  std::string gpu_libraries;                 // Optional. A folder that the loader searches first.
  std::vector<std::string> gpu_environment;  // NAME=value.
  ContainerSettings container;
  // How long a foreground job that may start waits for the streams of its caller, with or without a restart of the
  // daemon.
  Duration awaits_callers{0};
};

struct JobLog;
struct GangFile;
struct ContainerRemoval;

/// The streams of a foreground job's caller, kept until the job's process has them. Closed when dropped.
using Streams = std::array<ForeignDescriptor, 3>;

class Node final : public OrderPort {
 public:
  Node(NodeOptions options, Launcher& launcher, std::vector<GpuFacts> gpus);

  /// Returns the local user as whom this user's jobs run; nullopt if this node does not know the user. Any thread.
  std::optional<User> UserHere(const User& user) const;

  /// The same, but returns the daemon's own ids if all jobs run as the daemon's user. Fails if the user may not run
  /// jobs on this node.
  Result<User> OwnerHere(const User& user) const;

  /// Must be called before anything else; controller and node refer to each other.
  void Join(ControllerPort& controller) { controller_ = &controller; }
  /// Probes the GPUs of an ended job before they are reused; calls back on the loop's thread.
  using LookAtGpus = std::function<void(GpuSet, std::function<void(std::vector<GpuObservation>)>)>;
  void SetLookAtGpus(LookAtGpus look) { look_ = std::move(look); }
  /// Watches a pid file descriptor: calls back on the loop's thread when it becomes readable.
  using WatchDescriptor = std::function<void(int fd, std::function<void()>)>;
  void SetWatch(WatchDescriptor watch) { watch_ = std::move(watch); }
  /// Receives log lines for the node's administrator: "event=... ".
  void SetNote(std::function<void(const std::string& line)> note) { note_ = std::move(note); }

  /// Compares the jobs that the controller considers active with the runs on this node. `was_rebooted`: no earlier
  /// process is alive. Called once, when the node starts.
  Status AdoptRuns(bool was_rebooted);
  /// Does the same after the controller has restarted, for a node that has kept running. Repeats events that the
  /// controller may have missed, and ends runs that the controller does not know.
  void Reconcile();

  void Execute(const Order& order, std::shared_ptr<const JobSpec> spec) override;
  /// Sets the key of a gang, 64 hexadecimal digits. Must be called before the LaunchOrder of the node allocation.
  void SetGangKey(JobId job, std::uint32_t attempt, std::string key) { gang_keys_[job] = {attempt, std::move(key)}; }
  /// Sets the GPUs on which a job with GPU fractions starts; the plan may name others. Called before its LaunchOrder.
  void SetShareGrant(JobId job, ShareGrant grant) { grants_[job] = std::move(grant); }
  /// Sets a callback for runs whose processes are gone; it runs before the controller is told.
  void SetOver(std::function<void(JobId job, std::uint32_t attempt)> over) { over_ = std::move(over); }
  void OnReport(const SupervisorReport& report);
  /// The launcher has refused to start this run (ProcessLauncher::TakeRefused).
  void OnRefused(JobId job, std::uint32_t attempt);
  /// The GPUs that the plan assigns to the job on this node.
  GpuSet GpusHere(const JobRecord& record) const;
  /// Finds runs whose supervisor was killed or whose report was lost. Call about once a second.
  void CheckSupervisors();

  /// Starts a step of a job that runs here, or signals one, for a caller outside the job, over a copy of `socket`
  /// (SendStepCall).
  Status CallStep(JobId job, int socket, bool stops_only);
  /// Runs on this node that the controller does not know (ControllerPort::OnFound).
  std::vector<const RunDescription*> found() const;
  /// True from the launch until the run's end is fully processed.
  bool Runs(JobId job) const { return runs_.contains(job); }
  /// Keeps the streams for the job's start. The start may happen at once: after a restart a job may already hold its
  /// GPUs and wait only for its caller. The streams are dropped if the job already runs.
  void KeepStreams(JobId job, Streams streams);
  void DropStreams(JobId job) {
    streams_.erase(job);
    held_.erase(job);
  }
  /// The job's supervisor also holds these output descriptors, from the start (LaunchRequest::held). Call before
  /// KeepStreams.
  struct Held {
    ForeignDescriptor output, error, life;
  };
  void HoldOutputs(JobId job, Held held) { held_[job] = std::move(held); }

  /// Attaches a terminal; calls `on_detached` when the viewer leaves. Fails with kFailedPrecondition if the job has no
  /// pty.
  Status Attach(JobId job, int in, int out, WindowSize window, std::function<void()> on_detached);
  Status Resize(JobId job, WindowSize window);
  /// Sets a callback for jobs whose caller has detached from the terminal on which the job was started (Ctrl-P Ctrl-Q).
  /// The job continues.
  void SetTerminalLeft(std::function<void(JobId job)> left) { terminal_left_ = std::move(left); }

  std::set<std::int64_t> supervisors() const;
  /// Kills what is left of a run without supervisor and guard; returns false if something was left (node_errands.cc).
  bool EndLeftovers(const RunRecord& record) const;
  /// The job of this supervisor; unset if it is none of this node's.
  JobId JobUnder(std::int64_t supervisor) const;
  std::int64_t pid_of(JobId job) const;
  /// Jobs that have a process on this node, or will soon have one.
  std::set<JobId> runs() const;
  /// The running jobs of this node with their processes; excludes runs that are prepared and waiting, or have ended.
  struct RunHere {
    JobId job;
    std::uint32_t attempt = 0;
    UseTarget use;
  };
  std::vector<RunHere> runs_here() const;
  /// The output log of a run on this node; nullopt if it is not known.
  std::optional<JobLog> LogOfRun(JobId job) const;
  /// Adds what is needed to read this log if the launcher opens users' files for us.
  void LendRights(JobLog& log) const;
  /// The uid of a run's processes, as it was launched; -1 if the job does not run here or has not reported it yet.
  std::int64_t uid_of(JobId job) const;
  const Isolation& isolation() const { return options_.isolation; }
  /// "enforced (cgroup v2); 2 opens of other GPUs refused", for a job that runs or ended recently. Empty if there is
  /// nothing to report.
  std::string IsolationTextOf(JobId job) const;
  /// The file in which a job on this node lists its steps (platform/records/step_list_file.h).
  std::string StepsOf(const JobRecord& record) const;
  /// The number of refused device opens of all jobs that have ended since the start.
  std::int64_t refused_devices() const { return refused_devices_; }
  /// The output files of a started job with all patterns filled in; the log that divvy keeps if the specification names
  /// none.
  std::string OutputOf(const JobRecord& record, const JobSpec& spec) const;
  std::string ErrorOf(const JobRecord& record, const JobSpec& spec) const;

 private:
  struct Run {
    RunRecord record;
    /// Set while the controller does not know the run. The run is then watched and reported, and otherwise left alone.
    std::unique_ptr<RunDescription> found;
    int stop_signal = 15;
    int resize_signal = 0;
    Duration grace{0};
    DeviceLock lock = DeviceLock::kNone;
    std::vector<Order> waiting;  // Commands that wait until the supervisor has reported where it listens.
    std::unique_ptr<AdoptedProcess> adopted;
    // The time limit of an adopted run, which no other process enforces; kNever: none.
    Time limit_at = kNever;
    bool hit_limit = false;
    bool awaits_leftovers = false;  // The exit is known, but the run keeps its GPUs until its last process is gone.
    Time kill_at = kNever;
    bool was_let_go = false;  // A gang's node allocation that has been told to start.
    std::string failure;      // The reason, if this node ended the run.
  };

  /// The supervisor has reported where it takes commands.
  static bool IsListening(const RunRecord& record) { return !record.control.empty(); }
  Duration GraceOf(const JobSpec& spec) const { return spec.grace < Duration(0) ? options_.grace : spec.grace; }
  void StartTasks(const JobRecord& record, const JobSpec& spec, LaunchRequest& request) const;

  // Containers (node_containers.cc).
  void IntoContainer(const JobSpec& spec, const ShareGrant* grant, LaunchRequest& request) const;
  ContainerNeeds NeedsInside(const ShareGrant* grant) const;

  /// Returns the local user as whom a job of this user runs, if that is allowed; ids of -1 mean the daemon's own user.
  /// Called once per launch: if the name service failed in a second call, the job could run as another user.
  Result<User> CheckUser(const User& user) const;
  LaunchRequest RequestFor(const LaunchOrder& order, const JobSpec& spec, const User& here,
                           const ShareGrant* grant) const;
  /// The user of a run, from its record; queries the name service only for a record of an older release. Returns
  /// nullopt if the user is unknown.
  std::optional<User> OwnerOf(const RunRecord& run, const JobRecord* job) const;
  /// Variables that the job's dialect adds to those of all jobs. `part` is the record with the job's share on this
  /// node.
  std::vector<std::string> DialectEnvironment(const LaunchOrder& order, const JobRecord& part,
                                              const JobSpec& spec) const;
  void Launch(const LaunchOrder& order, const std::shared_ptr<const JobSpec>& spec);
  void Deliver(Run& run, const Order& order);

  // Operations that take root's rights on a served node; the launcher does them there (node_errands.cc).
  UserWithRight WithRight(const User& user) const;
  std::string MissingRight(const User& user) const;
  std::string RefusedRight(const User& user) const;
  Status SetGpusFile(JobId job, GpuSet gpus) const;
  Status Stage(const Run& run, const GangFile& gang, const User& owner) const;
  int SignalAdopted(const Run& run, int signal, OrphanReach reach) const;
  std::optional<Exit> ExitOfAdopted(const Run& run) const;
  std::optional<std::int64_t> RefusedDevicesOf(const Run& run) const;
  ContainerRemoval RemoveContainers(const User& user, const std::string& list) const;

  // Gangs: the node allocation of one node (node_gang.cc).

  /// Returns the job's record reduced to its share on this node.
  static JobRecord PartOf(const LaunchOrder& order);
  std::vector<std::string> SlurmVariables(const LaunchOrder& order, const JobRecord& part, const JobSpec& spec) const;
  const std::string& NameOf(const Seat& seat) const { return seat.node.empty() ? options_.names.name() : seat.node; }
  void TakeSeat(const LaunchOrder& order, LaunchRequest& request) const;
  void LetGo(Run& run, const GoOrder& order);
  /// Reports the run's progress to the controller.
  void SayState(const Run& run);
  void LookAtAdoptedPart(Run& run);
  void Note(const std::string& line) const {
    if (note_) note_(line);
  }
  void OnEnded(const RunRecord& record);
  /// Reports the end to the controller; `exit` may hold more than the record does.
  void SayEnded(const RunRecord& record, const Exit& exit);
  void SayVanished(JobId job, std::uint32_t attempt, RunVanished how);
  void FailLaunch(const JobRecord& record, const std::string& why, int code = 127);
  void AdoptOrphan(const RunRecord& record);
  void OnVanished(const RunRecord& record, std::uint32_t attempt);
  void KeepTimeOfAdopted();
  void LoadStopTerms(Run& run);
  /// Repeats commands that the job's supervisor may not have received before it was killed.
  void Remind(Run& run);
  /// Continues a run of which only the record is left.
  void TakeOn(const RunRecord& record, std::uint32_t attempt, bool was_rebooted);
  bool FindRun(RunRecord record, const std::map<JobId, std::uint32_t>& expected, bool was_rebooted);
  /// Reports a run that the controller did not name. Returns false if the controller is of an earlier release, which
  /// makes no decisions about such runs: the caller must then end the run itself.
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
  bool has_adopted_ = false;  // AdoptRuns has examined the runs of an earlier process.
  // The number of refused device opens of each ended job, most recent jobs only.
  std::map<JobId, std::int64_t> refused_;
  std::int64_t refused_devices_ = 0;
  std::map<JobId, Streams> streams_;
  std::map<JobId, Held> held_;  // Kept until the job's process has them, like `streams_`.
  /// Foreground jobs that may start and whose callers have not reconnected since the restart. They wait until
  /// callers_return_until_, or as long as NodeOptions say.
  struct Unclaimed {
    LaunchOrder order;
    std::shared_ptr<const JobSpec> spec;
    Time until = kNoTime;
  };
  std::map<JobId, Unclaimed> unclaimed_;
  Time callers_return_until_ = kNoTime;
  std::map<std::uint64_t, std::function<void()>> attachments_;
  std::map<JobId, WindowSize> windows_;  // Window sizes of terminals whose supervisors are not running yet.
  std::uint64_t last_attachment_ = 0;    // 0 is the terminal on which a job was started.
  std::function<void(JobId job)> terminal_left_;
  std::map<JobId, ShareGrant> grants_;  // Grants for launches to come.
  std::function<void(JobId, std::uint32_t)> over_;
  std::map<JobId, std::pair<std::uint32_t, std::string>> gang_keys_;  // Attempt and key, for launches to come.
  std::function<void(const std::string&)> note_;
};

}  // namespace divvy
